//! The command line: what can be asked, and who answers.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::access::{BootstrapArgs, ClientsArgs, KeysArgs, WorkspacesArgs};
use crate::apply::ApplyArgs;
use crate::audit::AuditArgs;
use crate::backup::{BackupArgs, RestoreArgs};
use crate::campaigns::CampaignArgs;
use crate::config::{Config, Flag, Sources};
use crate::config_command::ConfigArgs;
use crate::consent::{AudiencesArgs, ExplainArgs, SettingsArgs, SubscriptionsArgs, TopicsArgs};
use crate::contact::ContactArgs;
use crate::demo::DemoArgs;
use crate::doctor::DoctorArgs;
use crate::events_command::{EventsArgs, StatsArgs};
use crate::failure::Failure;
use crate::inbox::InboxArgs;
use crate::items::ItemsArgs;
use crate::links::LinksArgs;
use crate::mail::{MailArgs, SendersArgs};
use crate::messages::MessagesArgs;
use crate::people::{ContactsArgs, SuppressionsArgs};
use crate::queues_command::QueuesArgs;
use crate::reminders::RemindersArgs;
use crate::segments::SegmentArgs;
use crate::sequences::SequenceArgs;
use crate::serve::ServeArgs;
use crate::templates::TemplatesArgs;
use crate::webhooks_command::WebhooksArgs;
use crate::worker_command::{LambdaArgs, WorkerArgs};
use crate::{
    access, apply, audit, backup, campaigns, config, config_command, consent, contact, demo,
    doctor, events_command, inbox, items, links, logging, mail, messages, people, queues_command,
    reminders, segments, sequences, serve, templates, webhooks_command, worker_command,
};

/// The messaging backend of a product in one binary
///
/// Tidings knows people, takes in what they do, and reaches them by e-mail and in-app inbox. Without any
/// configuration it keeps everything in one file, tidings.db, in the working directory.
#[derive(Debug, Parser)]
#[command(
    name = "tidings",
    version,
    max_term_width = 100,
    after_help = "\
First steps:
  tidings demo                              see it work, with a thousand made-up contacts
  tidings bootstrap                         make the first workspace and print its key
  tidings serve                             start the server on http://127.0.0.1:8080
  tidings doctor                            check that everything is as it should be
  tidings config --template > tidings.toml  make a configuration file
  tidings help items                        look at what is stored

Exit codes: 0 done, 1 it did not work, 2 the command or the configuration is wrong."
)]
pub(crate) struct Cli {
    /// The configuration file [default: ./tidings.toml; env: TIDINGS_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,
    /// Set any key of the configuration; wins over file and environment
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = setting, help_heading = "Configuration")]
    set: Vec<(String, String)>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a folder with something in it, send a mail into it, and start the server on it
    Demo(DemoArgs),
    /// Start the server
    Serve(ServeArgs),
    /// Make the first workspace, with a client and a key that can do everything
    Bootstrap(BootstrapArgs),
    /// List, make and switch off workspaces
    Workspaces(WorkspacesArgs),
    /// List, make and switch off the applications of a workspace
    Clients(ClientsArgs),
    /// List, make and revoke the API keys of a client
    Keys(KeysArgs),
    /// Look who changed what, from what to what
    Audit(AuditArgs),
    /// List, make and change the lists that people are subscribed to
    Audiences(AudiencesArgs),
    /// List, make and change the categories of mail that people can switch off
    Topics(TopicsArgs),
    /// See and change what somebody is subscribed to, and the proof of it
    Subscriptions(SubscriptionsArgs),
    /// Say whether somebody can be written to now, and why (not)
    Explain(ExplainArgs),
    /// Show and set when a workspace's marketing mail waits
    Settings(SettingsArgs),
    /// List, make and try the endpoints of others that are told what happens
    Webhooks(WebhooksArgs),
    /// Find, change, tag and erase the people of a workspace
    Contacts(Box<ContactsArgs>),
    /// Look at what was learned of one person, and at his numbers
    Contact(Box<ContactArgs>),
    /// List, add and lift suppressions: addresses that get no mail at all
    Suppressions(SuppressionsArgs),
    /// Send transactional mail, look at it, cancel it, and settle what nobody knows
    Messages(Box<MessagesArgs>),
    /// Send one message to many: make, preview, start, follow, pause and look at campaigns
    #[command(visible_alias = "campaigns")]
    Campaign(Box<CampaignArgs>),
    /// Save conditions whose members are kept up as things happen, and say who is in and why
    #[command(visible_alias = "segments")]
    Segment(Box<SegmentArgs>),
    /// Look at sequences, try them and change them, and who is in them: mails that go step by step
    #[command(visible_alias = "sequences")]
    Sequence(Box<SequenceArgs>),
    /// Remind customers of overdue invoices: draft, review, approve, and see what came of it
    Reminders(Box<RemindersArgs>),
    /// Publish to the inbox inside an app, look at it as a user does, and check its counts
    Inbox(Box<InboxArgs>),
    /// List, add and remove the addresses that a client writes from
    Senders(SendersArgs),
    /// Look at mail that was captured instead of sent
    Mail(MailArgs),
    /// List the keys that sign the links of mails, and make a new one
    Links(LinksArgs),
    /// Tell what happened to people, and look at what became of messages
    Events(EventsArgs),
    /// Count what became of messages, by day, template or sequence
    Stats(StatsArgs),
    /// Look at templates, and check those of a folder
    Templates(TemplatesArgs),
    /// Write the templates, topics, audiences, segments, sequences and memory rules of a folder
    Apply(ApplyArgs),
    /// Read and write stored items, on any engine
    Items(Box<ItemsArgs>),
    /// Look at the queues, replay what was given up, and try whether messages come through
    Queues(QueuesArgs),
    /// Work on messages outside of the server
    Worker(WorkerArgs),
    /// Work on a queue's messages as an AWS Lambda function
    Lambda(LambdaArgs),
    /// Copy the embedded database into a file, also while the server runs
    Backup(BackupArgs),
    /// Put a backup in the place of the embedded database
    Restore(RestoreArgs),
    /// Check store, disk, clock, permissions and port, and say what to do
    Doctor(DoctorArgs),
    /// Show the configuration that is in force
    Config(ConfigArgs),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  tidings completions bash > /etc/bash_completion.d/tidings
  tidings completions zsh > ~/.zfunc/_tidings
  tidings completions fish > ~/.config/fish/completions/tidings.fish")]
    Completions {
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
}

/// The whole program.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What the command line looks like, for tests and tools.
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(cli: Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Completions { shell } => return completions(*shell),
        Command::Config(args) if args.wants_template() => return config_command::print_template(),
        _ => {}
    }
    let mut flags: Vec<_> =
        cli.set.into_iter().map(|(key, value)| Flag { flag: "--set", key, value }).collect();
    match &cli.command {
        Command::Serve(args) => flags.extend(args.flags()),
        Command::Demo(args) => flags.extend(args.flags()),
        _ => {}
    }
    let settings = config::load(&Sources::gather(cli.config.as_deref(), flags)?)?;
    let config = Config::from(&settings);
    match &cli.command {
        Command::Serve(_) | Command::Lambda(_) => logging::start(&config.log),
        _ => logging::start_quietly(&settings, &config.log),
    }
    match cli.command {
        Command::Demo(args) => on_runtime(demo::run(&args, &config)),
        Command::Serve(_) => on_runtime(serve::run(&config)),
        Command::Bootstrap(args) => on_runtime(access::bootstrap(args, &config)),
        Command::Workspaces(args) => on_runtime(access::workspaces(args, &config)),
        Command::Clients(args) => on_runtime(access::clients(args, &config)),
        Command::Audit(args) => on_runtime(audit::run(args, &config)),
        Command::Reminders(args) => on_runtime(reminders::run(*args, &config)),
        Command::Keys(args) => on_runtime(access::keys(args, &config)),
        Command::Audiences(args) => on_runtime(consent::audiences(args, &config)),
        Command::Topics(args) => on_runtime(consent::topics(args, &config)),
        Command::Subscriptions(args) => on_runtime(consent::subscriptions(args, &config)),
        Command::Explain(args) => on_runtime(consent::explain(args, &config)),
        Command::Settings(args) => on_runtime(consent::settings(args, &config)),
        Command::Webhooks(args) => on_runtime(webhooks_command::run(args, &config)),
        Command::Contacts(args) => on_runtime(people::contacts(*args, &config)),
        Command::Contact(args) => on_runtime(contact::run(*args, &config)),
        Command::Segment(args) => on_runtime(segments::run(*args, &config)),
        Command::Suppressions(args) => on_runtime(people::suppressions(args, &config)),
        Command::Messages(args) => on_runtime(messages::run(*args, &config)),
        Command::Campaign(args) => on_runtime(campaigns::run(*args, &config)),
        Command::Sequence(args) => on_runtime(sequences::run(*args, &config)),
        Command::Inbox(args) => on_runtime(inbox::run(*args, &config)),
        Command::Senders(args) => on_runtime(mail::senders(args, &config)),
        Command::Mail(args) => on_runtime(mail::captured(args, &config)),
        Command::Links(args) => on_runtime(links::run(args, &config)),
        Command::Events(args) => on_runtime(events_command::events(args, &config)),
        Command::Stats(args) => on_runtime(events_command::stats(args, &config)),
        Command::Templates(args) => on_runtime(templates::run(args, &config)),
        Command::Apply(args) => on_runtime(apply::run(args, &config)),
        Command::Items(args) => on_runtime(items::run(*args, &config)),
        Command::Queues(args) => on_runtime(queues_command::run(args, &config)),
        Command::Worker(args) => on_runtime(worker_command::run(&args, &config)),
        Command::Lambda(args) => on_runtime(worker_command::lambda(&args, &config)),
        Command::Backup(args) => on_runtime(backup::back_up(&args, &config)),
        Command::Restore(args) => on_runtime(backup::restore(&args, &config)),
        Command::Doctor(args) => on_runtime(doctor::run(&args, &settings, &config)),
        Command::Config(args) => config_command::run(&args, &settings),
        Command::Completions { shell } => completions(shell),
    }
}

fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the threads could not be started")?;
    runtime.block_on(Box::pin(work))
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidings", &mut script);
    let mut out = crate::output::Output::new(crate::output::Layout::Lines);
    out.text(&String::from_utf8_lossy(&script))?;
    out.finish()
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.to_owned())),
        None => Err("give it as KEY=VALUE, such as http.listen=127.0.0.1:9000".to_owned()),
    }
}
