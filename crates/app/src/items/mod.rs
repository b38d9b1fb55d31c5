//! `tidings items`: what is stored, for operators, on any engine and table.
//!
//! Items are read and printed in the kernel's readable JSON, one a line. Nothing here holds more than a few
//! pages in memory, however large the table.

mod filter;
mod read;
mod trail;
mod write;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use tidings_kernel::{Condition, Key, Table, Workspace, tables};

use crate::config::Config;
use crate::failure::Failure;
use crate::output::Layout;
use crate::store::{self, Store};
use trail::Trail;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings items get main SUB#ada@example.org PROFILE
  tidings items query inbox USER#42 --begins-with MSG# --backward --limit 10
  tidings items query events --index TemplateIndex welcome --count
  tidings items scan main --segments 4 > main.jsonl
  tidings items put main < main.jsonl

An item is JSON. What JSON has no word for is an object with one key:
  {\"$ss\":[\"a\",\"b\"]} {\"$ns\":[1,2]} {\"$b\":\"aGk=\"} {\"$bs\":[\"aGk=\"]}: sets and bytes (base64)
  {\"$n\":\"12345678901234567890\"}: a number too long for JSON's readers")]
pub(crate) struct ItemsArgs {
    /// The workspace whose items are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each item out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: ItemsCommand,
}

#[derive(Debug, Subcommand)]
enum ItemsCommand {
    /// Print one item
    Get(OneItem),
    /// Print the items of one partition, in the order of the sort key
    Query(Box<QueryArgs>),
    /// Print all items of a table, in no order
    Scan(ScanArgs),
    /// Store items from an argument or from stdin
    Put(PutArgs),
    /// Delete one item and print what it was
    Delete(OneItem),
}

#[derive(Debug, Args)]
struct OneItem {
    /// The table
    #[arg(value_parser = table_parser())]
    table: &'static Table,
    /// The partition key
    #[arg(value_name = "PK")]
    partition: String,
    /// The sort key, if the table has one
    #[arg(value_name = "SK")]
    sort: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings items query main SUB#ada@example.org
  tidings items query main SUB#ada@example.org --begins-with SENT#
  tidings items query event lead-7 --between 2026-01-01 2026-02-01 --filter 'source=web'
  tidings items query main SUB#ada@example.org --filter 'attempts>=3' --count

Without --limit everything is printed. With it, stderr says how to go on: --cursor.")]
struct QueryArgs {
    /// The table
    #[arg(value_parser = table_parser())]
    table: &'static Table,
    /// The partition key, of the table or of the index
    #[arg(value_name = "PK")]
    partition: String,
    #[command(flatten)]
    range: RangeArgs,
    /// Ask a secondary index instead of the table
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// From the last sort key to the first
    #[arg(long)]
    backward: bool,
    /// Print at most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Go on where an earlier query ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    filters: FilterArgs,
    /// Print how many there are instead of the items
    #[arg(long, conflicts_with_all = ["limit", "cursor", "backward"])]
    count: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct RangeArgs {
    /// Sort keys that begin so
    #[arg(long, value_name = "PREFIX")]
    begins_with: Option<String>,
    /// Sort keys from A to B, both included
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    between: Option<Vec<String>>,
    /// This sort key
    #[arg(long, value_name = "SK")]
    eq: Option<String>,
    /// Sort keys below
    #[arg(long, value_name = "SK")]
    lt: Option<String>,
    /// Sort keys below, or this one
    #[arg(long, value_name = "SK")]
    le: Option<String>,
    /// Sort keys above
    #[arg(long, value_name = "SK")]
    gt: Option<String>,
    /// Sort keys above, or this one
    #[arg(long, value_name = "SK")]
    ge: Option<String>,
}

#[derive(Debug, Args)]
struct FilterArgs {
    /// Only items whose attribute is so: name=value, also != < <= > >=. The value is JSON, or else text.
    /// Several must all hold
    #[arg(long = "filter", value_name = "FILTER", value_parser = filter::parse)]
    filters: Vec<Condition>,
}

impl FilterArgs {
    fn condition(&self) -> Option<Condition> {
        match self.filters.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(Condition::All(several.to_vec())),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings items scan main > main.jsonl
  tidings items scan events --segments 8 --filter 'eventType=bounce'
  tidings items scan inbox --limit 3 --pretty")]
struct ScanArgs {
    /// The table
    #[arg(value_parser = table_parser())]
    table: &'static Table,
    /// Read so many parts of the table at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    segments: u32,
    /// Print at most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    filters: FilterArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings items put main '{\"PK\":\"SUB#ada@example.org\",\"SK\":\"PROFILE\",\"name\":\"Ada\"}'
  tidings items put main < main.jsonl
  tidings items scan main | tidings --set embedded.path=copy.db items put main

An item under the same key is replaced, unless --if-absent is given.")]
struct PutArgs {
    /// The table
    #[arg(value_parser = table_parser())]
    table: &'static Table,
    /// One item; `-` reads items from stdin, one JSON object after the other
    #[arg(value_name = "JSON", default_value = "-")]
    item: String,
    /// Leave items that are already there alone, name them on stderr, and exit with 1
    #[arg(long)]
    if_absent: bool,
}

pub(crate) async fn run(args: ItemsArgs, config: &Config) -> Result<(), Failure> {
    let layout = if args.pretty { Layout::Pretty } else { Layout::Lines };
    let store = if matches!(args.command, ItemsCommand::Put(_)) {
        Store::open(config).await?
    } else {
        store::must_exist(config)?;
        Store::open_to_look(config).await?
    };
    let items = store.workspace(&args.workspace).await?;
    let done = match args.command {
        ItemsCommand::Get(one) => read::get(&*items, &one, layout).await,
        ItemsCommand::Query(query) => read::query(&*items, *query, layout).await,
        ItemsCommand::Scan(scan) => read::scan(items, scan, layout).await,
        ItemsCommand::Put(put) => write::put(items, put, Trail::new(&store, args.workspace)).await,
        ItemsCommand::Delete(one) => {
            write::delete(&*items, &one, &Trail::new(&store, args.workspace), layout).await
        }
    };
    store.close().await;
    done
}

/// Table names as clap's possible values: the help lists them, a mistake gets the nearest one, and shells
/// complete them.
fn table_parser() -> impl TypedValueParser<Value = &'static Table> {
    PossibleValuesParser::new(tables::ALL.map(|table| table.name))
        .map(|name| tables::by_name(&name).expect("it is one of the names"))
}

impl OneItem {
    fn key(&self) -> Result<Key, Failure> {
        let Table { name, sort, .. } = self.table;
        match (sort, &self.sort) {
            (Some(_), Some(sort)) => Ok(Key::new(self.partition.as_str(), sort.as_str())),
            (None, None) => Ok(Key::single(self.partition.as_str())),
            (Some(attribute), None) => {
                let message = format!("table {name} has a sort key ({attribute}): give it too");
                let hint = format!("`tidings items query {name} PK` shows all of a partition");
                Err(Failure::usage(message).hint(hint))
            }
            (None, Some(_)) => {
                Err(Failure::usage(format!("table {name} has no sort key: leave SK out")))
            }
        }
    }
}
