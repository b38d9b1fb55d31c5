//! Reads: single items, batches, queries, counts and scans over one snapshot.
//!
//! Rows are fetched in chunks, decoded, filtered by the kernel's rules, and gathered until the page is full. What
//! is past its TTL is left out by the SQL.

use tidings_kernel::{
    Condition, Cursor, Direction, Index, Invalid, Item, Key, MAX_PAGE_BYTES, Page, Query, Scan,
    SortRange, StoreError, Table,
};

use super::rows::{self, RowKey, from_json, stored_partition};
use super::store_error;
use crate::database::{Param, Row, Tx};

/// How many rows are fetched at once, at most: a page may need more than one chunk, and memory stays bounded.
const MAX_CHUNK: usize = 256;

/// So many rows are few.
pub(super) const FEW: usize = 100;

/// Whether a query reads few rows, with one statement. A filter may throw away any number of them.
pub(super) fn is_small(query: &Query) -> bool {
    query.limit <= FEW && query.filter.is_none()
}

/// The item of a row, if there is one and it is not past its time.
pub(super) fn lasting(
    table: &Table,
    json: Option<&str>,
    now: jiff::Timestamp,
) -> Result<Option<Item>, StoreError> {
    let item = json.map(from_json).transpose()?;
    Ok(item.filter(|item| !table.is_expired(item, now)))
}

pub(super) struct Reader<'r, 'c> {
    pub(super) tx: &'r mut Tx<'c>,
    pub(super) workspace: &'r str,
    pub(super) now: jiff::Timestamp,
}

impl Reader<'_, '_> {
    pub(super) fn batch_get(
        &mut self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        let keys: Vec<_> = keys.iter().map(|key| RowKey::new(table, self.workspace, key)).collect();
        let found = rows::load(self.tx, table, &keys.iter().collect::<Vec<_>>());
        let found = found.map_err(store_error)?.into_iter();
        found.map(|json| lasting(table, json.as_deref(), self.now)).collect()
    }

    pub(super) fn query(&mut self, query: &Query) -> Result<Page, StoreError> {
        let index = query.on_index()?;
        let mut place = Place::of_query(query, index)?;
        let mut gathering = Gathering::new(query.table, index, query.limit, query.filter.as_ref());
        gathering.budget = query.examine.unwrap_or(usize::MAX);
        self.gather(gathering, |chunk, last| {
            if let Some(row) = last {
                place.go_on_after(row)?;
            }
            Ok(place.select(chunk))
        })
    }

    pub(super) fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError> {
        let mut after = match &scan.cursor {
            Some(cursor) => {
                Some(RowKey::new(scan.table, self.workspace, &cursor.position(scan.table, None)?.0))
            }
            None => None,
        }
        .map(|key| (key.pk, key.sk));
        let gathering = Gathering::new(scan.table, None, scan.limit, scan.filter.as_ref());
        self.gather(gathering, |chunk, last| {
            if let Some(row) = last {
                after = Some((text(row, 1)?, text(row, 2)?));
            }
            let mut select = Select::new(scan.table);
            if let Some((pk, sk)) = &after {
                let (pk, sk) = (select.bind(pk.clone()), select.bind(sk.clone()));
                select.wheres.push(format!("(pk, sk) > ({pk}, {sk})"));
            }
            if scan.of > 1 {
                // Every segment walks all keys of the index, and reads only its own rows: a split that needs no
                // column of its own, for the few times when a whole table is read.
                let (of, segment) = (i64::from(scan.of), i64::from(scan.segment));
                let (of, segment) = (select.bind_number(of), select.bind_number(segment));
                select.wheres.push(format!("(hashtext(pk) & 2147483647) % {of} = {segment}"));
            }
            select.tail = format!("ORDER BY pk, sk LIMIT {}", select.bind_number(chunk as i64));
            Ok(select)
        })
    }

    pub(super) fn count(&mut self, query: &Query) -> Result<u64, StoreError> {
        let index = query.on_index()?;
        let mut place = Place::of_query(query, index)?;
        if query.filter.is_none() {
            let rows = self.run(place.select_count())?;
            let row = rows.first().ok_or_else(|| corrupt("a count without a row"))?;
            return Ok(row.int(0).map_err(store_error)? as u64);
        }
        let mut count = 0;
        loop {
            let rows = self.run(place.select(MAX_CHUNK))?;
            for row in &rows {
                let item = from_json(row.text(0).map_err(store_error)?)?;
                count += u64::from(query.filter.as_ref().is_none_or(|filter| filter.holds(&item)));
            }
            match rows.last() {
                Some(last) if rows.len() == MAX_CHUNK => place.go_on_after(last)?,
                _ => return Ok(count),
            }
        }
    }

    /// Fetches chunk after chunk until the page is full, enough was looked at, or the data end. `next` makes the statement for a
    /// chunk of so many rows, after the last row of the chunk before.
    fn gather(
        &mut self,
        mut page: Gathering<'_>,
        mut next: impl FnMut(usize, Option<&Row>) -> Result<Select, StoreError>,
    ) -> Result<Page, StoreError> {
        let mut last: Option<Row> = None;
        loop {
            let chunk = page.chunk();
            let mut rows = self.run(next(chunk, last.as_ref())?)?;
            for row in &rows {
                if let Some(cursor) = page.take(from_json(row.text(0).map_err(store_error)?)?)? {
                    return Ok(Page { items: page.items, cursor: Some(cursor) });
                }
            }
            if rows.len() < chunk {
                return Ok(Page { items: page.items, cursor: None });
            }
            last = rows.pop();
            page.budget -= chunk;
            if let (0, Some(row)) = (page.budget, &last) {
                let item = from_json(row.text(0).map_err(store_error)?)?;
                let cursor = Some(Cursor::after(page.table, page.index, &item)?);
                return Ok(Page { items: page.items, cursor });
            }
        }
    }

    fn run(&mut self, select: Select) -> Result<Vec<Row>, StoreError> {
        let Select { table, columns, wheres, tail, values, expired } = select;
        let mut params = vec![Param::Text(self.workspace)];
        params.extend(values.iter().map(|value| match value {
            Bound::Text(text) => Param::Text(text),
            Bound::Int(number) => Param::Int(*number),
        }));
        let wheres: String = wheres.iter().map(|condition| format!(" AND {condition}")).collect();
        // To who wants to see it all the same, nothing has ended yet.
        let now = if expired { i64::MIN } else { self.now.as_second() };
        let sql = format!(
            "SELECT {columns} FROM items_{table} WHERE workspace = $1{wheres}
             AND (expires_at IS NULL OR expires_at > ${}) {tail}",
            params.len() + 1,
        );
        params.push(Param::Int(now));
        self.tx.query(&sql, &params).map_err(store_error)
    }
}

fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(what.into())
}

fn text(row: &Row, column: usize) -> Result<String, StoreError> {
    row.text(column).map(str::to_owned).map_err(store_error)
}

/// A page while it fills.
struct Gathering<'q> {
    table: &'static Table,
    index: Option<&'static Index>,
    limit: usize,
    filter: Option<&'q Condition>,
    items: Vec<Item>,
    bytes: usize,
    /// So many rows may still be looked at.
    budget: usize,
}

impl<'q> Gathering<'q> {
    fn new(
        table: &'static Table,
        index: Option<&'static Index>,
        limit: usize,
        filter: Option<&'q Condition>,
    ) -> Self {
        Self { table, index, limit, filter, items: Vec::new(), bytes: 0, budget: usize::MAX }
    }

    /// One more than is needed, to know whether there is more. A filter throws rows away: fetch plenty.
    fn chunk(&self) -> usize {
        let needed =
            if self.filter.is_some() { MAX_CHUNK } else { self.limit - self.items.len() + 1 };
        needed.min(MAX_CHUNK).min(self.budget)
    }

    /// Takes an item into the page. If the page was full already, there is more: the answer is where to go on.
    fn take(&mut self, item: Item) -> Result<Option<Cursor>, StoreError> {
        if self.filter.is_some_and(|filter| !filter.holds(&item)) {
            return Ok(None);
        }
        if self.items.len() == self.limit || self.bytes >= MAX_PAGE_BYTES {
            let last = self.items.last().ok_or_else(|| corrupt("a full page without items"))?;
            return Ok(Some(Cursor::after(self.table, self.index, last)?));
        }
        self.bytes += item.size();
        self.items.push(item);
        Ok(None)
    }
}

/// The text of a statement and its parameters; `$1` is the workspace.
struct Select {
    table: &'static str,
    columns: String,
    wheres: Vec<String>,
    tail: String,
    values: Vec<Bound>,
    /// Whether what is past its TTL is wanted too.
    expired: bool,
}

/// A parameter. Numbers are bound too: pasted into the text, each would be a statement of its own to prepare.
enum Bound {
    Text(String),
    Int(i64),
}

impl Select {
    fn new(table: &Table) -> Self {
        Self {
            table: table.name,
            columns: "item, pk, sk".to_owned(),
            wheres: Vec::new(),
            tail: String::new(),
            values: Vec::new(),
            expired: false,
        }
    }

    fn bind(&mut self, value: String) -> String {
        self.values.push(Bound::Text(value));
        format!("${}", self.values.len() + 1)
    }

    fn bind_number(&mut self, value: i64) -> String {
        self.values.push(Bound::Int(value));
        format!("${}", self.values.len() + 1)
    }
}

/// Which rows a query still has to read: a partition, a range of sort keys, and where it has come to.
struct Place<'q> {
    query: &'q Query,
    /// The names of the partition and sort columns.
    columns: (String, String),
    on_index: bool,
    /// The sort column, then the primary key, of the last row read.
    after: Option<[String; 3]>,
}

impl<'q> Place<'q> {
    fn of_query(query: &'q Query, index: Option<&'static Index>) -> Result<Self, StoreError> {
        let number = index.and_then(|index| query.table.indexes.iter().position(|i| i == index));
        let columns = match number {
            Some(number) => (format!("index{}_pk", number + 1), format!("index{}_sk", number + 1)),
            None => ("pk".to_owned(), "sk".to_owned()),
        };
        let after = match &query.cursor {
            Some(cursor) => {
                let (key, place) = cursor.position(query.table, index)?;
                let sort = key.sort.unwrap_or_default();
                let (partition, order) = match place {
                    Some((partition, order)) => (partition, order),
                    None => (key.partition.clone(), sort.clone()),
                };
                if partition != query.partition {
                    return Err(Invalid::BadCursor.into());
                }
                Some([order, stored_partition(&key.partition).into_owned(), sort])
            }
            None => None,
        };
        Ok(Self { query, columns, on_index: index.is_some(), after })
    }

    fn go_on_after(&mut self, row: &Row) -> Result<(), StoreError> {
        self.after = Some([text(row, 3)?, text(row, 1)?, text(row, 2)?]);
        Ok(())
    }

    /// What is left to read, in no order yet.
    fn matching(&self) -> Select {
        let (partition, sort) = &self.columns;
        let mut select = Select::new(self.query.table);
        select.expired = self.query.expired;
        let wanted = select.bind(stored_partition(&self.query.partition).into_owned());
        select.wheres.push(format!("{partition} = {wanted}"));
        let mut bound = |operator: &str, value: &str| {
            let value = select.bind(value.to_owned());
            select.wheres.push(format!("{sort} {operator} {value}"));
        };
        match &self.query.range {
            SortRange::All => {}
            SortRange::Eq(key) => bound("=", key),
            SortRange::Lt(key) => bound("<", key),
            SortRange::Le(key) => bound("<=", key),
            SortRange::Gt(key) => bound(">", key),
            SortRange::Ge(key) => bound(">=", key),
            SortRange::Between(low, high) => {
                bound(">=", low);
                bound("<=", high);
            }
            SortRange::BeginsWith(prefix) => {
                bound(">=", prefix);
                if let Some(end) = first_after_prefix(prefix) {
                    bound("<", &end);
                }
            }
        }
        if let Some(after) = &self.after {
            let operator = match self.query.direction {
                Direction::Forward => ">",
                Direction::Backward => "<",
            };
            let condition = if self.on_index {
                let [order, pk, sk] = after.clone().map(|value| select.bind(value));
                format!("({sort}, pk, sk) {operator} ({order}, {pk}, {sk})")
            } else {
                format!("sk {operator} {}", select.bind(after[2].clone()))
            };
            select.wheres.push(condition);
        }
        select
    }

    fn select_count(&self) -> Select {
        let mut select = self.matching();
        select.columns = "count(*)".to_owned();
        select
    }

    fn select(&self, chunk: usize) -> Select {
        let sort = &self.columns.1;
        let mut select = self.matching();
        let direction = match self.query.direction {
            Direction::Forward => "ASC",
            Direction::Backward => "DESC",
        };
        select.columns = format!("item, pk, sk, {sort}");
        let chunk = select.bind_number(chunk as i64);
        select.tail = if self.on_index {
            format!("ORDER BY {sort} {direction}, pk {direction}, sk {direction} LIMIT {chunk}")
        } else {
            format!("ORDER BY sk {direction} LIMIT {chunk}")
        };
        select
    }
}

/// The smallest text above all that begin so, if there is one. Code points sort like their UTF-8 bytes.
fn first_after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::first_after_prefix;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        for (prefix, end) in [
            ("EVT#", Some("EVT$")),
            ("a\u{10FFFF}", Some("b")),
            ("\u{D7FF}", Some("\u{E000}")),
            ("\u{10FFFF}", None),
            ("", None),
        ] {
            assert_eq!(first_after_prefix(prefix).as_deref(), end);
        }
    }
}
