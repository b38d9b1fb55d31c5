//! Templates of reminders: what they say, with variables for who owes what. A version never changes.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_delivery::canonical;
use tidings_kernel::{Condition, Expect, Item, Key, Query, StoreError, Txn, tables};
use tidings_people::race;
use tidings_templates::{Part, Source, compile};

use crate::drafting::{Customer, Facts, MAX_CONTENT};
use crate::ids::Kind;
use crate::keys;
use crate::money::Money;
use crate::record::{ContentType, Invoice, damaged, time, whole};
use crate::wrong::{Found, Wrong, listed};

/// The most versions of one template.
const MAX_VERSIONS: i64 = 500;
/// So many templates are listed.
const MOST: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub id: String,
    pub name: String,
    /// What it is for. `None` for any of them.
    pub kind: Option<Kind>,
    pub subject: String,
    pub body: String,
    pub content_type: ContentType,
    pub branding: Option<String>,
    pub version: i64,
    pub created_at: Timestamp,
    /// Whether it is the newest version.
    pub active: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// 1 to 64 lower-case letters, digits, `_` and `-`.
    pub id: String,
    pub name: String,
    pub kind: Option<Kind>,
    /// Liquid.
    pub subject: String,
    /// Liquid.
    pub body: String,
    pub content_type: ContentType,
    pub branding: Option<String>,
}

/// A template with these facts, and what it needs and nobody gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub version: i64,
    pub subject: String,
    pub content: String,
    pub content_type: ContentType,
    pub missing: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the template is wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("the template could not be written")]
    Store(#[from] StorageError),
}

#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("there is no template {0}")]
    Missing(String),
    #[error("the template cannot be rendered: {0}")]
    Render(String),
    #[error("the template could not be read")]
    Store(#[from] StorageError),
}

/// Makes the next version, which is the active one from now on. The same again makes none.
pub async fn put(cx: &Cx, put: Put) -> Result<Template, PutError> {
    check(&put).map_err(PutError::Invalid)?;
    let items = cx.items().await?;
    // Templates of mails are in the same partitions, and have a pointer besides their versions.
    let pointer = Key::new(keys::template(&put.id), "CURRENT");
    let taken = items.get(&tables::EMAIL_TRACKING, &pointer).await.map_err(StorageError::from)?;
    if taken.is_some() {
        let message = "a template of mails has this name; use another id".to_owned();
        return Err(PutError::Invalid(vec![Wrong { field: "id".to_owned(), message }]));
    }
    for _ in 0..race::ATTEMPTS {
        let newest = find_active(cx, &put.id).await?;
        let newest = newest.as_ref();
        if let Some(same) = newest.filter(|newest| newest.is(&put)) {
            return Ok(same.clone());
        }
        let made = Template {
            id: put.id.clone(),
            name: put.name.clone(),
            kind: put.kind,
            subject: put.subject.clone(),
            body: put.body.clone(),
            content_type: put.content_type,
            branding: put.branding.clone(),
            version: newest.map_or(1, |newest| newest.version + 1),
            created_at: whole(cx.now()),
            active: true,
        };
        if made.version > MAX_VERSIONS {
            let wrong = format!("it has {MAX_VERSIONS} versions already; use another id");
            return Err(PutError::Invalid(vec![Wrong { field: "id".to_owned(), message: wrong }]));
        }
        let pointer =
            tables::EMAIL_TRACKING.bare_item(&keys::active(&made.id)).with("version", made.version);
        let mut txn = Txn::new().put(&tables::EMAIL_TRACKING, made.to_item(), Expect::Absent).put(
            &tables::EMAIL_TRACKING,
            pointer,
            Expect::Anything,
        );
        if let Some(before) = newest {
            let retired = Template { active: false, ..before.clone() };
            let is_active = Expect::That(Condition::eq("status", "active"));
            txn = txn.put(&tables::EMAIL_TRACKING, retired.to_item(), is_active);
        }
        let change = Change::new("reminders.template", "reminder_template", &made.id)
            .between(newest.map_or(Value::Null, Template::told), made.told());
        match items.transact(txn.enqueue(cx.audited(&change))).await {
            Ok(()) => return Ok(made),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(StorageError::from(error).into()),
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

/// The active version, or this one.
pub async fn get(cx: &Cx, id: &str, version: Option<i64>) -> Result<Template, GetError> {
    let missing = || GetError::Missing(id.to_owned());
    if !is_id(id) {
        return Err(missing());
    }
    let Some(version) = version else {
        return find_active(cx, id).await?.ok_or_else(missing);
    };
    let items = cx.items().await?;
    let found = items.get(&tables::EMAIL_TRACKING, &keys::version(id, version)).await;
    let found = found.map_err(StorageError::from)?.filter(is_ours).ok_or_else(missing)?;
    Ok(Template::read(&found).map_err(StorageError::from)?)
}

/// The active version of each.
pub async fn list(cx: &Cx) -> Result<Vec<Template>, StorageError> {
    let query = Query::new(&tables::EMAIL_TRACKING, keys::status("active")).index(keys::INDEX);
    let mut all = whole_list(cx, query).await?;
    all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(all)
}

/// All versions of one, the newest first.
pub async fn versions(cx: &Cx, id: &str) -> Result<Vec<Template>, StorageError> {
    if !is_id(id) {
        return Ok(Vec::new());
    }
    let query = Query::new(&tables::EMAIL_TRACKING, keys::template(id)).begins_with(keys::VERSION);
    let mut all = whole_list(cx, query).await?;
    all.sort_by_key(|template| std::cmp::Reverse(template.version));
    Ok(all)
}

/// What a draft from it would say. Without facts it is made with examples.
pub async fn preview(
    cx: &Cx,
    id: &str,
    kind: Kind,
    about: Option<(Customer, Facts)>,
    variables: &Map<String, Value>,
) -> Result<Preview, GetError> {
    let template = get(cx, id, None).await?;
    let (customer, facts) = about.unwrap_or_else(|| example(cx.now()));
    let known = variables_of(&customer, &facts, kind, cx.now());
    let known: Map<_, _> = known.into_iter().chain(variables.clone()).collect();
    let rendered = template.render(&known).map_err(GetError::Render)?;
    Ok(Preview {
        version: template.version,
        subject: rendered.subject,
        content: rendered.content,
        content_type: template.content_type,
        missing: rendered.missing,
    })
}

/// The newest version, found by what points to it: a template can have hundreds, and a file of drafts asks for each line.
pub(crate) async fn find_active(cx: &Cx, id: &str) -> Result<Option<Template>, StorageError> {
    if !is_id(id) {
        return Ok(None);
    }
    let items = cx.items().await?;
    let pointer = items.get(&tables::EMAIL_TRACKING, &keys::active(id)).await?;
    let Some(pointer) = pointer else { return Ok(None) };
    let version = pointer.integer("version").ok_or_else(|| damaged("version"))?;
    let found = items.get(&tables::EMAIL_TRACKING, &keys::version(id, version)).await?;
    Ok(found.filter(is_ours).as_ref().map(Template::read).transpose()?)
}

/// The active one that is made for this kind. Of several the one that is first by its id.
pub(crate) async fn find_for(cx: &Cx, kind: Kind) -> Result<Option<Template>, StorageError> {
    Ok(list(cx).await?.into_iter().find(|template| template.kind == Some(kind)))
}

/// And not a template of mails, which is kept beside them and says nothing of its type.
fn is_ours(item: &Item) -> bool {
    item.text("content_type").is_some()
}

async fn whole_list(cx: &Cx, query: Query) -> Result<Vec<Template>, StorageError> {
    let items = cx.items().await?;
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = items.query(query.clone().after(cursor)).await?;
        for item in page.items.iter().filter(|item| is_ours(item)) {
            all.push(Template::read(item)?);
        }
        cursor = page.cursor;
        if cursor.is_none() || all.len() >= MOST {
            return Ok(all);
        }
    }
}

/// What a template says with some variables.
pub(crate) struct Said {
    pub(crate) subject: String,
    pub(crate) content: String,
    /// What it names and nobody gives.
    pub(crate) missing: Vec<String>,
}

impl Template {
    /// Else it tells why it cannot be rendered.
    pub(crate) fn render(&self, variables: &Map<String, Value>) -> Result<Said, String> {
        let compiled =
            compile(&source(&self.subject, &self.body, self.content_type), &BTreeMap::new());
        let compiled = compiled.map_err(|faults| {
            faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })?;
        let named = compiled.variables().into_iter();
        let missing = named.filter(|path| !is_given(variables, path)).collect();
        let rendered = compiled.render(variables).map_err(|error| error.to_string())?;
        let content = match self.content_type {
            ContentType::Text => rendered.text,
            ContentType::Html => rendered.html.unwrap_or_default(),
        };
        Ok(Said { subject: rendered.subject, content, missing })
    }

    fn is(&self, put: &Put) -> bool {
        self.name == put.name
            && self.kind == put.kind
            && self.subject == put.subject
            && self.body == put.body
            && self.content_type == put.content_type
            && self.branding == put.branding
    }

    /// Of a template nothing is personal, and its text is long: a hash of it does.
    fn told(&self) -> Value {
        json!({
            "version": self.version,
            "kind": self.kind.map(Kind::as_str),
            "content_type": self.content_type.as_str(),
            "hash": canonical::hash(&json!([self.name, self.subject, self.body, self.branding])),
        })
    }

    fn to_item(&self) -> Item {
        let mut item = tables::EMAIL_TRACKING.bare_item(&keys::version(&self.id, self.version));
        let status = if self.active { "active" } else { "retired" };
        item.set("GSI1PK", keys::status(status));
        item.set("GSI1SK", time(self.created_at));
        item.set("template_id", self.id.as_str());
        item.set("template_name", self.name.as_str());
        let kind = self.kind.map_or("any".to_owned(), |kind| format!("{kind}_reminder"));
        item.set("template_type", kind);
        item.set("subject_template", self.subject.as_str());
        item.set("body_template", self.body.as_str());
        item.set("status", status);
        item.set("created_date", time(self.created_at));
        item.set("version", self.version);
        item.set("content_type", self.content_type.as_str());
        if let Some(branding) = &self.branding {
            item.set("branding", branding.as_str());
        }
        item
    }

    fn read(item: &Item) -> Result<Self, StoreError> {
        let text = |name: &str| item.text(name).ok_or_else(|| damaged(name)).map(ToOwned::to_owned);
        let kind = text("template_type")?;
        Ok(Self {
            id: text("template_id")?,
            name: text("template_name")?,
            kind: kind.strip_suffix("_reminder").and_then(|kind| kind.parse().ok()),
            subject: text("subject_template")?,
            body: text("body_template")?,
            content_type: ContentType::parse(&text("content_type")?).unwrap_or(ContentType::Text),
            branding: item.text("branding").map(ToOwned::to_owned),
            version: item.integer("version").ok_or_else(|| damaged("version"))?,
            created_at: text("created_date")?.parse().map_err(|_| damaged("created_date"))?,
            active: item.text("status") == Some("active"),
        })
    }
}

fn source(subject: &str, body: &str, content_type: ContentType) -> Source {
    let (html, text) = match content_type {
        ContentType::Html => (Some(body.to_owned()), None),
        ContentType::Text => (None, Some(body.to_owned())),
    };
    Source { subject: subject.to_owned(), html, text, ..Source::default() }
}

fn is_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    (1..=64).contains(&id.len()) && id.chars().all(allowed)
}

fn check(put: &Put) -> Result<(), Vec<Wrong>> {
    let mut found = Found::default();
    if !is_id(&put.id) {
        found.tell("id", "use 1 to 64 lower-case letters, digits, `_` and `-`");
    }
    found.line("name", &put.name, 100);
    if let Some(branding) = &put.branding {
        found.line("branding", branding, 100);
    }
    if put.body.len() > MAX_CONTENT {
        found.tell("body", format!("use at most {MAX_CONTENT} bytes"));
    }
    match compile(&source(&put.subject, &put.body, put.content_type), &BTreeMap::new()) {
        Ok(_) => {}
        Err(faults) => {
            for fault in faults {
                let field = if fault.part == Part::Subject { "subject" } else { "body" };
                let place = match (fault.line, fault.column) {
                    (Some(line), Some(column)) => format!("line {line}, column {column}: "),
                    _ => String::new(),
                };
                found.tell(field, format!("{place}{}", fault.message));
            }
        }
    }
    found.into_result()
}

/// What every template can name. Only what is known is there: a reminder must have no gaps.
pub(crate) fn variables_of(
    customer: &Customer,
    facts: &Facts,
    kind: Kind,
    now: Timestamp,
) -> Map<String, Value> {
    let today = TimeZone::UTC.to_datetime(now).date();
    let invoices = facts.invoices.iter().map(|invoice| {
        let mut one = Map::new();
        one.insert("id".to_owned(), invoice.id.as_str().into());
        if let Some(money) = &invoice.amount {
            one.insert("amount".to_owned(), money.digits().into());
        }
        if let Some(due) = invoice.due {
            one.insert("due".to_owned(), due.to_string().into());
        }
        Value::Object(one)
    });
    let ids: Vec<_> = facts.invoices.iter().map(|invoice| invoice.id.as_str()).collect();
    let due = facts.invoices.iter().filter_map(|invoice| invoice.due).min();
    let known = json!({
        "customer_id": customer.id.as_str(),
        "customer_name": customer.name,
        "customer_email": customer.email.typed(),
        "reminder_type": kind.as_str(),
        "overdue_amount": facts.owed.digits(),
        "currency": facts.owed.currency.as_str(),
        "amount_due": facts.owed.to_string(),
        "invoice_id": ids.first(),
        "invoice_ids": ids.join(", "),
        "invoice_count": ids.len(),
        "invoices": invoices.collect::<Vec<_>>(),
        "due_date": due.map(|due| due.to_string()),
        "days_overdue": due.map(|due| (today - due).get_days().max(0)),
        "today": today.to_string(),
    });
    let mut known = known.as_object().cloned().unwrap_or_default();
    known.retain(|_, value| !value.is_null());
    known
}

/// Of a list something is given if it has anything in it: which of its places is asked for is known when it is rendered.
fn is_given(variables: &Map<String, Value>, path: &str) -> bool {
    let mut steps = path.split('.');
    let Some(mut here) = steps.next().and_then(|root| variables.get(root)) else { return false };
    for step in steps {
        match here {
            Value::Array(list) => return !list.is_empty(),
            Value::String(_) if step == "size" => return true,
            other => match other.get(step) {
                Some(value) => here = value,
                None => return false,
            },
        }
    }
    match here {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

fn example(now: Timestamp) -> (Customer, Facts) {
    let money = |amount: &str| Money::new(amount, "EUR").expect("a good example");
    let due = TimeZone::UTC.to_datetime(now).date().saturating_sub(14.days());
    let invoice = |id: &str, amount: &str| Invoice {
        id: id.parse().expect("a good example"),
        amount: Some(money(amount)),
        due: Some(due),
    };
    let customer = Customer {
        id: "cust_001".parse().expect("a good example"),
        name: "John Doe".to_owned(),
        email: "john@example.com".parse().expect("a good example"),
    };
    let invoices = vec![invoice("INV-001", "1000.00"), invoice("INV-002", "500.00")];
    (customer, Facts { owed: money("1500.00"), invoices })
}
