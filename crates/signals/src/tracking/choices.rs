//! What a reader decides by the links of his mail: to get less of it, nothing any more, or some of it again.
//!
//! Everything here is asked for by POST, and is durable before it is answered. Doing it again changes nothing.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::ClientId;
use tidings_delivery::links::Addressee;
use tidings_jobs::contracts::{Contract as _, EmailEvent, EventType};
use tidings_kernel::{Outgoing, queues};
use tidings_people::consent::preferences::{self, Switch, SwitchError};
use tidings_people::consent::proof::Act;
use tidings_people::consent::subscriptions::{self, ConsentError, Resubscribe, Unsubscribe};
use tidings_people::consent::{self, AudienceId, By, ContactId, Line, Proof, Whom};

use super::reader::{self, Reader};
use super::{ChoiceError, Tracking, hits};

/// How long the worker leaves to whoever takes a choice in.
const HEAD_START: Duration = Duration::from_secs(10);

/// How much a reader takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// What this client sends to the audience of the mail.
    Client,
    /// The audience of the mail, whoever writes to it.
    Audience,
    /// Everything that is not transactional.
    Everything,
}

/// What a reader wants of what the page of preferences has shown him.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// The ids of topics, and whether they are on.
    pub topics: Vec<(i64, bool)>,
    /// The same of subscriptions.
    pub subscriptions: Vec<(i64, bool)>,
}

impl Scope {
    /// What is meant where nothing is said, as by the button of a mail program: the least that ends mails like this one.
    pub fn of(to: &Addressee) -> Self {
        if to.audience.is_some() { Self::Client } else { Self::Everything }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Audience => "audience",
            Self::Everything => "everything",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Client, Self::Audience, Self::Everything].into_iter().find(|it| it.as_str() == word)
    }

    /// As consent has it. `None` for an audience where the mail had none.
    pub(super) fn meant(self, to: &Addressee) -> Option<consent::Scope> {
        let audience = to.audience.map(AudienceId::from);
        match self {
            Self::Client => Some(consent::Scope::Client(audience?, ClientId::from(to.client))),
            Self::Audience => Some(consent::Scope::Audience(audience?)),
            Self::Everything => Some(consent::Scope::Global),
        }
    }
}

/// The reader of a mail, by its link to unsubscribe.
pub async fn by_unsubscribe(tracking: &Tracking, token: &str) -> Result<Reader, ChoiceError> {
    let to = tracking.links.read_unsubscribe(token, tracking.access.now()).await?;
    reader::find(&tracking.access, to).await?.ok_or(ChoiceError::Nobody)
}

/// The same by its link to the preferences.
pub async fn by_preferences(tracking: &Tracking, token: &str) -> Result<Reader, ChoiceError> {
    let to = tracking.links.read_preferences(token, tracking.access.now()).await?;
    reader::find(&tracking.access, to).await?.ok_or(ChoiceError::Nobody)
}

/// From now on the reader gets nothing more, as far as the scope goes, and his message knows that it was because of it.
pub async fn unsubscribe(
    tracking: &Tracking,
    (reader, token): (&Reader, &str),
    scope: Scope,
    proof: Proof,
) -> Result<(), ChoiceError> {
    // The event is first: if we die after it, its worker sees to the rest.
    scope.meant(&reader.to).ok_or(ChoiceError::NotOffered)?;
    tell(tracking, reader, token, scope).await?;
    leave(reader, scope, proof).await
}

/// Takes that back, because it is the reader himself who asks.
pub async fn resubscribe(reader: &Reader, scope: Scope, proof: Proof) -> Result<(), ChoiceError> {
    let scope = scope.meant(&reader.to).ok_or(ChoiceError::NotOffered)?;
    let act = act("unsubscribe page, undone", proof);
    come_back(reader, scope, act).await
}

/// Switches topics and subscriptions as the reader wants them. What he was not shown stays as it is. If he leaves what his
/// message was for, it knows that it was because of it.
pub async fn choose(
    tracking: &Tracking,
    (reader, token): (&Reader, &str),
    choices: &Choices,
    proof: Proof,
) -> Result<(), ChoiceError> {
    let act = act("preference page", proof);
    let mut topics = Vec::new();
    for (id, on) in &choices.topics {
        let shown = reader.topics.iter().find(|topic| topic.id == *id);
        let shown = shown.ok_or(ChoiceError::NotOffered)?;
        if shown.is_on != *on {
            topics.push((shown.slug.clone(), *on));
        }
    }
    let mut changed = Vec::new();
    for (id, on) in &choices.subscriptions {
        let shown = reader.subscriptions.iter().find(|subscription| subscription.id == *id);
        let shown = shown.ok_or(ChoiceError::NotOffered)?;
        if shown.is_on != *on && !shown.is_pending {
            let audience = AudienceId::from(shown.audience);
            let scope = match shown.client {
                Some(client) => consent::Scope::Client(audience, ClientId::from(client)),
                None => consent::Scope::Audience(audience),
            };
            changed.push((scope, *on));
        }
    }
    // What he does not want comes first: if the rest fails, he gets less and not more.
    changed.sort_by_key(|(_, on)| *on);
    for (scope, on) in changed {
        if on {
            come_back(reader, scope, act.clone()).await?;
        } else {
            let of_message = [Scope::Client, Scope::Audience];
            let left = of_message.into_iter().find(|one| one.meant(&reader.to) == Some(scope));
            if let Some(left) = left {
                tell(tracking, reader, token, left).await?;
            }
            go(reader, scope, act.clone()).await?;
        }
    }
    if topics.is_empty() {
        return Ok(());
    }
    let switch = Switch { whom: whom(reader), topics, act };
    match preferences::switch(&reader.cx, switch).await {
        Ok(_) => Ok(()),
        Err(SwitchError::NoContact) => Err(ChoiceError::Nobody),
        Err(SwitchError::NoTopic(_) | SwitchError::TooMany | SwitchError::NeedsReason(_)) => {
            Err(ChoiceError::NotOffered)
        }
        Err(SwitchError::Suppressed) => Err(ChoiceError::Suppressed),
        Err(SwitchError::Store(error)) => Err(error.into()),
    }
}

pub(super) async fn leave(reader: &Reader, scope: Scope, proof: Proof) -> Result<(), ChoiceError> {
    let scope = scope.meant(&reader.to).ok_or(ChoiceError::NotOffered)?;
    go(reader, scope, act("unsubscribe page", proof)).await
}

async fn go(reader: &Reader, scope: consent::Scope, act: Act) -> Result<(), ChoiceError> {
    let cmd = Unsubscribe { whom: whom(reader), scope, act };
    subscriptions::unsubscribe(&reader.cx, cmd).await.map(drop).map_err(refused)
}

async fn come_back(reader: &Reader, scope: consent::Scope, act: Act) -> Result<(), ChoiceError> {
    let cmd = Resubscribe { whom: whom(reader), scope, act };
    subscriptions::resubscribe(&reader.cx, cmd).await.map(drop).map_err(refused)
}

fn refused(error: ConsentError) -> ChoiceError {
    match error {
        ConsentError::NoContact => ChoiceError::Nobody,
        ConsentError::NoAudience(_) | ConsentError::NoClient(_) | ConsentError::Refused(_) => {
            ChoiceError::NotOffered
        }
        ConsentError::Store(error) => error.into(),
    }
}

fn whom(reader: &Reader) -> Whom {
    Whom::Contact(ContactId::from(reader.contact))
}

fn act(source: &str, proof: Proof) -> Act {
    let source: Line = source.parse().expect("it is one line");
    Act { by: By::Person, source, reason: None, proof }
}

/// Tells the message why its reader left. By the key it is told once, however often he says so.
async fn tell(
    tracking: &Tracking,
    reader: &Reader,
    token: &str,
    scope: Scope,
) -> Result<(), ChoiceError> {
    let now: Timestamp = reader.cx.now();
    let event = EmailEvent {
        idempotency_key: format!("unsubscribe:{}:{}", hits::without_token(token), scope.as_str()),
        metadata: json!({ "scope": scope.as_str() }).as_object().cloned(),
        ..hits::event(now, EventType::Unsubscribe, token, &reader.to)
    };
    let body = event.to_body().expect("an event that is made here keeps to its contract");
    // Whoever is being answered carries it out himself, with the proof; its worker only comes after him.
    let outgoing = Outgoing::new(&queues::EMAIL_EVENTS, body).delayed(HEAD_START);
    let tell =
        tracking.access.database().write_committed(move |tx| hits::enqueue(tx, &outgoing, now));
    Ok(tell.await?)
}
