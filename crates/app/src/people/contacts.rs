//! `tidings contacts`.

use std::collections::BTreeSet;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use tidings_access::{Cx, Limit, Slug};
use tidings_kernel::{EmailAddress, Workspace};
use tidings_people::consent::Line;
use tidings_people::contacts::{
    self, Assess, AssessError, Attributes, Change, Contact, Edit, Everything, Filter, FirstName,
    Identity, ListError, Standing, Tag, TagChange, Update, UpdateError, Validation, Zone,
};
use tidings_people::suppression;

use super::files::{self, ExportArgs, ImportArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::outlet;
use crate::output::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings contacts set ada@example.org --first-name Ada --attribute plan=pro --add-tag beta
  tidings contacts get ada@example.org --pretty
  tidings contacts list --tag beta --status active
  tidings contacts tag ada@example.org vip beta
  tidings contacts tag ada@example.org --how replace
  tidings contacts address ada@example.org --validation invalid --reason 'no such domain'
  tidings contacts import people.csv --dry-run
  tidings contacts import people.csv --map 'Contact=email' --tag spring --errors left-out.csv
  tidings contacts import people.csv --audience news --source 'form on example.org, May 2026'
  tidings contacts export --status active > people.csv
  tidings contacts erase ada@example.org")]
pub(crate) struct ContactsArgs {
    /// The workspace whose contacts are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each contact out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: ContactsCommand,
}

#[derive(Debug, Subcommand)]
enum ContactsCommand {
    /// Print everything about a contact
    Get {
        /// The address
        email: EmailAddress,
    },
    /// Print the contacts that a filter lets through
    List(ListArgs),
    /// Make a contact, or change what is named of one
    Set(SetArgs),
    /// Add, remove or replace tags of a contact
    Tag {
        /// The address
        email: EmailAddress,
        /// The tags; with `--how replace` and none, all are cleared
        #[arg(value_name = "TAG")]
        tags: Vec<Tag>,
        /// What to do with them
        #[arg(long, value_enum, default_value = "add")]
        how: How,
    },
    /// Say what was found out about an address
    Address(AddressArgs),
    /// Take in everybody in a CSV file, of any size
    ///
    /// What the file says is added to what is known. An empty cell clears nothing, and nothing in a file takes back an
    /// unsubscription or a suppression. Doing it twice changes nothing, so an import that was interrupted is run again.
    Import(ImportArgs),
    /// Write contacts to stdout, as a file that import takes back
    Export(ExportArgs),
    /// Erase a person: nothing tells any more who it was
    ///
    /// Also from what was sent. If the address must not be written to, that is kept as a keyed hash. If it is interrupted, run
    /// it again.
    Erase {
        /// The address
        email: EmailAddress,
    },
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Who is active, unsubscribed or suppressed
    #[arg(long, value_enum, default_value = "all")]
    status: Status,
    /// Who has this tag
    #[arg(long)]
    tag: Option<Tag>,
    /// Who has this attribute
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    attribute: Option<(String, String)>,
    /// Who is subscribed to this audience
    #[arg(long, value_name = "SLUG")]
    audience: Option<Slug>,
}

#[derive(Debug, Args)]
struct SetArgs {
    /// The address
    email: EmailAddress,
    /// The first name
    #[arg(long, value_name = "NAME")]
    first_name: Option<FirstName>,
    /// The time zone, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    timezone: Option<Zone>,
    /// An attribute; a value that is JSON is taken as such (`seats=3`), any other is a text
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// An attribute to remove
    #[arg(long = "remove-attribute", value_name = "NAME")]
    removed: Vec<String>,
    /// A tag to add
    #[arg(long = "add-tag", value_name = "TAG")]
    tags: Vec<Tag>,
}

#[derive(Debug, Args)]
struct AddressArgs {
    /// The address
    email: EmailAddress,
    /// Whether its owner reads it
    #[arg(long, value_name = "YES")]
    verified: Option<bool>,
    /// Whether mail arrives there: valid, invalid, risky or unknown
    #[arg(long, value_name = "STATUS")]
    validation: Option<Validation>,
    /// Why it is valid or not
    #[arg(long, value_name = "TEXT", requires = "validation")]
    reason: Option<Line>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    All,
    Active,
    Unsubscribed,
    Suppressed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum How {
    Add,
    Remove,
    Replace,
}

pub(crate) async fn run(args: ContactsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx, config).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(
    command: ContactsCommand,
    open: &Open,
    cx: &Cx,
    config: &Config,
) -> Result<(), Failure> {
    match command {
        ContactsCommand::Get { email } => match contacts::get(cx, &email).await? {
            Some(everything) => open.print(&all_of(&everything)),
            None => Err(missing(UpdateError::Missing)),
        },
        ContactsCommand::List(args) => list(args, open, cx).await,
        ContactsCommand::Set(args) => set(args, open, cx).await,
        ContactsCommand::Tag { email, tags, how } => {
            let tags: BTreeSet<Tag> = tags.into_iter().collect();
            let change = match how {
                How::Add => TagChange::Add(tags),
                How::Remove => TagChange::Remove(tags),
                How::Replace => TagChange::Replace(tags),
            };
            open.print(&shown(&contacts::tag(cx, email, change).await.map_err(missing)?))
        }
        ContactsCommand::Address(args) => address(args, open, cx).await,
        ContactsCommand::Import(args) => files::import(args, open, cx).await,
        ContactsCommand::Export(args) => {
            let format = args.format();
            files::export(format, args.who.into(), open, cx).await
        }
        ContactsCommand::Erase { email } => {
            let provider = outlet::suppressions(config).await?;
            let done = suppression::erase_everywhere(cx, &email, provider.as_deref()).await?;
            if !done.erased {
                say("There was nothing (left) to erase.");
            }
            open.print(&json!({ "erased": done.erased }))
        }
    }
}

async fn set(args: SetArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let mut object = Map::new();
    for (name, text) in args.attributes {
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        object.insert(name, value);
    }
    object.extend(args.removed.into_iter().map(|name| (name, Value::Null)));
    let attributes = Attributes::parse(object).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        Failure::usage(faults.join("; "))
    })?;
    let tags = (!args.tags.is_empty()).then(|| TagChange::Add(args.tags.into_iter().collect()));
    let first_name = args.first_name.map_or(Change::Keep, Change::Set);
    let timezone = args.timezone.map_or(Change::Keep, Change::Set);
    let edit = Edit { first_name, timezone, attributes, tags };
    let done = contacts::put(cx, Update { email: args.email, edit }).await?;
    open.print(&shown(&done.contact))
}

async fn address(args: AddressArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let AddressArgs { email, verified, validation, reason } = args;
    let assessed = contacts::assess(cx, Assess { email, verified, validation, reason }).await;
    let assessed = assessed.map_err(|error| match error {
        AssessError::Missing => missing(UpdateError::Missing),
        AssessError::ReasonAlone | AssessError::Store(_) => error.into(),
    })?;
    open.print(&identity(&assessed))
}

async fn list(args: ListArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let filter = Filter::from(args);
    let (mut out, mut after) = (open.out(), None);
    loop {
        let page = contacts::list(cx, filter.clone(), after, Limit::MAX).await;
        let page = page.map_err(|error| match error {
            ListError::NoAudience(_) => Failure::usage(error.to_string()),
            ListError::WrongCursor | ListError::Store(_) => error.into(),
        })?;
        for contact in &page.items {
            out.json(&shown(contact))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

impl From<ListArgs> for Filter {
    fn from(args: ListArgs) -> Self {
        let standing = match args.status {
            Status::All => Standing::All,
            Status::Active => Standing::Active,
            Status::Unsubscribed => Standing::Unsubscribed,
            Status::Suppressed => Standing::Suppressed,
        };
        let ListArgs { tag, attribute, audience, .. } = args;
        Self { standing, tag, attribute, audience }
    }
}

fn missing(error: UpdateError) -> Failure {
    match error {
        UpdateError::Missing => Failure::from(error).hint(
            "`tidings contacts set` makes one; `tidings contacts list` shows those that there are",
        ),
        UpdateError::TooMuch(_) | UpdateError::Store(_) => error.into(),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.to_owned())),
        None => Err("give it as NAME=VALUE, such as plan=pro".to_owned()),
    }
}

fn shown(contact: &Contact) -> Value {
    json!({
        "id": contact.id.get(),
        "email": contact.email.as_str(),
        "typed_email": contact.email.typed(),
        "first_name": contact.first_name,
        "attributes": contact.attributes,
        "tags": contact.tags,
        "timezone": contact.timezone,
        "unsubscribed": contact.unsubscribed,
        "suppressed": contact.suppressed,
        "created_at": contact.created_at,
        "updated_at": contact.updated_at,
    })
}

fn identity(identity: &Identity) -> Value {
    json!({
        "channel": identity.channel, "value": identity.value, "typed_value": identity.typed,
        "validation_status": identity.validation.as_str(),
        "validation_reason": identity.validation_reason, "validated_at": identity.validated_at,
        "verified_at": identity.verified_at, "bounced_at": identity.bounced_at,
        "complained_at": identity.complained_at, "created_at": identity.created_at,
    })
}

fn all_of(all: &Everything) -> Value {
    let mut value = shown(&all.contact);
    value["suppression"] = all.suppression.as_ref().map(super::suppressions::shown).into();
    value["identities"] = all.identities.iter().map(identity).collect();
    let subscriptions = all.subscriptions.iter().map(|one| {
        json!({
            "audience": one.audience, "client": one.client, "status": one.status,
            "verified_at": one.verified_at, "unsubscribed_at": one.unsubscribed_at,
            "created_at": one.created_at,
        })
    });
    value["subscriptions"] = subscriptions.collect();
    let topics = all.topics.iter().map(|one| {
        let status = if one.is_on { "on" } else { "off" };
        json!({ "topic": one.topic, "status": status, "updated_at": one.updated_at })
    });
    value["topics"] = topics.collect();
    let executions = all
        .executions
        .iter()
        .map(|one| {
            json!({
                "sequence": one.sequence, "execution_arn": one.execution_arn, "started_at": one.started_at,
            })
        });
    value["executions"] = executions.collect();
    let sent = all.sent.iter().map(|one| {
        json!({
            "message": one.message, "provider_message_id": one.provider_message_id,
            "template": one.template, "subject": one.subject, "sequence": one.sequence,
            "sent_at": one.sent_at,
        })
    });
    value["sent"] = sent.collect();
    value
}
