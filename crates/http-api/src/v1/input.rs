//! What callers send, checked as a whole: one answer names everything that is wrong with it, unknown fields too.

use std::fmt::Display;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::{KeyId, Limit, Slug};

use super::V1;
use crate::problem::{Problem, Violation};

/// So many violations are told, and of the rest how many there are: each is larger than what caused it, so a body
/// full of mistakes would cost many times its own size.
const TOLD: usize = 50;

/// So many of each row, where rows are read by themselves.
const TOLD_OF_EACH: usize = 5;

/// So many entries a list can have. The longest that anybody needs has one for each scope.
const ENTRIES: usize = 100;

/// So many characters of a field's name are told back: it can be as long as a body.
const NAME: usize = 100;

/// A JSON object that is a `T`.
pub(super) struct Body<T>(pub(super) T);

/// The same where everything may be left out: no body at all is an empty object.
pub(super) struct OptionalBody<T>(pub(super) T);

/// A query that is a `T`.
pub(super) struct Params<T>(pub(super) T);

/// Which part of a list is wanted: `limit` and `cursor` of the query.
pub(super) struct Listing<K> {
    pub(super) after: Option<K>,
    pub(super) limit: Limit,
}

/// Something that is read field by field. `None` means that a violation was noted.
pub(super) trait FromFields: Sized {
    fn from_fields(fields: &mut Fields) -> Option<Self>;
}

/// Something that was read by itself, or what is wrong with it.
pub(super) type ReadAlone<T> = Result<T, Vec<Violation>>;

/// The fields that nobody has asked for yet, and what was wrong with those before.
#[derive(Default)]
pub(super) struct Fields {
    rest: Map<String, Value>,
    known: Vec<&'static str>,
    violations: Vec<Violation>,
    /// Violations that were not noted, because there are enough.
    more: usize,
}

impl Fields {
    /// A text that must be there.
    pub(super) fn required<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        match self.take(name) {
            None => self.wrong(name, "this is required"),
            Some(value) => self.text(name, &value),
        }
    }

    /// A text that may be left out: the outer `None` means that it is there and wrong.
    pub(super) fn optional<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<Option<T>> {
        match self.take(name) {
            None => Some(None),
            Some(value) => self.text(name, &value).map(Some),
        }
    }

    /// A time that may be left out.
    pub(super) fn optional_time(&mut self, name: &'static str) -> Option<Option<Timestamp>> {
        match self.take(name) {
            None => Some(None),
            Some(value) => match value.as_str().and_then(|text| text.parse().ok()) {
                Some(at) => Some(Some(at)),
                None => self.wrong(name, "use a time such as 2030-01-31T12:00:00Z"),
            },
        }
    }

    /// A yes or no that may be left out.
    pub(super) fn optional_bool(&mut self, name: &'static str) -> Option<Option<bool>> {
        match self.take(name) {
            None => Some(None),
            Some(Value::Bool(value)) => Some(Some(value)),
            Some(_) => self.wrong(name, "use true or false"),
        }
    }

    /// A text that is set, or taken away by a null, or left as it is: the innermost is the text.
    pub(super) fn clearable<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<Option<Option<T>>> {
        if self.is_null(name) {
            self.take(name);
            return Some(Some(None));
        }
        self.optional(name).map(|given| given.map(Some))
    }

    /// A whole number that may be left out.
    pub(super) fn optional_integer(&mut self, name: &'static str) -> Option<Option<i64>> {
        match self.take(name) {
            None => Some(None),
            Some(value) => match value.as_i64() {
                Some(number) => Some(Some(number)),
                None => self.wrong(name, "use a whole number"),
            },
        }
    }

    /// A list of texts that must be there, and be neither empty nor longer than anybody needs.
    pub(super) fn required_list<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<Vec<T>> {
        match self.optional_list(name)? {
            Some(values) if values.is_empty() => {
                self.wrong(name, "use a list of at least one text")
            }
            Some(values) => Some(values),
            None => self.wrong(name, "this is required"),
        }
    }

    /// A list of texts that may be left out, or be empty.
    pub(super) fn optional_list<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<Option<Vec<T>>> {
        self.entries((name, ENTRIES), "texts", |fields, entry, value| fields.text(entry, &value))
    }

    /// An object that may be left out. Whoever asks checks what is in it.
    pub(super) fn optional_object(
        &mut self,
        name: &'static str,
    ) -> Option<Option<Map<String, Value>>> {
        match self.take(name) {
            None => Some(None),
            Some(Value::Object(object)) => Some(Some(object)),
            Some(_) => self.wrong(name, "use an object"),
        }
    }

    /// Whether the field is there and null, where that is not the same as nothing.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.rest.get(name).is_some_and(Value::is_null)
    }

    /// Whether there is such a field, for those who take one thing or another.
    pub(super) fn has(&self, name: &str) -> bool {
        self.rest.contains_key(name)
    }

    /// All fields that are left, for those who take what others have laid down and leave the rest alone.
    pub(super) fn everything(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.rest)
    }

    /// A list of objects that may be left out.
    pub(super) fn optional_objects<T: FromFields>(
        &mut self,
        name: &'static str,
    ) -> Option<Option<Vec<T>>> {
        self.entries((name, ENTRIES), "objects", Self::object)
    }

    /// A list of objects that must be there, with so many at most.
    pub(super) fn objects_up_to<T: FromFields>(
        &mut self,
        name: &'static str,
        most: usize,
    ) -> Option<Vec<T>> {
        match self.entries((name, most), "objects", Self::object)? {
            Some(values) => Some(values),
            None => self.wrong(name, "this is required"),
        }
    }

    /// A list that must be there, of which each object is read by itself: one that is wrong is told with what is wrong with
    /// it, and keeps no other from being read. The first of each pair is what was sent.
    pub(super) fn each_up_to<T: FromFields>(
        &mut self,
        name: &'static str,
        most: usize,
    ) -> Option<Vec<(Value, ReadAlone<T>)>> {
        let values = match self.take(name) {
            None => return self.wrong(name, "this is required"),
            Some(Value::Array(values)) if values.len() <= most => values,
            Some(_) => {
                return self.wrong(name, format_args!("use a list of at most {most} objects"));
            }
        };
        let read = |value: Value| {
            let mut alone = Self::default();
            let read = alone.object("", value.clone());
            let mut wrong = alone.violations;
            for one in &mut wrong {
                one.field = one.field.trim_start_matches('.').to_owned();
            }
            wrong.truncate(TOLD_OF_EACH);
            (value, read.ok_or(wrong))
        };
        Some(values.into_iter().map(read).collect())
    }

    /// Whatever it is. Whoever asks checks it.
    pub(super) fn value(&mut self, name: &'static str) -> Option<Value> {
        self.take(name)
    }

    /// A list of objects that must be there. It may be empty, but not longer than anybody needs.
    pub(super) fn objects<T: FromFields>(&mut self, name: &'static str) -> Option<Vec<T>> {
        match self.optional_objects(name)? {
            Some(values) => Some(values),
            None => self.wrong(name, "this is required"),
        }
    }

    fn entries<T>(
        &mut self,
        (name, most): (&'static str, usize),
        what: &str,
        read: impl Fn(&mut Self, &str, Value) -> Option<T>,
    ) -> Option<Option<Vec<T>>> {
        let values = match self.take(name) {
            None => return Some(None),
            Some(Value::Array(values)) if values.len() <= most => values,
            Some(_) => {
                return self.wrong(name, format_args!("use a list of at most {most} {what}"));
            }
        };
        let entries = values.into_iter().enumerate();
        let entries = entries.map(|(place, value)| read(self, &format!("{name}[{place}]"), value));
        // All of them first: the first mistake must not hide the second.
        let entries: Vec<Option<T>> = entries.collect();
        entries.into_iter().collect::<Option<_>>().map(Some)
    }

    fn object<T: FromFields>(&mut self, field: &str, value: Value) -> Option<T> {
        let Value::Object(rest) = value else { return self.wrong(field, "use an object") };
        let mut inner = Self { rest, known: Vec::new(), violations: Vec::new(), more: 0 };
        let read = T::from_fields(&mut inner);
        inner.tell_unknown();
        let good = inner.violations.is_empty();
        self.more += inner.more;
        for violation in inner.violations {
            self.wrong::<()>(&format!("{field}.{}", violation.field), violation.message);
        }
        read.filter(|_| good)
    }

    /// Of the fields that nobody has asked for.
    fn tell_unknown(&mut self) {
        let known = self.known.join(", ");
        for name in std::mem::take(&mut self.rest).keys() {
            self.wrong::<()>(name, format_args!("there is no such field; there are {known}"));
        }
    }

    /// Notes what a single field cannot know.
    pub(super) fn wrong<T>(&mut self, field: &str, message: impl Display) -> Option<T> {
        if self.violations.len() < TOLD {
            let field = field.chars().take(NAME).collect();
            self.violations.push(Violation { field, message: message.to_string() });
        } else {
            self.more += 1;
        }
        None
    }

    /// A null is as good as nothing.
    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.rest.remove(name).filter(|value| !value.is_null())
    }

    fn text<T: FromStr<Err: Display>>(&mut self, field: &str, value: &Value) -> Option<T> {
        match value.as_str().map(T::from_str) {
            Some(Ok(value)) => Some(value),
            Some(Err(error)) => self.wrong(field, error),
            None => self.wrong(field, "use a text"),
        }
    }

    pub(super) fn read<T: FromFields>(rest: Map<String, Value>) -> Result<T, Problem> {
        let mut fields = Self { rest, known: Vec::new(), violations: Vec::new(), more: 0 };
        let read = T::from_fields(&mut fields);
        fields.tell_unknown();
        match read {
            Some(read) if fields.violations.is_empty() => Ok(read),
            _ => Err(Problem::invalid_and_more(fields.violations, fields.more)),
        }
    }
}

impl<T: FromFields> FromRequest<V1> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, v1: &V1) -> Result<Self, Response> {
        check_json(&request).map_err(Problem::into_response)?;
        let bytes = Bytes::from_request(request, v1).await;
        let bytes = bytes.map_err(axum::response::IntoResponse::into_response)?;
        read_body(&bytes).map(Self).map_err(Problem::into_response)
    }
}

/// Nothing is nothing, whatever type it is said to have.
impl<T: FromFields> FromRequest<V1> for OptionalBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, v1: &V1) -> Result<Self, Response> {
        let is_json = check_json(&request);
        let bytes = Bytes::from_request(request, v1).await;
        let bytes = bytes.map_err(axum::response::IntoResponse::into_response)?;
        let read = if bytes.is_empty() {
            Fields::read(Map::new())
        } else {
            is_json.and_then(|()| read_body(&bytes))
        };
        read.map(Self).map_err(Problem::into_response)
    }
}

fn check_json(request: &Request) -> Result<(), Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "send JSON, with Content-Type: application/json";
    Err(Problem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

fn read_body<T: FromFields>(bytes: &[u8]) -> Result<T, Problem> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Fields::read(fields),
        Ok(_) => Err(Problem::from_status(
            StatusCode::UNPROCESSABLE_ENTITY,
            "the body must be a JSON object",
        )),
        Err(error) => Err(Problem::from_status(
            StatusCode::BAD_REQUEST,
            format!("the body is not JSON: {error}"),
        )),
    }
}

impl<K: Cursor> FromRequestParts<V1> for Listing<K> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, v1: &V1) -> Result<Self, Problem> {
        Params::from_request_parts(parts, v1).await.map(|Params(listing)| listing)
    }
}

impl<T: FromFields> FromRequestParts<V1> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &V1) -> Result<Self, Problem> {
        read_query(parts).map(Self)
    }
}

fn read_query<T: FromFields>(parts: &Parts) -> Result<T, Problem> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let Query(pairs) =
        pairs.map_err(|error| Problem::from_status(StatusCode::BAD_REQUEST, error))?;
    Fields::read(pairs.into_iter().map(|(name, value)| (name, value.into())).collect())
}

impl<K: Cursor> FromFields for Listing<K> {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let limit = fields.optional("limit");
        let after = match fields.optional::<String>("cursor")? {
            None => Some(None),
            Some(text) => match read_cursor(&text) {
                Some(key) => Some(Some(key)),
                None => fields.wrong("cursor", "use a next_cursor of the same list"),
            },
        };
        Some(Self { after: after?, limit: limit?.unwrap_or_default() })
    }
}

/// A key that a list is ordered by. Callers see it as a text without a meaning.
pub(super) trait Cursor: Sized {
    /// Each list its own, or a cursor of another list would be taken for one of this.
    const LIST: &'static str;

    fn to_text(&self) -> String;
    fn from_text(text: &str) -> Option<Self>;
}

impl Cursor for Slug {
    const LIST: &'static str = "clients";

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// The ids of rows are all read alike.
macro_rules! lists_by_id {
    ($($id:ty: $list:literal,)*) => {$(
        impl Cursor for $id {
            const LIST: &'static str = $list;

            fn to_text(&self) -> String {
                self.get().to_string()
            }

            fn from_text(text: &str) -> Option<Self> {
                text.parse::<i64>().ok().filter(|id| *id > 0).map(Self::from)
            }
        }
    )*};
}

lists_by_id! {
    KeyId: "keys",
    tidings_leads::identity::FlagId: "contact-flags",
    tidings_leads::identity::MergeId: "contact-merges",
    tidings_delivery::capture::CapturedId: "captured",
    tidings_delivery::transactional::MessageId: "messages",
    tidings_outreach::campaigns::CampaignId: "campaigns",
    tidings_outreach::campaigns::MoveId: "campaign-history",
    tidings_outreach::campaigns::RecipientId: "campaign-recipients",
    tidings_people::consent::proof::ProofId: "consent",
    tidings_webhooks::EndpointId: "webhooks",
    tidings_webhooks::DeliveryId: "webhook-deliveries",
}

impl Cursor for tidings_delivery::templates::TemplateKey {
    const LIST: &'static str = "templates";

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

pub(super) fn cursor_text<K: Cursor>(key: &K) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{}:{}", K::LIST, key.to_text()))
}

pub(super) fn read_cursor<K: Cursor>(text: &str) -> Option<K> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    K::from_text(text.strip_prefix(K::LIST)?.strip_prefix(':')?)
}
