//! Every key of the configuration, declared once.

use std::time::Duration;

use super::value::Kind;

/// One key: what it is called, what it means, what it can be.
#[derive(Debug)]
pub struct Key {
    /// `section.name`. In the environment: `TIDINGS_SECTION__NAME`.
    pub name: &'static str,
    /// Whole sentences, for the template.
    pub doc: &'static str,
    pub kind: Kind,
    pub preset: Preset,
    /// Never shown; can also be given as `<name>_file`, whose content it then is.
    pub secret: bool,
}

/// What a key is while nobody sets it.
#[derive(Debug, Clone, Copy)]
pub enum Preset {
    Default(&'static str),
    Unset { example: &'static str },
}

impl Key {
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').expect("every key is in a section").0
    }

    /// The name inside its section.
    pub fn leaf(&self) -> &'static str {
        self.name.split_once('.').expect("every key is in a section").1
    }
}

pub fn all_keys() -> &'static [Key] {
    KEYS
}

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The secret that `<name>_file` stands for.
pub(super) fn find_secret_file(name: &str) -> Option<&'static Key> {
    find(name.strip_suffix("_file")?).filter(|key| key.secret)
}

/// Every name that can be set, the `_file` forms of secrets among them.
pub(super) fn names() -> Vec<String> {
    let mut names = Vec::new();
    for key in KEYS {
        names.push(key.name.to_owned());
        if key.secret {
            names.push(format!("{}_file", key.name));
        }
    }
    names
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const MB: u64 = 1024 * 1024;

static KEYS: &[Key] = &[
    Key {
        name: "store.engine",
        doc: "Where everything is kept: in one file, in PostgreSQL, or on AWS (relations in PostgreSQL, items in DynamoDB,\n\
              queues in SQS).",
        kind: Kind::Choice(&["embedded", "postgres", "aws"]),
        preset: Preset::Default("embedded"),
        secret: false,
    },
    Key {
        name: "embedded.path",
        doc: "The database file of the embedded engine. It is made if it is missing; its folder is not.",
        kind: Kind::Path,
        preset: Preset::Default("tidings.db"),
        secret: false,
    },
    Key {
        name: "embedded.readers",
        doc: "How many connections read at the same time. There is always one writer.",
        kind: Kind::Integer { min: 1, max: 64 },
        preset: Preset::Default("4"),
        secret: false,
    },
    Key {
        name: "embedded.page_cache",
        doc: "How much memory the writer may use to keep pages of the file. Each connection for short reads may use a quarter of it, each for long ones a sixteenth.",
        kind: Kind::Size { min: MB, max: 64 * 1024 * MB },
        preset: Preset::Default("32MB"),
        secret: false,
    },
    Key {
        name: "postgres.url",
        doc: "The PostgreSQL database. Needed if store.engine is \"postgres\", and on \"aws\" for relations.",
        kind: Kind::Url { schemes: &["postgres", "postgresql"] },
        preset: Preset::Unset { example: "postgres://tidings:password@db.example.org/tidings" },
        secret: true,
    },
    Key {
        name: "postgres.connections",
        doc: "How many connections one process reads and writes with, at least 3. It opens two more, to tell other\n\
              processes what is new and to hear it from them. All processes together must stay below the server's\n\
              max_connections.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("16"),
        secret: false,
    },
    Key {
        name: "postgres.tls",
        doc: "How the connection is protected. \"verify-full\" encrypts, and checks the server's certificate and\n\
              name; \"disable\" sends everything in the clear. \"auto\" is \"disable\" for a server on this machine\n\
              and \"verify-full\" for any other.",
        kind: Kind::Choice(&["auto", "verify-full", "disable"]),
        preset: Preset::Default("auto"),
        secret: false,
    },
    Key {
        name: "postgres.tls_ca_file",
        doc: "Certificates (PEM) to trust instead of the system's.",
        kind: Kind::Path,
        preset: Preset::Unset { example: "/etc/tidings/ca.pem" },
        secret: false,
    },
    Key {
        name: "aws.table_prefix",
        doc: "What the names of the DynamoDB tables begin with. Region and credentials are found as the AWS\n\
              SDK always finds them: AWS_REGION, AWS_PROFILE, the instance's role.",
        kind: Kind::TablePrefix,
        preset: Preset::Default("tidings"),
        secret: false,
    },
    Key {
        name: "aws.endpoint_url",
        doc: "A server with DynamoDB's API to use instead of AWS's.",
        kind: Kind::Url { schemes: &["http", "https"] },
        preset: Preset::Unset { example: "http://127.0.0.1:8000" },
        secret: false,
    },
    Key {
        name: "aws.queue_prefix",
        doc: "What the names of the queues on SQS and the topics on SNS begin with.",
        kind: Kind::QueuePrefix,
        preset: Preset::Default("tidings"),
        secret: false,
    },
    Key {
        name: "aws.queue_endpoint_url",
        doc: "A server with the APIs of SQS and SNS to use instead of AWS's.",
        kind: Kind::Url { schemes: &["http", "https"] },
        preset: Preset::Unset { example: "http://127.0.0.1:4566" },
        secret: false,
    },
    Key {
        name: "aws.mail_endpoint_url",
        doc: "A server with the API of SES to use instead of AWS's.",
        kind: Kind::Url { schemes: &["http", "https"] },
        preset: Preset::Unset { example: "http://127.0.0.1:4566" },
        secret: false,
    },
    Key {
        name: "serve.roles",
        doc: "What this process does: http answers the API, worker works on the queues, scheduler fires timers, begins\n\
              periodic work, deletes what has expired and hands on the outbox. Any number of processes can share each.",
        kind: Kind::Set(&["http", "worker", "scheduler"]),
        preset: Preset::Default("http,worker,scheduler"),
        secret: false,
    },
    Key {
        name: "http.listen",
        doc: "The address and port to answer HTTP on. Port 0 takes any free one.",
        kind: Kind::Address,
        preset: Preset::Default("127.0.0.1:8080"),
        secret: false,
    },
    Key {
        name: "http.public_url",
        doc: "How the outside world reaches this server. It begins every link in a mail, so it must not change while mails with\n\
              links to it are about.",
        kind: Kind::Url { schemes: &["http", "https"] },
        preset: Preset::Default("http://127.0.0.1:8080"),
        secret: false,
    },
    Key {
        name: "http.max_body",
        doc: "The largest body that a request can have.",
        kind: Kind::Size { min: 1024, max: 1024 * MB },
        preset: Preset::Default("2MB"),
        secret: false,
    },
    Key {
        name: "http.request_timeout",
        doc: "How long a request may take.",
        kind: Kind::Duration { min: seconds(1), max: seconds(3600) },
        preset: Preset::Default("30s"),
        secret: false,
    },
    Key {
        name: "http.max_file",
        doc: "The largest file that a request can bring, such as contacts to import. It is not kept in memory.",
        kind: Kind::Size { min: 1024, max: 64 * 1024 * MB },
        preset: Preset::Default("1024MB"),
        secret: false,
    },
    Key {
        name: "http.file_timeout",
        doc: "How long a request with a file may take.",
        kind: Kind::Duration { min: seconds(1), max: seconds(24 * 3600) },
        preset: Preset::Default("1h"),
        secret: false,
    },
    Key {
        name: "http.max_streams",
        doc: "How many live streams of inboxes a server keeps open; others are asked to come back.",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        preset: Preset::Default("20000"),
        secret: false,
    },
    Key {
        name: "http.shutdown_grace",
        doc: "How long requests that are under way may take to finish when the server stops.",
        kind: Kind::Duration { min: seconds(0), max: seconds(3600) },
        preset: Preset::Default("30s"),
        secret: false,
    },
    Key {
        name: "mail.provider",
        doc: "Who delivers: \"capture\" sends nothing and keeps every message to look at (`tidings mail list`), \"smtp\" hands them to\n\
              a mail server, \"ses\" to Amazon SES.",
        kind: Kind::Choice(&["capture", "smtp", "ses"]),
        preset: Preset::Default("capture"),
        secret: false,
    },
    Key {
        name: "mail.rate_per_second",
        doc: "How many messages a second all processes with the same database hand over at most. It slows down by itself when the provider asks for it.",
        kind: Kind::Integer { min: 1, max: 100_000 },
        preset: Preset::Default("14"),
        secret: false,
    },
    Key {
        name: "mail.campaign_at_once",
        doc: "How many recipients of a batch are handed over at once; over SMTP no more than smtp_connections. If the process dies, it is unknown of so many at most, for each batch it worked on, whether they were sent to; over SMTP of no more, in all, than two for each connection and one such handful.",
        kind: Kind::Integer { min: 1, max: 100 },
        preset: Preset::Default("16"),
        secret: false,
    },
    Key {
        name: "mail.return_path",
        doc: "The address that bounces go to. Without it they go to the sender of the message.",
        kind: Kind::Email,
        preset: Preset::Unset { example: "bounces@example.org" },
        secret: false,
    },
    Key {
        name: "mail.smtp_host",
        doc: "The mail server. Needed if mail.provider is \"smtp\".",
        kind: Kind::Host,
        preset: Preset::Unset { example: "smtp.example.org" },
        secret: false,
    },
    Key {
        name: "mail.smtp_port",
        doc: "Its port: 587 for \"starttls\", 465 for \"implicit\", as a rule.",
        kind: Kind::Integer { min: 1, max: 65_535 },
        preset: Preset::Default("587"),
        secret: false,
    },
    Key {
        name: "mail.smtp_tls",
        doc: "How the connection is protected: \"starttls\" after a greeting, \"implicit\" from the first byte, \"none\" not at all. A\n\
              password is never sent without protection, except to this machine.",
        kind: Kind::Choice(&["starttls", "implicit", "none"]),
        preset: Preset::Default("starttls"),
        secret: false,
    },
    Key {
        name: "mail.smtp_tls_ca_file",
        doc: "Certificates (PEM) to trust besides the system's.",
        kind: Kind::Path,
        preset: Preset::Unset { example: "/etc/tidings/ca.pem" },
        secret: false,
    },
    Key {
        name: "mail.smtp_username",
        doc: "The name to log in with. Without it there is no login.",
        kind: Kind::Text,
        preset: Preset::Unset { example: "tidings" },
        secret: false,
    },
    Key {
        name: "mail.smtp_password",
        doc: "The password to log in with.",
        kind: Kind::Text,
        preset: Preset::Unset { example: "secret" },
        secret: true,
    },
    Key {
        name: "mail.smtp_connections",
        doc: "How many connections one process keeps to the mail server.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("8"),
        secret: false,
    },
    Key {
        name: "mail.smtp_hello_name",
        doc: "What this machine calls itself to the mail server. Without it, the machine's full name, or its address.",
        kind: Kind::Host,
        preset: Preset::Unset { example: "tidings.example.org" },
        secret: false,
    },
    Key {
        name: "mail.smtp_timeout",
        doc: "How long the mail server may take for each step; for the answer to a message twice as long.",
        kind: Kind::Duration { min: seconds(1), max: seconds(120) },
        preset: Preset::Default("30s"),
        secret: false,
    },
    Key {
        name: "mail.ses_configuration_set",
        doc: "The configuration set of SES that tells what became of a message.",
        kind: Kind::Text,
        preset: Preset::Unset { example: "tidings" },
        secret: false,
    },
    Key {
        name: "mail.dkim_domain",
        doc: "The domain that messages are signed for (DKIM). Not needed on SES, which signs by itself.",
        kind: Kind::Host,
        preset: Preset::Unset { example: "example.org" },
        secret: false,
    },
    Key {
        name: "mail.dkim_selector",
        doc: "The name of the key in DNS: its public part is at <selector>._domainkey.<domain>; `tidings doctor` shows it.",
        kind: Kind::Host,
        preset: Preset::Default("tidings"),
        secret: false,
    },
    Key {
        name: "mail.dkim_key_file",
        doc: "The private key (PEM): RSA with 2048 bits or more, or Ed25519. Needed if mail.dkim_domain is set.",
        kind: Kind::Path,
        preset: Preset::Unset { example: "/etc/tidings/dkim.pem" },
        secret: false,
    },
    Key {
        name: "mail.dkim_keys",
        doc: "More domains that messages are signed for, each with its key: domain=file, or domain:selector=file, with commas between.\n\
              A message is signed with the key of its sender's domain, and without one with that of mail.dkim_domain, if it is set.",
        kind: Kind::Text,
        preset: Preset::Unset { example: "shop.example=/etc/tidings/shop.pem" },
        secret: false,
    },
    Key {
        name: "workers.transactional_email",
        doc: "How many transactional messages a process sends at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("32"),
        secret: false,
    },
    Key {
        name: "workers.confirmation_mail",
        doc: "How many messages that ask people to confirm a subscription a process works on at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("2"),
        secret: false,
    },
    Key {
        name: "workers.campaign_email",
        doc: "How many batches of campaign recipients a process works on at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("8"),
        secret: false,
    },
    Key {
        name: "workers.campaign_steps",
        doc: "How many campaigns a process begins, finds the recipients of or takes further at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("2"),
        secret: false,
    },
    Key {
        name: "workers.sequence_steps",
        doc: "How many executions of sequences a process takes further at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("32"),
        secret: false,
    },
    Key {
        name: "workers.sequence_events",
        doc: "How many events that sequences begin, go on or end with a process works on at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("32"),
        secret: false,
    },
    Key {
        name: "workers.sequence_email",
        doc: "How many messages of sequences a process sends at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("32"),
        secret: false,
    },
    Key {
        name: "workers.inbox_posts",
        doc: "How many posts to inboxes a process delivers at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("2"),
        secret: false,
    },
    Key {
        name: "workers.reminder_steps",
        doc: "How many steps of reminders a process takes at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("4"),
        secret: false,
    },
    Key {
        name: "workers.lead_ingestion",
        doc: "How many events a process puts on timelines at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("8"),
        secret: false,
    },
    Key {
        name: "workers.lead_ingestion_bulk",
        doc: "How many events of campaigns a process puts on timelines at once. Few, so that sending comes first.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("1"),
        secret: false,
    },
    Key {
        name: "workers.segment_processing",
        doc: "How many looks at people, to keep segments up, a process makes at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("4"),
        secret: false,
    },
    Key {
        name: "workers.ses_webhooks",
        doc: "How many notifications of the provider a process works on at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("32"),
        secret: false,
    },
    Key {
        name: "workers.email_events",
        doc: "How many opens, clicks and unsubscribes a process works on at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("32"),
        secret: false,
    },
    Key {
        name: "workers.memory_processing",
        doc: "From how many events a process derives memory at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("8"),
        secret: false,
    },
    Key {
        name: "workers.feature_processing",
        doc: "For how many events a process computes features at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("8"),
        secret: false,
    },
    Key {
        name: "workers.webhook_fanout",
        doc: "How many events a process hands out to webhooks at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("4"),
        secret: false,
    },
    Key {
        name: "workers.webhook_delivery",
        doc: "How many requests to webhooks a process makes at once. One endpoint gets four of them at most.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("16"),
        secret: false,
    },
    Key {
        name: "workers.audit_entries",
        doc: "How many entries of the audit log a process writes at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("8"),
        secret: false,
    },
    Key {
        name: "workers.probe",
        doc: "How many messages of `tidings queues probe` a process works on at once.",
        kind: Kind::Integer { min: 1, max: 1000 },
        preset: Preset::Default("16"),
        secret: false,
    },
    Key {
        name: "workers.time_limit",
        doc: "How long one message may take before it counts as failed and is tried again.",
        kind: Kind::Duration { min: seconds(1), max: seconds(12 * 3600) },
        preset: Preset::Default("5m"),
        secret: false,
    },
    Key {
        name: "workers.shutdown_grace",
        doc: "How long messages that are under way may take to end when the server stops. Then they are given back.",
        kind: Kind::Duration { min: seconds(0), max: seconds(3600) },
        preset: Preset::Default("20s"),
        secret: false,
    },
    Key {
        name: "webhooks.allow_private",
        doc: "Whether webhooks may lead anywhere: over http, to any port, into this machine's own network. For development\n\
              only: whoever may make a webhook could reach what only this server can.",
        kind: Kind::Choice(&["false", "true"]),
        preset: Preset::Default("false"),
        secret: false,
    },
    Key {
        name: "schedules.features",
        doc: "When to compute the features of contacts that change with time, as a cron expression in UTC.",
        kind: Kind::Cron,
        preset: Preset::Default("0 6 * * *"),
        secret: false,
    },
    Key {
        name: "schedules.heartbeat",
        doc: "When to send a message through the queues and measure how long it takes (tidings_heartbeat_seconds), as a\n\
              cron expression in UTC.",
        kind: Kind::Cron,
        preset: Preset::Default("*/5 * * * *"),
        secret: false,
    },
    Key {
        name: "log.format",
        doc: "Lines for people or for machines.",
        kind: Kind::Choice(&["text", "json"]),
        preset: Preset::Default("text"),
        secret: false,
    },
    Key {
        name: "log.level",
        doc: "error, warn, info, debug or trace; also per module: \"info,tidings_sql=debug\".",
        kind: Kind::LogLevel,
        preset: Preset::Default("info"),
        secret: false,
    },
    Key {
        name: "sweep.interval",
        doc: "How often items past their TTL are deleted. They are never shown, swept or not.",
        kind: Kind::Duration { min: seconds(1), max: seconds(24 * 3600) },
        preset: Preset::Default("1m"),
        secret: false,
    },
    Key {
        name: "sweep.batch",
        doc: "How many of them are deleted in one transaction.",
        kind: Kind::Integer { min: 1, max: 10_000 },
        preset: Preset::Default("500"),
        secret: false,
    },
    Key {
        name: "data.ttl_days",
        doc: "After so many days the lines of the send log and the events are forgotten. What was counted stays counted.\n\
              Unset, they are kept for ever.",
        kind: Kind::Integer { min: 1, max: 36_500 },
        preset: Preset::Unset { example: "365" },
        secret: false,
    },
    Key {
        name: "signals.ses_topics",
        doc: "The topics of SNS that may post to /webhooks/ses, by their ARNs, with commas between. Unset, none may.",
        kind: Kind::Topics,
        preset: Preset::Unset { example: "arn:aws:sns:eu-west-1:123456789012:ses-events" },
        secret: false,
    },
    Key {
        name: "signals.sns_certificate_origin",
        doc: "Where the certificates of SNS may come from besides SNS itself: a server with its API, for tests.",
        kind: Kind::Url { schemes: &["http", "https"] },
        preset: Preset::Unset { example: "http://127.0.0.1:4566" },
        secret: false,
    },
    Key {
        name: "signals.forward_replies_to",
        doc: "Where replies to our mails are passed on to, as a mail, each once, unless a workspace says otherwise.",
        kind: Kind::Email,
        preset: Preset::Unset { example: "support@example.org" },
        secret: false,
    },
];
