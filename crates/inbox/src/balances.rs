//! The counts of users who looked lately. Most who look have looked a moment ago, and nothing has changed since.
//!
//! Counts are good for one `c#*`, which every look reads: each change of a partition moves its `rev`, in the same transaction. All of it is
//! compared, because a user who was forgotten and comes again begins with the same numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_kernel::Workspace;

use crate::balance::Balance;
use crate::keys::{InboxKey, UserId};
use crate::records::UserStats;
use crate::view::Reader;

/// How much the counts of a node may take, in counts of categories at some 100 bytes each.
const MAX: usize = 200_000;
/// What a user costs beside them.
const COST: usize = 6;

/// However he was let in.
type Name = (Workspace, InboxKey, UserId);

/// Those that were used lately, and those that were used before them. When the former fill their half, they become the
/// latter, whose place they take.
#[derive(Debug, Default)]
pub(crate) struct Balances(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Name, Arc<Balance>>,
    size: usize,
    old: HashMap<Name, Arc<Balance>>,
}

impl Balances {
    /// The counts of a user, if they are those that have this `c#*`.
    pub(crate) fn get(
        &self,
        workspace: &Workspace,
        reader: &Reader,
        stats: &UserStats,
    ) -> Option<Arc<Balance>> {
        let name = name(workspace, reader);
        let mut kept = self.lock();
        let found = match kept.young.get(&name) {
            Some(found) => Arc::clone(found),
            None => {
                let found = kept.old.remove(&name)?;
                kept.add(name, Arc::clone(&found), MAX);
                found
            }
        };
        (found.stats == *stats).then_some(found)
    }

    pub(crate) fn keep(&self, workspace: &Workspace, reader: &Reader, balance: &Arc<Balance>) {
        let name = name(workspace, reader);
        self.lock().add(name, Arc::clone(balance), MAX);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn add(&mut self, name: Name, balance: Arc<Balance>, max: usize) {
        self.old.remove(&name);
        self.size += size(&balance);
        if let Some(before) = self.young.insert(name, balance) {
            self.size -= size(&before);
        }
        if self.size > max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.size = 0;
        }
    }
}

fn name(workspace: &Workspace, reader: &Reader) -> Name {
    (workspace.clone(), reader.inbox.clone(), reader.uid.clone())
}

fn size(balance: &Balance) -> usize {
    COST + balance.categories.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Balances, COST, Generations};
    use crate::balance::Balance;
    use crate::records::UserStats;
    use crate::view::Reader;

    fn reader(uid: &str) -> Reader {
        Reader { inbox: "app".parse().unwrap(), uid: uid.parse().unwrap(), let_in: None }
    }

    fn stats(rev: i64) -> UserStats {
        UserStats { rev, ..UserStats::default() }
    }

    fn balance(rev: i64) -> Arc<Balance> {
        Arc::new(Balance { exists: true, stats: stats(rev), ..Balance::default() })
    }

    #[test]
    fn counts_are_good_for_their_stats_and_their_user() {
        let (kept, acme) = (Balances::default(), "acme".parse().unwrap());
        let find = |workspace: &str, uid: &str, rev| {
            let workspace = workspace.parse().unwrap();
            kept.get(&workspace, &reader(uid), &stats(rev)).map(|found| found.stats.rev)
        };
        kept.keep(&acme, &reader("ada"), &balance(3));
        assert_eq!(find("acme", "ada", 3), Some(3));
        assert_eq!(find("acme", "ada", 4), None);
        assert_eq!(find("acme", "bob", 3), None);
        assert_eq!(find("other", "ada", 3), None);
        kept.keep(&acme, &reader("ada"), &balance(4));
        assert_eq!(find("acme", "ada", 4), Some(4));
        assert_eq!(find("acme", "ada", 3), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut kept = Generations::default();
        for number in 0..1_000 {
            let name = super::name(&"acme".parse().unwrap(), &reader(&format!("u{number}")));
            kept.add(name, balance(1), 20 * COST);
            assert!(kept.young.len() + kept.old.len() <= 21);
            assert_eq!(kept.size, kept.young.len() * COST);
        }
    }
}
