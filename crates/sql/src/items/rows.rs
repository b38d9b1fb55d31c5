//! Rows of items: their SQL, and how a batch of them is loaded, stored and removed.
//!
//! SQLite runs a prepared statement for each row, which costs it a few microseconds. PostgreSQL gets all rows
//! as arrays in one statement, because each statement costs it a round trip.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidings_kernel::{Item, Key, StoreError, Table, hex};

use crate::database::{DatabaseError, Dialect, Param, Tx};

/// The longest partition key that is stored as it is. PostgreSQL cannot index much more.
const LONGEST_PLAIN: usize = 1024;

/// Where an item is: its table, and the columns of its primary key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RowKey {
    pub(super) table: &'static Table,
    pub(super) workspace: String,
    pub(super) pk: String,
    pub(super) sk: String,
}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.table.name.cmp(other.table.name))
            .then_with(|| self.workspace.cmp(&other.workspace))
            .then_with(|| self.pk.cmp(&other.pk))
            .then_with(|| self.sk.cmp(&other.sk))
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl RowKey {
    pub(super) fn new(table: &'static Table, workspace: &str, key: &Key) -> Self {
        Self {
            table,
            workspace: workspace.to_owned(),
            pk: stored_partition(&key.partition).into_owned(),
            sk: key.sort.clone().unwrap_or_default(),
        }
    }
}

/// A partition key as its column holds it. Only equality matters there, so a long one is cut and gets its
/// hash; the result is longer than any key that is stored plainly, and cannot be mistaken for one.
pub(super) fn stored_partition(partition: &str) -> Cow<'_, str> {
    if partition.len() <= LONGEST_PLAIN {
        return Cow::Borrowed(partition);
    }
    let cut = partition.floor_char_boundary(LONGEST_PLAIN - 8);
    let hash = Sha256::digest(partition.as_bytes());
    Cow::Owned(format!("{}…{}", &partition[..cut], hex(&hash)))
}

/// What stands in a row beside its key.
pub(super) struct RowBody {
    json: Arc<str>,
    expires_at: Option<i64>,
    /// Partition and sort column for each index of the table.
    indexes: Vec<Option<(String, String)>>,
}

impl RowBody {
    pub(super) fn new(table: &Table, item: &Item, json: Arc<str>) -> Self {
        let indexes = table.indexes.iter().map(|index| {
            let (pk, sk) = index.key_of(item)?;
            Some((stored_partition(pk).into_owned(), sk.to_owned()))
        });
        Self { json, expires_at: table.expires_at(item), indexes: indexes.collect() }
    }
}

pub(super) fn to_json(item: &Item) -> String {
    serde_json::to_string(item).expect("every item has a JSON form")
}

pub(super) fn from_json(json: &str) -> Result<Item, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Corrupt(Box::new(error)))
}

fn optional<'a>(text: Option<&'a str>) -> Param<'a> {
    text.map_or(Param::Null, Param::Text)
}

/// The JSON under each key; the keys are all of one table.
pub(super) fn load(
    tx: &mut Tx<'_>,
    table: &Table,
    keys: &[&RowKey],
) -> Result<Vec<Option<String>>, DatabaseError> {
    if let Some(connection) = tx.sqlite() {
        let sql = format!(
            "SELECT item FROM items_{} WHERE workspace = $1 AND pk = $2 AND sk = $3",
            table.name
        );
        let sets = keys.iter().map(|key| [&*key.workspace, &*key.pk, &*key.sk].map(Param::Text));
        return tx.first_text_each(connection, &sql, sets);
    }
    let mut found = vec![None; keys.len()];
    // A subquery is looked up for each key. A join might go through the whole table, as long as PostgreSQL does not know
    // how much there is.
    let sql = format!(
        "SELECT k.n, (SELECT i.item FROM items_{} i WHERE i.workspace = k.w AND i.pk = k.pk AND i.sk = k.sk)
         FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (w, pk, sk, n)",
        table.name
    );
    let [workspaces, pks, sks] = key_columns(keys);
    let params = [Param::Texts(&workspaces), Param::Texts(&pks), Param::Texts(&sks)];
    for row in tx.query(&sql, &params)? {
        let place = found.get_mut((row.int(0)? - 1) as usize).ok_or(DatabaseError::NoRow)?;
        *place = row.optional_text(1)?.map(str::to_owned);
    }
    Ok(found)
}

fn key_columns<'a>(keys: &[&'a RowKey]) -> [Vec<Option<&'a str>>; 3] {
    let column = |part: fn(&RowKey) -> &str| keys.iter().map(|key| Some(part(key))).collect();
    [column(|key| &key.workspace), column(|key| &key.pk), column(|key| &key.sk)]
}

/// The columns after the primary key, in the order of their parameters.
fn body_columns(table: &Table) -> Vec<String> {
    let mut columns = vec!["expires_at".to_owned(), "item".to_owned()];
    for number in 1..=table.indexes.len() {
        columns.push(format!("index{number}_pk"));
        columns.push(format!("index{number}_sk"));
    }
    columns
}

/// Writes rows of one table, in place of those that are there.
pub(super) fn store(
    tx: &mut Tx<'_>,
    table: &Table,
    rows: &[(&RowKey, RowBody)],
) -> Result<(), DatabaseError> {
    let columns = body_columns(table);
    let updates: Vec<_> = columns.iter().map(|name| format!("{name} = excluded.{name}")).collect();
    let upsert = format!("ON CONFLICT (workspace, pk, sk) DO UPDATE SET {}", updates.join(", "));
    let sql = insert(tx.dialect(), table, &columns, &upsert);
    if tx.dialect() == Dialect::Postgres {
        let columns = Columns::of(table, rows);
        return tx.execute(&sql, &columns.params()).map(drop);
    }
    tx.execute_each(&sql, rows.iter().map(|(key, body)| single_params(key, body))).map(drop)
}

/// Writes those rows of one table that are not there yet, and tells of each whether it was written.
pub(super) fn store_new(
    tx: &mut Tx<'_>,
    table: &Table,
    rows: &[(&RowKey, RowBody)],
) -> Result<Vec<bool>, DatabaseError> {
    let columns = body_columns(table);
    let unless = "ON CONFLICT (workspace, pk, sk) DO NOTHING";
    if tx.dialect() == Dialect::Sqlite {
        let sql = insert(tx.dialect(), table, &columns, unless);
        let counts = tx.execute_each(&sql, rows.iter().map(|(key, body)| single_params(key, body)));
        return Ok(counts?.into_iter().map(|count| count == 1).collect());
    }
    let unless = format!("{unless} RETURNING workspace, pk, sk");
    let sql = insert(tx.dialect(), table, &columns, &unless);
    let found = tx.query(&sql, &Columns::of(table, rows).params())?;
    let mut written = HashSet::with_capacity(found.len());
    for row in &found {
        written.insert((row.text(0)?, row.text(1)?, row.text(2)?));
    }
    let is_written = |(key, _): &(&RowKey, RowBody)| {
        written.contains(&(key.workspace.as_str(), key.pk.as_str(), key.sk.as_str()))
    };
    Ok(rows.iter().map(is_written).collect())
}

/// The statement for one row on SQLite, and for any number of them on PostgreSQL.
fn insert(dialect: Dialect, table: &Table, columns: &[String], conflict: &str) -> String {
    let names = columns.join(", ");
    let insert = format!("INSERT INTO items_{} (workspace, pk, sk, {names})", table.name);
    if dialect == Dialect::Sqlite {
        let places: Vec<_> = (1..=3 + columns.len()).map(|number| format!("${number}")).collect();
        return format!("{insert} VALUES ({}) {conflict}", places.join(", "));
    }
    let kinds = columns.iter().map(|name| if name == "expires_at" { "bigint" } else { "text" });
    let places: Vec<_> = ["text"; 3]
        .into_iter()
        .chain(kinds)
        .enumerate()
        .map(|(position, kind)| format!("${}::{kind}[]", position + 1))
        .collect();
    let chosen: Vec<_> = columns
        .iter()
        .map(|name| if name == "item" { "r.item::json".to_owned() } else { format!("r.{name}") })
        .collect();
    format!(
        "{insert} SELECT r.workspace, r.pk, r.sk, {} FROM unnest({}) AS r (workspace, pk, sk, {names}) {conflict}",
        chosen.join(", "),
        places.join(", "),
    )
}

fn single_params<'a>(key: &'a RowKey, body: &'a RowBody) -> Vec<Param<'a>> {
    let mut params = vec![
        Param::Text(&key.workspace),
        Param::Text(&key.pk),
        Param::Text(&key.sk),
        body.expires_at.map_or(Param::Null, Param::Int),
        Param::Text(&body.json),
    ];
    for place in &body.indexes {
        params.push(optional(place.as_ref().map(|(pk, _)| pk.as_str())));
        params.push(optional(place.as_ref().map(|(_, sk)| sk.as_str())));
    }
    params
}

/// Rows as PostgreSQL gets them: an array for each column.
struct Columns<'a> {
    keys: [Vec<Option<&'a str>>; 3],
    expiries: Vec<Option<i64>>,
    jsons: Vec<Option<&'a str>>,
    indexes: Vec<Vec<Option<&'a str>>>,
}

impl<'a> Columns<'a> {
    fn of(table: &Table, rows: &'a [(&'a RowKey, RowBody)]) -> Self {
        let keys: Vec<_> = rows.iter().map(|(key, _)| *key).collect();
        let part = |number, part: fn(&(String, String)) -> &String| {
            rows.iter().map(|(_, body)| index_part(body, number, part)).collect()
        };
        let indexes = (0..table.indexes.len())
            .flat_map(|number| [part(number, |place| &place.0), part(number, |place| &place.1)]);
        Self {
            keys: key_columns(&keys),
            expiries: rows.iter().map(|(_, body)| body.expires_at).collect(),
            jsons: rows.iter().map(|(_, body)| Some(&*body.json)).collect(),
            indexes: indexes.collect(),
        }
    }

    fn params(&self) -> Vec<Param<'_>> {
        let mut params: Vec<_> = self.keys.iter().map(|column| Param::Texts(column)).collect();
        params.extend([Param::Ints(&self.expiries), Param::Texts(&self.jsons)]);
        params.extend(self.indexes.iter().map(|column| Param::Texts(column)));
        params
    }
}

fn index_part(
    body: &RowBody,
    number: usize,
    part: fn(&(String, String)) -> &String,
) -> Option<&str> {
    body.indexes.get(number)?.as_ref().map(|place| part(place).as_str())
}

/// Removes rows of one table.
pub(super) fn remove(
    tx: &mut Tx<'_>,
    table: &Table,
    keys: &[&RowKey],
) -> Result<(), DatabaseError> {
    if tx.dialect() == Dialect::Sqlite {
        let sql = format!(
            "DELETE FROM items_{} WHERE workspace = $1 AND pk = $2 AND sk = $3",
            table.name
        );
        let places = keys.iter().map(|key| [&key.workspace, &key.pk, &key.sk]);
        let sets = places.map(|place| place.map(|text| Param::Text(text)).to_vec());
        return tx.execute_each(&sql, sets).map(drop);
    }
    let sql = format!(
        "DELETE FROM items_{0} WHERE ctid = ANY (ARRAY(
             SELECT (SELECT i.ctid FROM items_{0} i WHERE i.workspace = k.w AND i.pk = k.pk AND i.sk = k.sk)
             FROM unnest($1::text[], $2::text[], $3::text[]) AS k (w, pk, sk)))",
        table.name
    );
    let [workspaces, pks, sks] = key_columns(keys);
    let params = [Param::Texts(&workspaces), Param::Texts(&pks), Param::Texts(&sks)];
    tx.execute(&sql, &params).map(drop)
}
