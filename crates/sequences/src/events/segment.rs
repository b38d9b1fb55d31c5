//! The calls of Segment's libraries, read as events: `track`, `identify`, and several of them as a `batch`.
//!
//! Pure. What the libraries send besides, nobody needs here: it is left alone. What an event may be is in `accept`.

use jiff::Timestamp;
use serde_json::Value;
use tidings_jobs::contracts::Object;
use tidings_kernel::EmailAddress;

use super::accept::check;
use super::{Event, IDENTIFY, MAX_EVENTS, Wrong};

/// Where a call has its data.
const PROPERTIES: &str = "properties";
const TRAITS: &str = "traits";
/// The calls that have no meaning here. They are taken and nothing is done.
const IGNORED: [&str; 5] = ["page", "screen", "group", "alias", "delete"];

/// Something that a user did.
pub fn track(call: &Object) -> Result<Event, Vec<Wrong>> {
    let mut reader = Reader::new(call, 0);
    reader.is_of_type("track");
    let event = reader.track();
    reader.answer(event, PROPERTIES)
}

/// What a product knows of a user.
pub fn identify(call: &Object) -> Result<Event, Vec<Wrong>> {
    let mut reader = Reader::new(call, 0);
    reader.is_of_type("identify");
    let event = reader.identify();
    reader.answer(event, TRAITS)
}

/// Several calls, each with its type. `None` stands for one that has no meaning here.
pub fn batch(call: &Object) -> Result<Vec<Option<Event>>, Vec<Wrong>> {
    let told = |message: String| vec![Wrong { event: 0, field: "batch".to_owned(), message }];
    let Some(Value::Array(calls)) = call.get("batch") else {
        return Err(told("use a list of calls".to_owned()));
    };
    if !(1..=MAX_EVENTS).contains(&calls.len()) {
        return Err(told(format!("use 1 to {MAX_EVENTS} calls")));
    }
    let (mut events, mut wrong) = (Vec::with_capacity(calls.len()), Vec::new());
    for (place, call) in calls.iter().enumerate() {
        match one(call, place) {
            Ok(event) => events.push(event),
            Err(more) => wrong.extend(more),
        }
    }
    if wrong.is_empty() { Ok(events) } else { Err(wrong) }
}

fn one(call: &Value, place: usize) -> Result<Option<Event>, Vec<Wrong>> {
    let told = |field: &str, message: &str| {
        let (field, message) = (field.to_owned(), message.to_owned());
        vec![Wrong { event: place, field, message }]
    };
    let Value::Object(call) = call else { return Err(told("", "use an object")) };
    let mut reader = Reader::new(call, place);
    let (event, data) = match call.get("type").and_then(Value::as_str) {
        Some("track") => (reader.track(), PROPERTIES),
        Some("identify") => (reader.identify(), TRAITS),
        Some(kind) if IGNORED.contains(&kind) => return Ok(None),
        _ => return Err(told("type", "use track or identify")),
    };
    reader.answer(event, data).map(Some)
}

struct Reader<'c> {
    call: &'c Object,
    place: usize,
    wrong: Vec<Wrong>,
}

impl<'c> Reader<'c> {
    fn new(call: &'c Object, place: usize) -> Self {
        Self { call, place, wrong: Vec::new() }
    }

    /// The event, or all that is wrong with it, under the names that the call has for its fields.
    fn answer(mut self, event: Event, data: &str) -> Result<Event, Vec<Wrong>> {
        let mut more = Vec::new();
        check(self.place, &event, &mut more);
        for Wrong { field, message, .. } in more {
            let field = match field.as_str() {
                "name" => "event",
                "message_id" => "messageId",
                "user_id" => "userId",
                "anonymous_id" => "anonymousId",
                "data" => data,
                other => other,
            };
            if !self.wrong.iter().any(|one| one.field == field) {
                self.tell(field, &message);
            }
        }
        if self.wrong.is_empty() { Ok(event) } else { Err(self.wrong) }
    }

    fn tell(&mut self, field: &str, message: &str) {
        let (field, message) = (field.to_owned(), message.to_owned());
        self.wrong.push(Wrong { event: self.place, field, message });
    }

    fn is_of_type(&mut self, kind: &str) {
        if self.given("type").is_some_and(|given| given.as_str() != Some(kind)) {
            self.tell("type", &format!("use {kind}, or leave it out"));
        }
    }

    fn track(&mut self) -> Event {
        let name = match self.given("event") {
            Some(Value::String(name)) => name.clone(),
            Some(_) => {
                self.tell("event", "use a text");
                String::new()
            }
            None => {
                self.tell("event", "this is required");
                String::new()
            }
        };
        let data = self.object(PROPERTIES);
        self.event(name, data)
    }

    fn identify(&mut self) -> Event {
        let data = self.object(TRAITS);
        self.event(IDENTIFY.to_owned(), data)
    }

    fn event(&mut self, name: String, data: Object) -> Event {
        let user_id = self.id("userId");
        Event {
            message_id: self.id("messageId"),
            name,
            email: self.address(user_id.as_deref()),
            user_id,
            anonymous_id: self.id("anonymousId"),
            occurred_at: self.time("timestamp"),
            data,
        }
    }

    /// A null is as good as nothing.
    fn given(&self, field: &str) -> Option<&'c Value> {
        self.call.get(field).filter(|value| !value.is_null())
    }

    fn object(&mut self, field: &str) -> Object {
        match self.given(field) {
            None => Object::new(),
            Some(Value::Object(object)) => object.clone(),
            Some(_) => {
                self.tell(field, "use an object");
                Object::new()
            }
        }
    }

    /// Some products number their users. An empty one is none.
    fn id(&mut self, field: &str) -> Option<String> {
        match self.given(field) {
            None => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(_) => {
                self.tell(field, "use a text");
                None
            }
        }
    }

    fn time(&mut self, field: &str) -> Option<Timestamp> {
        let given = self.given(field)?;
        let read = given.as_str().and_then(|text| text.parse().ok());
        if read.is_none() {
            self.tell(field, "use a time such as 2030-01-31T12:00:00Z");
        }
        read
    }

    /// Wherever there is one first: with what happened, with what is known of the user, or as his id.
    fn address(&self, user_id: Option<&str>) -> Option<EmailAddress> {
        let at = |path: &[&str]| {
            let (first, rest) = path.split_first()?;
            rest.iter().try_fold(self.call.get(*first)?, |value, name| value.get(name))?.as_str()
        };
        let places = [
            at(&["properties", "email"]),
            at(&["traits", "email"]),
            at(&["context", "traits", "email"]),
            user_id,
        ];
        places.into_iter().flatten().find_map(|text| text.parse().ok())
    }
}
