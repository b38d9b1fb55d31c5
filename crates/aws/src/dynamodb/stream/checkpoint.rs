//! How far a consumer has come: one item a shard in the main table, and the position that moves them.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use tidings_kernel::{
    Condition, Delete, Expect, Invalid, Item, ItemStore, Key, Path, Query, StoreError, Table,
    Update, tables,
};

use crate::dynamodb::store::Store;

/// The longest sequence number that DynamoDB writes. Shorter ones are padded, so that they compare as numbers.
const SEQUENCE_DIGITS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    After(String),
    /// Read to its end: nothing will be added to it.
    Finished,
}

/// What to acknowledge: how far each shard was read, and which checkpoints are of no use any more.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    table: String,
    read: BTreeMap<String, Mark>,
    gone: Vec<String>,
}

impl Position {
    pub(super) fn new(table: &Table, gone: Vec<String>) -> Self {
        Self { table: table.name.to_owned(), read: BTreeMap::new(), gone }
    }

    pub(super) fn reach(&mut self, shard: &str, mark: Mark) {
        self.read.insert(shard.to_owned(), mark);
    }

    pub(super) fn encode(&self) -> String {
        BASE64.encode(serde_json::to_vec(self).expect("strings have a JSON form"))
    }

    pub(super) fn decode(table: &Table, text: &str) -> Result<Self, Invalid> {
        let bytes = BASE64.decode(text).map_err(|_| Invalid::BadCursor)?;
        let position: Self = serde_json::from_slice(&bytes).map_err(|_| Invalid::BadCursor)?;
        if position.table == table.name { Ok(position) } else { Err(Invalid::BadCursor) }
    }
}

impl Mark {
    /// Sorts as far as the mark goes: digits before letters, so that the end comes last.
    fn order(&self) -> String {
        match self {
            Mark::After(sequence) => format!("{sequence:0>SEQUENCE_DIGITS$}"),
            Mark::Finished => "finished".to_owned(),
        }
    }
}

fn partition(table: &Table, consumer: &str) -> String {
    format!("STREAM#{}#{consumer}", table.name)
}

fn key(table: &Table, consumer: &str, shard: &str) -> Key {
    Key::new(partition(table, consumer), format!("SHARD#{shard}"))
}

fn mark_of(item: &Item) -> Option<(String, Mark)> {
    let shard = item.text("SK")?.strip_prefix("SHARD#")?.to_owned();
    let mark = match item.text("sequence") {
        Some(sequence) => Mark::After(sequence.to_owned()),
        None => Mark::Finished,
    };
    Some((shard, mark))
}

impl Store {
    /// The consumer's marks, by shard.
    pub(super) async fn checkpoints(
        &self,
        table: &Table,
        consumer: &str,
    ) -> Result<HashMap<String, Mark>, StoreError> {
        let mut marks = HashMap::new();
        let mut cursor = None;
        loop {
            let query = Query::new(&tables::MAIN, partition(table, consumer)).begins_with("SHARD#");
            let page = self.query(query.limit(1000).after(cursor)).await?;
            marks.extend(page.items.iter().filter_map(mark_of));
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(marks);
            }
        }
    }

    /// Moves the marks forward. One that is further already stays: acknowledging twice, or late, does no harm.
    pub(super) async fn save(
        &self,
        consumer: &str,
        table: &Table,
        position: Position,
    ) -> Result<(), StoreError> {
        for (shard, mark) in position.read {
            match self.update(moved(key(table, consumer, &shard), &mark)).await {
                Ok(_) | Err(StoreError::ConditionFailed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for shard in position.gone {
            self.delete(Delete::new(&tables::MAIN, key(table, consumer, &shard))).await?;
        }
        Ok(())
    }
}

fn moved(key: Key, mark: &Mark) -> Update {
    let update = Update::new(&tables::MAIN, key).set("order", mark.order());
    let update = match mark {
        Mark::After(sequence) => update.set("sequence", sequence.as_str()),
        Mark::Finished => update.remove("sequence"),
    };
    let behind = Condition::Lt(Path::of("order"), mark.order().into());
    update.expect(Expect::That(Condition::not_exists("order").or(behind)))
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Invalid, tables};

    use super::{Mark, Position};

    fn after(sequence: &str) -> Mark {
        Mark::After(sequence.to_owned())
    }

    #[test]
    fn marks_are_ordered_as_numbers_with_the_end_last() {
        let marks = [after("9"), after("10"), after("499659000000000000000"), Mark::Finished];
        assert!(marks.windows(2).all(|pair| pair[0].order() < pair[1].order()));
    }

    #[test]
    fn a_position_comes_back_for_its_table_only() {
        let mut position = Position::new(&tables::INBOX, vec!["old".to_owned()]);
        position.reach("a", after("000000000000000000007"));
        position.reach("b", Mark::Finished);
        let text = position.encode();
        assert_eq!(Position::decode(&tables::INBOX, &text), Ok(position));
        assert_eq!(Position::decode(&tables::MAIN, &text), Err(Invalid::BadCursor));
        assert_eq!(Position::decode(&tables::INBOX, "?"), Err(Invalid::BadCursor));
        assert_eq!(Position::decode(&tables::INBOX, ""), Err(Invalid::BadCursor));
    }
}
