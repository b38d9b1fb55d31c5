//! The change stream of a table: DynamoDB Streams, read shard by shard from each consumer's checkpoints.
//!
//! A stream is a forest of shards. A shard ends, and its children go on with the same keys; the changes of a key
//! are in order only if a parent is read to its end before its children. `shard` reads one, `checkpoint` keeps
//! how far a consumer has come, and what is here decides which shards are read.

mod checkpoint;
mod shard;

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodbstreams::types::Shard;
use tidings_kernel::{ChangeBatch, StoreError, Table, check_consumer};

use super::store::Store;
use crate::trouble::Trouble;
use checkpoint::{Mark, Position};
pub(super) use shard::Bookmarks;
use shard::ShardReader;
pub use shard::TRIMMED_METRIC;

impl Store {
    pub(super) async fn read_changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        check_consumer(table, consumer)?;
        let arn = self.stream_arn(table)?;
        let shards = self.shards(arn).await?;
        let marks = self.checkpoints(table, consumer).await?;
        let mut position = Position::new(table, gone(&marks, &shards));
        let mut batch = ChangeBatch::default();
        let reader = ShardReader { store: self, table, consumer, arn };
        reader.notice_gone(&marks, &shards);
        // Whoever comes first takes what room there is, so each call begins with another shard.
        let mut waiting = shards.clone();
        waiting.rotate_left(self.bookmarks.turn() % shards.len().max(1));
        let ids: HashSet<_> = shards.iter().filter_map(|shard| shard.shard_id()).collect();
        let known = ids.iter().copied().chain(marks.keys().map(String::as_str)).collect();
        self.bookmarks.forget_all_but(table, &known);
        let finished_before = marks.iter().filter(|(_, mark)| **mark == Mark::Finished);
        let mut finished: HashSet<String> = finished_before.map(|(id, _)| id.clone()).collect();
        while batch.changes.len() < limit
            && let Some(next) = readable(&waiting, &ids, &finished)
        {
            let shard = waiting.remove(next);
            let Some(id) = shard.shard_id().filter(|id| !finished.contains(*id)) else { continue };
            let room = limit - batch.changes.len();
            let reading = reader.read(id, marks.get(id), room).await?;
            batch.changes.extend(reading.changes);
            if reading.finished {
                finished.insert(id.to_owned());
                position.reach(id, Mark::Finished);
            } else if let Some(sequence) = reading.last {
                position.reach(id, Mark::After(sequence));
            }
        }
        // Without changes there is nothing to acknowledge; how far we have looked is in the bookmarks.
        batch.position = if batch.changes.is_empty() { None } else { Some(position.encode()) };
        Ok(batch)
    }

    pub(super) async fn move_checkpoints(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        check_consumer(table, consumer)?;
        self.save(consumer, table, Position::decode(table, position)?).await
    }

    fn stream_arn(&self, table: &Table) -> Result<&str, StoreError> {
        let missing = || StoreError::Corrupt(format!("table {} has no stream", table.name).into());
        self.stream_arns.get(table.name).map(String::as_str).ok_or_else(missing)
    }

    async fn shards(&self, arn: &str) -> Result<Vec<Shard>, StoreError> {
        let mut shards = Vec::new();
        let mut last = None;
        loop {
            let request = self.streams.describe_stream().stream_arn(arn);
            let request = request.set_exclusive_start_shard_id(last);
            let answer = request.send().await.map_err(|error| Trouble::new(error).of_read())?;
            let Some(description) = answer.stream_description else { return Ok(shards) };
            shards.extend(description.shards.unwrap_or_default());
            last = description.last_evaluated_shard_id;
            if last.is_none() {
                return Ok(shards);
            }
        }
    }
}

/// The first shard that has no parent, or one that is finished or trimmed away.
fn readable(
    waiting: &[Shard],
    existing: &HashSet<&str>,
    finished: &HashSet<String>,
) -> Option<usize> {
    waiting.iter().position(|shard| match shard.parent_shard_id() {
        Some(parent) => !existing.contains(parent) || finished.contains(parent),
        None => true,
    })
}

/// Checkpoints of shards that the stream no longer has.
fn gone(marks: &HashMap<String, Mark>, shards: &[Shard]) -> Vec<String> {
    let exists = |id: &String| shards.iter().any(|shard| shard.shard_id() == Some(id));
    marks.keys().filter(|id| !exists(id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use aws_sdk_dynamodbstreams::types::Shard;

    use super::{Mark, gone, readable};

    fn shard(id: &str, parent: &str) -> Shard {
        let parent = Some(parent.to_owned()).filter(|parent| !parent.is_empty());
        Shard::builder().shard_id(id).set_parent_shard_id(parent).build()
    }

    /// `waiting` is `child<parent` for each shard that was not read yet.
    #[track_caller]
    fn check(waiting: &str, existing: &str, finished: &str, expected: Option<&str>) {
        let waiting: Vec<_> = waiting
            .split_whitespace()
            .map(|given| given.split_once('<').unwrap_or((given, "")))
            .map(|(id, parent)| shard(id, parent))
            .collect();
        let existing: HashSet<&str> = existing.split_whitespace().collect();
        let finished: HashSet<String> = finished.split_whitespace().map(str::to_owned).collect();
        let found = readable(&waiting, &existing, &finished);
        assert_eq!(found.and_then(|position| waiting[position].shard_id()), expected);
    }

    #[test]
    fn parents_are_read_before_their_children() {
        check("", "", "", None);
        check("a", "a", "", Some("a"));
        check("b<a a", "a b", "", Some("a"));
        check("b<a", "a b", "", None);
        check("b<a", "a b", "a", Some("b"));
        check("b<a", "b", "", Some("b"));
        check("c<b b<a", "a b c", "a", Some("b"));
    }

    #[test]
    fn checkpoints_of_shards_that_are_gone_are_found() {
        let marks = ["a", "b"].map(|id| (id.to_owned(), Mark::Finished));
        assert_eq!(gone(&HashMap::from(marks), &[shard("b", "a")]), ["a"]);
    }
}
