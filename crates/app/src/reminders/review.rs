//! `tidings reminders review`: a person looks at what waits, draft by draft, and decides.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};
use std::process::Command;

use anyhow::Context as _;
use tidings_access::Cx;
use tidings_reminders::{
    self as reminders, Approve, ApproveError, Draft, DraftId, Edit, Listing, Reject, Seen,
};

use super::shown;
use crate::failure::Failure;
use crate::output::say;

/// What became of them.
#[derive(Default)]
struct Tally {
    approved: u32,
    rejected: u32,
    skipped: u32,
}

/// What is done next.
enum Next {
    /// Show the draft again, as it is now.
    Again,
    Go,
    Quit,
}

pub(super) async fn run(cx: &Cx, by: &str, editor: Option<&str>) -> Result<(), Failure> {
    let mut tally = Tally::default();
    let mut cursor = None;
    'all: loop {
        let page = reminders::pending(cx, Listing { limit: 50, cursor }).await?;
        for draft in &page.items {
            if decide(cx, &draft.id, (by, editor), &mut tally).await? {
                break 'all;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let Tally { approved, rejected, skipped } = tally;
    say(&format!("{approved} approved, {rejected} rejected, {skipped} skipped"));
    Ok(())
}

/// Asks until something is decided. Tells whether nobody wants to go on.
async fn decide(
    cx: &Cx,
    id: &DraftId,
    (by, editor): (&str, Option<&str>),
    tally: &mut Tally,
) -> Result<bool, Failure> {
    loop {
        // Somebody else may have been faster.
        let draft = reminders::get(cx, id).await?;
        if draft.status != reminders::Status::Draft {
            return Ok(false);
        }
        say(&page(cx, &draft).await?);
        let next = match ask("(a)pprove, (e)dit, (r)eject, (s)kip or (q)uit? ")?.as_deref() {
            Some("a" | "approve") => approve(cx, &draft, by, tally).await?,
            Some("e" | "edit") => edit(cx, &draft, by, editor).await?,
            Some("r" | "reject") => reject(cx, &draft, by, tally).await?,
            Some("s" | "skip") => {
                tally.skipped += 1;
                Next::Go
            }
            Some("q" | "quit") | None => Next::Quit,
            Some(_) => {
                say("Answer with a, e, r, s or q.");
                Next::Again
            }
        };
        match next {
            Next::Again => {}
            Next::Go => return Ok(false),
            Next::Quit => return Ok(true),
        }
    }
}

/// A draft with its facts and checks.
async fn page(cx: &Cx, draft: &Draft) -> Result<String, Failure> {
    let mut text = String::new();
    let line = "─".repeat(72);
    let nobody = || "(erased)".to_owned();
    let email = draft.email.as_ref().map_or_else(nobody, ToString::to_string);
    let _ = writeln!(
        text,
        "{line}\n{} · {} reminder · edition {}",
        draft.id, draft.kind, draft.edition
    );
    let name = draft.name.as_deref().unwrap_or("(erased)");
    let _ = writeln!(text, "To      {name} <{email}>");
    let _ = writeln!(text, "Owes    {}", draft.owed);
    for invoice in &draft.invoices {
        let amount = invoice.amount.map(|money| format!(", {money}")).unwrap_or_default();
        let due = invoice.due.map(|due| format!(", due {due}")).unwrap_or_default();
        let _ = writeln!(text, "        invoice {}{amount}{due}", invoice.id);
    }
    let template = draft.template.as_ref().map(|one| format!(" from {} v{}", one.id, one.version));
    let _ = writeln!(
        text,
        "Drafted {} by {}{}, expires {}",
        draft.created_at,
        draft.created_by,
        template.unwrap_or_default(),
        draft.expires_at
    );
    for one in &draft.approvals {
        let _ = writeln!(text, "        approved by {} at {}", one.by, one.at);
    }
    let answers = reminders::allowed(cx, &draft.customer).await?;
    for (kind, answer) in answers.into_iter().filter(|(kind, _)| *kind == draft.kind) {
        let _ = writeln!(text, "Check   {}", shown::allowed(kind, answer));
    }
    if draft.approvals_needed > 1 {
        let _ = writeln!(
            text,
            "Check   {} different people have to approve it.",
            draft.approvals_needed
        );
    }
    let subject = draft.subject.as_deref().unwrap_or("(erased)");
    let content = draft.content.as_deref().unwrap_or("(erased)");
    let _ = write!(text, "\n{subject}\n\n{content}\n{line}");
    Ok(text)
}

async fn approve(cx: &Cx, draft: &Draft, by: &str, tally: &mut Tally) -> Result<Next, Failure> {
    let seen = Seen::Hash(draft.hash.clone());
    let cmd = Approve { draft: draft.id.clone(), seen, by: by.to_owned() };
    match reminders::approve(cx, cmd).await {
        Ok(approved) => {
            super::told(approved.missing);
            tally.approved += 1;
            Ok(Next::Go)
        }
        // What is before his eyes is not what is there.
        Err(error @ ApproveError::Edited { .. }) => {
            say(&error.to_string());
            Ok(Next::Again)
        }
        Err(error @ (ApproveError::NotDraft { .. } | ApproveError::Expired { .. })) => {
            say(&error.to_string());
            Ok(Next::Go)
        }
        Err(error) => Err(error.into()),
    }
}

async fn reject(cx: &Cx, draft: &Draft, by: &str, tally: &mut Tally) -> Result<Next, Failure> {
    let Some(reason) = ask("Why? ")? else { return Ok(Next::Quit) };
    let cmd = Reject { draft: draft.id.clone(), reason, by: by.to_owned() };
    match reminders::reject(cx, cmd).await {
        Ok(_) => {
            tally.rejected += 1;
            Ok(Next::Go)
        }
        Err(
            error @ (reminders::RejectError::Invalid(_) | reminders::RejectError::NotOpen { .. }),
        ) => {
            say(&error.to_string());
            Ok(Next::Again)
        }
        Err(error) => Err(error.into()),
    }
}

async fn edit(cx: &Cx, draft: &Draft, by: &str, editor: Option<&str>) -> Result<Next, Failure> {
    let changed = match editor {
        Some(command) => Some(in_editor(draft, command)?),
        None => typed()?,
    };
    let Some((subject, content)) = changed else { return Ok(Next::Quit) };
    let edit = Edit {
        subject: Some(subject),
        content: Some(content),
        edition: Some(draft.edition),
        by: by.to_owned(),
        ..Edit::default()
    };
    match reminders::edit(cx, &draft.id, edit).await {
        Ok(_) => {}
        Err(reminders::EditError::Store(error)) => return Err(error.into()),
        Err(error) => say(&error.to_string()),
    }
    Ok(Next::Again)
}

/// The subject is the first line, and the content what comes after the empty line.
fn in_editor(draft: &Draft, command: &str) -> Result<(String, String), Failure> {
    let mut file = tempfile::NamedTempFile::new().context("no file to edit can be made")?;
    let (subject, content) = (draft.subject.as_deref(), draft.content.as_deref());
    let text = format!("{}\n\n{}\n", subject.unwrap_or_default(), content.unwrap_or_default());
    file.write_all(text.as_bytes()).context("the file to edit cannot be written")?;
    file.flush().context("the file to edit cannot be written")?;
    let mut words = command.split_whitespace();
    let program = words.next().ok_or_else(|| Failure::usage("--editor names no program"))?;
    let ended = Command::new(program).args(words).arg(file.path()).status();
    let ended = ended.with_context(|| format!("{program} cannot be started"))?;
    if !ended.success() {
        return Err(Failure::failed(format!(
            "{program} ended with {ended}, and nothing was changed"
        )));
    }
    let text = std::fs::read_to_string(file.path()).context("the edited file cannot be read")?;
    let (subject, content) = text.split_once('\n').unwrap_or((&text, ""));
    Ok((subject.trim().to_owned(), content.trim().to_owned()))
}

/// `None` at the end of the input.
fn typed() -> Result<Option<(String, String)>, Failure> {
    let Some(subject) = ask("Subject: ")? else { return Ok(None) };
    say("Content, and then a line with a single dot:");
    let mut lines = Vec::new();
    loop {
        match line()? {
            None => return Ok(None),
            Some(line) if line == "." => return Ok(Some((subject, lines.join("\n")))),
            Some(line) => lines.push(line),
        }
    }
}

fn ask(question: &str) -> Result<Option<String>, Failure> {
    let mut err = io::stderr();
    drop(write!(err, "{question}"));
    drop(err.flush());
    Ok(line()?.map(|line| line.trim().to_owned()))
}

fn line() -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).context("stdin cannot be read")?;
    let text = line.trim_end_matches(['\n', '\r']).to_owned();
    Ok((read > 0).then_some(text))
}
