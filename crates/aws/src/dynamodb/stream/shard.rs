//! Reading one shard, and bookmarks that say where to go on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodbstreams::operation::get_records::GetRecordsOutput;
use aws_sdk_dynamodbstreams::types::{Identity, Record, Shard, ShardIteratorType};
use tidings_kernel::{Change, ChangeKind, StoreError, Table};

use super::checkpoint::Mark;
use crate::dynamodb::store::Store;
use crate::dynamodb::value::stream_item;
use crate::trouble::Trouble;

/// What one request may ask for.
const MAX_RECORDS: usize = 1000;
/// An empty answer does not mean that there is nothing: DynamoDB looks only so far for each. Who begins anew
/// follows a few; who has a bookmark goes on next time.
const EMPTY_ANSWERS: u32 = 4;

/// How often a stream did not have any more what comes after a checkpoint, or may not have had it.
pub const TRIMMED_METRIC: &str = "tidings_stream_trimmed_total";

/// Who signs the deletions of items past their TTL.
const TTL_PRINCIPAL: &str = "dynamodb.amazonaws.com";

/// Where reading goes on, in memory only. They save a request for each shard, and let a reader get past a long
/// stretch of nothing, which moves no checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Bookmarks {
    turn: AtomicUsize,
    /// By table, consumer and shard.
    places: Mutex<Places>,
}

type Places = HashMap<(&'static str, String, String), Bookmark>;

#[derive(Debug, Clone)]
struct Bookmark {
    /// The checkpoint, after which there is nothing but what comes after the place.
    checkpoint: Option<String>,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    At(String),
    End,
}

impl Bookmarks {
    pub(super) fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets the shards that a table's stream no longer has, and no checkpoint either.
    pub(super) fn forget_all_but(&self, table: &Table, shards: &HashSet<&str>) {
        let is_kept = |(of, _, shard): &(&str, String, String)| {
            *of != table.name || shards.contains(&**shard)
        };
        self.places().retain(|key, _| is_kept(key));
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct ShardReader<'s> {
    pub(super) store: &'s Store,
    pub(super) table: &'static Table,
    pub(super) consumer: &'s str,
    pub(super) arn: &'s str,
}

#[derive(Default)]
pub(super) struct Reading {
    pub(super) changes: Vec<Change>,
    /// The sequence number of the last record, told or left out.
    pub(super) last: Option<String>,
    /// Nothing comes after this.
    pub(super) finished: bool,
}

enum Answer {
    Records(GetRecordsOutput),
    /// The iterator is too old; the checkpoint is not.
    Stale,
    /// What comes after the checkpoint has been trimmed away in part.
    Trimmed,
    /// The whole shard has been trimmed away.
    Gone,
}

impl ShardReader<'_> {
    /// Up to `room` changes after a checkpoint.
    pub(super) async fn read(
        &self,
        shard: &str,
        mark: Option<&Mark>,
        room: usize,
    ) -> Result<Reading, StoreError> {
        let checkpoint = match mark {
            Some(Mark::Finished) => return Ok(Reading { finished: true, ..Reading::default() }),
            Some(Mark::After(sequence)) => Some(sequence.clone()),
            None => None,
        };
        let bookmark = self.bookmark(shard, checkpoint.as_deref());
        let mut patience = if bookmark.is_some() { 1 } else { EMPTY_ANSWERS };
        let mut place = match bookmark {
            Some(place) => Some(place),
            None => self.place_after(shard, checkpoint.as_deref()).await?.map(Place::At),
        };
        let mut reading = Reading::default();
        while let Some(Place::At(iterator)) = &place
            && reading.changes.len() < room
            && patience > 0
        {
            match self.records(iterator, room - reading.changes.len()).await? {
                Answer::Records(answer) => {
                    let records = answer.records.unwrap_or_default();
                    patience -= u32::from(records.is_empty());
                    for record in records {
                        self.take(record, &mut reading)?;
                    }
                    place = Some(answer.next_shard_iterator.map_or(Place::End, Place::At));
                }
                Answer::Stale => {
                    patience -= 1;
                    let after = reading.last.as_deref().or(checkpoint.as_deref());
                    place = self.place_after(shard, after).await?.map(Place::At);
                }
                Answer::Trimmed => {
                    patience -= 1;
                    self.trimmed(shard);
                    place = self.oldest(shard).await?.map(Place::At);
                }
                Answer::Gone => {
                    self.trimmed(shard);
                    place = None;
                }
            }
        }
        let place = place.unwrap_or(Place::End);
        reading.finished = matches!(place, Place::End);
        // What was told comes again until it is acknowledged, so the bookmark is of use only after that.
        let told = if reading.changes.is_empty() { None } else { reading.last.clone() };
        self.set_bookmark(shard, Bookmark { checkpoint: told.or(checkpoint), place });
        Ok(reading)
    }

    /// Takes a record into the reading, unless nothing was changed: some servers record that, DynamoDB does not.
    fn take(&self, record: Record, reading: &mut Reading) -> Result<(), StoreError> {
        let Some(data) = record.dynamodb else { return Ok(()) };
        reading.last = data.sequence_number.or(reading.last.take());
        let old = data.old_image.map(stream_item).transpose()?;
        let new = data.new_image.map(stream_item).transpose()?;
        let kind = match (&old, &new) {
            (None, Some(_)) => ChangeKind::Inserted,
            (Some(old), Some(new)) if old == new => return Ok(()),
            (Some(_), Some(_)) => ChangeKind::Modified,
            (Some(_), None) if is_expiry(record.user_identity.as_ref()) => ChangeKind::Expired,
            (Some(_), None) => ChangeKind::Deleted,
            (None, None) => return Ok(()),
        };
        let key = self.table.key_of(&stream_item(data.keys.unwrap_or_default())?)?;
        reading.changes.push(Change { key, kind, old, new });
        Ok(())
    }

    async fn records(&self, iterator: &str, room: usize) -> Result<Answer, StoreError> {
        let request = self.store.streams.get_records().shard_iterator(iterator);
        let answer = request.limit(room.min(MAX_RECORDS) as i32).send().await;
        let trouble = match answer {
            Ok(answer) => return Ok(Answer::Records(answer)),
            Err(error) => Trouble::new(error),
        };
        match trouble.code() {
            Some("ExpiredIteratorException") => Ok(Answer::Stale),
            Some("TrimmedDataAccessException") => Ok(Answer::Trimmed),
            Some("ResourceNotFoundException") => Ok(Answer::Gone),
            _ => Err(trouble.of_read()),
        }
    }

    /// An iterator from after a sequence number, or from the oldest record that is kept. None if the shard is
    /// gone.
    async fn place_after(
        &self,
        shard: &str,
        sequence: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let Some(sequence) = sequence else { return self.oldest(shard).await };
        let request = self.store.streams.get_shard_iterator().stream_arn(self.arn).shard_id(shard);
        let request = request.shard_iterator_type(ShardIteratorType::AfterSequenceNumber);
        match request.sequence_number(sequence).send().await.map_err(Trouble::new) {
            Ok(answer) => Ok(answer.shard_iterator),
            Err(trouble) => match trouble.code() {
                Some("TrimmedDataAccessException") => {
                    self.trimmed(shard);
                    self.oldest(shard).await
                }
                Some("ResourceNotFoundException") => {
                    self.trimmed(shard);
                    Ok(None)
                }
                _ => Err(trouble.of_read()),
            },
        }
    }

    async fn oldest(&self, shard: &str) -> Result<Option<String>, StoreError> {
        let request = self.store.streams.get_shard_iterator().stream_arn(self.arn).shard_id(shard);
        let request = request.shard_iterator_type(ShardIteratorType::TrimHorizon);
        match request.send().await.map_err(Trouble::new) {
            Ok(answer) => Ok(answer.shard_iterator),
            Err(trouble) => match trouble.code() {
                Some("ResourceNotFoundException") => Ok(None),
                _ => Err(trouble.of_read()),
            },
        }
    }

    /// A stream keeps a day. What was not read by then is never told, and what should have followed from it has to be found otherwise.
    fn trimmed(&self, shard: &str) {
        let (table, consumer) = (self.table.name, self.consumer);
        metrics::counter!(TRIMMED_METRIC, "table" => table, "consumer" => consumer.to_owned())
            .increment(1);
        tracing::warn!(
            workspace = %self.store.workspace,
            table,
            consumer,
            shard,
            "The stream of {table} has been trimmed after where {consumer} was: what has expired since may not have been told"
        );
    }

    /// Shards that were not read to their end when they went.
    pub(super) fn notice_gone(&self, marks: &HashMap<String, Mark>, shards: &[Shard]) {
        for (id, mark) in marks {
            let Mark::After(sequence) = mark else { continue };
            let is_there = shards.iter().any(|shard| shard.shard_id() == Some(id));
            if is_there || matches!(self.bookmark(id, Some(sequence)), Some(Place::End)) {
                continue;
            }
            self.trimmed(id);
            // Until its checkpoint goes, with the next change, it is told no more.
            let checkpoint = Some(sequence.clone());
            self.set_bookmark(id, Bookmark { checkpoint, place: Place::End });
        }
    }

    fn bookmark(&self, shard: &str, checkpoint: Option<&str>) -> Option<Place> {
        let places = self.store.bookmarks.places();
        let bookmark = places.get(&self.bookmark_key(shard))?;
        (bookmark.checkpoint.as_deref() == checkpoint).then(|| bookmark.place.clone())
    }

    fn set_bookmark(&self, shard: &str, bookmark: Bookmark) {
        self.store.bookmarks.places().insert(self.bookmark_key(shard), bookmark);
    }

    fn bookmark_key(&self, shard: &str) -> (&'static str, String, String) {
        (self.table.name, self.consumer.to_owned(), shard.to_owned())
    }
}

/// DynamoDB names who deleted an item only if it was DynamoDB itself, because of the TTL. dynoxide, which the
/// tests run on, spells the name so that the SDK sees an identity without one.
fn is_expiry(identity: Option<&Identity>) -> bool {
    identity.is_some_and(|by| by.principal_id().is_none_or(|name| name == TTL_PRINCIPAL))
}
