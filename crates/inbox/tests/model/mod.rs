//! Whatever happens in whatever order, counts and lists are what a simple model says, and counting anew finds nothing.
//!
//! The model knows no counters and no watermarks: a message is read or it is not, and everything is counted by looking. Nor does it know
//! where items are: the tests of each engine bring their own ground, those of DynamoDB too (`aws/tests/inbox.rs`). Each step is made on one of
//! two nodes, for one of two tenants who have the same names for their users and inboxes, and a model each.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tidings_access::Cx;
use tidings_inbox::expiry::count_out;
use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::{self, Category};
use tidings_inbox::marks::{Mark, ReadAll, mark, read_all};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::read::{Count, Listing, counts, list, newer};
use tidings_inbox::records::{CategoryStats, EXPIRY};
use tidings_inbox::ttl::Ttl;
use tidings_inbox::verify::{Then, verify};
use tidings_inbox::{Bounds, Inbox, Reader, forget};
use tidings_kernel::{Clock as _, Scan, tables};
use tidings_testkit::FakeClock;
use tokio::runtime::Runtime;

/// Nodes that have workspaces on some engine in common, with a clock that is set by hand.
#[async_trait]
pub(crate) trait Ground {
    /// What a node keeps in memory.
    fn inbox(&self, node: usize) -> &Inbox;

    fn clock(&self) -> &FakeClock;

    async fn cx(&self, node: usize, tenant: usize) -> Cx;

    /// Removes what is past its time, of all tenants. Nobody has counted it out then.
    async fn sweep(&self);

    /// Lets the stream tell everything again, where it can.
    async fn retell(&self);
}

/// A node that takes few out at once, and knows of few what expires next.
pub(crate) fn narrow() -> Inbox {
    let mut inbox = Inbox::new();
    inbox.bounds = Bounds { together: 4, listed: 3 };
    inbox
}

/// Each keeps what it has read.
pub(crate) const NODES: usize = 2;
/// Their users and inboxes are called the same.
pub(crate) const TENANTS: usize = 2;
/// More than have a post in the transaction that accepts it.
const USERS: usize = 24;
/// Some of them do more than the others, or nobody would do much.
const BUSY: usize = 3;
const INBOXES: [&str; 2] = ["app", "web"];
const CATEGORIES: [&str; 3] = ["", "news", "order"];
const TTLS: [&str; 5] = ["10m", "25m", "1d", "2d", "30d"];

#[derive(Debug, Clone)]
enum Step {
    /// To everyone if no user is named. Late ones have an id from before.
    Publish {
        inbox: usize,
        users: BTreeSet<usize>,
        category: usize,
        ttl: usize,
        late: bool,
    },
    Mark {
        inbox: usize,
        user: usize,
        mark: Mark,
        messages: Vec<usize>,
    },
    ReadAll {
        inbox: usize,
        user: usize,
        category: usize,
        up_to: Option<usize>,
    },
    Redact {
        message: usize,
    },
    Visit {
        inbox: usize,
        user: usize,
    },
    /// What is past its time then may be gone before anybody looks.
    Pass {
        minutes: i64,
        swept: bool,
    },
    Sweep,
    CountOut,
    /// The stream tells it all again.
    Retell,
    /// A user is forgotten, and may come again under the same name.
    Forget {
        user: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let user = || prop_oneof![2 => 0..BUSY, 1 => 0..USERS];
    let place = (0..INBOXES.len(), user(), 0..CATEGORIES.len());
    let users = prop_oneof![
        3 => proptest::collection::btree_set(user(), 1..=4),
        2 => proptest::collection::btree_set(0..USERS, 4..USERS),
        1 => Just((0..USERS).collect()),
    ];
    let marks = prop_oneof![
        4 => Just(Mark::Read),
        2 => Just(Mark::Unread),
        1 => Just(Mark::Seen),
        1 => Just(Mark::Archive),
        1 => Just(Mark::Unarchive)
    ];
    let messages = proptest::collection::vec(0..40usize, 1..5);
    prop_oneof![
        6 => (place.clone(), users, 0..TTLS.len(), any::<bool>()).prop_map(
            |((inbox, _, category), users, ttl, late)| {
                Step::Publish { inbox, users, category, ttl, late }
            }),
        4 => (place.clone(), 0..TTLS.len(), any::<bool>()).prop_map(
            |((inbox, _, category), ttl, late)| {
                Step::Publish { inbox, users: BTreeSet::new(), category, ttl, late }
            }),
        8 => (place.clone(), marks, messages).prop_map(|((inbox, user, _), mark, messages)| {
            Step::Mark { inbox, user, mark, messages }
        }),
        4 => (place.clone(), proptest::option::of(0..40usize)).prop_map(
            |((inbox, user, category), up_to)| Step::ReadAll { inbox, user, category, up_to }),
        2 => (0..40usize).prop_map(|message| Step::Redact { message }),
        2 => place.prop_map(|(inbox, user, _)| Step::Visit { inbox, user }),
        3 => (prop_oneof![Just(1i64), Just(15), Just(60 * 24 * 3)], any::<bool>()).prop_map(
            |(minutes, swept)| Step::Pass { minutes, swept }),
        2 => Just(Step::Sweep),
        2 => Just(Step::CountOut),
        1 => Just(Step::Retell),
        1 => user().prop_map(|user| Step::Forget { user }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Marked {
    read: bool,
    seen: bool,
    archived: bool,
}

#[derive(Debug)]
struct Message {
    inbox: usize,
    id: MessageId,
    category: usize,
    expires: Timestamp,
    redacted: bool,
    /// By user; a public one is whose who sees it.
    marked: BTreeMap<usize, Marked>,
    is_public: bool,
}

#[derive(Debug, Default)]
struct Model {
    /// In the order in which they were published.
    messages: Vec<Message>,
    /// From which message on a user sees public ones.
    since: BTreeMap<(usize, usize), usize>,
}

impl Model {
    fn is_seen(&self, number: usize, inbox: usize, user: usize, now: Timestamp) -> bool {
        let message = &self.messages[number];
        let has = match message.is_public {
            true => self.since.get(&(inbox, user)).is_some_and(|since| number >= *since),
            false => message.marked.contains_key(&user),
        };
        has && message.inbox == inbox && !message.redacted && message.expires > now
    }

    /// What a user sees, newest first.
    fn seen(&self, inbox: usize, user: usize, now: Timestamp) -> Vec<(&Message, Marked)> {
        let mut seen: Vec<_> = (0..self.messages.len())
            .filter(|number| self.is_seen(*number, inbox, user, now))
            .map(|number| &self.messages[number])
            .map(|message| (message, message.marked.get(&user).copied().unwrap_or_default()))
            .collect();
        seen.sort_by(|(a, _), (b, _)| b.id.cmp(&a.id));
        seen
    }

    fn visit(&mut self, inbox: usize, user: usize, now: Timestamp) {
        // Where nobody has published, nobody can come.
        if !self.messages.iter().any(|message| message.inbox == inbox) {
            return;
        }
        let oldest = MessageId::first_of(now - (24 * 7).hours());
        let is_old = |message: &Message| {
            message.inbox == inbox
                && message.is_public
                && message.id < oldest
                && !message.redacted
                && message.expires > now
        };
        let since = self.messages.iter().rposition(is_old).map_or(0, |last| last + 1);
        self.since.entry((inbox, user)).or_insert(since);
    }
}

fn uid(user: usize) -> String {
    format!("u{user}")
}

fn reader_in(inbox: usize, user: usize) -> Reader {
    let (inbox, uid) = (INBOXES[inbox].parse().unwrap(), uid(user).parse().unwrap());
    Reader { inbox, uid, let_in: None }
}

fn apply(marked: &mut Marked, mark: Mark) {
    match mark {
        Mark::Read if !marked.read => (marked.read, marked.seen) = (true, true),
        Mark::Read => {}
        Mark::Unread => (marked.read, marked.archived) = (false, false),
        Mark::Seen => marked.seen = true,
        Mark::Archive => {
            apply(marked, Mark::Read);
            marked.archived = true;
        }
        Mark::Unarchive => marked.archived = false,
    }
}

struct Run<'a> {
    ground: &'a dyn Ground,
    /// Where the next thing happens, and to whom.
    node: usize,
    tenant: usize,
    models: [Model; TENANTS],
    /// Something may have been removed that is not counted out.
    is_late: [bool; TENANTS],
    /// The stream knows that somebody reads it. What nobody has ever read is kept for a day.
    heard: [bool; TENANTS],
}

impl Run<'_> {
    fn now(&self) -> Timestamp {
        self.ground.clock().now()
    }

    fn inbox(&self) -> &Inbox {
        self.ground.inbox(self.node)
    }

    async fn cx(&self) -> Cx {
        self.ground.cx(self.node, self.tenant).await
    }

    fn model(&mut self) -> &mut Model {
        &mut self.models[self.tenant]
    }

    async fn take(&mut self, step: &Step, earlier: &Cx) {
        let cx = self.cx().await;
        match step {
            Step::Publish { inbox, users, category, ttl, late } => {
                let cx = if *late { earlier } else { &cx };
                self.publish(cx, *inbox, users, (*category, *ttl)).await;
            }
            Step::Mark { inbox, user, mark: what, messages } => {
                self.mark(&cx, (*inbox, *user), *what, messages).await;
            }
            Step::ReadAll { inbox, user, category, up_to } => {
                self.read_all(&cx, (*inbox, *user), *category, *up_to).await;
            }
            Step::Redact { message } => self.redact(&cx, *message).await,
            Step::Visit { inbox, user } => {
                self.model().visit(*inbox, *user, cx.now());
                // Now, and not when it is his turn to be looked at: what he sees depends on when he came.
                counts(&cx, self.inbox(), &reader_in(*inbox, *user)).await.unwrap();
            }
            Step::Pass { minutes, swept } => {
                self.hear().await;
                self.ground.clock().advance(minutes.minutes());
                if *swept {
                    self.sweep().await;
                }
            }
            Step::Sweep => self.sweep().await,
            Step::CountOut => self.expire().await,
            Step::Forget { user } => {
                forget(&cx, &uid(*user).parse().unwrap()).await.unwrap();
                self.model().since.retain(|(_, of), _| of != user);
                for message in &mut self.model().messages {
                    message.marked.remove(user);
                }
            }
            Step::Retell => {
                self.ground.retell().await;
                // No stream tells a thing again after the marks of counting out are gone.
                for tenant in 0..TENANTS {
                    let cx = self.ground.cx(self.node, tenant).await;
                    count_out(&cx, self.inbox()).await.unwrap();
                }
            }
        }
        self.ground.clock().advance(4.milliseconds());
    }

    /// Whatever nobody has looked at since it expired is removed, and counted out later.
    async fn sweep(&mut self) {
        self.ground.sweep().await;
        self.is_late = [true; TENANTS];
    }

    async fn expire(&mut self) {
        self.sweep().await;
        count_out(&self.cx().await, self.inbox()).await.unwrap();
        self.is_late[self.tenant] = false;
    }

    async fn hear(&mut self) {
        for tenant in (0..TENANTS).filter(|tenant| !self.heard[*tenant]).collect::<Vec<_>>() {
            let cx = self.ground.cx(self.node, tenant).await;
            let counted = count_out(&cx, self.inbox()).await.unwrap();
            self.heard[tenant] = counted.changes > 0;
        }
    }

    /// Counts everything anew, and insists that every count is right.
    async fn verify(&self) {
        let mut drifts = Vec::new();
        let (cx, mut tell) = (self.cx().await, |drift| drifts.push(drift));
        let verified = verify(&cx, self.inbox(), Then::Tell, &mut tell).await.unwrap();
        assert!(drifts.is_empty(), "{drifts:#?}");
        assert_eq!((verified.unsettled, verified.unreadable), (0, 0));
    }

    async fn redact(&mut self, cx: &Cx, message: usize) {
        let Some(message) = self.model().messages.get_mut(message) else { return };
        let (inbox, id) = (INBOXES[message.inbox].parse().unwrap(), message.id.clone());
        // Nobody asks twice, and a post is forgotten when its message is.
        if message.redacted || message.expires <= cx.now() {
            return;
        }
        message.redacted = true;
        self.inbox().redact(cx, &inbox, &id).await.unwrap();
    }

    async fn publish(
        &mut self,
        cx: &Cx,
        inbox: usize,
        users: &BTreeSet<usize>,
        (category, ttl): (usize, usize),
    ) {
        let is_public = users.is_empty();
        let to = match is_public {
            true => To::Everyone,
            false => To::Users(users.iter().copied().map(uid).collect()),
        };
        let new = NewPost {
            category: Some(CATEGORIES[category].to_owned()).filter(|name| !name.is_empty()),
            expires_in: Some(TTLS[ttl].to_owned()),
            to,
            label: None,
            title: "Hello".to_owned(),
            body: json!("There is news"),
            cta_uri: None,
            host_system_id: None,
            send_at: None,
            sender: "shop".to_owned(),
        };
        let expires = TTLS[ttl].parse::<Ttl>().unwrap().after(cx.now());
        let key = INBOXES[inbox].parse().unwrap();
        let published = self.inbox().publish(cx, &key, new).await.unwrap();
        self.model().messages.push(Message {
            inbox,
            id: published.id,
            category,
            expires: Timestamp::from_second(expires.as_second()).unwrap(),
            redacted: false,
            marked: users.iter().map(|user| (*user, Marked::default())).collect(),
            is_public,
        });
    }

    async fn mark(&mut self, cx: &Cx, (inbox, user): (usize, usize), what: Mark, of: &[usize]) {
        self.model().visit(inbox, user, cx.now());
        let messages = &self.model().messages;
        let of: Vec<usize> = of.iter().copied().filter(|number| *number < messages.len()).collect();
        let ids: Vec<_> = of.iter().map(|number| messages[*number].id.clone()).collect();
        let reader = reader_in(inbox, user);
        let receipts = mark(cx, self.inbox(), &reader, what, &ids).await.unwrap();
        let mut expected = BTreeMap::new();
        let model = self.model();
        for number in of {
            if model.is_seen(number, inbox, user, cx.now()) {
                let message = &mut model.messages[number];
                let marked = message.marked.entry(user).or_default();
                apply(marked, what);
                expected.insert(message.id.clone(), *marked);
            }
        }
        let told = receipts.into_iter().map(|receipt| {
            let (read, seen) = (!receipt.is_unread, receipt.seen_at.is_some());
            assert_eq!(read, receipt.read_at.is_some());
            (receipt.id, Marked { read, seen, archived: receipt.archived_at.is_some() })
        });
        let told: BTreeMap<_, _> = told.collect();
        // What a read-all has read was not marked, so the model cannot tell whether it was seen.
        let without_seen = |(id, marked): (MessageId, Marked)| (id, (marked.read, marked.archived));
        let told: BTreeMap<_, _> = told.into_iter().map(without_seen).collect();
        assert_eq!(told, expected.into_iter().map(without_seen).collect());
    }

    async fn read_all(
        &mut self,
        cx: &Cx,
        (inbox, user): (usize, usize),
        category: usize,
        up_to: Option<usize>,
    ) {
        self.model().visit(inbox, user, cx.now());
        let up_to = up_to.and_then(|number| self.model().messages.get(number));
        let up_to = up_to.map(|message| message.id.clone());
        let what = ReadAll { category: CATEGORIES[category].parse().ok(), up_to: up_to.clone() };
        let reader = reader_in(inbox, user);
        read_all(cx, self.inbox(), &reader, what).await.unwrap();
        let model = self.model();
        for number in 0..model.messages.len() {
            if !model.is_seen(number, inbox, user, cx.now()) {
                continue;
            }
            let message = &mut model.messages[number];
            let is_meant = category == 0 || message.category == category;
            if is_meant && up_to.as_ref().is_none_or(|up_to| message.id <= *up_to) {
                message.marked.entry(user).or_default().read = true;
            }
        }
    }

    /// What users see and count is what the model says, of each tenant.
    async fn agree(&mut self) {
        for tenant in 0..TENANTS {
            self.tenant = tenant;
            self.agree_here().await;
        }
    }

    async fn agree_here(&self) {
        let cx = self.cx().await;
        for inbox in 0..INBOXES.len() {
            for user in 0..USERS {
                // Only who came already is asked: asking is a visit.
                if !self.models[self.tenant].since.contains_key(&(inbox, user)) {
                    continue;
                }
                self.agree_on(&cx, inbox, user).await;
            }
        }
    }

    async fn agree_on(&self, cx: &Cx, inbox: usize, user: usize) {
        let seen = self.models[self.tenant].seen(inbox, user, self.now());
        let reader = reader_in(inbox, user);
        for (category, archived, unread_only, limit) in [
            (0, false, false, 3),
            (0, false, true, 100),
            (0, true, false, 2),
            (1, false, false, 1),
            (2, false, true, 2),
        ] {
            let of: Option<Category> = CATEGORIES[category].parse().ok();
            let fits = |message: &Message, marked: &Marked| {
                (of.is_none() || message.category == category)
                    && marked.archived == archived
                    && !(unread_only && marked.read)
            };
            let expected: Vec<_> = seen
                .iter()
                .filter(|(message, marked)| fits(message, marked))
                .map(|(message, marked)| (message.id.clone(), !marked.read))
                .collect();
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let category = of.clone();
                let listing = Listing { limit, cursor, category, unread_only, archived };
                let page = list(cx, self.inbox(), &reader, listing).await.unwrap();
                let shown = page.messages.into_iter();
                found.extend(shown.map(|shown| (shown.message.id, shown.is_unread)));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{reader:?} {of:?}");
        }
        self.agree_on_newer(cx, &reader, &seen).await;
        if self.is_late[self.tenant] {
            return;
        }
        let mut expected: BTreeMap<Category, Count> = BTreeMap::new();
        let mut whole = Count::default();
        for (message, marked) in &seen {
            let category = CATEGORIES[message.category].parse().ok();
            let of_category = category.map(|category| expected.entry(category).or_default());
            for count in of_category.into_iter().chain([&mut whole]) {
                count.total += 1;
                count.unread += i64::from(!marked.read);
            }
        }
        let counts = counts(cx, self.inbox(), &reader).await.unwrap();
        assert_eq!((counts.total, counts.unread), (whole.total, whole.unread), "{reader:?}");
        assert_eq!(counts.categories, expected, "{reader:?}");
    }

    /// What came after one of the messages, the oldest first, archived or not.
    async fn agree_on_newer(&self, cx: &Cx, reader: &Reader, seen: &[(&Message, Marked)]) {
        let Some((middle, _)) = seen.get(seen.len() / 2) else { return };
        let told = seen.iter().rev().filter(|(message, _)| message.id > middle.id);
        let told: Vec<_> = told.map(|(message, it)| (message.id.clone(), !it.read)).collect();
        for limit in [2, 100] {
            let newer = newer(cx, self.inbox(), reader, &middle.id, limit).await.unwrap();
            assert_eq!(newer.more, told.len() > limit, "{reader:?}");
            if !newer.more {
                let found = newer.messages.into_iter();
                let found: Vec<_> = found.map(|it| (it.message.id, it.is_unread)).collect();
                assert_eq!(found, told, "{reader:?}");
            }
        }
    }
}

/// There are no counts of a category that say nothing, but for a read-all that waits to expire.
async fn none_is_empty(cx: &Cx) {
    let items = cx.items().await.unwrap();
    let mut cursor = None;
    loop {
        let scan = Scan::new(&tables::INBOX).limit(1_000).after(cursor);
        let page = items.scan(scan).await.unwrap();
        for item in &page.items {
            let sort = item.text("SK").unwrap();
            if sort.starts_with(keys::COUNTS) && sort != keys::ALL {
                let stats = CategoryStats::read(Some(item)).unwrap();
                let waits = stats.mark.is_some() && item.get(EXPIRY).is_some();
                assert_eq!(stats.is_empty(), waits, "{item:?}");
            }
        }
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
}

/// A step, and on which node and for which tenant it is made.
type Placed = (Step, usize, usize);

async fn run(ground: &dyn Ground, steps: &[Placed], every: usize) {
    let (models, is_late, heard) = Default::default();
    let mut run = Run { ground, node: 0, tenant: 0, models, is_late, heard };
    // Those of which some steps come late.
    let now = async || [ground.cx(0, 0).await, ground.cx(0, 1).await];
    let mut earlier = now().await;
    for (number, (step, node, tenant)) in steps.iter().enumerate() {
        (run.node, run.tenant) = (*node, *tenant);
        run.take(step, &earlier[*tenant]).await;
        if number.is_multiple_of(every) {
            run.agree().await;
        }
        // What began before an erasure does not end after it: that would take less than the moment between a removal and the erasure.
        if number % 4 == 0 || matches!(step, Step::Forget { .. }) {
            earlier = now().await;
        }
        // Counting anew counts out too, so not each time.
        if number % 7 == 6 {
            run.verify().await;
        }
    }
    for tenant in 0..TENANTS {
        run.tenant = tenant;
        run.verify().await;
        run.expire().await;
    }
    // What the second has had removed of the first.
    run.is_late = [false; TENANTS];
    run.agree().await;
    for tenant in 0..TENANTS {
        run.tenant = tenant;
        run.verify().await;
        none_is_empty(&run.cx().await).await;
    }
}

/// How much is tried.
pub(crate) struct Size {
    pub(crate) cases: u32,
    /// So many steps in each at most.
    pub(crate) steps: usize,
    /// Everybody looks after so many of them.
    pub(crate) every: usize,
}

/// Runs cases, each on a ground of its own.
pub(crate) fn counts_are_what_looking_says<G: Ground>(
    runtime: &Runtime,
    Size { cases, steps: length, every }: Size,
    ground: impl AsyncFn([String; TENANTS]) -> G,
) {
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let placed = (step(), 0..NODES, 0..TENANTS);
    let steps = proptest::collection::vec(placed, length / 2..length);
    let run = TestRunner::new(config).run(&steps, |steps| {
        number.set(number.get() + 1);
        runtime.block_on(async {
            let ground = ground(["v", "w"].map(|name| format!("{name}{}", number.get()))).await;
            run(&ground, &steps, every).await;
        });
        Ok(())
    });
    run.unwrap();
}
