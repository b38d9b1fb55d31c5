//! Dead letters: a queue of their own, which SQS can show only by delivering them.
//!
//! To look at them is to receive them for a short while and to give them back; whoever looks at the same time
//! sees fewer. To replay one is to send it to its queue, as a new message with an id of its own, and then to
//! delete it here: a crash in between repeats it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use jiff::Timestamp;
use tidings_kernel::{
    Clock, DeadLetter, Delivery, MAX_BODY_BYTES, Outgoing, Queue, QueueError, SystemClock, Which,
};

use super::places::Place;
use super::receive::{Poll, incomplete, sent_at};
use super::{BATCH, Sqs};

/// How long dead letters are hidden from others who look. What is not given back appears again after it.
const LOOK: Duration = Duration::from_secs(30);
/// A request that waits at all asks all of SQS's servers, so that an empty answer means that there is nothing.
const ASK_ALL: Duration = Duration::from_secs(1);

/// Letters come in any order. After so many looks in a row at nothing but what died since, there is nothing else.
const LOOKS_IN_VAIN: u32 = 3;

const REASON: &str = "reason";
const RECEIVES: &str = "receives";
const ENQUEUED_AT: &str = "enqueued-at";
const MAX_REASON_BYTES: usize = 1024;

/// What becomes of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Replay,
    Purge,
}

/// A dead letter that is held, and the right to settle it.
struct Held {
    letter: DeadLetter,
    handle: String,
    /// When it was sent as the message it is now: buried, or for the last time to the queue that gave it up.
    sent_at: Timestamp,
}

impl Sqs {
    pub(super) async fn sample_dead(
        &self,
        queue: &'static Queue,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        let place = self.place(queue).await?;
        let mut held: Vec<Held> = Vec::new();
        let mut seen = HashSet::new();
        while held.len() < limit {
            let found = self.hold(queue, &place, limit - held.len()).await?;
            let go_on = are_new(&found, &mut seen);
            held.extend(found);
            if !go_on {
                break;
            }
        }
        let handles = held.iter().map(|held| held.handle.as_str());
        self.give_back(queue, &place, handles).await?;
        let mut letters: Vec<_> = held.into_iter().map(|held| held.letter).collect();
        letters.sort_by(|a, b| (a.enqueued_at, &a.id).cmp(&(b.enqueued_at, &b.id)));
        letters.dedup_by(|a, b| a.id == b.id);
        Ok(letters)
    }

    /// Only what was dead when this began is meant: a worker may bury what is replayed while it goes on, and it
    /// would never end. What dies is sent anew, by us or as it was replayed, so that its time tells.
    pub(super) async fn settle_dead(
        &self,
        queue: &'static Queue,
        which: Which,
        fate: Fate,
    ) -> Result<u64, QueueError> {
        let place = self.place(queue).await?;
        let begun = SystemClock.now();
        let mut wanted: Option<HashSet<String>> = match which {
            Which::All => None,
            Which::Only(ids) => Some(ids.into_iter().collect()),
        };
        // The handles only: bodies are large, and there may be many.
        let mut passed_over: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        let (mut count, mut in_vain) = (0, 0);
        while in_vain < LOOKS_IN_VAIN && wanted.as_ref().is_none_or(|wanted| !wanted.is_empty()) {
            let found = self.hold(queue, &place, BATCH).await?;
            if !are_new(&found, &mut seen) {
                passed_over.extend(found.into_iter().map(|held| held.handle));
                break;
            }
            let all_since = found.iter().all(|held| held.sent_at > begun);
            in_vain = if all_since { in_vain + 1 } else { 0 };
            let (meant, others): (Vec<Held>, Vec<Held>) =
                found.into_iter().partition(|held| match &mut wanted {
                    _ if held.sent_at > begun => false,
                    None => true,
                    Some(wanted) => wanted.remove(&held.letter.id),
                });
            passed_over.extend(others.into_iter().map(|held| held.handle));
            if !meant.is_empty() {
                count += self.settle_held(queue, &place, meant, fate).await?;
            }
        }
        self.give_back(queue, &place, passed_over.iter().map(String::as_str)).await?;
        Ok(count)
    }

    async fn settle_held(
        &self,
        queue: &'static Queue,
        place: &Place,
        held: Vec<Held>,
        fate: Fate,
    ) -> Result<u64, QueueError> {
        let count = held.len() as u64;
        let (letters, handles): (Vec<_>, Vec<_>) =
            held.into_iter().map(|held| (held.letter, held.handle)).unzip();
        if fate == Fate::Replay {
            let messages = letters.into_iter().map(|letter| Outgoing::new(queue, letter.body));
            self.send_all(messages.collect()).await?;
        }
        let handles = handles.iter().map(String::as_str).collect();
        self.delete(queue, &place.dead, handles).await?;
        Ok(count)
    }

    /// Up to ten dead letters, or none if there are none to see.
    async fn hold(
        &self,
        queue: &'static Queue,
        place: &Place,
        max: usize,
    ) -> Result<Vec<Held>, QueueError> {
        let poll = Poll { url: &place.dead, max, lease: LOOK, wait: ASK_ALL };
        let messages = self.poll(queue, poll).await?;
        messages.into_iter().map(|message| held(queue, message)).collect()
    }

    async fn give_back(
        &self,
        queue: &'static Queue,
        place: &Place,
        handles: impl Iterator<Item = &str>,
    ) -> Result<(), QueueError> {
        let leases = handles.map(|handle| (handle, Duration::ZERO));
        self.change_leases(queue, &place.dead, leases.collect()).await.map(drop)
    }
}

/// Whether any of them was not seen before. Where looking takes long, the first ones come round again.
fn are_new(found: &[Held], seen: &mut HashSet<String>) -> bool {
    let before = seen.len();
    seen.extend(found.iter().map(|held| held.letter.id.clone()));
    seen.len() > before
}

/// What SQS moved itself says nothing of why: it was received as often as its queue allows.
fn held(queue: &Queue, message: Message) -> Result<Held, QueueError> {
    let attribute = |name: &str| -> Option<String> {
        message.message_attributes.as_ref()?.get(name)?.string_value.clone()
    };
    let reason = attribute(REASON);
    let receives = attribute(RECEIVES).and_then(|text| text.parse().ok());
    let enqueued_at = attribute(ENQUEUED_AT).and_then(|text| text.parse::<Timestamp>().ok());
    let sent_at = sent_at(&message);
    let (Some(id), Some(body), Some(handle), Some(sent_at)) =
        (message.message_id, message.body, message.receipt_handle, sent_at)
    else {
        return Err(incomplete());
    };
    let enqueued_at = enqueued_at.unwrap_or(sent_at);
    let receives = receives.unwrap_or(queue.max_receives);
    let letter = DeadLetter { id, body, receives, enqueued_at, reason };
    Ok(Held { letter, handle, sent_at })
}

/// What goes with a message that is buried. A body that leaves no room for it goes alone.
pub(super) fn grave(
    delivery: &Delivery,
    reason: &str,
) -> Option<HashMap<String, MessageAttributeValue>> {
    let mut texts = vec![
        (RECEIVES, delivery.receives.to_string()),
        (ENQUEUED_AT, delivery.enqueued_at.to_string()),
    ];
    let reason = bounded(reason);
    if !reason.is_empty() {
        texts.push((REASON, reason));
    }
    // The data type counts as well.
    let size = |(name, text): &(&str, String)| name.len() + text.len() + "String".len();
    if delivery.body.len() + texts.iter().map(size).sum::<usize>() > MAX_BODY_BYTES {
        return None;
    }
    let attribute = |text| {
        let value = MessageAttributeValue::builder().data_type("String").string_value(text);
        value.build().expect("the data type is set")
    };
    Some(texts.into_iter().map(|(name, text)| (name.to_owned(), attribute(text))).collect())
}

/// The beginning of a reason, without the characters that SQS cannot carry.
fn bounded(reason: &str) -> String {
    let end = reason.floor_char_boundary(MAX_REASON_BYTES);
    let carried = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    reason[..end].chars().filter(carried).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_kernel::{Delivery, MAX_BODY_BYTES, Receipt};

    use super::{bounded, grave};

    fn delivery(body: String) -> Delivery {
        Delivery {
            id: "id".to_owned(),
            body,
            receives: 3,
            enqueued_at: Timestamp::UNIX_EPOCH,
            receipt: Receipt("handle".to_owned()),
        }
    }

    #[test]
    fn a_reason_is_cut_to_what_can_be_carried() {
        assert_eq!(bounded("not known 🦀"), "not known 🦀");
        assert_eq!(bounded("\u{0}\u{1b}[31mred\u{ffff}"), "[31mred");
        assert_eq!(bounded(&"x".repeat(5000)).len(), 1024);
        assert_eq!(bounded(&"🦀".repeat(5000)).len(), 1024);
        assert_eq!(bounded(&format!("x{}", "🦀".repeat(5000))).len(), 1021);
    }

    #[test]
    fn a_grave_without_room_has_no_stone() {
        let attributes = grave(&delivery("body".to_owned()), "why").unwrap();
        assert_eq!(attributes["receives"].string_value(), Some("3"));
        assert_eq!(attributes["reason"].string_value(), Some("why"));
        assert!(!grave(&delivery("body".to_owned()), "").unwrap().contains_key("reason"));
        assert_eq!(grave(&delivery("x".repeat(MAX_BODY_BYTES)), "why"), None);
    }
}
