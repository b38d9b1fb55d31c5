//! What follows when somebody enters or leaves a segment: sequences hear of it, his timeline has it, others are told.
//!
//! All of it is enqueued in the commit that changes the row. The id is made of segment, contact and the number of the look, so
//! that each change is one, and the next one another.

use serde_json::json;
use tidings_access::Cx;
use tidings_jobs::contracts::Object;
use tidings_jobs::happened::{Happened, by_email};
use tidings_kernel::EmailAddress;
use tidings_people::heard::{self, Heard};
use tidings_people::segments::send;
use tidings_sql::{DatabaseError, Tx};
use tidings_webhooks::{Announcement, EventType};

use super::Segment;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Entered,
    Left,
}

/// Somebody got in or out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved<'a> {
    pub(super) segment: &'a Segment,
    pub(super) way: Way,
    pub(super) contact: i64,
    pub(super) email: &'a EmailAddress,
    /// Of the look that found it out.
    pub(super) number: i64,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Entered => heard::ENTERED_SEGMENT,
            Self::Left => heard::LEFT_SEGMENT,
        }
    }

    fn event_type(self) -> EventType {
        match self {
            Self::Entered => EventType::SegmentEntered,
            Self::Left => EventType::SegmentLeft,
        }
    }
}

impl Moved<'_> {
    fn cause(&self) -> String {
        format!("{}/{}/{}", self.segment.id, self.contact, self.number)
    }

    fn heard(&self, cx: &Cx) -> Heard {
        Heard {
            id: self.cause(),
            name: self.way.name(),
            email: self.email.clone(),
            at: cx.now(),
            data: object(json!({ "segment": self.segment.slug.as_str() })),
        }
    }

    fn happened(&self, cx: &Cx) -> Happened {
        Happened {
            event_type: self.way.name(),
            cause: self.cause(),
            who: by_email(self.email.as_str()),
            at: cx.now(),
            object_id: Some(self.segment.slug.to_string()),
            payload: object(json!({ "segment": self.segment.slug.as_str() })),
        }
    }

    fn announcement(&self, cx: &Cx) -> Announcement {
        let data = json!({
            "segment": self.segment.slug.as_str(),
            "contact_id": self.contact,
            "email": self.email.as_str(),
        });
        Announcement {
            event_id: self.cause(),
            event_type: self.way.event_type(),
            occurred_at: cx.now(),
            data: object(data),
        }
    }
}

pub(super) fn tell(tx: &mut Tx<'_>, cx: &Cx, moved: &[Moved<'_>]) -> Result<(), DatabaseError> {
    if moved.is_empty() {
        return Ok(());
    }
    for way in [Way::Entered, Way::Left] {
        let some = moved.iter().filter(|one| one.way == way);
        if heard::is_listened_for(tx, cx, way.name())? {
            for one in some {
                heard::tell(tx, cx, &one.heard(cx))?;
            }
        }
    }
    for one in moved {
        send(tx, cx, &one.happened(cx).to_message(cx.workspace(), cx.now()))?;
    }
    let news: Vec<Announcement> = moved.iter().map(|one| one.announcement(cx)).collect();
    tidings_webhooks::announce_all(cx, tx, &news)
}

fn object(data: serde_json::Value) -> Object {
    match data {
        serde_json::Value::Object(data) => data,
        _ => unreachable!("what is told is an object"),
    }
}
