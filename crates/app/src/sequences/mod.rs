//! `tidings sequence`: mails that go out by themselves, for operators.
//!
//! Here: which command is answered by whom (this file) and what can be asked (`args`). Looking at sequences is in `looks`,
//! their files in `files` and `yaml`, who is in them in `people` and `bulk`, those who could not go on in `failed`, and how
//! all that is shown in `form` and `words`.

mod args;
mod bulk;
mod failed;
mod files;
mod form;
mod looks;
mod people;
mod words;
mod yaml;

use tidings_access::{Cx, Slug};
use tidings_kernel::EmailAddress;
use tidings_sequences::definition::{Definition, schema};
use tidings_sequences::executions::Simulate;
use tidings_sequences::versions::{self, Shown, Status};

pub(crate) use self::args::SequenceArgs;
use self::args::{FailedCommand, PeopleCommand, SequenceCommand};
pub(crate) use self::files::Written;
use self::form::Form;
use self::looks::Look;
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

pub(crate) async fn run(args: SequenceArgs, config: &Config) -> Result<(), Failure> {
    let form = Form::of(&args);
    match &args.command {
        SequenceCommand::Schema => return print_schema(),
        SequenceCommand::Check { files, offline: true } => {
            return files::check_offline(form, files);
        }
        _ => {}
    }
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, form, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: SequenceCommand, form: Form, cx: &Cx) -> Result<(), Failure> {
    use SequenceCommand as C;
    match command {
        C::List { status, limit } => looks::list(form, cx, status, limit).await,
        C::Show { sequence, version, mermaid, yaml } => {
            let look = match (mermaid, yaml) {
                (true, _) => Look::Mermaid,
                (false, true) => Look::Yaml,
                (false, false) => Look::Whole,
            };
            looks::show(form, cx, (&sequence, version), look).await
        }
        C::Versions { sequence, limit } => looks::list_versions(form, cx, &sequence, limit).await,
        C::Check { files, .. } => files::check(form, cx, &files).await,
        C::Apply { file } => files::apply(form, cx, &file).await,
        C::Pause { sequence } => looks::set_status(form, cx, &sequence, Status::Paused).await,
        C::Resume { sequence } => looks::set_status(form, cx, &sequence, Status::Active).await,
        C::Archive { sequence } => looks::set_status(form, cx, &sequence, Status::Archived).await,
        C::Simulate { sequence, contact, at, data, events } => {
            let cmd = Simulate {
                sequence: sequence.to_string(),
                email: contact,
                input: data.unwrap_or_else(|| serde_json::json!({})),
                at: at.unwrap_or_else(|| cx.now()),
                assumed: events,
            };
            looks::simulate(form, cx, cmd).await
        }
        C::People(command) => of_people(command, form, cx).await,
        C::Failed(command) => of_failed(command, form, cx).await,
        C::Funnel { sequence, version } => looks::funnel(form, cx, &sequence, version).await,
        C::Schema => print_schema(),
    }
}

async fn of_people(command: PeopleCommand, form: Form, cx: &Cx) -> Result<(), Failure> {
    use PeopleCommand as C;
    match command {
        C::Enrol { sequence, email: Some(email), data, .. } => {
            people::enrol(form, cx, (&sequence, email), data).await
        }
        C::Enrol { sequence, email: None, condition, audience, tag, data, yes, no_follow } => {
            let many = bulk::Many { condition, audience, tag, data };
            bulk::enrol(form, cx, (&sequence, many), (yes, no_follow)).await
        }
        C::Enrolment { id } => bulk::follow(form, cx, &id).await,
        C::Stop { sequence, email } => people::stop(form, cx, &sequence, &email).await,
        C::Who { sequence, limit, after } => people::who(form, cx, &sequence, (limit, after)).await,
        C::Of { email } => people::of(form, cx, &email).await,
        C::Skip { execution } => people::skip(form, cx, &execution).await,
    }
}

async fn of_failed(command: FailedCommand, form: Form, cx: &Cx) -> Result<(), Failure> {
    use FailedCommand as C;
    match command {
        C::Failed { sequence, limit } => failed::list(form, cx, &sequence, limit).await,
        C::Retry { sequence, execution, .. } => failed::retry(form, cx, &sequence, execution).await,
        C::Drop { sequence, execution } => failed::drop_one(form, cx, &sequence, &execution).await,
    }
}

fn print_schema() -> Result<(), Failure> {
    let mut out = crate::output::Output::new(crate::output::Layout::Pretty);
    out.json(&schema())?;
    out.finish()
}

async fn the_sequence(cx: &Cx, id: &Slug) -> Result<Shown, Failure> {
    versions::show(cx, id.as_str()).await?.ok_or_else(|| missing(id))
}

fn missing(id: &Slug) -> Failure {
    Failure::failed(format!("there is no sequence {id}"))
        .hint("`tidings sequence list` shows those that there are")
}

/// The command that says why somebody may not come in.
fn explain(cx: &Cx, definition: &Definition, email: &EmailAddress) -> String {
    let kind = if definition.transactional { "transactional" } else { "sequence" };
    let mut command =
        format!("tidings explain {email} --kind {kind} --client {}", definition.client);
    let named = [("audience", &definition.audience), ("topic", &definition.topic)];
    for (name, slug) in named {
        if let Some(slug) = slug {
            command.push_str(&format!(" --{name} {slug}"));
        }
    }
    let workspace = cx.workspace().as_str();
    if workspace != "default" {
        command.push_str(&format!(" --workspace {workspace}"));
    }
    command
}

fn missing_version(id: &Slug, version: i64) -> Failure {
    Failure::failed(format!("sequence {id} has no version {version}"))
        .hint(format!("`tidings sequence versions {id}` shows those that there are"))
}
