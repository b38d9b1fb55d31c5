//! What the demo tells: what was made, the first mail, and what to try next. Every command can be pasted as it is.

use std::fmt::Write as _;
use std::path::PathBuf;

use tidings_inbox::read::Counts;
use tidings_outreach::campaigns::progress::Standing;
use tidings_people::import;

use super::reactions::{self, Reactions};
use super::{campaign, contacts, inbox};

pub(super) struct Story {
    pub(super) folder: PathBuf,
    pub(super) url: String,
    pub(super) key: String,
    pub(super) imported: import::Counts,
    /// The id of the first message.
    pub(super) message: i64,
    /// Nothing if somebody has forgotten what was captured.
    pub(super) mail: Option<Mail>,
    /// How far the campaign is.
    pub(super) campaign: Standing,
    /// What came back.
    pub(super) reactions: Reactions,
    /// How many are in each sequence.
    pub(super) inside: Vec<(&'static str, u64)>,
    /// What the user of the page finds.
    pub(super) inbox: Counts,
    /// How many reminders wait for somebody to decide.
    pub(super) reminders: usize,
}

pub(super) struct Mail {
    pub(super) id: i64,
    pub(super) headers: String,
    pub(super) text: String,
}

/// All lines before the first empty one.
pub(super) fn headers(raw: &[u8]) -> String {
    let raw = String::from_utf8_lossy(raw);
    let lines: Vec<&str> = raw.lines().take_while(|line| !line.is_empty()).collect();
    lines.join("\n")
}

impl Story {
    /// What was made, with the first mail.
    pub(super) fn made(&self) -> String {
        let (folder, counts) = (self.folder.display(), &self.imported);
        let mut text = format!(
            "A demo in {folder}. Mail is captured: nobody gets any.\n\n  \
             {folder}/mail: templates, topics, an audience and sequences, applied\n  \
             {folder}/contacts.csv: {} lines imported, {} new, {} invalid, {} unsubscribed, {} suppressed\n",
            counts.lines, counts.new, counts.invalid, counts.unsubscribed, counts.suppressed
        );
        if let Some(mail) = &self.mail {
            text.push_str("\nThe first mail:\n\n");
            for line in mail.headers.lines().chain([""]).chain(mail.text.trim_end().lines()) {
                text.push_str(format!("    {line}").trim_end());
                text.push('\n');
            }
        }
        let Standing { campaign, sent, skipped, .. } = &self.campaign;
        writeln!(
            text,
            "\nA campaign, {}, to the newsletter's people in {}: {} meant, {sent} sent, {skipped} skipped.",
            campaign.key(),
            campaign::COUNTRY,
            campaign.progress.recipients
        )
        .expect("a string takes everything");
        text.push_str(&self.came_back());
        let inside: Vec<_> =
            self.inside.iter().map(|(id, count)| format!("{count} in {id}")).collect();
        writeln!(text, "Sequences, with people on their way: {}.", inside.join(", "))
            .expect("a string takes everything");
        let Counts { total, unread, .. } = &self.inbox;
        writeln!(
            text,
            "An inbox, {}, with {total} messages for the user {}, {unread} of them unread: {}/inbox/demo shows it.",
            inbox::INBOX,
            inbox::USER,
            self.url
        )
        .expect("a string takes everything");
        writeln!(
            text,
            "Payment reminders that wait for somebody to approve them: {}.",
            self.reminders
        )
        .expect("a string takes everything");
        text
    }

    fn came_back(&self) -> String {
        let Reactions { counts, replies, readers, .. } = &self.reactions;
        format!(
            "What came back of it: {} delivered, {} bounced, {} opened and {} clicked by people; and {replies} answer to the \
             first mail.\nA segment, {}, of those who clicked: {readers} are in it.\n",
            counts.delivery_count,
            counts.bounce_count,
            counts.unique_human_open_count,
            counts.unique_human_click_count,
            reactions::SEGMENT
        )
    }

    /// What to do while the server runs.
    pub(super) fn next(&self) -> String {
        let mut text =
            format!("\nThe API, to read: {}/docs\n\nTo try while it runs:\n\n", self.url);
        for (why, command) in self.commands() {
            writeln!(text, "  # {why}\n  {command}").expect("a string takes everything");
        }
        text.push('\n');
        text
    }

    fn commands(&self) -> Vec<(&'static str, String)> {
        let Self { url, key, message, .. } = self;
        let get = |path: &str| format!("curl '{url}{path}' -H 'Authorization: Bearer {key}'");
        let post = |path: &str, body: &str| {
            format!("{} -H 'Content-Type: application/json' -d '{body}'", get(path))
        };
        let (first, left) = (contacts::first(), contacts::unsubscribed());
        let receipt = format!(
            r#"{{"to":"{first}","template":"receipt","context":{{"order":{{"number":"A-17","items":[{{"name":"Tea","count":2,"price":"3.75"}}],"total":"7.50"}}}}}}"#
        );
        let explain = format!(
            "/v1/contacts/{left}/eligibility?kind=campaign&audience=newsletter&client=demo"
        );
        let mut commands = vec![
            ("send a receipt from a template", post("/v1/messages", &receipt)),
            ("what became of the first message", get(&format!("/v1/messages/{message}/events"))),
            ("the mail that was captured", get("/v1/captured?limit=2")),
            ("a contact", get(&format!("/v1/contacts/{first}"))),
            ("some contacts with a tag", get("/v1/contacts?tag=beta&limit=3")),
            ("why somebody gets no campaign", get(&explain)),
            ("what came of the campaign", get(&format!("/v1/campaigns/{}/results", campaign::KEY))),
            ("its numbers", get(&format!("/v1/stats/sequences/{}", campaign::KEY))),
            ("its clicks", get(&format!("/v1/events?sequence={}&type=click", campaign::KEY))),
        ];
        if let Some(reader) = &self.reactions.reader {
            let timeline = get(&format!("/v1/contacts/{reader}/timeline"));
            commands.push(("what is known of somebody who clicked", timeline));
            commands.push(("and in numbers", get(&format!("/v1/contacts/{reader}/features"))));
        }
        let members = format!("segment members {} --workspace demo", reactions::SEGMENT);
        commands.push(("who else clicked", self.tidings(&members)));
        let note = format!(
            r#"{{"to":{{"users":["{}"]}},"title":"Hello","body":"It works.","category":"news"}}"#,
            inbox::USER
        );
        let publish = post(&format!("/v1/inboxes/{}/messages", inbox::INBOX), &note);
        commands.push(("a message into the inbox, which an open page shows at once", publish));
        let preview = r#"campaign send --workspace demo --key next --audience newsletter --template receipt --filter '{"tag":"beta"}' --dry-run"#;
        commands.push(("whom another one would go to", self.tidings(preview)));
        let skipped =
            format!("campaign recipients {} --workspace demo --status skipped", campaign::KEY);
        commands.push(("who did not get the campaign, and why", self.tidings(&skipped)));
        let funnel = self.tidings("sequence funnel onboarding --workspace demo");
        commands.push(("how people go through a sequence", funnel));
        let simulate = format!("sequence simulate onboarding --contact {first} --workspace demo");
        commands.push(("what somebody would get of it, and when", self.tidings(&simulate)));
        let seen = format!("inbox list {} {} --workspace demo", inbox::INBOX, inbox::USER);
        commands.push(("an inbox as its user sees it", self.tidings(&seen)));
        let waiting = self.tidings("reminders --workspace demo list");
        commands.push(("the reminders that wait for an approval", waiting));
        let decide = self.tidings("reminders --workspace demo review --by you");
        commands.push(("look at each, and approve, edit or reject it", decide));
        if let Some(mail) = &self.mail {
            let open = self.tidings(&format!("mail show {} --raw --workspace demo", mail.id));
            commands.push(("the first mail as it would have gone out", open));
        }
        let edited = self.tidings(&format!(
            "apply {} --workspace demo --yes",
            quoted(&self.folder.join("mail").to_string_lossy())
        ));
        commands.push(("after changing a template", edited));
        commands
    }

    /// This binary, as whoever started us called it.
    fn tidings(&self, arguments: &str) -> String {
        let binary = std::env::args().next().unwrap_or_else(|| "tidings".to_owned());
        let config = self.folder.join("tidings.toml");
        format!("{} --config {} {arguments}", quoted(&binary), quoted(&config.to_string_lossy()))
    }
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
