//! Gathers the items that callers look up by their keys on PostgreSQL, so that one statement answers many.
//!
//! While an answer is under way those who ask wait together, and the next statement is for all of them. Whoever asks when
//! nobody else does is answered at once. On SQLite a look costs less than handing it to somebody.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_kernel::{StoreError, Table};
use tokio::sync::oneshot;

use super::rows::{self, RowKey};
use super::store_error;
use crate::database::{Database, DatabaseError, Tx, Unit, Verdict};

/// How many keys one statement has, if nobody asks for more by himself. Each may be of a large item.
const MAX_KEYS: usize = 128;

/// The JSON under each key, in their order.
type Found = Vec<Option<String>>;

#[derive(Clone)]
pub(super) struct Looks {
    database: Database,
    waiting: Arc<Waiting>,
}

impl Looks {
    pub(super) fn new(database: Database) -> Self {
        Self { database, waiting: Arc::default() }
    }

    /// What stands under these keys, which are of one table, at a moment after this was asked.
    pub(super) async fn get(
        &self,
        table: &'static Table,
        keys: Vec<RowKey>,
    ) -> Result<Found, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.waiting.add(table, Asked { keys, reply });
        let waiting = Arc::clone(&self.waiting);
        let look = Look { table, waiting, taken: Vec::new(), found: None };
        self.database.look(Box::new(look)).await.map_err(store_error)?;
        answer.await.unwrap_or(Err(DatabaseError::Closed)).map_err(store_error)
    }
}

/// What one caller wants to know.
struct Asked {
    keys: Vec<RowKey>,
    reply: oneshot::Sender<Result<Found, DatabaseError>>,
}

/// Those who have asked and whom nobody answers yet, by table. For each who still waits there is a `Look` that did not
/// begin, so nobody is forgotten: it takes those who came first, and him if nobody did before.
#[derive(Default)]
struct Waiting(Mutex<BTreeMap<&'static str, VecDeque<Asked>>>);

impl Waiting {
    fn add(&self, table: &Table, asked: Asked) {
        self.lock().entry(table.name).or_default().push_back(asked);
    }

    /// The first of those who still wait, as many as one statement answers.
    fn take(&self, table: &Table) -> Vec<Asked> {
        let (mut taken, mut keys) = (Vec::new(), 0);
        let mut waiting = self.lock();
        let Some(queue) = waiting.get_mut(table.name) else { return taken };
        while let Some(next) = queue.front() {
            // Who went away took his look with him, perhaps.
            let is_waiting = !next.reply.is_closed();
            if is_waiting && !taken.is_empty() && keys + next.keys.len() > MAX_KEYS {
                break;
            }
            keys += next.keys.len();
            taken.extend(queue.pop_front().filter(|_| is_waiting));
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, VecDeque<Asked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One statement for those who wait when it begins. There may be none of them: then another one was faster.
struct Look {
    table: &'static Table,
    waiting: Arc<Waiting>,
    taken: Vec<Asked>,
    found: Option<Result<Found, DatabaseError>>,
}

impl Unit for Look {
    fn is_glance(&self) -> bool {
        true
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict {
        // It may run a second time, for the same.
        if self.taken.is_empty() {
            self.taken = self.waiting.take(self.table);
        }
        let keys: Vec<_> = self.taken.iter().flat_map(|asked| &asked.keys).collect();
        if !keys.is_empty() {
            self.found = Some(rows::load(tx, self.table, &keys));
        }
        Verdict::RollBack
    }

    fn finish(mut self: Box<Self>, outcome: Result<(), DatabaseError>) {
        // It could not even begin; nor can another one for them.
        if outcome.is_err() && self.taken.is_empty() {
            self.taken = self.waiting.take(self.table);
        }
        let Self { taken, found, .. } = *self;
        match outcome.and_then(|()| found.unwrap_or(Ok(Vec::new()))) {
            Ok(found) => {
                let mut found = found.into_iter();
                for Asked { keys, reply } in taken {
                    let of_this = found.by_ref().take(keys.len()).collect();
                    // Nobody waits any more if this fails, here and below.
                    drop(reply.send(Ok(of_this)));
                }
            }
            Err(error) => {
                for asked in taken {
                    drop(asked.reply.send(Err(error.clone())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Key, tables};
    use tokio::sync::oneshot;

    use super::super::rows::RowKey;
    use super::{Asked, Found, MAX_KEYS, Waiting};
    use crate::database::DatabaseError;

    type Answer = oneshot::Receiver<Result<Found, DatabaseError>>;

    fn asked(keys: usize) -> (Asked, Answer) {
        let key = |number| RowKey::new(&tables::INBOX, "acme", &Key::new("p", format!("{number}")));
        let (reply, answer) = oneshot::channel();
        (Asked { keys: (0..keys).map(key).collect(), reply }, answer)
    }

    fn sizes(taken: &[Asked]) -> Vec<usize> {
        taken.iter().map(|asked| asked.keys.len()).collect()
    }

    #[test]
    fn a_statement_is_for_those_who_came_first_as_many_as_there_is_room_for() {
        let waiting = Waiting::default();
        let half = MAX_KEYS / 2;
        let mut answers = Vec::new();
        for keys in [half, half, 1, 2 * MAX_KEYS, 3] {
            let (asked, answer) = asked(keys);
            waiting.add(&tables::INBOX, asked);
            answers.push(answer);
        }
        assert!(waiting.take(&tables::EVENT).is_empty());
        assert_eq!(sizes(&waiting.take(&tables::INBOX)), [half, half]);
        assert_eq!(sizes(&waiting.take(&tables::INBOX)), [1]);
        assert_eq!(sizes(&waiting.take(&tables::INBOX)), [2 * MAX_KEYS], "by himself he may");
        assert_eq!(sizes(&waiting.take(&tables::INBOX)), [3]);
        assert!(waiting.take(&tables::INBOX).is_empty());
    }

    #[test]
    fn who_went_away_takes_nobodys_place() {
        let waiting = Waiting::default();
        for keys in [MAX_KEYS, 2, MAX_KEYS] {
            waiting.add(&tables::INBOX, asked(keys).0);
        }
        let (asked, _answer) = asked(5);
        waiting.add(&tables::INBOX, asked);
        assert_eq!(sizes(&waiting.take(&tables::INBOX)), [5]);
    }
}
