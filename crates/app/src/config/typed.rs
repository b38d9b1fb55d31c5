//! The settings as the program uses them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidings_kernel::EmailAddress;

use super::settings::Settings;
use super::value::Value;

#[derive(Debug, Clone)]
pub struct Config {
    pub engine: Engine,
    pub embedded: Embedded,
    pub postgres: Postgres,
    pub aws: Aws,
    pub roles: Roles,
    pub http: Http,
    pub mail: Mail,
    pub workers: Workers,
    pub webhooks: Webhooks,
    pub heartbeat: String,
    /// When the features that change with time are computed.
    pub daily_features: String,
    pub log: Log,
    pub sweep: Sweep,
    /// After so many days the send log and the events are forgotten.
    pub data_ttl_days: Option<u32>,
    pub signals: Signals,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Embedded,
    Postgres,
    Aws,
}

#[derive(Debug, Clone)]
pub struct Embedded {
    pub path: PathBuf,
    pub readers: usize,
    pub page_cache_bytes: u64,
}

#[derive(Debug, Clone)]
pub struct Postgres {
    pub url: Option<Secret>,
    pub connections: usize,
    pub tls: PostgresTls,
    pub tls_ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresTls {
    Auto,
    VerifyFull,
    Disable,
}

#[derive(Debug, Clone)]
pub struct Aws {
    pub table_prefix: String,
    pub endpoint_url: Option<String>,
    pub queue_prefix: String,
    pub queue_endpoint_url: Option<String>,
    pub mail_endpoint_url: Option<String>,
}

/// What this process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    pub http: bool,
    pub worker: bool,
    pub scheduler: bool,
}

#[derive(Debug, Clone)]
pub struct Workers {
    /// How many messages at once, by the name of the queue.
    pub concurrency: Vec<(&'static str, usize)>,
    pub time_limit: Duration,
    pub shutdown_grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Webhooks {
    pub allow_private: bool,
}

#[derive(Debug, Clone)]
pub struct Http {
    pub listen: SocketAddr,
    /// Without a slash at the end.
    pub public_url: String,
    pub max_body_bytes: u64,
    pub request_timeout: Duration,
    pub max_file_bytes: u64,
    pub file_timeout: Duration,
    pub max_streams: usize,
    pub shutdown_grace: Duration,
}

#[derive(Debug, Clone)]
pub struct Mail {
    pub provider: Provider,
    pub rate_per_second: u32,
    /// How many recipients of a batch are handed over at once.
    pub campaign_at_once: usize,
    pub return_path: Option<EmailAddress>,
    pub smtp: Smtp,
    pub ses_configuration_set: Option<String>,
    pub dkim: DkimKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Capture,
    Smtp,
    Ses,
}

#[derive(Debug, Clone)]
pub struct Smtp {
    pub host: Option<String>,
    pub port: u16,
    pub tls: SmtpTls,
    pub tls_ca_file: Option<PathBuf>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub connections: usize,
    pub hello_name: Option<String>,
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    Starttls,
    Implicit,
    None,
}

/// Nothing is signed without a domain.
#[derive(Debug, Clone)]
pub struct DkimKey {
    pub domain: Option<String>,
    pub selector: String,
    pub key_file: Option<PathBuf>,
    /// Of other domains: `domain=file` or `domain:selector=file`.
    pub others: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub struct Sweep {
    pub interval: Duration,
    pub batch: usize,
}

/// What comes back.
#[derive(Debug, Clone)]
pub struct Signals {
    pub ses_topics: Vec<String>,
    pub sns_certificate_origin: Option<String>,
    pub forward_replies_to: Option<EmailAddress>,
}

/// A value that `{:?}` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<&Settings> for Config {
    fn from(settings: &Settings) -> Self {
        let from = Source(settings);
        Self {
            engine: match from.text("store.engine").as_str() {
                "embedded" => Engine::Embedded,
                "postgres" => Engine::Postgres,
                "aws" => Engine::Aws,
                other => unreachable!("{other:?} is no choice of the key"),
            },
            embedded: Embedded {
                path: from.text("embedded.path").into(),
                readers: from.count("embedded.readers"),
                page_cache_bytes: from.size("embedded.page_cache"),
            },
            postgres: Postgres {
                url: from.maybe_text("postgres.url").map(Secret),
                connections: from.count("postgres.connections"),
                tls: match from.text("postgres.tls").as_str() {
                    "auto" => PostgresTls::Auto,
                    "verify-full" => PostgresTls::VerifyFull,
                    "disable" => PostgresTls::Disable,
                    other => unreachable!("{other:?} is no choice of the key"),
                },
                tls_ca_file: from.maybe_text("postgres.tls_ca_file").map(PathBuf::from),
            },
            aws: Aws {
                table_prefix: from.text("aws.table_prefix"),
                endpoint_url: from.maybe_text("aws.endpoint_url"),
                queue_prefix: from.text("aws.queue_prefix"),
                queue_endpoint_url: from.maybe_text("aws.queue_endpoint_url"),
                mail_endpoint_url: from.maybe_text("aws.mail_endpoint_url"),
            },
            roles: {
                let roles = from.text("serve.roles");
                let has = |name| roles.split(',').any(|role| role == name);
                Roles { http: has("http"), worker: has("worker"), scheduler: has("scheduler") }
            },
            workers: workers(&from),
            webhooks: Webhooks { allow_private: from.text("webhooks.allow_private") == "true" },
            heartbeat: from.text("schedules.heartbeat"),
            daily_features: from.text("schedules.features"),
            http: Http {
                listen: match from.value("http.listen") {
                    Some(Value::Address(address)) => *address,
                    other => unreachable!("http.listen is {other:?}"),
                },
                public_url: from.text("http.public_url").trim_end_matches('/').to_owned(),
                max_body_bytes: from.size("http.max_body"),
                request_timeout: from.duration("http.request_timeout"),
                max_file_bytes: from.size("http.max_file"),
                file_timeout: from.duration("http.file_timeout"),
                max_streams: from.count("http.max_streams"),
                shutdown_grace: from.duration("http.shutdown_grace"),
            },
            mail: mail(&from),
            log: Log {
                format: match from.text("log.format").as_str() {
                    "text" => LogFormat::Text,
                    "json" => LogFormat::Json,
                    other => unreachable!("{other:?} is no choice of the key"),
                },
                level: from.text("log.level"),
            },
            sweep: Sweep {
                interval: from.duration("sweep.interval"),
                batch: from.count("sweep.batch"),
            },
            data_ttl_days: from.maybe_count("data.ttl_days"),
            signals: signals(&from),
        }
    }
}

fn workers(from: &Source<'_>) -> Workers {
    Workers {
        concurrency: vec![
            ("transactional-email", from.count("workers.transactional_email")),
            ("confirmation-mail", from.count("workers.confirmation_mail")),
            ("campaign-email", from.count("workers.campaign_email")),
            ("campaign-steps", from.count("workers.campaign_steps")),
            ("sequence-steps", from.count("workers.sequence_steps")),
            ("sequence-events", from.count("workers.sequence_events")),
            ("sequence-email", from.count("workers.sequence_email")),
            ("inbox-posts", from.count("workers.inbox_posts")),
            ("reminder-steps", from.count("workers.reminder_steps")),
            ("lead-ingestion", from.count("workers.lead_ingestion")),
            ("lead-ingestion-bulk", from.count("workers.lead_ingestion_bulk")),
            ("segment-processing", from.count("workers.segment_processing")),
            ("ses-webhooks", from.count("workers.ses_webhooks")),
            ("email-events", from.count("workers.email_events")),
            ("memory-processing", from.count("workers.memory_processing")),
            ("feature-processing", from.count("workers.feature_processing")),
            ("webhook-fanout", from.count("workers.webhook_fanout")),
            ("webhook-delivery", from.count("workers.webhook_delivery")),
            ("audit-entries", from.count("workers.audit_entries")),
            ("probe", from.count("workers.probe")),
        ],
        time_limit: from.duration("workers.time_limit"),
        shutdown_grace: from.duration("workers.shutdown_grace"),
    }
}

fn signals(from: &Source<'_>) -> Signals {
    let topics = from.maybe_text("signals.ses_topics");
    let topics = topics.map(|topics| topics.split(',').map(ToOwned::to_owned).collect());
    Signals {
        ses_topics: topics.unwrap_or_default(),
        sns_certificate_origin: from.maybe_text("signals.sns_certificate_origin"),
        forward_replies_to: from
            .maybe_text("signals.forward_replies_to")
            .map(|text| text.parse().expect("the key is an address")),
    }
}

fn mail(from: &Source<'_>) -> Mail {
    Mail {
        provider: match from.text("mail.provider").as_str() {
            "capture" => Provider::Capture,
            "smtp" => Provider::Smtp,
            "ses" => Provider::Ses,
            other => unreachable!("{other:?} is no choice of the key"),
        },
        rate_per_second: u32::try_from(from.count("mail.rate_per_second")).unwrap_or(u32::MAX),
        campaign_at_once: from.count("mail.campaign_at_once"),
        return_path: from
            .maybe_text("mail.return_path")
            .map(|text| text.parse().expect("the key is an address")),
        smtp: Smtp {
            host: from.maybe_text("mail.smtp_host"),
            port: u16::try_from(from.count("mail.smtp_port")).expect("its range is a port's"),
            tls: match from.text("mail.smtp_tls").as_str() {
                "starttls" => SmtpTls::Starttls,
                "implicit" => SmtpTls::Implicit,
                "none" => SmtpTls::None,
                other => unreachable!("{other:?} is no choice of the key"),
            },
            tls_ca_file: from.maybe_text("mail.smtp_tls_ca_file").map(PathBuf::from),
            username: from.maybe_text("mail.smtp_username"),
            password: from.maybe_text("mail.smtp_password").map(Secret),
            connections: from.count("mail.smtp_connections"),
            hello_name: from.maybe_text("mail.smtp_hello_name"),
            timeout: from.duration("mail.smtp_timeout"),
        },
        ses_configuration_set: from.maybe_text("mail.ses_configuration_set"),
        dkim: DkimKey {
            domain: from.maybe_text("mail.dkim_domain"),
            selector: from.text("mail.dkim_selector"),
            key_file: from.maybe_text("mail.dkim_key_file").map(PathBuf::from),
            others: match from.maybe_text("mail.dkim_keys") {
                Some(keys) => keys.split(',').map(|key| key.trim().to_owned()).collect(),
                None => Vec::new(),
            },
        },
    }
}

/// Takes values out by name. A name or type that the table of keys does not have is a mistake in this
/// file, which the test that loads the defaults finds.
struct Source<'a>(&'a Settings);

impl Source<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).expect("every key has a setting").value.as_ref()
    }

    fn maybe_text(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Text(text) => Some(text.clone()),
            other => unreachable!("{name} is {other:?}"),
        }
    }

    fn text(&self, name: &str) -> String {
        self.maybe_text(name).expect("the key has a default")
    }

    fn count(&self, name: &str) -> usize {
        match self.value(name) {
            Some(Value::Integer(number)) => usize::try_from(*number).expect("its range is small"),
            other => unreachable!("{name} is {other:?}"),
        }
    }

    fn maybe_count(&self, name: &str) -> Option<u32> {
        match self.value(name)? {
            Value::Integer(number) => Some(u32::try_from(*number).expect("its range is small")),
            other => unreachable!("{name} is {other:?}"),
        }
    }

    fn size(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Size(bytes)) => *bytes,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Duration(duration)) => *duration,
            other => unreachable!("{name} is {other:?}"),
        }
    }
}
