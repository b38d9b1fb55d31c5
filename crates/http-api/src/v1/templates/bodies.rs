//! What is said of templates on the wire, and what callers write.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_access::Limit;
use tidings_delivery::templates::{Content, Stored, Summary, TemplateKey, Then, VersionSummary};
use tidings_kernel::EmailAddress;
use tidings_templates::Source;
use utoipa::ToSchema;

use crate::v1::input::{self, Fields, FromFields, Listing};

#[derive(Serialize, ToSchema)]
#[schema(as = Template)]
pub(in crate::v1) struct TemplateBody {
    #[schema(example = "onboarding/welcome")]
    pub(super) key: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) description: Option<String>,
    /// The version that is sent; null if none is
    #[schema(minimum = 1)]
    pub(super) active_version: Option<i64>,
    #[schema(minimum = 1)]
    pub(super) latest_version: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) updated_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateVersion)]
pub(in crate::v1) struct VersionBody {
    #[schema(minimum = 1)]
    pub(super) version: i64,
    #[schema(example = "active", pattern = "^(draft|active|inactive)$")]
    pub(super) status: &'static str,
    pub(super) subject: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) created_at: Option<Timestamp>,
    /// `operator`, or `key:` and the public id of a key
    pub(super) created_by: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateShown)]
pub(in crate::v1) struct ShownBody {
    #[serde(flatten)]
    pub(super) template: TemplateBody,
    #[schema(minimum = 1)]
    pub(super) version: i64,
    #[schema(example = "active", pattern = "^(draft|active|inactive)$")]
    pub(super) status: &'static str,
    pub(super) subject: String,
    pub(super) html: Option<String>,
    pub(super) mjml: Option<String>,
    pub(super) text: Option<String>,
    pub(super) preheader: Option<String>,
    pub(super) required_variables: Vec<String>,
    #[schema(value_type = Object)]
    pub(super) example_variables: Map<String, Value>,
    pub(super) default_sender: Option<String>,
    /// What it names, as dotted paths
    pub(super) variables: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePut)]
pub(in crate::v1) struct PutBody {
    pub(super) key: String,
    #[schema(minimum = 1)]
    pub(super) version: i64,
    /// Whether this made a version; the same content again does not
    pub(super) created: bool,
    #[schema(example = "active", pattern = "^(draft|active)$")]
    pub(super) status: &'static str,
    pub(super) variables: Vec<String>,
    /// What works, but not as one may wish
    pub(super) warnings: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateValidated)]
pub(in crate::v1) struct ValidatedBody {
    pub(super) variables: Vec<String>,
    pub(super) warnings: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePreviewed)]
pub(in crate::v1) struct PreviewedBody {
    #[schema(minimum = 1)]
    pub(super) version: i64,
    pub(super) subject: String,
    pub(super) html: Option<String>,
    pub(super) text: String,
    /// Required variables that nobody gave: a message like this would be refused
    pub(super) missing_variables: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// A version. Either `html` or `mjml`, or `text` alone.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read field by field; this describes the fields")]
pub(in crate::v1) struct NewTemplate {
    /// Only for validation: the key that it would have, which says whether it is a partial
    #[schema(
        max_length = 200,
        pattern = "^[a-z0-9_-]+(/[a-z0-9_-]+)*$",
        example = "onboarding/welcome"
    )]
    pub(super) key: Option<String>,
    /// A name for people; the key if there is none
    #[schema(min_length = 1, max_length = 100)]
    pub(super) name: Option<String>,
    /// What sort of mail it is
    #[schema(min_length = 1, max_length = 64)]
    pub(super) r#type: Option<String>,
    #[schema(min_length = 1, max_length = 1000)]
    pub(super) description: Option<String>,
    /// Liquid; a partial needs none
    #[schema(max_length = 2000, example = "Welcome, {{ firstName | default: 'friend' }}")]
    pub(super) subject: Option<String>,
    /// HTML with Liquid
    pub(super) html: Option<String>,
    /// MJML with Liquid
    pub(super) mjml: Option<String>,
    /// Made from the HTML if there is none
    pub(super) text: Option<String>,
    /// What an inbox shows beside the subject
    #[schema(max_length = 2000)]
    pub(super) preheader: Option<String>,
    /// Paths that must be given, or nothing is sent
    #[schema(max_items = 100, example = json!(["order.id"]))]
    pub(super) required_variables: Option<Vec<String>>,
    /// What else may be given, with values for previews; up to 16 KB
    #[schema(value_type = Option<Object>)]
    pub(super) example_variables: Option<Map<String, Value>>,
    /// The sender where a message names none
    #[schema(min_length = 1, max_length = 254)]
    pub(super) default_sender: Option<String>,
    /// What the new version becomes: `active` (the default) or `draft`
    #[schema(pattern = "^(active|draft)$")]
    pub(super) status: Option<String>,
}

#[derive(ToSchema)]
pub(in crate::v1) struct NewActivation {
    /// Also an older one, to go back
    #[schema(minimum = 1)]
    pub(super) version: i64,
}

#[derive(ToSchema)]
pub(in crate::v1) struct NewPreview {
    /// The active one if there is none
    #[schema(minimum = 1)]
    pub(super) version: Option<i64>,
    /// Whose profile is used
    #[schema(value_type = Option<String>, format = Email, max_length = 254)]
    pub(super) email: Option<EmailAddress>,
    /// What a message would give
    #[schema(value_type = Option<Object>)]
    pub(super) variables: Map<String, Value>,
}

/// Which templates are wanted.
pub(in crate::v1) struct Wanted {
    pub(super) prefix: Option<String>,
    pub(super) after: Option<TemplateKey>,
    pub(super) limit: Limit,
}

/// What a key can begin with.
struct Prefix(String);

impl std::str::FromStr for Prefix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-' | b'/');
        if (1..=200).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err("use the beginning of a key, such as onboarding/")
        }
    }
}

/// Where a list of versions goes on: with those before this one.
pub(in crate::v1) struct Before(pub(super) i64);

impl input::Cursor for Before {
    const LIST: &'static str = "template-versions";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|version| *version > 0).map(Self)
    }
}

/// A version as a caller writes it.
pub(in crate::v1) struct Written {
    pub(super) key: Option<TemplateKey>,
    pub(super) content: Content,
    pub(super) then: Then,
}

impl FromFields for Written {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let key = fields.optional("key");
        let (name, kind) = (fields.optional("name"), fields.optional("type"));
        let (description, default_sender) =
            (fields.optional("description"), fields.optional("default_sender"));
        let subject = fields.optional("subject");
        let (html, mjml) = (fields.optional("html"), fields.optional("mjml"));
        let (text, preheader) = (fields.optional("text"), fields.optional("preheader"));
        let required = fields.optional_list("required_variables");
        let examples = fields.optional_object("example_variables");
        let then = match fields.optional::<String>("status")?.as_deref() {
            None | Some("active") => Some(Then::Activate),
            Some("draft") => Some(Then::KeepAsDraft),
            Some(_) => fields.wrong("status", "use active or draft"),
        };
        let source = Source {
            subject: subject?.unwrap_or_default(),
            html: html?,
            mjml: mjml?,
            text: text?,
            preheader: preheader?,
        };
        let content = Content {
            name: name?,
            kind: kind?,
            description: description?,
            source,
            required: required?.unwrap_or_default(),
            examples: examples?.unwrap_or_default(),
            default_sender: default_sender?,
        };
        Some(Self { key: key?, content, then: then? })
    }
}

impl FromFields for NewActivation {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match fields.optional_integer("version")? {
            Some(version) if version > 0 => Some(Self { version }),
            _ => fields.wrong("version", "use the number of a version"),
        }
    }
}

impl FromFields for NewPreview {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let version = fields.optional_integer("version");
        let email = fields.optional("email");
        let variables = fields.optional_object("variables");
        Some(Self { version: version?, email: email?, variables: variables?.unwrap_or_default() })
    }
}

impl FromFields for Wanted {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let prefix = fields.optional::<Prefix>("prefix");
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { prefix: prefix?.map(|Prefix(prefix)| prefix), after, limit })
    }
}

impl From<Summary> for TemplateBody {
    fn from(summary: Summary) -> Self {
        Self {
            key: summary.key.to_string(),
            name: summary.name,
            kind: summary.kind,
            description: summary.description,
            active_version: summary.active_version,
            latest_version: summary.latest_version,
            updated_at: summary.updated_at,
        }
    }
}

impl From<VersionSummary> for VersionBody {
    fn from(version: VersionSummary) -> Self {
        Self {
            version: version.version,
            status: version.status.as_str(),
            subject: version.subject,
            created_at: version.created_at,
            created_by: version.created_by,
        }
    }
}

impl ShownBody {
    pub(super) fn new(summary: Summary, status: &'static str, stored: &Stored) -> Self {
        let Content { source, required, examples, default_sender, .. } = stored.content.clone();
        Self {
            template: summary.into(),
            version: stored.version,
            status,
            subject: source.subject,
            html: source.html,
            mjml: source.mjml,
            text: source.text,
            preheader: source.preheader,
            required_variables: required,
            example_variables: examples,
            default_sender,
            variables: stored.variables().into_iter().collect(),
        }
    }
}
