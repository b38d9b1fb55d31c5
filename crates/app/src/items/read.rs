//! `items get`, `query` and `scan`: pages in, lines out.

use std::sync::Arc;

use tidings_kernel::{
    Cursor, Direction, Item, ItemStore, Query, Scan, SortRange, StoreError, Table,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{OneItem, QueryArgs, RangeArgs, ScanArgs};
use crate::failure::Failure;
use crate::output::{Layout, Output, say};

/// Items per request. A page never exceeds 1 MB anyway.
const PAGE: u64 = 500;

pub(super) async fn get(
    items: &dyn ItemStore,
    one: &OneItem,
    layout: Layout,
) -> Result<(), Failure> {
    let key = one.key()?;
    match items.get(one.table, &key).await? {
        Some(item) => {
            let mut out = Output::new(layout);
            out.json(&item)?;
            out.finish()
        }
        None => Err(Failure::failed(format!("there is no item {key} in table {}", one.table.name))
            .hint("--workspace chooses another workspace")),
    }
}

pub(super) async fn query(
    items: &dyn ItemStore,
    args: QueryArgs,
    layout: Layout,
) -> Result<(), Failure> {
    let mut query = Query {
        index: index_name(args.table, args.index.as_deref())?,
        range: args.range.into(),
        direction: if args.backward { Direction::Backward } else { Direction::Forward },
        limit: PAGE as usize,
        cursor: args.cursor.map(Cursor::from),
        filter: args.filters.condition(),
        ..Query::new(args.table, args.partition)
    };
    let mut out = Output::new(layout);
    if args.count {
        out.json(&items.count(query).await?)?;
        return out.finish();
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    loop {
        query.limit = left.min(PAGE) as usize;
        let page = items.query(query.clone()).await?;
        left -= page.items.len() as u64;
        for item in &page.items {
            out.json(item)?;
        }
        query.cursor = page.cursor;
        match &query.cursor {
            None => return out.finish(),
            Some(cursor) if left == 0 => {
                out.finish()?;
                say(&format!("there may be more: --cursor {}", cursor.as_str()));
                return Ok(());
            }
            Some(_) => {}
        }
    }
}

pub(super) async fn scan(
    items: Arc<dyn ItemStore>,
    args: ScanArgs,
    layout: Layout,
) -> Result<(), Failure> {
    // One page may wait here; every segment holds one more at most.
    let (pages, mut arrived) = mpsc::channel::<Result<Vec<Item>, StoreError>>(1);
    let mut segments = JoinSet::new();
    for segment in 0..args.segments {
        let scan = Scan {
            table: args.table,
            segment,
            of: args.segments,
            limit: args.limit.unwrap_or(PAGE).min(PAGE) as usize,
            cursor: None,
            filter: args.filters.condition(),
        };
        segments.spawn(scan_segment(Arc::clone(&items), scan, pages.clone()));
    }
    drop(pages);
    let mut out = Output::new(layout);
    let mut left = args.limit.unwrap_or(u64::MAX);
    while let Some(page) = arrived.recv().await {
        for item in page? {
            if left == 0 {
                return out.finish();
            }
            out.json(&item)?;
            left -= 1;
        }
    }
    out.finish()
}

async fn scan_segment(
    items: Arc<dyn ItemStore>,
    mut scan: Scan,
    pages: mpsc::Sender<Result<Vec<Item>, StoreError>>,
) {
    loop {
        let (page, cursor) = match items.scan(scan.clone()).await {
            Ok(page) => (Ok(page.items), page.cursor),
            Err(error) => (Err(error), None),
        };
        // A closed channel means that enough is printed.
        if pages.send(page).await.is_err() || cursor.is_none() {
            return;
        }
        scan.cursor = cursor;
    }
}

fn index_name(table: &Table, name: Option<&str>) -> Result<Option<&'static str>, Failure> {
    let Some(name) = name else { return Ok(None) };
    if let Some(index) = table.index(name) {
        return Ok(Some(index.name));
    }
    let failure = Failure::usage(format!("table {} has no index {name:?}", table.name));
    let names: Vec<_> = table.indexes.iter().map(|index| index.name).collect();
    Err(if names.is_empty() {
        failure.hint("it has no index at all; query it by its partition key")
    } else {
        failure.hint(format!("it has {}", names.join(", ")))
    })
}

impl From<RangeArgs> for SortRange {
    fn from(args: RangeArgs) -> Self {
        let between = args.between.map(|ends| {
            let [low, high] = <[String; 2]>::try_from(ends).expect("clap takes exactly two");
            SortRange::Between(low, high)
        });
        between
            .or(args.begins_with.map(SortRange::BeginsWith))
            .or(args.eq.map(SortRange::Eq))
            .or(args.lt.map(SortRange::Lt))
            .or(args.le.map(SortRange::Le))
            .or(args.gt.map(SortRange::Gt))
            .or(args.ge.map(SortRange::Ge))
            .unwrap_or_default()
    }
}
