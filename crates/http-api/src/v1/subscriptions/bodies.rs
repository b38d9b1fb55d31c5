//! What is said of subscriptions on the wire, and what callers write.

use std::net::IpAddr;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;
use tidings_access::Slug;
use tidings_kernel::EmailAddress;
use tidings_people::consent::subscriptions::{Outcome, Subscription};
use tidings_people::consent::{Act, By, Line, Proof};
use utoipa::ToSchema;

use crate::v1::confirmation::ConfirmationBody;
use crate::v1::input::{Fields, FromFields};

#[derive(Serialize, ToSchema)]
#[schema(as = Subscription)]
pub(in crate::v1) struct SubscriptionBody {
    #[schema(minimum = 1)]
    pub(super) id: i64,
    #[schema(example = "news")]
    pub(super) audience: String,
    /// Whose mail to the audience it is about; null means everybody's
    #[schema(example = "shop")]
    pub(super) client: Option<String>,
    #[schema(value_type = String, pattern = "^(pending|subscribed|unsubscribed)$")]
    pub(super) status: &'static str,
    /// Where it came from first
    pub(super) source: Option<String>,
    /// When the person has shown that it reads the mail to its address
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) verified_at: Option<Timestamp>,
    /// When the person last agreed
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) agreed_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) unsubscribed_at: Option<Timestamp>,
    pub(super) unsubscribe_reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(super) updated_at: Timestamp,
}

/// How things stand afterwards.
#[derive(Serialize, ToSchema)]
#[schema(as = SubscriptionOutcome)]
pub(in crate::v1) struct OutcomeBody {
    #[schema(minimum = 1)]
    pub(super) contact_id: i64,
    /// The one that was meant, if there is one now
    pub(super) subscription: Option<SubscriptionBody>,
    /// The person wants nothing but transactional mail, whatever the subscription says
    pub(super) unsubscribed_from_everything: bool,
    /// A confirmation is waited for
    pub(super) to_confirm: bool,
    /// The mail that asks for it, if this call was to send one
    pub(super) confirmation: Option<ConfirmationBody>,
    /// Whether anything changed
    pub(super) changed: bool,
}

/// Who it is, from where and why.
pub(super) struct Said {
    pub(super) email: EmailAddress,
    pub(super) by: Option<By>,
    pub(super) source: Option<Line>,
    pub(super) reason: Option<Line>,
    pub(super) proof: Proof,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `ToSubscribe` reads")]
pub(in crate::v1) struct NewSubscription {
    /// Whom. A contact is made if there is none
    #[schema(format = "email", max_length = 254, example = "ada@example.org")]
    pub(super) email: String,
    #[schema(example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    pub(super) audience: String,
    /// To the mail of one client; left out, it is to the whole audience
    #[schema(example = "shop", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    pub(super) client: Option<String>,
    /// The person has confirmed it already, and you have the proof
    pub(super) confirmed: Option<bool>,
    /// Who acts: `import` (default) never brings back what was taken back, `person` does, and `operator` does with a
    /// `reason`
    #[schema(pattern = "^(person|operator|import)$")]
    pub(super) by: Option<String>,
    /// Where it comes from: a form, a page, an import; `api` if left out
    #[schema(min_length = 1, max_length = 200)]
    pub(super) source: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub(super) reason: Option<String>,
    /// The person's address on the network, as proof
    #[schema(example = "203.0.113.7")]
    pub(super) ip: Option<String>,
    /// The person's browser, as proof; 500 characters of it are kept
    #[schema(min_length = 1, max_length = 2000)]
    pub(super) user_agent: Option<String>,
    /// Which version of your words the person agreed to
    #[schema(min_length = 1, max_length = 200)]
    pub(super) text_version: Option<String>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `ToChange` reads")]
pub(in crate::v1) struct ScopeChange {
    #[schema(format = "email", max_length = 254, example = "ada@example.org")]
    pub(super) email: String,
    /// `client` (needs `audience` and `client`), `audience` (needs `audience`) or `global`
    #[schema(pattern = "^(client|audience|global)$")]
    pub(super) scope: String,
    #[schema(example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    pub(super) audience: Option<String>,
    #[schema(example = "shop", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    pub(super) client: Option<String>,
    /// Who acts. Where something is taken back this is required; leaving is the `person`'s if it is left out
    #[schema(pattern = "^(person|operator|import)$")]
    pub(super) by: Option<String>,
    /// Where it comes from; `api` if left out
    #[schema(min_length = 1, max_length = 200)]
    pub(super) source: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub(super) reason: Option<String>,
    #[schema(example = "203.0.113.7")]
    pub(super) ip: Option<String>,
    #[schema(min_length = 1, max_length = 2000)]
    pub(super) user_agent: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub(super) text_version: Option<String>,
}

pub(in crate::v1) struct ToSubscribe {
    pub(super) audience: Slug,
    pub(super) client: Option<Slug>,
    pub(super) confirmed: Option<bool>,
    pub(super) said: Said,
}

pub(in crate::v1) struct ToChange {
    pub(super) scope: Word,
    pub(super) audience: Option<Slug>,
    pub(super) client: Option<Slug>,
    pub(super) said: Said,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Client,
    Audience,
    Global,
}

impl Said {
    pub(super) fn act(self, by: By) -> Act {
        Act {
            by: self.by.unwrap_or(by),
            source: self.source.unwrap_or_else(|| "api".parse().expect("it is a line")),
            reason: self.reason,
            proof: self.proof,
        }
    }

    fn read(fields: &mut Fields) -> Option<Self> {
        let (email, by) = (fields.required("email"), fields.optional("by"));
        let (source, reason) = (fields.optional("source"), fields.optional("reason"));
        let proof = read_proof(fields);
        Some(Self { email: email?, by: by?, source: source?, reason: reason?, proof: proof? })
    }
}

/// What is kept of how somebody agreed, besides when.
pub(in crate::v1) fn read_proof(fields: &mut Fields) -> Option<Proof> {
    let ip = fields.optional::<Ip>("ip");
    let user_agent = fields.optional::<Long>("user_agent");
    let text_version = fields.optional("text_version");
    Some(Proof {
        ip: ip?.map(|ip| ip.0),
        user_agent: user_agent?.map(|text| text.0),
        text_version: text_version?,
    })
}

struct Ip(IpAddr);

impl FromStr for Ip {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "use an IP address such as 203.0.113.7 or 2001:db8::7")
    }
}

/// What a browser calls itself.
struct Long(String);

impl FromStr for Long {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.chars().count() {
            1..=2000 => Ok(Self(text.to_owned())),
            _ => Err("use 1 to 2000 characters"),
        }
    }
}

impl FromStr for Word {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "client" => Ok(Self::Client),
            "audience" => Ok(Self::Audience),
            "global" => Ok(Self::Global),
            _ => Err("use client, audience or global"),
        }
    }
}

impl FromFields for ToSubscribe {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (audience, client) = (fields.required("audience"), fields.optional("client"));
        let (confirmed, said) = (fields.optional_bool("confirmed"), Said::read(fields));
        Some(Self { audience: audience?, client: client?, confirmed: confirmed?, said: said? })
    }
}

impl FromFields for ToChange {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let scope = fields.required::<Word>("scope");
        let (audience, client) = (fields.optional("audience"), fields.optional("client"));
        let said = Said::read(fields);
        let (scope, audience, client) = (scope?, audience?, client?);
        if scope != Word::Global && audience.is_none() {
            return fields.wrong("audience", "this scope needs one");
        }
        if scope == Word::Client && client.is_none() {
            return fields.wrong("client", "this scope needs one");
        }
        Some(Self { scope, audience, client, said: said? })
    }
}

impl From<Subscription> for SubscriptionBody {
    fn from(subscription: Subscription) -> Self {
        Self {
            id: subscription.id.get(),
            audience: subscription.audience_slug.to_string(),
            client: subscription.client_slug.map(|slug| slug.to_string()),
            status: subscription.status.as_str(),
            source: subscription.source,
            verified_at: subscription.verified_at,
            agreed_at: subscription.agreed_at,
            unsubscribed_at: subscription.unsubscribed_at,
            unsubscribe_reason: subscription.unsubscribe_reason,
            created_at: subscription.created_at,
            updated_at: subscription.updated_at,
        }
    }
}

impl From<Outcome> for OutcomeBody {
    fn from(outcome: Outcome) -> Self {
        Self {
            contact_id: outcome.contact.get(),
            subscription: outcome.subscription.map(Into::into),
            unsubscribed_from_everything: outcome.left_everything,
            to_confirm: outcome.to_confirm.is_some(),
            confirmation: None,
            changed: outcome.changed,
        }
    }
}
