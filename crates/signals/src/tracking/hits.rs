//! A hit: somebody asked for the pixel of a mail, or followed a link in it.
//!
//! It is written into the queue `email-events` before it is answered; what it means is worked out there.

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidings_access::Access;
use tidings_delivery::links::{Addressee, Links, ReadError, Source};
use tidings_jobs::contracts::{Contract as _, EmailEvent, EventType};
use tidings_kernel::{Outgoing, hex, queues};
use tidings_sql::{DatabaseError, EnqueueError, Tx};

use super::Tracking;

/// What a browser calls itself can be as long as a request. More than this is not kept.
const USER_AGENT: usize = 500;

/// What a request tells of whoever made it.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `HEAD` and not `GET`.
    pub head: bool,
    pub user_agent: Option<String>,
    pub ip: Option<std::net::IpAddr>,
    pub prefetch: bool,
    /// `Sec-GPC: 1`: the address is not kept, not even hashed.
    pub gpc: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum HitError {
    #[error("this link is not one of ours")]
    Invalid,
    #[error("the link could not be checked")]
    Unchecked(#[source] DatabaseError),
    #[error("the link is good, and what happened could not be written down")]
    Unstored(#[from] DatabaseError),
}

impl From<ReadError> for HitError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Invalid => Self::Invalid,
            ReadError::Store(error) => Self::Unchecked(error),
        }
    }
}

/// Writes down that the pixel of a mail was asked for.
pub async fn opened(
    Tracking { access, links }: &Tracking,
    token: &str,
    request: &Request,
) -> Result<(), HitError> {
    let to = links.read_open(token, access.now()).await?;
    let event = event(access.now(), EventType::Open, token, &to);
    store(access, EmailEvent { metadata: metadata(links, request), ..event }).await
}

/// Writes down that a link of a mail was followed to its target.
pub async fn clicked(
    Tracking { access, links }: &Tracking,
    (token, target): (&str, &str),
    request: &Request,
) -> Result<(), HitError> {
    let to = links.read_click(token, target, access.now()).await?;
    let event = event(access.now(), EventType::Click, token, &to);
    let url = Some(target.to_owned());
    store(access, EmailEvent { url, metadata: metadata(links, request), ..event }).await
}

/// An event of this message now. Each has a key of its own: two opens are two, and one that comes twice out of the
/// queue is one. Whoever may read events must not be able to follow the link in somebody's name, so a key has no token in it.
pub(super) fn event(
    now: Timestamp,
    event_type: EventType,
    token: &str,
    to: &Addressee,
) -> EmailEvent {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system gives randomness");
    let event_id = format!("{:032x}", u128::from_be_bytes(random));
    let kind = match event_type {
        EventType::Open => "open",
        EventType::Click => "click",
        EventType::Unsubscribe => "unsubscribe",
    };
    let (transactional, recipient) = match to.source {
        Source::Transactional(id) => (Some(id), None),
        Source::Recipient(id) => (None, Some(id)),
    };
    EmailEvent {
        idempotency_key: format!("{kind}:{}:{now:.3}:{event_id}", without_token(token)),
        event_id,
        event_type,
        occurred_at: now,
        campaign_id: None,
        campaign_recipient_id: recipient,
        transactional_message_id: transactional,
        contact_id: Some(to.contact),
        client_id: Some(to.client),
        audience_id: to.audience,
        tracking_token: Some(token.to_owned()),
        url: None,
        metadata: None,
    }
}

/// What tells one link from others and does not prove anything.
pub(super) fn without_token(token: &str) -> String {
    hex(&Sha256::digest(token)[..16])
}

fn metadata(
    links: &Links,
    request: &Request,
) -> Option<serde_json::Map<String, serde_json::Value>> {
    let user_agent = request.user_agent.as_deref().map(|agent| {
        agent.chars().filter(|c| !c.is_control()).take(USER_AGENT).collect::<String>()
    });
    let ip = request.ip.filter(|_| !request.gpc);
    let metadata = json!({
        "method": if request.head { "HEAD" } else { "GET" },
        "user_agent": user_agent,
        "ip_hash": ip.map(|ip| links.pseudonym(&ip.to_string())),
        "prefetch": request.prefetch,
        "gpc": request.gpc,
    });
    metadata.as_object().cloned()
}

async fn store(access: &Access, event: EmailEvent) -> Result<(), HitError> {
    let now = event.occurred_at;
    let body = event.to_body().expect("an event that is made here keeps to its contract");
    let outgoing = Outgoing::new(&queues::EMAIL_EVENTS, body);
    Ok(access.database().write_committed(move |tx| enqueue(tx, &outgoing, now)).await?)
}

pub(super) fn enqueue(
    tx: &mut Tx<'_>,
    outgoing: &Outgoing,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    match tx.enqueue(outgoing, now) {
        Ok(()) => Ok(()),
        Err(EnqueueError::Database(error)) => Err(error),
        Err(EnqueueError::Invalid(error)) => unreachable!("an event fits into a queue: {error}"),
    }
}
