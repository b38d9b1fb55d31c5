//! What can be asked of reminders.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tidings_kernel::{EmailAddress, Workspace};
use tidings_reminders::{CustomerId, DraftId, InvoiceId, Kind, Status};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings reminders draft cust_001 --name 'Ada Ltd' --email ada@example.org --amount 1500.00 --currency EUR --invoice INV-17
  tidings reminders draft-many overdue.csv --by import --left-out left-out.csv
  tidings reminders review --by 'Grace Hopper'
  tidings reminders approve 20250921_143022_cust_001 --edition 1 --by 'Grace Hopper'
  tidings reminders history cust_001
  tidings reminders paid --invoice INV-17 --amount 1500.00 --currency EUR
  tidings reminders report --from 2026-07-01T00:00:00Z --to 2026-08-01T00:00:00Z

Nothing is sent before a person has approved exactly what was seen, and a running server sends it then.")]
pub(crate) struct RemindersArgs {
    /// The workspace whose reminders are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    pub(super) workspace: Workspace,
    /// Lay each value out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pub(super) pretty: bool,
    #[command(subcommand)]
    pub(super) command: RemindersCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum RemindersCommand {
    /// Print drafts: those that wait for an approval, or those of a status or a customer
    List {
        /// approved, sending, failed, rejected, expired, superseded or withdrawn
        #[arg(long, conflicts_with = "customer")]
        status: Option<Status>,
        /// All of this customer, the newest first
        #[arg(long, value_name = "ID")]
        customer: Option<CustomerId>,
        /// Stop after so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Print a draft
    Show {
        /// The draft
        id: DraftId,
    },
    /// Draft a reminder, which waits for somebody to approve it
    Draft(Box<DraftArgs>),
    /// Draft reminders for everybody in a file who may get one, and say who was left out
    DraftMany(ManyArgs),
    /// Look at the drafts that wait, one after the other, and decide about each
    #[command(after_help = "\
It shows each draft with its facts and checks, and asks: (a)pprove, (e)dit, (r)eject, (s)kip or
(q)uit. Answers come from the terminal or from a pipe, a line each. Without --editor an edit is typed in: the
subject, then the content, then a line with a single dot.")]
    Review {
        /// Who decides: a person
        #[arg(long, value_name = "NAME")]
        by: String,
        /// The program that drafts are edited with, such as "$EDITOR"; it gets a file
        #[arg(long, value_name = "COMMAND")]
        editor: Option<String>,
    },
    /// Approve exactly what was seen; once enough people have, a running server sends it
    Approve {
        /// The draft, or several that are of one template
        #[arg(required = true)]
        ids: Vec<DraftId>,
        /// The edition that was seen
        #[arg(long, default_value_t = 1)]
        edition: i64,
        /// Who approves: a person
        #[arg(long, value_name = "NAME")]
        by: String,
    },
    /// Reject a draft
    Reject {
        /// The draft
        id: DraftId,
        /// Why
        #[arg(long)]
        reason: String,
        /// Who rejects: a person
        #[arg(long, value_name = "NAME")]
        by: String,
    },
    /// Print what was sent to a customer, and what may be sent now
    History {
        /// The customer
        customer: CustomerId,
    },
    /// Print what of one type was sent to a customer lately, the newest first
    Recent {
        /// The customer
        customer: CustomerId,
        /// first, second or final
        #[arg(long = "type", value_name = "TYPE")]
        kind: Kind,
        /// Since this time
        #[arg(long, value_name = "TIME")]
        since: Timestamp,
    },
    /// Print which reminders a customer may get, now or from when on
    Allowed {
        /// The customer
        customer: CustomerId,
    },
    /// Print what a customer has paid, as far as was told
    Payments {
        /// The customer
        customer: CustomerId,
    },
    /// Say what a customer owes, without a draft; the policy drafts in time, if it is on
    Overdue(OverdueArgs),
    /// Print what was sent between two times
    Sent(BetweenArgs),
    /// Say that something was paid; what asks for it is withdrawn
    Paid(PaidArgs),
    /// Print who owes what, the longest first
    Outstanding,
    /// Print the numbers of a time
    Report(BetweenArgs),
    /// List, write and try templates
    #[command(subcommand)]
    Templates(TemplatesCommand),
    /// Show and change the settings
    #[command(subcommand)]
    Settings(SettingsCommand),
}

#[derive(Debug, Args)]
pub(super) struct DraftArgs {
    #[command(flatten)]
    pub(super) owing: OverdueArgs,
    /// first, second or final; without it the one that comes next
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<Kind>,
    /// Exactly this subject, with --content
    #[arg(long, requires = "content", conflicts_with = "template")]
    pub(super) subject: Option<String>,
    /// Exactly this content
    #[arg(long, requires = "subject")]
    pub(super) content: Option<String>,
    /// A template; without it the one for the type
    #[arg(long, value_name = "ID")]
    pub(super) template: Option<String>,
    /// Who writes it
    #[arg(long, default_value = "operator", value_name = "NAME")]
    pub(super) by: String,
    /// With the same key the same draft is made once
    #[arg(long, value_name = "TEXT")]
    pub(super) key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct OverdueArgs {
    /// The customer, as your books call him
    pub(super) customer: CustomerId,
    /// His name
    #[arg(long)]
    pub(super) name: String,
    /// His address
    #[arg(long, value_name = "ADDRESS")]
    pub(super) email: EmailAddress,
    /// What he owes
    #[arg(long, value_name = "DECIMAL")]
    pub(super) amount: String,
    /// ISO 4217
    #[arg(long, value_name = "CODE")]
    pub(super) currency: String,
    /// An invoice, as ID, ID=AMOUNT or ID=AMOUNT@DUE-DATE
    #[arg(long = "invoice", required = true, value_name = "INVOICE")]
    pub(super) invoices: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ManyArgs {
    /// CSV with the columns customer_id, customer_name, customer_email, overdue_amount, currency, invoices
    /// (separated by `;`) and, if wanted, reminder_type and template; `-` is stdin
    pub(super) file: PathBuf,
    /// Who writes them
    #[arg(long, default_value = "import", value_name = "NAME")]
    pub(super) by: String,
    /// A name for this run; another one drafts again what came to nothing
    #[arg(long, value_name = "TEXT")]
    pub(super) run: Option<String>,
    /// Write who was left out here, and why, as CSV
    #[arg(long, value_name = "FILE")]
    pub(super) left_out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct BetweenArgs {
    /// From this time
    #[arg(long, value_name = "TIME")]
    pub(super) from: Timestamp,
    /// To this time
    #[arg(long, value_name = "TIME")]
    pub(super) to: Timestamp,
}

#[derive(Debug, Args)]
pub(super) struct PaidArgs {
    /// The customer; it may be left out where the invoice is known
    #[arg(long, value_name = "ID")]
    pub(super) customer: Option<CustomerId>,
    /// The invoice; without it he has paid all that he owed
    #[arg(long, value_name = "ID")]
    pub(super) invoice: Option<InvoiceId>,
    /// How much; without it all of the invoice
    #[arg(long, value_name = "DECIMAL", requires = "currency")]
    pub(super) amount: Option<String>,
    /// ISO 4217
    #[arg(long, value_name = "CODE", requires = "amount")]
    pub(super) currency: Option<String>,
    /// When; now without it
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<Timestamp>,
    /// Told twice, it counts once; each payment has its own
    #[arg(long, value_name = "TEXT")]
    pub(super) reference: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum TemplatesCommand {
    /// Print the active version of each
    List,
    /// Print a template
    Show {
        /// The template
        id: String,
    },
    /// Write the next version, which is the active one
    Put {
        /// The template
        id: String,
        /// A name for people
        #[arg(long)]
        name: String,
        /// first, second or final; any of them without it
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<Kind>,
        /// Liquid
        #[arg(long)]
        subject: String,
        /// Liquid
        #[arg(long)]
        body: String,
        /// The body is HTML
        #[arg(long)]
        html: bool,
    },
    /// Print what it says to an example customer
    Preview {
        /// The template
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum SettingsCommand {
    /// Print what is in force
    Show,
    /// Set all of them at once, as JSON; what is left out is as by default
    Put {
        /// Such as '{"client":"shop","two_person_above":{"EUR":"10000"}}'
        json: String,
    },
}
