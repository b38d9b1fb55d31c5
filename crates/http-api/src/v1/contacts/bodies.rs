//! What is sent and answered under `/v1/contacts`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::Slug;
use tidings_kernel::EmailAddress;
use tidings_people::contacts::{
    After, Attributes, Change, Contact, ContactId, Edit, Everything, Execution, Filter, FirstName,
    Identity, Sent, Standing, Subscribed, Tag, TagChange, TopicPreference, Update, Zone,
};
use utoipa::ToSchema;

use crate::v1::input::{Cursor, Fields, FromFields, Listing};
use crate::v1::suppressions::SuppressionBody;

#[derive(Serialize, ToSchema)]
#[schema(as = Contact)]
pub(in crate::v1) struct ContactBody {
    #[schema(minimum = 1)]
    id: i64,
    /// As it is compared: in lower case, the domain in ASCII
    #[schema(format = Email, example = "ada@example.org")]
    email: String,
    /// As it was written first
    #[schema(example = "Ada@Example.org")]
    typed_email: String,
    #[schema(example = "Ada")]
    first_name: Option<String>,
    #[schema(value_type = Object, example = json!({"plan": "pro"}))]
    attributes: BTreeMap<String, Value>,
    #[schema(example = json!(["beta"]))]
    tags: BTreeSet<String>,
    /// The IANA name of the time zone
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// From everything
    unsubscribed: bool,
    /// Nothing is ever sent there
    suppressed: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactWithEverything)]
pub(in crate::v1) struct EverythingBody {
    #[serde(flatten)]
    contact: ContactBody,
    suppression: Option<SuppressionBody>,
    identities: Vec<IdentityBody>,
    subscriptions: Vec<SubscribedBody>,
    topics: Vec<TopicBody>,
    /// The sequences that run
    executions: Vec<ExecutionBody>,
    /// The last 20 mails, the newest first
    sent: Vec<SentBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactIdentity)]
pub(in crate::v1) struct IdentityBody {
    #[schema(example = "email")]
    channel: String,
    value: String,
    typed_value: String,
    /// `valid`, `invalid`, `risky` or `unknown`
    validation_status: &'static str,
    validation_reason: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    validated_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    bounced_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    complained_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactSubscription)]
struct SubscribedBody {
    audience: String,
    /// Null if it is to the whole audience
    client: Option<String>,
    /// `pending`, `subscribed` or `unsubscribed`
    status: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    unsubscribed_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactTopic)]
struct TopicBody {
    topic: String,
    /// `on` or `off`
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactExecution)]
struct ExecutionBody {
    sequence: String,
    /// What the execution is known by
    #[schema(example = "tidings:execution:onboarding:01k5m4")]
    execution_arn: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactMail)]
struct SentBody {
    #[schema(example = "t-101")]
    message: Option<String>,
    provider_message_id: Option<String>,
    template: Option<String>,
    subject: Option<String>,
    sequence: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    sent_at: Option<Timestamp>,
}

#[derive(ToSchema)]
pub(in crate::v1) struct NewContact {
    #[schema(value_type = String, format = Email, min_length = 3, max_length = 254, example = "ada@example.org")]
    email: EmailAddress,
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100, example = "Ada")]
    first_name: Option<FirstName>,
    /// The IANA name of the time zone: times of day and quiet hours are by it
    #[schema(value_type = Option<String>, max_length = 64, example = "Europe/Berlin")]
    timezone: Option<Zone>,
    /// Up to 100 by name (`[A-Za-z][A-Za-z0-9_]*`, up to 64 characters), 32 KB in all. Those that are not named stay; a null
    /// removes
    #[schema(value_type = Option<Object>, example = json!({"plan": "pro"}))]
    attributes: Attributes,
    /// All tags from now on; none if it is empty. At most one of `tags`, `add_tags` and `remove_tags`
    #[schema(value_type = Option<Vec<String>>, max_items = 45, example = json!(["beta"]))]
    tags: Option<BTreeSet<Tag>>,
    #[schema(value_type = Option<Vec<String>>, max_items = 45)]
    add_tags: Option<BTreeSet<Tag>>,
    #[schema(value_type = Option<Vec<String>>, max_items = 100)]
    remove_tags: Option<BTreeSet<Tag>>,
}

#[derive(ToSchema)]
pub(in crate::v1) struct ChangeContact {
    /// A null removes it
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100, example = "Ada")]
    first_name: Change<FirstName>,
    /// The IANA name of the time zone. A null removes it
    #[schema(value_type = Option<String>, max_length = 64, example = "Europe/Berlin")]
    timezone: Change<Zone>,
    /// Those that are not named stay; a null removes
    #[schema(value_type = Option<Object>, example = json!({"plan": null}))]
    attributes: Attributes,
    /// All tags from now on; none if it is empty. At most one of `tags`, `add_tags` and `remove_tags`
    #[schema(value_type = Option<Vec<String>>, max_items = 45, example = json!(["beta"]))]
    tags: Option<BTreeSet<Tag>>,
    #[schema(value_type = Option<Vec<String>>, max_items = 45)]
    add_tags: Option<BTreeSet<Tag>>,
    #[schema(value_type = Option<Vec<String>>, max_items = 100)]
    remove_tags: Option<BTreeSet<Tag>>,
}

#[derive(ToSchema)]
pub(in crate::v1) struct TagsBody {
    /// Up to 45
    #[schema(value_type = Vec<String>, max_items = 45, example = json!(["beta"]))]
    pub(super) tags: BTreeSet<Tag>,
}

/// What a list of contacts is asked for.
pub(in crate::v1) struct Wanted {
    pub(super) filter: Filter,
    pub(super) listing: Listing<After>,
}

impl FromFields for NewContact {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (email, first_name) = (fields.required("email"), fields.optional("first_name"));
        let timezone = fields.optional("timezone");
        let (attributes, tags) = (attributes(fields), tag_fields(fields));
        let [tags, add_tags, remove_tags] = tags?;
        let (email, first_name, timezone) = (email?, first_name?, timezone?);
        let attributes = attributes?;
        Some(Self { email, first_name, timezone, attributes, tags, add_tags, remove_tags })
    }
}

impl FromFields for ChangeContact {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let first_name = fields.clearable("first_name").map(changed);
        let timezone = fields.clearable("timezone").map(changed);
        let (attributes, tags) = (attributes(fields), tag_fields(fields));
        let [tags, add_tags, remove_tags] = tags?;
        let (first_name, timezone, attributes) = (first_name?, timezone?, attributes?);
        Some(Self { first_name, timezone, attributes, tags, add_tags, remove_tags })
    }
}

/// What is not named stays, and a null clears.
fn changed<T>(given: Option<Option<T>>) -> Change<T> {
    match given {
        Some(Some(value)) => Change::Set(value),
        Some(None) => Change::Clear,
        None => Change::Keep,
    }
}

impl FromFields for TagsBody {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match fields.optional_list("tags")? {
            Some(tags) => Some(Self { tags: tags.into_iter().collect() }),
            None => fields.wrong("tags", "this is required"),
        }
    }
}

impl FromFields for Wanted {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let standing = fields.optional::<StandingText>("status");
        let (tag, audience) = (fields.optional::<Tag>("tag"), fields.optional::<Slug>("audience"));
        let (name, value) = (up_to(fields, "attribute", 64), up_to(fields, "value", 1000));
        let listing = Listing::from_fields(fields);
        let attribute = match (name?, value?) {
            (Some(name), Some(value)) => Some((name, value)),
            (None, None) => None,
            (Some(_), None) => return fields.wrong("value", "this is required with attribute"),
            (None, Some(_)) => return fields.wrong("attribute", "this is required with value"),
        };
        let standing = standing?.map_or(Standing::All, |text| text.0);
        let filter = Filter { standing, tag: tag?, attribute, audience: audience? };
        Some(Self { filter, listing: listing? })
    }
}

fn up_to(fields: &mut Fields, name: &'static str, most: usize) -> Option<Option<String>> {
    match fields.optional::<String>(name)? {
        Some(text) if text.chars().count() > most => {
            fields.wrong(name, format_args!("use at most {most} characters"))
        }
        text => Some(text),
    }
}

/// The attributes among the fields of a person.
pub(in crate::v1) fn attributes(fields: &mut Fields) -> Option<Attributes> {
    let object = fields.optional_object("attributes")?.unwrap_or_default();
    match Attributes::parse(object) {
        Ok(attributes) => Some(attributes),
        Err(faults) => {
            for fault in faults {
                let field = match fault.name.as_str() {
                    "" => "attributes".to_owned(),
                    name => format!("attributes.{name}"),
                };
                fields.wrong::<()>(&field, fault.message);
            }
            None
        }
    }
}

fn tag_fields(fields: &mut Fields) -> Option<[Option<BTreeSet<Tag>>; 3]> {
    let names = ["tags", "add_tags", "remove_tags"];
    let read = names.map(|name| fields.optional_list::<Tag>(name));
    let [Some(all), Some(add), Some(remove)] = read else { return None };
    if [&all, &add, &remove].into_iter().flatten().count() > 1 {
        return fields.wrong("tags", "use only one of tags, add_tags and remove_tags");
    }
    Some([all, add, remove].map(|tags| tags.map(BTreeSet::from_iter)))
}

fn tag_change(fields: [Option<BTreeSet<Tag>>; 3]) -> Option<TagChange> {
    let [all, add, remove] = fields;
    let replaced = all.map(TagChange::Replace).or(add.map(TagChange::Add));
    replaced.or(remove.map(TagChange::Remove))
}

struct StandingText(Standing);

struct StandingError;

impl std::fmt::Display for StandingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("use all, active, unsubscribed or suppressed")
    }
}

impl std::str::FromStr for StandingText {
    type Err = StandingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self(Standing::All)),
            "active" => Ok(Self(Standing::Active)),
            "unsubscribed" => Ok(Self(Standing::Unsubscribed)),
            "suppressed" => Ok(Self(Standing::Suppressed)),
            _ => Err(StandingError),
        }
    }
}

impl Cursor for After {
    const LIST: &'static str = "contacts";

    fn to_text(&self) -> String {
        match self {
            Self::Email(email) => format!("email:{email}"),
            Self::Id(id) => format!("id:{id}"),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("email", email) => email.parse().ok().map(Self::Email),
            ("id", id) => {
                let id = id.parse::<i64>().ok().filter(|id| *id > 0)?;
                Some(Self::Id(ContactId::from(id)))
            }
            _ => None,
        }
    }
}

impl From<NewContact> for Update {
    fn from(new: NewContact) -> Self {
        let edit = Edit {
            first_name: new.first_name.map_or(Change::Keep, Change::Set),
            timezone: new.timezone.map_or(Change::Keep, Change::Set),
            attributes: new.attributes,
            tags: tag_change([new.tags, new.add_tags, new.remove_tags]),
        };
        Self { email: new.email, edit }
    }
}

impl From<ChangeContact> for Edit {
    fn from(change: ChangeContact) -> Self {
        let tags = tag_change([change.tags, change.add_tags, change.remove_tags]);
        let ChangeContact { first_name, timezone, attributes, .. } = change;
        Self { first_name, timezone, attributes, tags }
    }
}

impl From<Contact> for ContactBody {
    fn from(contact: Contact) -> Self {
        let attributes = contact.attributes.iter();
        let attributes = attributes
            .map(|(name, value)| (name.clone(), serde_json::to_value(value).unwrap_or_default()));
        Self {
            id: contact.id.get(),
            email: contact.email.to_string(),
            typed_email: contact.email.typed().to_owned(),
            first_name: contact.first_name,
            attributes: attributes.collect(),
            tags: contact.tags,
            timezone: contact.timezone,
            unsubscribed: contact.unsubscribed,
            suppressed: contact.suppressed,
            created_at: contact.created_at,
            updated_at: contact.updated_at,
        }
    }
}

impl From<Everything> for EverythingBody {
    fn from(everything: Everything) -> Self {
        Self {
            contact: everything.contact.into(),
            suppression: everything.suppression.map(Into::into),
            identities: everything.identities.into_iter().map(Into::into).collect(),
            subscriptions: everything.subscriptions.into_iter().map(Into::into).collect(),
            topics: everything.topics.into_iter().map(Into::into).collect(),
            executions: everything.executions.into_iter().map(Into::into).collect(),
            sent: everything.sent.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Identity> for IdentityBody {
    fn from(identity: Identity) -> Self {
        Self {
            channel: identity.channel,
            value: identity.value,
            typed_value: identity.typed,
            validation_status: identity.validation.as_str(),
            validation_reason: identity.validation_reason,
            validated_at: identity.validated_at,
            verified_at: identity.verified_at,
            bounced_at: identity.bounced_at,
            complained_at: identity.complained_at,
            created_at: identity.created_at,
        }
    }
}

impl From<Subscribed> for SubscribedBody {
    fn from(subscribed: Subscribed) -> Self {
        Self {
            audience: subscribed.audience,
            client: subscribed.client,
            status: subscribed.status,
            verified_at: subscribed.verified_at,
            unsubscribed_at: subscribed.unsubscribed_at,
            created_at: subscribed.created_at,
        }
    }
}

impl From<TopicPreference> for TopicBody {
    fn from(preference: TopicPreference) -> Self {
        let status = if preference.is_on { "on" } else { "off" };
        Self { topic: preference.topic, status, updated_at: preference.updated_at }
    }
}

impl From<Execution> for ExecutionBody {
    fn from(execution: Execution) -> Self {
        Self {
            sequence: execution.sequence,
            execution_arn: execution.execution_arn,
            started_at: execution.started_at,
        }
    }
}

impl From<Sent> for SentBody {
    fn from(sent: Sent) -> Self {
        Self {
            message: sent.message,
            provider_message_id: sent.provider_message_id,
            template: sent.template,
            subject: sent.subject,
            sequence: sent.sequence,
            sent_at: sent.sent_at,
        }
    }
}
