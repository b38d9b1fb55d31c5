//! `tidings templates`: looking at templates, trying them, and choosing the version. Writing them is `tidings apply`, or the API.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tidings_access::{Cx, Limit, Slug};
use tidings_delivery::templates::{
    self, Activate, ActivateError, Pick, Preview, Summary, TemplateKey, Which,
};
use tidings_delivery::transactional::{AcceptError, Messages, TestSend};
use tidings_kernel::{EmailAddress, Workspace};

use crate::apply;
use crate::config::Config;
use crate::consent::{an_only_client, the_client};
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings templates list --workspace acme
  tidings templates show onboarding/welcome
  tidings templates preview onboarding/welcome --as ada@example.org --given plan=pro --part html > welcome.html
  tidings templates test onboarding/welcome --to me@example.org --given plan=pro
  tidings templates versions onboarding/welcome
  tidings templates activate onboarding/welcome 3
  tidings templates deactivate onboarding/welcome
  tidings templates validate ./mail

`tidings apply` writes templates from a folder.")]
pub(crate) struct TemplatesArgs {
    /// The workspace whose templates are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each template out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: TemplatesCommand,
}

#[derive(Debug, Subcommand)]
enum TemplatesCommand {
    /// Print all templates, by key
    List {
        /// Only those whose key begins so, such as onboarding/
        #[arg(long)]
        prefix: Option<String>,
    },
    /// Print one version of a template with everything in it
    Show {
        /// The template, such as onboarding/welcome
        key: TemplateKey,
        /// The version [default: the active one, or the newest if none is]
        #[arg(long)]
        version: Option<i64>,
    },
    /// Print the versions of a template, the newest first
    Versions {
        /// The template, such as onboarding/welcome
        key: TemplateKey,
    },
    /// Make one version the one that is sent from now on
    Activate {
        /// The template, such as onboarding/welcome
        key: TemplateKey,
        /// The version
        version: i64,
    },
    /// Let no version of a template be sent any more
    Deactivate {
        /// The template, such as onboarding/welcome
        key: TemplateKey,
    },
    /// Print the mail that somebody would get
    Preview {
        /// The template, such as onboarding/welcome
        key: TemplateKey,
        /// The version [default: the active one]
        #[arg(long)]
        version: Option<i64>,
        /// The contact whose profile is used
        #[arg(long = "as", value_name = "EMAIL")]
        contact: Option<EmailAddress>,
        /// What a message would give; JSON, or else a text
        #[arg(long = "given", value_name = "NAME=VALUE", value_parser = given)]
        given: Vec<(String, Value)>,
        /// Only this part, as it is
        #[arg(long, value_enum)]
        part: Option<MailPart>,
    },
    /// Send a template to a few people to try it; a running server sends it
    Test {
        /// The template, such as onboarding/welcome
        key: TemplateKey,
        /// To whom; up to 25 times
        #[arg(long, value_name = "EMAIL", required = true)]
        to: Vec<EmailAddress>,
        /// The version, active or not [default: the active one]
        #[arg(long)]
        version: Option<i64>,
        /// Who sends it [default: the only client that there is]
        #[arg(long, value_name = "SLUG")]
        client: Option<Slug>,
        /// One of the client's senders [default: the template's, or the client's default]
        #[arg(long, value_name = "SLUG")]
        sender: Option<Slug>,
        /// What a message would give; JSON, or else a text. Examples stand in for the rest
        #[arg(long = "given", value_name = "NAME=VALUE", value_parser = given)]
        given: Vec<(String, Value)>,
    },
    /// Check the templates of a folder, as `tidings apply` does before it writes
    Validate {
        /// The folder that holds `templates`
        folder: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum MailPart {
    Subject,
    Html,
    Text,
}

#[derive(Serialize)]
struct Shown {
    key: String,
    name: String,
    r#type: Option<String>,
    active_version: Option<i64>,
    latest_version: i64,
    updated_at: Option<String>,
}

pub(crate) async fn run(args: TemplatesArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: TemplatesCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match command {
        TemplatesCommand::List { prefix } => list(open, cx, prefix.as_deref()).await,
        TemplatesCommand::Show { key, version } => show(open, cx, key, version).await,
        TemplatesCommand::Versions { key } => versions(open, cx, &key).await,
        TemplatesCommand::Activate { key, version } => {
            let activate = Activate { key: key.clone(), version };
            templates::activate(cx, activate).await.map_err(not_changed)?;
            show(open, cx, key, Some(version)).await
        }
        TemplatesCommand::Deactivate { key } => {
            templates::deactivate(cx, key.clone()).await.map_err(not_changed)?;
            show(open, cx, key, None).await
        }
        TemplatesCommand::Preview { key, version, contact, given, part } => {
            let pick = version.map_or(Pick::Active, Pick::Number);
            let variables: Map<String, Value> = given.into_iter().collect();
            let template = Which { key, pick };
            preview(open, cx, Preview { template, as_contact: contact, variables }, part).await
        }
        TemplatesCommand::Test { key, to, version, client, sender, given } => {
            let named = match client {
                Some(slug) => Some(the_client(cx, slug).await?),
                None => None,
            };
            let client = an_only_client(cx, named).await?.ok_or_else(|| {
                Failure::usage("there is not one client alone").hint("name one with --client")
            })?;
            let context = given.into_iter().collect();
            let cmd = TestSend {
                client,
                template: key,
                version,
                to,
                context,
                sender,
                idempotency_key: None,
            };
            test(open, cx, cmd).await
        }
        TemplatesCommand::Validate { folder } => apply::check(open, cx, &folder).await,
    }
}

async fn test(open: &Open, cx: &Cx, cmd: TestSend) -> Result<(), Failure> {
    let messages = Messages::new(templates::Templates::default());
    let told = messages.test(cx, cmd).await.map_err(|error| match error {
        AcceptError::NoTemplate(_) | AcceptError::NoVersion(..) => {
            Failure::from(error).hint(WHERE_TO_LOOK)
        }
        error => error.into(),
    })?;
    let (mut out, mut refused) = (open.out(), 0);
    for one in told {
        out.json(&match one.answer {
            Ok(accepted) => json!({
                "to": one.to.as_str(),
                "id": accepted.id.get(),
                "status": accepted.status.as_str(),
                "skip_reason": accepted.skip_reason,
            }),
            Err(error) => {
                refused += 1;
                json!({ "to": one.to.as_str(), "error": error.to_string() })
            }
        })?;
    }
    out.finish()?;
    match refused {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} of them were not accepted"))),
    }
}

async fn list(open: &Open, cx: &Cx, prefix: Option<&str>) -> Result<(), Failure> {
    let mut out = open.out();
    let mut after = None;
    loop {
        let page = templates::list(cx, prefix, after, Limit::MAX).await?;
        for summary in page.items {
            out.json(&Shown::from(summary))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

async fn versions(open: &Open, cx: &Cx, key: &TemplateKey) -> Result<(), Failure> {
    let (mut out, mut before) = (open.out(), None);
    loop {
        let page = templates::versions(cx, key, before, Limit::MAX).await?;
        let page = page.ok_or_else(|| {
            Failure::failed(format!("there is no template {key}")).hint(WHERE_TO_LOOK)
        })?;
        for one in page.items {
            out.json(&json!({
                "version": one.version,
                "status": one.status.as_str(),
                "subject": one.subject,
                "created_at": one.created_at,
                "created_by": one.created_by,
            }))?;
        }
        before = page.next;
        if before.is_none() {
            return out.finish();
        }
    }
}

fn not_changed(error: ActivateError) -> Failure {
    match error {
        ActivateError::Missing(_) | ActivateError::NoVersion(..) => {
            Failure::from(error).hint(WHERE_TO_LOOK)
        }
        ActivateError::Contended | ActivateError::Store(_) => error.into(),
    }
}

async fn show(open: &Open, cx: &Cx, key: TemplateKey, version: Option<i64>) -> Result<(), Failure> {
    let picks = match version {
        Some(number) => vec![Pick::Number(number)],
        None => vec![Pick::Active, Pick::Latest],
    };
    for pick in picks {
        let Some((summary, status, stored)) = templates::find(cx, &key, pick).await? else {
            continue;
        };
        let content = &stored.content;
        return open.print(&json!({
            "key": summary.key.as_str(),
            "name": summary.name,
            "type": summary.kind,
            "description": summary.description,
            "active_version": summary.active_version,
            "latest_version": summary.latest_version,
            "version": stored.version,
            "status": status.as_str(),
            "subject": content.source.subject,
            "preheader": content.source.preheader,
            "html": content.source.html,
            "mjml": content.source.mjml,
            "text": content.source.text,
            "required_variables": content.required,
            "example_variables": content.examples,
            "default_sender": content.default_sender,
            "variables": stored.variables(),
        }));
    }
    let told = Failure::failed(format!("there is no template {key}, or not this version of it"));
    Err(told.hint(WHERE_TO_LOOK))
}

async fn preview(
    open: &Open,
    cx: &Cx,
    cmd: Preview,
    part: Option<MailPart>,
) -> Result<(), Failure> {
    let made = templates::preview(cx, cmd).await.map_err(|error| match error {
        templates::PreviewError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        error => error.into(),
    })?;
    let rendered = made.rendered;
    let text = match part {
        None => {
            return open.print(&json!({
                "version": made.version,
                "subject": rendered.subject,
                "html": rendered.html,
                "text": rendered.text,
                "missing_variables": made.missing,
                "warnings": made.warnings,
            }));
        }
        Some(MailPart::Subject) => rendered.subject,
        Some(MailPart::Text) => rendered.text,
        Some(MailPart::Html) => rendered
            .html
            .ok_or_else(|| Failure::failed("the template has no HTML").hint("use --part text"))?,
    };
    let mut out = open.out();
    out.text(&text)?;
    out.text("\n")?;
    out.finish()
}

const WHERE_TO_LOOK: &str = "`tidings templates list --workspace …` shows those that there are";

fn given(text: &str) -> Result<(String, Value), String> {
    let (name, value) =
        text.split_once('=').ok_or("give it as NAME=VALUE, such as plan=pro".to_owned())?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

impl From<Summary> for Shown {
    fn from(summary: Summary) -> Self {
        Self {
            key: summary.key.to_string(),
            name: summary.name,
            r#type: summary.kind,
            active_version: summary.active_version,
            latest_version: summary.latest_version,
            updated_at: summary.updated_at.map(|at| at.to_string()),
        }
    }
}
