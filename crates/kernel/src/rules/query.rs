//! Queries and scans: what to read, in which order, and where to go on.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::item::Item;
use crate::rules::condition::Condition;
use crate::rules::limits::{Invalid, check_key, check_limit, check_partition, check_sort};
use crate::table::{Index, Key, Table};

/// Items of one partition, of the table or of one of its indexes, in the order of the sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub table: &'static Table,
    pub index: Option<&'static str>,
    pub partition: String,
    pub range: SortRange,
    pub direction: Direction,
    pub limit: usize,
    pub cursor: Option<Cursor>,
    pub filter: Option<Condition>,
    /// So many items are looked at, at most, whether or not they pass the filter. A page may then be short or even empty
    /// and have a cursor. Without it reading goes on until the page is full or the data end.
    pub examine: Option<usize>,
    /// Also what is past its TTL and was not swept yet: for who checks what is stored, and shows it to nobody.
    pub expired: bool,
}

/// Which sort keys. They compare as UTF-8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SortRange {
    #[default]
    All,
    Eq(String),
    BeginsWith(String),
    /// Both ends included.
    Between(String, String),
    Lt(String),
    Le(String),
    Gt(String),
    Ge(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    #[default]
    Forward,
    Backward,
}

/// All items of a table in no useful order, or one of several disjoint segments of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    pub table: &'static Table,
    pub segment: u32,
    pub of: u32,
    pub limit: usize,
    pub cursor: Option<Cursor>,
    pub filter: Option<Condition>,
}

/// Some items, and where to go on. No cursor means that there is nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub items: Vec<Item>,
    pub cursor: Option<Cursor>,
}

/// Where a page ended, opaque to those who carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// After this item, in this table or index.
    pub fn after(table: &Table, index: Option<&Index>, item: &Item) -> Result<Self, Invalid> {
        let key = table.key_of(item)?;
        let place = index.and_then(|index| index.key_of(item));
        let parts = (table.name, index.map(|index| index.name), key.partition, key.sort, place);
        let json = serde_json::to_vec(&parts).expect("strings have a JSON form");
        Ok(Self(BASE64.encode(json)))
    }

    /// The item's key, and its place in the index if the query is on one.
    pub fn position(
        &self,
        table: &Table,
        index: Option<&Index>,
    ) -> Result<(Key, Option<(String, String)>), Invalid> {
        type Parts = (String, Option<String>, String, Option<String>, Option<(String, String)>);
        let bytes = BASE64.decode(&self.0).map_err(|_| Invalid::BadCursor)?;
        let (name, index_name, partition, sort, place): Parts =
            serde_json::from_slice(&bytes).map_err(|_| Invalid::BadCursor)?;
        let same = name == table.name
            && index_name.as_deref() == index.map(|index| index.name)
            && place.is_some() == index.is_some()
            && sort.is_some() == table.sort.is_some();
        let key = Key { partition, sort };
        let well_formed = check_key(table, &key).is_ok()
            && place.as_ref().is_none_or(|(partition, sort)| {
                check_partition("", partition).is_ok() && check_sort("", sort).is_ok()
            });
        if same && well_formed { Ok((key, place)) } else { Err(Invalid::BadCursor) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Cursor {
    /// Whatever came from outside. It is checked when it is used.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Query {
    pub fn new(table: &'static Table, partition: impl Into<String>) -> Self {
        Self {
            table,
            index: None,
            partition: partition.into(),
            range: SortRange::All,
            direction: Direction::Forward,
            limit: 100,
            cursor: None,
            filter: None,
            examine: None,
            expired: false,
        }
    }

    #[must_use]
    pub fn index(mut self, name: &'static str) -> Self {
        self.index = Some(name);
        self
    }

    #[must_use]
    pub fn range(mut self, range: SortRange) -> Self {
        self.range = range;
        self
    }

    #[must_use]
    pub fn begins_with(self, prefix: impl Into<String>) -> Self {
        self.range(SortRange::BeginsWith(prefix.into()))
    }

    #[must_use]
    pub fn between(self, low: impl Into<String>, high: impl Into<String>) -> Self {
        self.range(SortRange::Between(low.into(), high.into()))
    }

    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    #[must_use]
    pub fn after(mut self, cursor: Option<Cursor>) -> Self {
        self.cursor = cursor;
        self
    }

    #[must_use]
    pub fn filter(mut self, filter: Condition) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Bounds what a filter that lets little through may cost.
    #[must_use]
    pub fn examine(mut self, items: usize) -> Self {
        self.examine = Some(items);
        self
    }

    #[must_use]
    pub fn and_expired(mut self) -> Self {
        self.expired = true;
        self
    }

    /// The index that this query is on, if it is on one.
    pub fn on_index(&self) -> Result<Option<&'static Index>, Invalid> {
        let Some(name) = self.index else { return Ok(None) };
        let missing = || Invalid::NoIndex { table: self.table.name, index: name.to_owned() };
        self.table.index(name).ok_or_else(missing).map(Some)
    }

    pub fn validate(&self) -> Result<(), Invalid> {
        let index = self.on_index()?;
        check_limit(self.limit)?;
        self.examine.map_or(Ok(()), check_limit)?;
        let partition = index.map_or(self.table.partition, |index| index.partition);
        check_partition(partition, &self.partition)?;
        let sort = index.map(|index| index.sort).or(self.table.sort);
        match sort {
            Some(sort) => self.range.validate(sort)?,
            None if self.range == SortRange::All => {}
            None => return Err(Invalid::KeyShape { table: self.table.name, expected: 1 }),
        }
        if let Some(filter) = &self.filter {
            filter.validate()?;
            let of_key = |name: &&str| *name == partition || Some(*name) == sort;
            if let Some(name) = filter.attributes().into_iter().find(of_key) {
                return Err(Invalid::FilterOnKey { attribute: name.to_owned() });
            }
        }
        match &self.cursor {
            Some(cursor) => self.check_cursor(cursor, index),
            None => Ok(()),
        }
    }

    /// A cursor is a place that this query could have come to.
    fn check_cursor(&self, cursor: &Cursor, index: Option<&Index>) -> Result<(), Invalid> {
        let (key, place) = cursor.position(self.table, index)?;
        let (partition, sort) = match place {
            Some((partition, sort)) => (partition, Some(sort)),
            None => (key.partition, key.sort),
        };
        let in_range = sort.is_none_or(|sort| self.range.contains(&sort));
        if partition == self.partition && in_range { Ok(()) } else { Err(Invalid::BadCursor) }
    }
}

impl SortRange {
    pub fn contains(&self, sort: &str) -> bool {
        match self {
            SortRange::All => true,
            SortRange::Eq(bound) => sort == bound,
            SortRange::BeginsWith(prefix) => sort.starts_with(prefix.as_str()),
            SortRange::Between(low, high) => low.as_str() <= sort && sort <= high.as_str(),
            SortRange::Lt(bound) => sort < bound.as_str(),
            SortRange::Le(bound) => sort <= bound.as_str(),
            SortRange::Gt(bound) => sort > bound.as_str(),
            SortRange::Ge(bound) => sort >= bound.as_str(),
        }
    }

    /// Whether it can be a range of this key attribute.
    fn validate(&self, attribute: &str) -> Result<(), Invalid> {
        match self {
            SortRange::All => Ok(()),
            SortRange::Between(low, high) => {
                check_sort(attribute, low)?;
                check_sort(attribute, high)?;
                if low > high { Err(Invalid::EmptyRange) } else { Ok(()) }
            }
            SortRange::Eq(bound)
            | SortRange::BeginsWith(bound)
            | SortRange::Lt(bound)
            | SortRange::Le(bound)
            | SortRange::Gt(bound)
            | SortRange::Ge(bound) => check_sort(attribute, bound),
        }
    }
}

impl Scan {
    pub fn new(table: &'static Table) -> Self {
        Self { table, segment: 0, of: 1, limit: 100, cursor: None, filter: None }
    }

    #[must_use]
    pub fn segment(mut self, segment: u32, of: u32) -> Self {
        (self.segment, self.of) = (segment, of);
        self
    }

    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    #[must_use]
    pub fn after(mut self, cursor: Option<Cursor>) -> Self {
        self.cursor = cursor;
        self
    }

    #[must_use]
    pub fn filter(mut self, filter: Condition) -> Self {
        self.filter = Some(filter);
        self
    }

    pub fn validate(&self) -> Result<(), Invalid> {
        check_limit(self.limit)?;
        if self.of == 0 || self.of > 1024 || self.segment >= self.of {
            return Err(Invalid::BadSegment { segment: self.segment, of: self.of });
        }
        if let Some(filter) = &self.filter {
            filter.validate()?;
        }
        match &self.cursor {
            Some(cursor) => cursor.position(self.table, None).map(drop),
            None => Ok(()),
        }
    }
}
