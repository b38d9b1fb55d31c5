//! What callers send to have a campaign.
//!
//! What can be read of one is decided where files are read too (`outreach::campaigns::written`); the types here that
//! nothing is read into describe that form.

use serde_json::{Map, Value};
use tidings_access::ClientId;
use tidings_kernel::EmailAddress;
use tidings_outreach::campaigns::control::When;
use tidings_outreach::campaigns::draft::Draft;
use tidings_outreach::campaigns::written::{self, FIELDS};
use utoipa::ToSchema;

use crate::v1::input::{Fields, FromFields};

/// A campaign as it was written, already known to be readable. Its client is who calls.
pub(crate) struct Written(Draft);

impl Written {
    pub(crate) fn of(self, client: ClientId) -> Draft {
        Draft { client, ..self.0 }
    }
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "`written` reads it; this says how it looks")]
pub(crate) struct NewCampaign {
    /// What you call it. Asking again with the same key and the same content gives the same campaign; its numbers are kept under it. Letters, digits and . _ : -, but not a number alone
    #[schema(max_length = 180, example = "spring-2030")]
    external_key: Option<String>,
    #[schema(min_length = 1, max_length = 200, example = "Spring sale")]
    name: String,
    /// Only those who are subscribed to this audience (its slug)
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$", example = "newsletter")]
    audience: Option<String>,
    /// Whoever has switched this topic off does not get it
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    topic: Option<String>,
    /// Whom it means: a condition over tags, attributes, features, memory, audiences and addresses, with `all`, `any` and `not`; everybody if left out
    #[schema(value_type = Option<Object>, example = json!({"all": [{"tag": "customer"}, {"not": {"attribute": "plan", "equals": "free"}}]}))]
    filter: Option<Map<String, Value>>,
    /// One of the client's senders; the template's or the client's default if left out
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    sender: Option<String>,
    /// The key of a stored template; either this, or a subject and a body. Its active version is frozen at the start
    #[schema(max_length = 200)]
    template: Option<String>,
    /// Liquid, like the bodies. With a template it stands in the place of the template's
    #[schema(max_length = 998)]
    subject: Option<String>,
    /// What a mailbox shows beside the subject
    #[schema(max_length = 998)]
    preview_text: Option<String>,
    html: Option<String>,
    /// Made from the HTML if left out
    text: Option<String>,
    /// Several contents, of which each person gets one, always the same
    #[schema(max_items = 10)]
    variants: Option<Vec<NewVariant>>,
    test: Option<NewTest>,
    /// `off`: links stay as they are, and there is no pixel
    #[schema(pattern = "^(on|off)$")]
    tracking: Option<String>,
    /// Your own notes: up to 16 KB
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// When it goes, within a year; either this or `local_time`
    #[schema(format = DateTime)]
    scheduled_at: Option<String>,
    /// A time without a zone: each person gets it when it is that time where they are
    #[schema(example = "2030-01-31T09:00")]
    local_time: Option<String>,
    /// The most messages of an hour
    #[schema(minimum = 1, maximum = 100_000_000)]
    rate_per_hour: Option<i64>,
    /// The most messages of the first day, of the second, and so on; after that there is no such limit
    #[schema(max_items = 90, example = json!([500, 1000, 2000]))]
    warmup: Option<Vec<i64>>,
}

/// What it does not say is as in the campaign.
#[derive(ToSchema)]
#[schema(as = NewCampaignVariant)]
#[expect(dead_code, reason = "`written` reads it; this says how it looks")]
pub(crate) struct NewVariant {
    #[schema(min_length = 1, max_length = 100, example = "short")]
    name: String,
    /// How many get it, in relation to the others; 1 if left out
    #[schema(minimum = 1, maximum = 1000)]
    weight: Option<i64>,
    #[schema(max_length = 200)]
    template: Option<String>,
    #[schema(max_length = 998)]
    subject: Option<String>,
}

/// Only a part gets the variants; the rest gets the one that did best.
#[derive(ToSchema)]
#[schema(as = NewCampaignTest)]
#[expect(dead_code, reason = "`written` reads it; this says how it looks")]
pub(crate) struct NewTest {
    /// How many of a hundred are part of the test
    #[schema(minimum = 1, maximum = 99, example = 20)]
    percent: i64,
    /// What the best one has most of, for each message sent; `opens` if left out
    #[schema(pattern = "^(opens|clicks)$")]
    metric: Option<String>,
    /// How long after the last of the test it is decided: a minute to 30 days
    #[schema(example = "4h")]
    wait: String,
}

/// Without anything in it, the campaign starts when it says itself, which is now if it says nothing.
#[derive(ToSchema)]
#[expect(dead_code, reason = "`NewStart` is read; this says how it looks")]
pub(crate) struct StartCampaign {
    /// Now, whatever it says itself
    now: Option<bool>,
    /// Then; one that has passed is now
    #[schema(format = DateTime)]
    scheduled_at: Option<String>,
    /// When it is that time where each person is
    #[schema(example = "2030-01-31T09:00")]
    local_time: Option<String>,
}

pub(crate) struct NewStart {
    pub(crate) when: Option<When>,
}

#[derive(ToSchema)]
#[schema(as = DuplicateCampaign)]
pub(crate) struct NewDuplicate {
    /// What you call the new one: the same again with the same key finds it
    #[schema(max_length = 180)]
    pub(crate) external_key: Option<String>,
    /// As before if left out
    #[schema(max_length = 200)]
    pub(crate) name: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = CampaignReason)]
pub(crate) struct NewReason {
    /// Why, for those who look later
    #[schema(max_length = 500)]
    pub(crate) reason: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = TestCampaign)]
pub(crate) struct NewTestSend {
    /// Whoever comes twice gets one
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 25, example = json!(["ada@example.org"]))]
    pub(crate) to: Vec<EmailAddress>,
    /// The name of one of its variants; all of them if left out
    #[schema(max_length = 100)]
    pub(crate) variant: Option<String>,
    /// Variables: up to 64 KB, and 8 deep. The template's examples stand in for what is absent
    #[schema(value_type = Option<Object>)]
    pub(crate) context: Map<String, Value>,
}

impl FromFields for Written {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let given =
            FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), fields.value(name)?)));
        let given = given.collect();
        // Whose it is follows from the key, later.
        match written::read(ClientId::from(0), given) {
            Ok(draft) => Some(Self(draft)),
            Err(wrong) => {
                for one in wrong {
                    fields.wrong::<()>(&one.field, one.message);
                }
                None
            }
        }
    }
}

impl FromFields for NewStart {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let now = fields.optional_bool("now");
        let times = ["scheduled_at", "local_time"];
        let times =
            times.into_iter().filter_map(|name| Some((name.to_owned(), fields.value(name)?)));
        let schedule = match written::read_schedule(times.collect()) {
            Ok(schedule) => schedule,
            Err(wrong) => {
                for one in wrong {
                    fields.wrong::<()>(&one.field, one.message);
                }
                return None;
            }
        };
        let when = match (now?, schedule) {
            (Some(true), Some(_)) => return fields.wrong("now", "use either now or a time"),
            (Some(true), None) => Some(When::Now),
            (_, schedule) => schedule.map(When::Then),
        };
        Some(Self { when })
    }
}

impl FromFields for NewDuplicate {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (external_key, name) = (fields.optional("external_key"), fields.optional("name"));
        Some(Self { external_key: external_key?, name: name? })
    }
}

impl FromFields for NewReason {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self { reason: fields.optional("reason")? })
    }
}

impl FromFields for NewTestSend {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (to, variant) = (fields.required_list("to"), fields.optional("variant"));
        let context = fields.optional_object("context");
        Some(Self { to: to?, variant: variant?, context: context?.unwrap_or_default() })
    }
}
