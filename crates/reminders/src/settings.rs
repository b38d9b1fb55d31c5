//! What a workspace has set for its reminders.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidings_access::{Change, ClientId, Cx, Limit, Slug, StorageError, clients};
use tidings_kernel::{Condition, Expect, Item, Number, StoreError, Txn, tables};
use tidings_people::race;
use tidings_sql::{DatabaseError, Param};

use crate::ids::Kind;
use crate::money::{Currency, Money};
use crate::record::{damaged, time};
use crate::rules::Days;
use crate::templates;
use crate::wrong::{Found, Wrong, listed};
use crate::{case, keys};

/// The most drafts that can be approved at once.
pub const MAX_BATCH: u32 = 100;
/// The most days that a draft can wait: it is kept for 30.
pub const MAX_EXPIRES_AFTER: u32 = 28;

/// All of them. What is not set is as in `Settings::default()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub days: Days,
    /// Above these amounts two different people have to approve.
    pub two_person_above: BTreeMap<Currency, Number>,
    /// Over HTTP they need different keys, too: a name is only what a caller says. The command line names people.
    pub distinct_keys: bool,
    /// So many drafts can be approved at once: 1 to 100.
    pub batch_limit: u32,
    /// And so much of a currency together. What has no limit here is limited by number alone.
    pub batch_amount_limit: BTreeMap<Currency, Number>,
    /// A draft that nobody has decided about by then is expired: 1 to 28 days, since it is kept for 30.
    pub draft_expires_after: u32,
    /// The client that reminders are sent with. Without it the only one of the workspace.
    pub client: Option<Slug>,
    /// One of its senders. Without it the client's default.
    pub sender: Option<Slug>,
    pub policy: Policy,
}

/// Escalation: drafts the next reminder in time, and never sends one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub on: bool,
    /// Days after the earliest due date: 0 to 365.
    pub first_after_due: u32,
    /// Days after the one before.
    pub second_after: u32,
    pub final_after: u32,
    /// The templates of first, second and final. Without one the active one of its type.
    pub first_template: Option<String>,
    pub second_template: Option<String>,
    pub final_template: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the settings are wrong: {}", listed(.0))]
    Invalid(Vec<Wrong>),
    #[error("the settings could not be written")]
    Store(#[from] StorageError),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            days: Days::default(),
            two_person_above: BTreeMap::new(),
            distinct_keys: true,
            batch_limit: 25,
            batch_amount_limit: BTreeMap::new(),
            draft_expires_after: 14,
            client: None,
            sender: None,
            policy: Policy::default(),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on: false,
            first_after_due: 3,
            second_after: 7,
            final_after: 5,
            first_template: None,
            second_template: None,
            final_template: None,
        }
    }
}

/// What is stored and cannot be read is damage: nothing is decided by settings that nobody has set.
pub async fn get(cx: &Cx) -> Result<Settings, StorageError> {
    let found = cx.items().await?.get(&tables::EMAIL_TRACKING, &keys::settings()).await?;
    Ok(found.as_ref().map(read).transpose()?.unwrap_or_default())
}

/// Settings as somebody wrote them, in the form of `Settings::to_json`. What is left out is as by default; what nobody
/// understands is refused.
pub fn parse(json: &Value) -> Result<Settings, Vec<Wrong>> {
    let mut found = Found::default();
    let Some(given) = json.as_object() else {
        found.tell("settings", "use an object");
        return found.into_result().map(|()| Settings::default());
    };
    let settings = from_json(json);
    let taken = settings.to_json();
    for (name, value) in given {
        match (&taken[name], value) {
            (Value::Object(_), Value::Object(amounts)) if name.contains("_a") => {
                for (currency, amount) in amounts {
                    let good = currency.parse::<Currency>().is_ok()
                        && amount.as_str().is_some_and(|text| text.parse::<Number>().is_ok());
                    if !good {
                        let wrong = "use the code of a currency and a decimal as a text";
                        found.tell(format!("{name}.{currency}"), wrong);
                    }
                }
            }
            (Value::Object(known), Value::Object(inner)) => {
                for (field, value) in
                    inner.iter().filter(|(field, _)| !value_is(known, field, inner))
                {
                    found
                        .tell(format!("{name}.{field}"), refusal(known.contains_key(field), value));
                }
            }
            (known, value) if known == value => {}
            (_, value) => found.tell(name, refusal(taken.get(name).is_some(), value)),
        }
    }
    found.into_result().map(|()| settings)
}

fn value_is(known: &Map<String, Value>, field: &str, given: &Map<String, Value>) -> bool {
    known.get(field) == given.get(field)
}

fn refusal(is_known: bool, value: &Value) -> String {
    match is_known {
        true => format!("{value} is not understood: `GET` shows how it is written"),
        false => "there is no such setting".to_owned(),
    }
}

/// All of them at once. They hold for what is decided from now on. Doing it again changes nothing.
pub async fn put(cx: &Cx, settings: Settings) -> Result<Settings, PutError> {
    check(&settings).map_err(PutError::Invalid)?;
    named(cx, &settings).await?;
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let found = items.get(&tables::EMAIL_TRACKING, &keys::settings()).await;
        let found = found.map_err(StorageError::from)?;
        // Whatever cannot be read is replaced by this, and by nothing else.
        let before = found.as_ref().and_then(|item| read(item).ok());
        let known = before.clone().or(found.is_none().then(Settings::default));
        if known.as_ref() == Some(&settings) {
            return Ok(settings);
        }
        // The log tells from what to what, so nobody else's change may come between.
        let same = match found.as_ref().and_then(|item| item.text("settings")) {
            Some(text) => Condition::eq("settings", text),
            None => Condition::not_exists("settings"),
        };
        let mut item = tables::EMAIL_TRACKING.bare_item(&keys::settings());
        item.set("settings", settings.to_json().to_string());
        item.set("updated_at", time(cx.now()));
        let told = known.as_ref().map_or(Value::Null, Settings::to_json);
        let change = Change::new("reminders.settings", "reminder_settings", cx.workspace())
            .between(told, settings.to_json());
        let mut txn = Txn::new()
            .put(&tables::EMAIL_TRACKING, item, Expect::That(same))
            .enqueue(cx.audited(&change));
        // Those who owe something already are looked at as those who will.
        if settings.policy.on && known.is_none_or(|known| known.policy != settings.policy) {
            txn = txn.enqueue(case::arming(cx, None));
        }
        match items.transact(txn).await {
            Ok(()) => return Ok(settings),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(StorageError::from(error).into()),
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

impl Settings {
    /// How many different people have to approve so much.
    pub fn approvals_needed(&self, owed: &Money) -> u32 {
        let limit = self.two_person_above.get(&owed.currency);
        if limit.is_some_and(|limit| owed.amount > *limit) { 2 } else { 1 }
    }

    /// The client that reminders are sent with: the one that is set, else the only one that can send.
    pub(crate) async fn find_client(&self, cx: &Cx) -> Result<Option<ClientId>, StorageError> {
        let client = match &self.client {
            Some(slug) => match clients::find(cx, slug.clone()).await {
                Ok(client) => Some(client),
                Err(clients::FindError::Missing(_)) => None,
                Err(clients::FindError::Store(error)) => return Err(error.into()),
            },
            None => {
                let mut found = clients::list(cx, None, Limit::MAX).await?.items;
                found.retain(|client| client.disabled_at.is_none());
                if found.len() == 1 { found.pop() } else { None }
            }
        };
        Ok(client.filter(|client| client.disabled_at.is_none()).map(|client| client.id))
    }

    /// As it is shown, and as `parse` takes it.
    pub fn to_json(&self) -> Value {
        let amounts = |amounts: &BTreeMap<Currency, Number>| -> Value {
            let one = |(currency, amount): (&Currency, &Number)| {
                (currency.to_string(), Value::String(amount.to_string()))
            };
            Value::Object(amounts.iter().map(one).collect())
        };
        let (days, policy) = (&self.days, &self.policy);
        json!({
            "days": {
                "first_again": days.first_again,
                "second_again": days.second_again,
                "second_after_first": days.second_after_first,
                "final_again": days.final_again,
                "final_after_second": days.final_after_second,
            },
            "two_person_above": amounts(&self.two_person_above),
            "distinct_keys": self.distinct_keys,
            "batch_limit": self.batch_limit,
            "batch_amount_limit": amounts(&self.batch_amount_limit),
            "draft_expires_after": self.draft_expires_after,
            "client": self.client.as_ref().map(Slug::as_str),
            "sender": self.sender.as_ref().map(Slug::as_str),
            "policy": {
                "on": policy.on,
                "first_after_due": policy.first_after_due,
                "second_after": policy.second_after,
                "final_after": policy.final_after,
                "first_template": policy.first_template,
                "second_template": policy.second_template,
                "final_template": policy.final_template,
            },
        })
    }
}

impl Policy {
    pub fn template(&self, kind: Kind) -> Option<&str> {
        match kind {
            Kind::First => self.first_template.as_deref(),
            Kind::Second => self.second_template.as_deref(),
            Kind::Final => self.final_template.as_deref(),
        }
    }
}

/// What is not there is as by default, and what a newer node has besides means nothing to us. What is there and cannot be
/// read is damage: by default one person is enough.
fn read(item: &Item) -> Result<Settings, StoreError> {
    let json: Option<Value> =
        item.text("settings").and_then(|text| serde_json::from_str(text).ok());
    let json = json.filter(Value::is_object).ok_or_else(|| damaged("settings"))?;
    let settings = from_json(&json);
    let known = settings.to_json();
    let is_read = |name: &str| json.get(name).is_none_or(|stored| *stored == known[name]);
    if ["two_person_above", "batch_amount_limit", "distinct_keys"].into_iter().all(is_read) {
        Ok(settings)
    } else {
        Err(damaged("settings"))
    }
}

fn from_json(json: &Value) -> Settings {
    let mut settings = Settings::default();
    let number = |value: &Value, into: &mut u32| {
        if let Some(number) = value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            *into = number;
        }
    };
    let (days, policy) = (&mut settings.days, &mut settings.policy);
    for (name, into) in [
        ("first_again", &mut days.first_again),
        ("second_again", &mut days.second_again),
        ("second_after_first", &mut days.second_after_first),
        ("final_again", &mut days.final_again),
        ("final_after_second", &mut days.final_after_second),
    ] {
        number(&json["days"][name], into);
    }
    let amounts = |name: &str| -> BTreeMap<Currency, Number> {
        let fields = json[name].as_object().into_iter().flatten();
        fields
            .filter_map(|(code, amount)| Some((code.parse().ok()?, amount.as_str()?.parse().ok()?)))
            .collect()
    };
    settings.two_person_above = amounts("two_person_above");
    settings.batch_amount_limit = amounts("batch_amount_limit");
    settings.distinct_keys = json["distinct_keys"].as_bool().unwrap_or(true);
    number(&json["batch_limit"], &mut settings.batch_limit);
    number(&json["draft_expires_after"], &mut settings.draft_expires_after);
    settings.client = json["client"].as_str().and_then(|slug| slug.parse().ok());
    settings.sender = json["sender"].as_str().and_then(|slug| slug.parse().ok());
    let written = &json["policy"];
    policy.on = written["on"].as_bool().unwrap_or(false);
    number(&written["first_after_due"], &mut policy.first_after_due);
    number(&written["second_after"], &mut policy.second_after);
    number(&written["final_after"], &mut policy.final_after);
    for (name, into) in [
        ("first_template", &mut policy.first_template),
        ("second_template", &mut policy.second_template),
        ("final_template", &mut policy.final_template),
    ] {
        *into = written[name].as_str().map(ToOwned::to_owned);
    }
    settings
}

fn check(settings: &Settings) -> Result<(), Vec<Wrong>> {
    let mut found = Found::default();
    let (days, policy) = (&settings.days, &settings.policy);
    for (field, number, low, high) in [
        ("days.first_again", days.first_again, 1, 365),
        ("days.second_again", days.second_again, 1, 365),
        ("days.second_after_first", days.second_after_first, 1, 365),
        ("days.final_again", days.final_again, 1, 365),
        ("days.final_after_second", days.final_after_second, 1, 365),
        ("batch_limit", settings.batch_limit, 1, MAX_BATCH),
        ("draft_expires_after", settings.draft_expires_after, 1, MAX_EXPIRES_AFTER),
        ("policy.first_after_due", policy.first_after_due, 0, 365),
        ("policy.second_after", policy.second_after, 1, 365),
        ("policy.final_after", policy.final_after, 1, 365),
    ] {
        if !(low..=high).contains(&number) {
            found.tell(field, format!("use a number from {low} to {high}"));
        }
    }
    for (field, amounts) in [
        ("two_person_above", &settings.two_person_above),
        ("batch_amount_limit", &settings.batch_amount_limit),
    ] {
        for (currency, amount) in amounts {
            if *amount < Number::ZERO || amount.to_string().len() > 20 {
                found.tell(format!("{field}.{currency}"), "use a decimal of 0 or more");
            }
        }
    }
    if settings.sender.is_some() && settings.client.is_none() {
        found.tell("client", "name the client whose sender this is");
    }
    found.into_result()
}

/// What they name has to be there: whoever sets it hears it now, and not when a reminder cannot be sent.
async fn named(cx: &Cx, settings: &Settings) -> Result<(), PutError> {
    let mut found = Found::default();
    if let Some(slug) = &settings.client {
        match settings.find_client(cx).await? {
            None => found.tell("client", format!("there is no client {slug} that can send")),
            Some(client) => {
                if let Some(sender) = &settings.sender
                    && !has_sender(cx, client, Some(sender)).await?
                {
                    found.tell("sender", format!("client {slug} has no sender {sender}"));
                }
            }
        }
    }
    for kind in Kind::ALL {
        let Some(id) = settings.policy.template(kind) else { continue };
        if templates::find_active(cx, id).await?.is_none() {
            found.tell(format!("policy.{kind}_template"), format!("there is no template {id}"));
        }
    }
    found.into_result().map_err(PutError::Invalid)
}

/// Whether a client has this sender, or a default one.
pub(crate) async fn has_sender(
    cx: &Cx,
    client: ClientId,
    sender: Option<&Slug>,
) -> Result<bool, StorageError> {
    let (workspace, sender) = (cx.workspace_id().get(), sender.cloned());
    let find = cx.database().read(move |tx| {
        let which = if sender.is_some() { "slug = $3" } else { "is_default = 1 AND $3 = $3" };
        let sql = format!(
            "SELECT 1 FROM senders WHERE workspace_id = $1 AND client_id = $2 AND {which} LIMIT 1"
        );
        let slug = sender.as_ref().map_or("", Slug::as_str);
        let params = [Param::Int(workspace), Param::Int(client.get()), Param::Text(slug)];
        Ok::<_, DatabaseError>(!tx.query(&sql, &params)?.is_empty())
    });
    Ok(find.await?)
}
