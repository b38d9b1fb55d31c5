//! What comes back in the demo: some of the campaign's mails arrive, are opened and clicked, one bounces, and somebody
//! answers the first mail. Afterwards there are numbers to look at, and a segment of those who clicked.

use anyhow::Context as _;
use serde_json::json;
use tidings_access::{Cx, Limit};
use tidings_delivery::capture::{self, CapturedId};
use tidings_delivery::ledger::Source;
use tidings_jobs::Worker;
use tidings_kernel::{EmailAddress, queues};
use tidings_outreach::segments;
use tidings_signals::events::{Bounce, Counts, Event, EventKind, record};
use tidings_signals::queries;
use tidings_signals::tracking::verdict::{Action, Facts, decide};

use super::story::Mail;
use super::{campaign, contacts, sequences};
use crate::config::Config;
use crate::failure::Failure;
use crate::runtime::Runtime;

/// Who has clicked.
pub(super) const SEGMENT: &str = "readers";
/// Of so many mails something is known.
const MAILS: usize = 24;
const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
/// Far more turns than it needs.
const TURNS: usize = 50;

/// What is known afterwards.
pub(super) struct Reactions {
    /// Of the campaign.
    pub(super) counts: Counts,
    /// Of the first mail.
    pub(super) replies: i64,
    /// How many are in the segment.
    pub(super) readers: u64,
    /// One of them.
    pub(super) reader: Option<EmailAddress>,
}

/// Records it all, in the way in which it would be if it had happened. In a folder that is kept nothing happens again.
pub(super) async fn bring(
    cx: &Cx,
    runtime: &Runtime,
    config: &Config,
    first: Option<&Mail>,
) -> Result<Reactions, Failure> {
    let put = segments::Put {
        slug: SEGMENT.parse()?,
        name: Some("Who clicked of late".parse()?),
        condition: json!({"feature": "clicks_30d", "at_least": 1}),
        trigger_on_build: false,
    };
    segments::put(cx, put).await?;
    let before = queries::sequence(cx, campaign::KEY).await?.unwrap_or_default();
    if before.delivery_count == 0 {
        for (number, (source, email)) in mails(cx).await?.into_iter().enumerate() {
            for kind in kinds(number) {
                record(cx, event(cx, kind, source, &email)).await?;
            }
        }
        if let Some(mail) = first.and_then(answer) {
            runtime.replies().receive(cx, mail.as_bytes()).await?;
        }
        work(&runtime.workers(config)).await?;
    }
    let first = queries::template(cx, "welcome").await?.unwrap_or_default();
    let members = segments::members(cx, SEGMENT.parse()?, None, Limit::MAX).await?;
    Ok(Reactions {
        counts: queries::sequence(cx, campaign::KEY).await?.unwrap_or_default(),
        replies: first.reply_count,
        readers: segments::find(cx, SEGMENT.parse()?).await?.members,
        reader: members.items.into_iter().find_map(|member| member.email),
    })
}

/// The mails of the campaign to some who are in no sequence.
async fn mails(cx: &Cx) -> Result<Vec<(Source, EmailAddress)>, Failure> {
    let (mut found, mut before): (Vec<_>, Option<CapturedId>) = (Vec::new(), None);
    loop {
        let page = capture::list(cx, before, Limit::MAX).await?;
        for mail in &page.items {
            let tag = mail.tags.get("message").and_then(|tag| tag.as_str());
            let source = tag.and_then(Source::from_reference);
            let source = source.filter(|source| matches!(source, Source::Recipient(_)));
            let email = mail.to.first().filter(|email| !sequences::is_inside(email));
            if let (Some(source), Some(email)) = (source, email) {
                found.push((source, email.parse::<EmailAddress>()?));
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    found.sort_by(|(_, a), (_, b)| a.as_str().cmp(b.as_str()));
    found.truncate(MAILS);
    Ok(found)
}

/// One comes back, half of the others are opened, and a link is clicked in half of those.
fn kinds(number: usize) -> Vec<EventKind> {
    if number == 7 {
        let (kind, subkind) = ("Permanent".to_owned(), "General".to_owned());
        let status = Some("5.1.1".to_owned());
        let diagnostic = Some("smtp; 550 5.1.1 user unknown".to_owned());
        return vec![EventKind::Bounce(Bounce { kind, subkind, status, diagnostic })];
    }
    let mut kinds = vec![EventKind::Delivery];
    kinds.extend(number.is_multiple_of(2).then_some(EventKind::Open));
    kinds.extend(number.is_multiple_of(4).then_some(EventKind::Click));
    kinds
}

fn event(cx: &Cx, kind: EventKind, source: Source, email: &EmailAddress) -> Event {
    let id = format!("demo/{}/{}", kind.as_str(), source.reference());
    let action = match kind {
        EventKind::Open => Some(Action::Open),
        EventKind::Click => Some(Action::Click),
        _ => None,
    };
    let mut event = Event::new(id, kind, email.clone(), cx.now());
    event.source = Some(source);
    if let Some(action) = action {
        let user_agent = Some(BROWSER.to_owned());
        let facts = Facts { action, user_agent: user_agent.clone(), ..Facts::default() };
        event.verdict = Some(decide(&facts).json(&facts));
        event.user_agent = user_agent;
        event.url = (action == Action::Click).then(|| "https://example.org/reports".to_owned());
    }
    event
}

/// What somebody writes who got the mail.
fn answer(mail: &Mail) -> Option<String> {
    let id = mail.headers.lines().find_map(|line| line.strip_prefix("Message-ID: "))?;
    Some(format!(
        "From: {}\r\nTo: hello@example.org\r\nMessage-ID: <demo-answer@example.org>\r\nIn-Reply-To: {id}\r\n\
         Subject: Re: Welcome\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nThank you, it works!\r\n",
        contacts::first()
    ))
}

/// Until timelines, features and the segment have followed. Whatever is left, the server does.
async fn work(workers: &[Worker]) -> Result<(), Failure> {
    let wanted = [
        &queues::LEAD_INGESTION,
        &queues::LEAD_INGESTION_BULK,
        &queues::MEMORY_PROCESSING,
        &queues::FEATURE_PROCESSING,
        &queues::SEGMENT_PROCESSING,
    ];
    for _ in 0..TURNS {
        let mut did = 0;
        for queue in wanted {
            let found = workers.iter().find(|worker| worker.queue == queue);
            did += found.context("nobody works on what was learned")?.run_until_idle().await?;
        }
        if did == 0 {
            break;
        }
    }
    Ok(())
}
