//! Hints: that something in an inbox has changed, for those who look at it right now.
//!
//! A hint is no news: it may be lost, it may come twice, and several become one. Who gets one looks for himself. Those in
//! this process get it at once, other nodes by a word through the database where that can (PostgreSQL). For what got
//! lost, and for stores that cannot tell, `follow` compares now and then how often each watched inbox was changed.
//!
//! What is kept of a watched inbox is one entry however many watch it, and nothing when nobody does.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidings_access::{Access, StorageError};
use tidings_jobs::Stop;
use tidings_kernel::{Key, Workspace, causes, tables};
use tidings_sql::{Database, Heard};
use tokio::sync::{broadcast, watch};
use tokio::time::MissedTickBehavior;

use crate::keys::{self, InboxKey, UserId};

/// What nodes talk about.
const TOPIC: &str = "inbox";
/// How often watched inboxes are looked at, and how many at once: with more of them each has its turn less often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 2_000;
/// So many can watch the inbox of one user, on each node.
pub const MAX_OF_USER: usize = 20;
/// So many can watch on one node, unless the configuration says otherwise.
pub const MAX_OF_NODE: usize = 20_000;

/// Who watches what on this node, and how the others are told.
pub struct Hints {
    watched: Arc<Watched>,
    nodes: Option<Database>,
    max: usize,
}

#[derive(Default)]
struct Watched {
    /// By the partition: of a user in an inbox, or of everyone in one.
    places: Mutex<BTreeMap<String, Place>>,
    watchers: AtomicUsize,
}

struct Place {
    workspace: Workspace,
    changed: watch::Sender<()>,
    /// How often it had been changed when we last looked.
    rev: Option<i64>,
}

/// One who watches the inbox of a user. He sees every hint from the moment on when he began.
pub struct Watching {
    watched: Arc<Watched>,
    /// Of the user and of everyone, with their partitions.
    receivers: [(String, watch::Receiver<()>); 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    #[error("this user's inbox is watched {MAX_OF_USER} times already")]
    User,
    #[error("this node has as many who watch as it takes")]
    Node,
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hints").field("watchers", &self.watchers()).finish_non_exhaustive()
    }
}

impl Default for Hints {
    /// For one process that nobody else needs to hear of.
    fn default() -> Self {
        Self { watched: Arc::default(), nodes: None, max: MAX_OF_NODE }
    }
}

impl Hints {
    /// For a node of several: the others are told through the database that they share.
    pub fn between_nodes(database: &Database, max: usize) -> Self {
        Self { nodes: Some(database.clone()), max, ..Self::default() }
    }

    /// Something was committed that this user sees, or everyone does.
    pub fn changed(&self, workspace: &Workspace, inbox: &InboxKey, uid: Option<&UserId>) {
        let partition = match uid {
            Some(uid) => keys::user(workspace, inbox, uid),
            None => keys::public(workspace, inbox),
        };
        self.watched.wake(&partition);
        if let Some(database) = &self.nodes {
            database.tell(TOPIC, &partition);
        }
    }

    pub fn watch(
        &self,
        workspace: &Workspace,
        inbox: &InboxKey,
        uid: &UserId,
    ) -> Result<Watching, WatchError> {
        let (own, public) = (keys::user(workspace, inbox, uid), keys::public(workspace, inbox));
        let mut places = self.watched.places();
        if self.watched.watchers.load(Ordering::Relaxed) >= self.max {
            return Err(WatchError::Node);
        }
        if places.get(&own).is_some_and(|place| place.changed.receiver_count() >= MAX_OF_USER) {
            return Err(WatchError::User);
        }
        // Under the lock, as is the check above.
        self.watched.watchers.fetch_add(1, Ordering::Relaxed);
        let mut subscribe = |partition: &String| {
            let place = places.entry(partition.clone()).or_insert_with(|| Place {
                workspace: workspace.clone(),
                changed: watch::Sender::new(()),
                rev: None,
            });
            place.changed.subscribe()
        };
        let receivers = [subscribe(&own), subscribe(&public)];
        let [of_user, of_everyone] = receivers;
        Ok(Watching {
            watched: Arc::clone(&self.watched),
            receivers: [(own, of_user), (public, of_everyone)],
        })
    }

    /// How many watch on this node.
    pub fn watchers(&self) -> usize {
        self.watched.watchers.load(Ordering::Relaxed)
    }

    /// Passes on what other nodes say, and looks for what nobody said, until it is time to stop.
    pub async fn follow(&self, access: &Access, mut stop: Stop) {
        let mut heard = access.database().hear(TOPIC);
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut after = None;
        loop {
            tokio::select! {
                () = stop.stopped() => return,
                word = heard.recv() => match word {
                    Ok(Heard::Word(partition)) => self.watched.wake(&partition),
                    Ok(Heard::Missed) | Err(broadcast::error::RecvError::Lagged(_)) => self.watched.wake_all(),
                    // The database is closed, and the process is about to end.
                    Err(broadcast::error::RecvError::Closed) => return,
                },
                _ = ticks.tick() => after = self.look(access, after.take()).await,
            }
        }
    }

    /// Compares the next places after one with what they were, and wakes those who watch a place that has changed. Tells
    /// where to go on, or nothing at the end. A workspace in trouble does not stop the others.
    pub async fn look(&self, access: &Access, after: Option<String>) -> Option<String> {
        let (due, last) = self.watched.after(after);
        for (workspace, partitions) in due {
            if let Err(error) = self.look_in(access, &workspace, &partitions).await {
                let error = causes(&error);
                tracing::warn!(%workspace, error, "Watched inboxes could not be looked at");
            }
        }
        last
    }

    async fn look_in(
        &self,
        access: &Access,
        workspace: &Workspace,
        partitions: &[String],
    ) -> Result<(), StorageError> {
        let Some(cx) = access.working_in(workspace).await? else { return Ok(()) };
        let items = cx.items().await?;
        for partitions in partitions.chunks(100) {
            let wanted: Vec<Key> = partitions.iter().map(|one| keys::counts(one)).collect();
            let found = items.batch_get(&tables::INBOX, &wanted).await?;
            let revs = found
                .iter()
                .map(|item| item.as_ref().and_then(|item| item.integer("rev")).unwrap_or_default());
            self.watched.compare(partitions.iter().zip(revs));
        }
        Ok(())
    }
}

impl Watching {
    /// Returns after a hint that came since the last one, or since he began to watch.
    pub async fn changed(&mut self) {
        let [(_, own), (_, public)] = &mut self.receivers;
        let changed = tokio::select! {
            changed = own.changed() => changed,
            changed = public.changed() => changed,
        };
        // The senders are kept as long as somebody watches.
        debug_assert!(changed.is_ok(), "a place that is watched is there");
        let [(_, own), (_, public)] = &mut self.receivers;
        own.mark_unchanged();
        public.mark_unchanged();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut places = self.watched.places();
        self.watched.watchers.fetch_sub(1, Ordering::Relaxed);
        for (partition, receiver) in &mut self.receivers {
            // Ours goes here, under the lock: two who leave at once must not each see the other.
            *receiver = watch::Sender::new(()).subscribe();
            if places.get(partition).is_some_and(|place| place.changed.receiver_count() == 0) {
                places.remove(partition);
            }
        }
    }
}

impl Watched {
    fn wake(&self, partition: &str) {
        if let Some(place) = self.places().get(partition) {
            place.changed.send_replace(());
        }
    }

    fn wake_all(&self) {
        for place in self.places().values() {
            place.changed.send_replace(());
        }
    }

    /// The next places by workspace, and the last of them if there may be more.
    fn after(&self, after: Option<String>) -> (BTreeMap<Workspace, Vec<String>>, Option<String>) {
        let places = self.places();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut due: BTreeMap<Workspace, Vec<String>> = BTreeMap::new();
        let (mut count, mut last) = (0, None);
        for (partition, place) in places.range((from, Bound::Unbounded)).take(AT_ONCE) {
            due.entry(place.workspace.clone()).or_default().push(partition.clone());
            count += 1;
            last = Some(partition.clone());
        }
        (due, last.filter(|_| count == AT_ONCE))
    }

    fn compare<'a>(&self, revs: impl Iterator<Item = (&'a String, i64)>) {
        let mut places = self.places();
        for (partition, rev) in revs {
            let Some(place) = places.get_mut(partition) else { continue };
            // The first time too: what was changed between his beginning and our look may have been told to nobody.
            if place.rev.replace(rev) != Some(rev) {
                place.changed.send_replace(());
            }
        }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::poll;
    use tidings_jobs::Stop;
    use tidings_kernel::{Update, Workspace, tables};
    use tidings_testbed::{Bed, dying_access, each_store};

    use super::{AT_ONCE, Hints, MAX_OF_USER, WatchError, Watching};
    use crate::keys::{self, InboxKey, UserId};

    fn acme() -> Workspace {
        "acme".parse().unwrap()
    }

    fn app() -> InboxKey {
        "app".parse().unwrap()
    }

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    async fn is_woken(watching: &mut Watching) -> bool {
        let changed = std::pin::pin!(watching.changed());
        poll!(changed).is_ready()
    }

    #[tokio::test]
    async fn a_hint_reaches_whom_it_concerns_and_nobody_else() {
        let (hints, ada, bob) = (Hints::default(), user("ada"), user("bob"));
        let other: Workspace = "other".parse().unwrap();
        let mut watching = [
            hints.watch(&acme(), &app(), &ada).unwrap(),
            hints.watch(&acme(), &app(), &ada).unwrap(),
            hints.watch(&acme(), &app(), &bob).unwrap(),
            hints.watch(&acme(), &"web".parse().unwrap(), &ada).unwrap(),
            hints.watch(&other, &app(), &ada).unwrap(),
        ];
        for (uid, expected) in [
            (Some(&ada), [true, true, false, false, false]),
            (Some(&bob), [false, false, true, false, false]),
            (None, [true, true, true, false, false]),
            (Some(&user("eve")), [false; 5]),
        ] {
            hints.changed(&acme(), &app(), uid);
            hints.changed(&acme(), &app(), uid);
            for (number, watching) in watching.iter_mut().enumerate() {
                assert_eq!(is_woken(watching).await, expected[number], "{uid:?} {number}");
                assert!(!is_woken(watching).await, "several hints are one");
            }
        }
    }

    #[tokio::test]
    async fn what_nobody_watches_is_not_kept_and_there_is_a_bound() {
        let hints = Hints { max: MAX_OF_USER + 1, ..Hints::default() };
        let mut watching = Vec::new();
        for _ in 0..MAX_OF_USER {
            watching.push(hints.watch(&acme(), &app(), &user("ada")).unwrap());
        }
        let more = hints.watch(&acme(), &app(), &user("ada"));
        assert_eq!(more.err(), Some(WatchError::User));
        let bob = hints.watch(&acme(), &app(), &user("bob")).unwrap();
        assert_eq!(hints.watch(&acme(), &app(), &user("eve")).err(), Some(WatchError::Node));
        assert_eq!(hints.watched.places().len(), 3);
        drop(bob);
        assert_eq!(hints.watched.places().len(), 2);
        watching.clear();
        assert_eq!((hints.watched.places().len(), hints.watchers()), (0, 0));
    }

    each_store!(
        what_nobody_told_is_found_by_looking,
        many_have_their_turn_one_after_another,
        a_workspace_in_trouble_does_not_stop_the_others,
    );

    async fn change(bed: &Bed, partition: &str) {
        let items = bed.cx().await.items().await.unwrap();
        let update = Update::new(&tables::INBOX, keys::counts(partition)).add("rev", 1);
        items.update(update).await.unwrap();
    }

    async fn what_nobody_told_is_found_by_looking(bed: &Bed) {
        let (hints, ada) = (Hints::default(), user("ada"));
        let mut watching = hints.watch(&acme(), &app(), &ada).unwrap();
        let mut other = hints.watch(&acme(), &app(), &user("bob")).unwrap();
        assert_eq!(hints.look(&bed.access, None).await, None);
        assert!(is_woken(&mut watching).await && is_woken(&mut other).await, "to be certain");
        hints.look(&bed.access, None).await;
        assert!(!is_woken(&mut watching).await);

        change(bed, &keys::user(&acme(), &app(), &ada)).await;
        hints.look(&bed.access, None).await;
        assert!(is_woken(&mut watching).await && !is_woken(&mut other).await);
        change(bed, &keys::public(&acme(), &app())).await;
        hints.look(&bed.access, None).await;
        assert!(is_woken(&mut watching).await && is_woken(&mut other).await);
    }

    async fn a_workspace_in_trouble_does_not_stop_the_others(bed: &Bed) {
        bed.make_workspace("other").await;
        let (hints, ada) = (Hints::default(), user("ada"));
        let mut in_trouble = hints.watch(&acme(), &app(), &ada).unwrap();
        let mut other = hints.watch(&"other".parse().unwrap(), &app(), &ada).unwrap();
        // The first call fails.
        let access = dying_access(bed, &bed.cx().await, 0, false);
        assert_eq!(hints.look(&access, None).await, None);
        assert!(!is_woken(&mut in_trouble).await && is_woken(&mut other).await);
        hints.look(&access, None).await;
        assert!(is_woken(&mut in_trouble).await && !is_woken(&mut other).await, "it has its turn");
    }

    async fn many_have_their_turn_one_after_another(bed: &Bed) {
        let hints = Hints::default();
        let watching: Vec<_> = (0..=AT_ONCE)
            .map(|number| hints.watch(&acme(), &app(), &user(&format!("u{number}"))).unwrap())
            .collect();
        let middle = hints.look(&bed.access, None).await;
        assert!(middle.is_some());
        assert_eq!(hints.look(&bed.access, middle).await, None);
        let looked_at = |place: &super::Place| place.rev.is_some();
        assert!(hints.watched.places().values().all(looked_at));
        assert_eq!(hints.watched.places().len(), watching.len() + 1);
    }

    #[tokio::test]
    async fn what_one_node_changes_wakes_who_watches_on_another() {
        let bed = Bed::postgres().await;
        let there = bed.beside().await;
        let hints = Arc::new(Hints::between_nodes(there.access.database(), 10));
        let ours = Hints::between_nodes(bed.access.database(), 10);
        let (stop, stopped) = Stop::new();
        let (following, access) = (Arc::clone(&hints), there.access.clone());
        let follow = async move { following.follow(&access, stopped).await };
        let watch = async {
            let mut watching = hints.watch(&acme(), &app(), &user("ada")).unwrap();
            // When it begins to listen, and when it looks for the first time: a hint too many.
            for _ in 0..20 {
                ours.changed(&acme(), &app(), Some(&user("ada")));
                watching.changed().await;
            }
            stop.send_replace(true);
        };
        tokio::join!(follow, watch);
    }
}
