//! `tidings inbox`: messages inside apps, for operators.
//!
//! Here: which command is answered by whom (this file) and what can be asked (`args`). The post of flags or of a file is in
//! `post`, what was set in `settings`, and how all that is shown in `shown`.

mod args;
mod post;
mod settings;
mod shown;

use tidings_access::Cx;
use tidings_access::signing::SigningKeys;
use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::InboxKey;
use tidings_inbox::marks::{self, Mark, ReadAll};
use tidings_inbox::publish::{self, CancelError, PublishError, RedactError};
use tidings_inbox::read::{self, Listing};
use tidings_inbox::records::State;
use tidings_inbox::tokens::{Issue, Tokens};
use tidings_inbox::verify::{Then, verify};
use tidings_inbox::{Inbox, Reader, hints, sign_out};

pub(crate) use self::args::InboxArgs;
use self::args::{InboxCommand, ListArgs, MarkArgs, PublishArgs};
use self::shown::{
    CountsShown, DriftShown, MessageShown, PostShown, PublishedShown, ReceiptShown, TokenShown,
    VerifiedShown,
};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;

/// Who works on the command line, in what is recorded.
const SENDER: &str = "operator";

pub(crate) async fn run(args: InboxArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: InboxCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    use InboxCommand as C;
    // Servers that share the database hear what has changed.
    let inbox = Inbox::between_nodes(open.access.database(), hints::MAX_OF_NODE);
    match command {
        C::Publish(args) => publish(open, cx, &inbox, *args).await,
        C::Post { inbox: key, id } => {
            let found = publish::post(cx, &key, &id).await?;
            open.print(&PostShown::from(found.ok_or_else(|| missing(&key, &id))?))
        }
        C::Posts { inbox: key, limit } => posts(open, cx, &key, limit).await,
        C::Redact { inbox: key, id } => {
            let redacted = inbox.redact(cx, &key, &id).await.map_err(|error| match error {
                RedactError::Missing(id) => missing(&key, &id),
                RedactError::Busy | RedactError::Store(_) => error.into(),
            })?;
            if redacted.state == State::Redacting {
                say("A running server takes it away from its users now.");
            }
            open.print(&PostShown::from(redacted))
        }
        C::Cancel { inbox: key, id } => {
            let cancelled = inbox.cancel(cx, &key, &id).await.map_err(|error| match error {
                CancelError::Missing(id) => missing(&key, &id),
                CancelError::NotScheduled(_) => Failure::from(error)
                    .hint("`tidings inbox redact` takes it away from those who have it"),
                CancelError::Busy | CancelError::Store(_) => error.into(),
            })?;
            open.print(&PostShown::from(cancelled))
        }
        C::List(args) => list(open, cx, &inbox, args).await,
        C::Counts { inbox: key, user } => {
            let reader = Reader { inbox: key, uid: user, let_in: None };
            open.print(&CountsShown::from(read::counts(cx, &inbox, &reader).await?))
        }
        C::Show { inbox: key, user, id } => {
            let reader = Reader { inbox: key, uid: user, let_in: None };
            let found = read::message(cx, &inbox, &reader, &id).await?;
            open.print(&MessageShown::from(found.ok_or_else(|| not_his(&reader, &id))?))
        }
        C::MarkRead(args) => mark(open, cx, &inbox, Mark::Read, args).await,
        C::MarkUnread(args) => mark(open, cx, &inbox, Mark::Unread, args).await,
        C::MarkSeen(args) => mark(open, cx, &inbox, Mark::Seen, args).await,
        C::Archive(args) => mark(open, cx, &inbox, Mark::Archive, args).await,
        C::Unarchive(args) => mark(open, cx, &inbox, Mark::Unarchive, args).await,
        C::ReadAll { inbox: key, user, category, up_to } => {
            let reader = Reader { inbox: key, uid: user, let_in: None };
            let what = ReadAll { category, up_to };
            marks::read_all(cx, &inbox, &reader, what).await?;
            open.print(&CountsShown::from(read::counts(cx, &inbox, &reader).await?))
        }
        C::Settings(command) => settings::tenant(open, cx, command).await,
        C::Config(command) => settings::of_inbox(open, cx, command).await,
        C::Token { user, inboxes, expires_in } => {
            let keys = SigningKeys::load(open.access.database(), open.access.now()).await?;
            let issue = Issue { uid: user, inboxes, lifetime: expires_in };
            let issued = Tokens::new(keys).issue(cx, issue).await;
            let issued = issued.map_err(|error| Failure::usage(error.to_string()))?;
            open.print(&TokenShown::from(issued))
        }
        C::SignOut { user } => Ok(sign_out(cx, &inbox, &user).await?),
        C::Verify { repair } => check_counts(open, cx, &inbox, repair).await,
    }
}

async fn publish(open: &Open, cx: &Cx, inbox: &Inbox, args: PublishArgs) -> Result<(), Failure> {
    let key = args.inbox.clone();
    let new = post::of(args)?;
    let published = inbox.publish(cx, &key, new).await.map_err(|error| match error {
        PublishError::Invalid(_) => Failure::usage(error.to_string()),
        PublishError::OtherRequest(_) => {
            Failure::from(error).hint("use another --key, or ask for the same as before")
        }
        PublishError::Full | PublishError::Busy | PublishError::Store(_) => error.into(),
    })?;
    match published.state {
        State::Delivering => say("A running server gives it to its users now."),
        State::Scheduled => say("A running server publishes it when its time comes."),
        State::Done | State::Redacting | State::Redacted | State::Cancelled => {}
    }
    open.print(&PublishedShown::from(published))
}

async fn posts(open: &Open, cx: &Cx, key: &InboxKey, limit: usize) -> Result<(), Failure> {
    let (mut out, mut after, mut left) = (open.out(), None, limit);
    while left > 0 {
        let page = publish::posts(cx, key, left.min(100), after).await?;
        for post in page.posts.into_iter().take(left) {
            left -= 1;
            out.json(&PostShown::from(post))?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    out.finish()
}

async fn list(open: &Open, cx: &Cx, inbox: &Inbox, args: ListArgs) -> Result<(), Failure> {
    let reader = Reader { inbox: args.inbox, uid: args.user, let_in: None };
    let (mut out, mut cursor, mut left) = (open.out(), None, args.limit);
    while left > 0 {
        let listing = Listing {
            limit: left.min(100),
            cursor,
            category: args.category.clone(),
            unread_only: args.unread,
            archived: args.archived,
        };
        let page = read::list(cx, inbox, &reader, listing).await?;
        for message in page.messages.into_iter().take(left) {
            left -= 1;
            out.json(&MessageShown::from(message))?;
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    out.finish()
}

async fn mark(
    open: &Open,
    cx: &Cx,
    inbox: &Inbox,
    mark: Mark,
    args: MarkArgs,
) -> Result<(), Failure> {
    let reader = Reader { inbox: args.inbox, uid: args.user, let_in: None };
    let mut out = open.out();
    for receipt in marks::mark(cx, inbox, &reader, mark, &args.ids).await? {
        out.json(&ReceiptShown::from(receipt))?;
    }
    out.finish()
}

async fn check_counts(open: &Open, cx: &Cx, inbox: &Inbox, repair: bool) -> Result<(), Failure> {
    let (mut out, mut written) = (open.out(), Ok(()));
    let then = if repair { Then::Repair } else { Then::Tell };
    // Each at once: there may be millions of them.
    let mut tell = |drift| {
        if written.is_ok() {
            written = out.json(&DriftShown::from(drift));
        }
    };
    let verified = verify(cx, inbox, then, &mut tell).await?;
    written?;
    out.json(&VerifiedShown::from(verified))?;
    out.finish()?;
    match verified.left() {
        0 if verified.unreadable > 0 => {
            let what = format!("the counts of {} inboxes cannot be read", verified.unreadable);
            Err(Failure::failed(what)
                .hint("the log names the workspace and what is wrong with them"))
        }
        0 if verified.unsettled > 0 => {
            let what = format!("nothing can be said of {} inboxes", verified.unsettled);
            Err(Failure::failed(what).hint("they kept changing; ask again when less is going on"))
        }
        0 => Ok(()),
        1 => Err(Failure::failed("1 count is wrong").hint(REPAIR)),
        wrong => Err(Failure::failed(format!("{wrong} counts are wrong")).hint(REPAIR)),
    }
}

const REPAIR: &str = "`tidings inbox verify --repair` puts them right";

fn not_his(reader: &Reader, id: &MessageId) -> Failure {
    let Reader { inbox, uid, .. } = reader;
    Failure::failed(format!("{uid} has no message {id} in the inbox {inbox}, or not any more"))
        .hint(format!("`tidings inbox list {inbox} {uid}` shows those that there are"))
}

fn missing(inbox: &InboxKey, id: &MessageId) -> Failure {
    Failure::failed(format!("there is no post {id} in the inbox {inbox}"))
        .hint(format!("`tidings inbox posts {inbox}` shows those that there are"))
}
