//! What can be asked of inboxes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::{Category, InboxKey, UserId};
use tidings_kernel::Workspace;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings inbox publish app --to ada --to bob --title 'Your order is on its way' --body 'It comes on Friday.' --cta /orders/7
  tidings inbox publish app --everyone --title 'We are back' --category news --expires-in 7d --key back-2026-07
  tidings inbox publish app --file post.json
  tidings inbox post app 0GV8YLWQ3K9D0F2XZ
  tidings inbox redact app 0GV8YLWQ3K9D0F2XZ
  tidings inbox list app ada --unread
  tidings inbox counts app ada
  tidings inbox token ada --inbox app
  tidings inbox sign-out ada
  tidings inbox verify --repair

An inbox needs no setup: the first message makes it. Users are known by the ids that your app has for them.")]
pub(crate) struct InboxArgs {
    /// The workspace whose inboxes are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    pub(super) workspace: Workspace,
    /// Lay each value out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pub(super) pretty: bool,
    #[command(subcommand)]
    pub(super) command: InboxCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum InboxCommand {
    /// Publish a message to users or to everyone
    Publish(Box<PublishArgs>),
    /// Print how far a post is
    Post {
        /// The inbox
        inbox: InboxKey,
        /// The id of the post, which all of its messages share
        id: MessageId,
    },
    /// Print the posts of an inbox, the newest first
    Posts {
        /// The inbox
        inbox: InboxKey,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Take a post away from all who have it
    Redact {
        /// The inbox
        inbox: InboxKey,
        /// The id of the post
        id: MessageId,
    },
    /// Take back a post whose time has not come
    Cancel {
        /// The inbox
        inbox: InboxKey,
        /// The id of the post
        id: MessageId,
    },
    /// Print a user's messages as he sees them, the newest first
    List(ListArgs),
    /// Print how many messages a user has, and how many are unread
    Counts {
        /// The inbox
        inbox: InboxKey,
        /// The user
        user: UserId,
    },
    /// Print one message of a user as he sees it
    Show {
        /// The inbox
        inbox: InboxKey,
        /// The user
        user: UserId,
        /// The id of the message
        id: MessageId,
    },
    /// Mark messages as read for a user
    MarkRead(MarkArgs),
    /// Mark messages as unread for a user; archived ones come back
    MarkUnread(MarkArgs),
    /// Mark messages as seen for a user, which does not read them
    MarkSeen(MarkArgs),
    /// Put messages of a user away, which reads them
    Archive(MarkArgs),
    /// Take messages of a user out of the archive
    Unarchive(MarkArgs),
    /// Mark all messages of a user as read
    ReadAll {
        /// The inbox
        inbox: InboxKey,
        /// The user
        user: UserId,
        /// Only those of this category
        #[arg(long)]
        category: Option<Category>,
        /// What is newer than this message stays unread
        #[arg(long, value_name = "ID")]
        up_to: Option<MessageId>,
    },
    /// Show and set what holds for all inboxes of the workspace
    #[command(subcommand)]
    Settings(SettingsCommand),
    /// Show and set what holds for one inbox
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make a token with which a device can see a user's inbox
    Token {
        /// The user
        user: UserId,
        /// The only inboxes that it opens; without it, all of the workspace
        #[arg(long = "inbox", value_name = "INBOX")]
        inboxes: Vec<InboxKey>,
        /// How long it is good, up to 86400; the refresh token longer
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        expires_in: i64,
    },
    /// End every token that a user has, and his streams; his messages stay
    SignOut {
        /// The user
        user: UserId,
    },
    /// Count everything anew, and tell which counts are wrong
    #[command(
        after_help = "Ends with exit code 1 if a count is wrong and was not repaired, or could not be made."
    )]
    Verify {
        /// Put the counts right that are wrong
        #[arg(long)]
        repair: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings inbox publish app --to ada --title 'Hello' --body 'It works.'
  tidings inbox publish app --users-from users.txt --title 'Hello' --body-json '{\"text\":\"It works.\"}'
  tidings inbox publish app --everyone --title 'Hello' --at 2026-12-24T18:00:00Z
  tidings inbox publish app --file post.json

The file of --file is what the API takes:
  {\"to\": {\"users\": [\"ada\"]}, \"title\": \"Hello\", \"body\": {\"text\": \"It works.\"}, \"category\": \"news\"}

More than 1,000 users get it by and by, from a running server.")]
pub(super) struct PublishArgs {
    /// The inbox
    pub(super) inbox: InboxKey,
    /// A user who gets it; can be given more than once
    #[arg(long, value_name = "USER")]
    pub(super) to: Vec<String>,
    /// A file with a user on each line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) users_from: Option<PathBuf>,
    /// Everyone gets it
    #[arg(long, conflicts_with_all = ["to", "users_from"])]
    pub(super) everyone: bool,
    /// What it is called, in up to 200 characters
    #[arg(long, required_unless_present = "file")]
    pub(super) title: Option<String>,
    /// What it says, as text
    #[arg(long, value_name = "TEXT")]
    pub(super) body: Option<String>,
    /// What it says, as any JSON
    #[arg(long, value_name = "JSON", conflicts_with = "body")]
    pub(super) body_json: Option<String>,
    /// Where it leads: an address, a path, or an address of an app
    #[arg(long, value_name = "URI")]
    pub(super) cta: Option<String>,
    /// What kind of message it is
    #[arg(long)]
    pub(super) category: Option<String>,
    /// What readers are told of whom it went to
    #[arg(long)]
    pub(super) label: Option<String>,
    /// Publishing again with the same key changes nothing
    #[arg(long)]
    pub(super) key: Option<String>,
    /// When, within a year [default: now]
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<Timestamp>,
    /// How long it lives: days, minutes or seconds, like 30d [default: what the settings say]
    #[arg(long, value_name = "TIME")]
    pub(super) expires_in: Option<String>,
    /// Who sends it
    #[arg(long, default_value = "operator")]
    pub(super) sender: String,
    /// The whole post, as JSON; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "to", "users_from", "everyone", "title", "body", "body_json", "cta", "category", "label", "key", "at",
        "expires_in",
    ])]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct MarkArgs {
    /// The inbox
    pub(super) inbox: InboxKey,
    /// The user
    pub(super) user: UserId,
    /// Up to 50 messages
    #[arg(required = true)]
    pub(super) ids: Vec<MessageId>,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// The inbox
    pub(super) inbox: InboxKey,
    /// The user
    pub(super) user: UserId,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(super) limit: usize,
    /// Only those of this category
    #[arg(long)]
    pub(super) category: Option<Category>,
    /// Only those that are unread
    #[arg(long)]
    pub(super) unread: bool,
    /// Those that were archived, instead of those that were not
    #[arg(long)]
    pub(super) archived: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum SettingsCommand {
    /// Print the settings
    Show,
    /// Change what is given, and leave the rest as it is
    #[command(after_help = "\
Examples:
  tidings inbox settings set --ttl 90d --look-back 3d
  tidings inbox settings set --allow-origin https://app.example.org --allow-origin http://localhost:3000
  tidings inbox settings set --no-ttl --no-origins")]
    Set {
        /// A name for operators
        #[arg(long)]
        title: Option<String>,
        /// How long messages live: days, minutes or seconds, like 30d
        #[arg(long, value_name = "TIME")]
        ttl: Option<String>,
        /// Messages live for 30 days again, where their inbox says nothing else
        #[arg(long, conflicts_with = "ttl")]
        no_ttl: bool,
        /// How old public messages may be that a new user sees, like 7d
        #[arg(long, value_name = "TIME")]
        look_back: Option<String>,
        /// A new user sees the public messages of 7 days again
        #[arg(long, conflicts_with = "look_back")]
        no_look_back: bool,
        /// A web page's origin that may read inboxes; can be given more than once, and replaces those before
        #[arg(long = "allow-origin", value_name = "ORIGIN")]
        allow_origins: Vec<String>,
        /// No web page of another origin may read inboxes any more
        #[arg(long, conflicts_with = "allow_origins")]
        no_origins: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the inboxes that have a configuration
    List,
    /// Print the configuration of an inbox
    Show {
        /// The inbox
        inbox: InboxKey,
    },
    /// Change what is given, and leave the rest as it is
    #[command(after_help = "\
Examples:
  tidings inbox config set app --title 'In the app' --ttl default=90d --ttl news=7d")]
    Set {
        /// The inbox
        inbox: InboxKey,
        /// A name for operators
        #[arg(long)]
        title: Option<String>,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// How long messages of a category live, or of all others (default); can be given more than once, and replaces those before
        #[arg(long = "ttl", value_name = "CATEGORY=TIME", value_parser = time)]
        times: Vec<(String, String)>,
        /// Messages live as long as the settings of the workspace say again
        #[arg(long, conflicts_with = "times")]
        no_ttl: bool,
    },
    /// Forget the configuration of an inbox; its messages stay
    Delete {
        /// The inbox
        inbox: InboxKey,
    },
}

fn time(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((category, time)) => Ok((category.to_owned(), time.to_owned())),
        None => Err("use a category and a time, like news=7d".to_owned()),
    }
}
