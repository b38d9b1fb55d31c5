//! Whatever happens in whatever order, counts and lists are what a simple model says, and counting anew finds nothing.
//!
//! The model knows no counters and no watermarks: a message is read or it is not, and everything is counted by looking.

use std::cell::Cell;
use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_access::Cx;
use tidings_kernel::Clock as _;
use tidings_testbed::Bed;

use super::categories::none_is_empty;
use super::world::{World, post, reader_in};
use crate::ids::MessageId;
use crate::keys::Category;
use crate::marks::{Mark, ReadAll, mark, read_all};
use crate::publish::{NewPost, To};
use crate::read::{Count, Listing, counts, list};

const USERS: [&str; 3] = ["ada", "bob", "eve"];
const INBOXES: [&str; 2] = ["app", "web"];
const CATEGORIES: [&str; 3] = ["", "news", "order"];
const TTLS: [&str; 3] = ["10m", "2d", "30d"];

#[derive(Debug, Clone)]
enum Step {
    /// To those users whose bit is set; to everyone if it is 0. Late ones have an id from before.
    Publish {
        inbox: usize,
        users: u8,
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
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let (inbox, user, category) = (0..2usize, 0..3usize, 0..3usize);
    let place = (inbox, user.clone(), category);
    let marks = prop_oneof![
        4 => Just(Mark::Read),
        2 => Just(Mark::Unread),
        1 => Just(Mark::Seen),
        1 => Just(Mark::Archive),
        1 => Just(Mark::Unarchive)
    ];
    let messages = proptest::collection::vec(0..40usize, 1..5);
    prop_oneof![
        6 => (place.clone(), 1..8u8, 0..3usize, any::<bool>()).prop_map(
            |((inbox, _, category), users, ttl, late)| {
                Step::Publish { inbox, users, category, ttl, late }
            }),
        4 => (place.clone(), 0..3usize, any::<bool>()).prop_map(
            |((inbox, _, category), ttl, late)| {
                Step::Publish { inbox, users: 0, category, ttl, late }
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
        1 => Just(Step::Forget),
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
    world: World<'a>,
    model: Model,
    /// Something may have been removed that is not counted out.
    is_late: bool,
}

impl Run<'_> {
    fn now(&self) -> Timestamp {
        self.world.bed.clock.now()
    }

    async fn take(&mut self, step: &Step, earlier: &Cx) {
        let cx = self.world.cx().await;
        match step {
            Step::Publish { inbox, users, category, ttl, late } => {
                let cx = if *late { earlier } else { &cx };
                self.publish(cx, *inbox, *users, (*category, *ttl)).await;
            }
            Step::Mark { inbox, user, mark: what, messages } => {
                self.mark(&cx, (*inbox, *user), *what, messages).await;
            }
            Step::ReadAll { inbox, user, category, up_to } => {
                self.read_all(&cx, (*inbox, *user), *category, *up_to).await;
            }
            Step::Redact { message } => {
                let Some(message) = self.model.messages.get_mut(*message) else { return };
                let inbox = INBOXES[message.inbox].parse().unwrap();
                // Nobody asks twice, and a post is forgotten when its message is.
                if message.redacted || message.expires <= cx.now() {
                    return;
                }
                message.redacted = true;
                self.world.inbox.redact(&cx, &inbox, &message.id).await.unwrap();
            }
            Step::Visit { inbox, user } => self.model.visit(*inbox, *user, cx.now()),
            Step::Pass { minutes, swept } => {
                self.world.bed.clock.advance(minutes.minutes());
                if *swept {
                    self.sweep().await;
                }
            }
            Step::Sweep => self.sweep().await,
            Step::CountOut => {
                self.world.expire().await;
                self.is_late = false;
            }
            Step::Forget => {
                let sql = "UPDATE item_consumers SET seq = 0";
                let write = self.world.bed.access.database();
                write.write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
            }
        }
        self.world.bed.clock.advance(4.milliseconds());
    }

    /// Whatever nobody has looked at since it expired is removed, and counted out later.
    async fn sweep(&mut self) {
        self.world.sweep().await;
        self.is_late = true;
    }

    async fn publish(&mut self, cx: &Cx, inbox: usize, users: u8, (category, ttl): (usize, usize)) {
        let chosen: Vec<usize> = (0..3).filter(|user| users & (1 << user) != 0).collect();
        let to = match chosen.as_slice() {
            [] => To::Everyone,
            some => To::Users(some.iter().map(|user| USERS[*user].to_owned()).collect()),
        };
        let new = NewPost {
            category: Some(CATEGORIES[category].to_owned()).filter(|name| !name.is_empty()),
            expires_in: Some(TTLS[ttl].to_owned()),
            ..post(to)
        };
        let expires = TTLS[ttl].parse::<crate::ttl::Ttl>().unwrap().after(cx.now());
        let key = INBOXES[inbox].parse().unwrap();
        let published = self.world.inbox.publish(cx, &key, new).await.unwrap();
        self.model.messages.push(Message {
            inbox,
            id: published.id,
            category,
            expires: Timestamp::from_second(expires.as_second()).unwrap(),
            redacted: false,
            marked: chosen.iter().map(|user| (*user, Marked::default())).collect(),
            is_public: users == 0,
        });
    }

    async fn mark(&mut self, cx: &Cx, (inbox, user): (usize, usize), what: Mark, of: &[usize]) {
        self.model.visit(inbox, user, cx.now());
        let of: Vec<usize> =
            of.iter().copied().filter(|number| *number < self.model.messages.len()).collect();
        let ids: Vec<_> = of.iter().map(|number| self.model.messages[*number].id.clone()).collect();
        let reader = reader_in(INBOXES[inbox], USERS[user]);
        let receipts = mark(cx, &self.world.inbox, &reader, what, &ids).await.unwrap();
        let mut expected = BTreeMap::new();
        for number in of {
            if self.model.is_seen(number, inbox, user, cx.now()) {
                let message = &mut self.model.messages[number];
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
        self.model.visit(inbox, user, cx.now());
        let up_to = up_to.and_then(|number| self.model.messages.get(number));
        let up_to = up_to.map(|message| message.id.clone());
        let what = ReadAll { category: CATEGORIES[category].parse().ok(), up_to: up_to.clone() };
        let reader = reader_in(INBOXES[inbox], USERS[user]);
        read_all(cx, &self.world.inbox, &reader, what).await.unwrap();
        for number in 0..self.model.messages.len() {
            if !self.model.is_seen(number, inbox, user, cx.now()) {
                continue;
            }
            let message = &mut self.model.messages[number];
            let is_meant = category == 0 || message.category == category;
            if is_meant && up_to.as_ref().is_none_or(|up_to| message.id <= *up_to) {
                message.marked.entry(user).or_default().read = true;
            }
        }
    }

    /// What users see and count is what the model says.
    async fn agree(&mut self) {
        let cx = self.world.cx().await;
        for inbox in 0..INBOXES.len() {
            for user in 0..USERS.len() {
                // Only who came already is asked: asking is a visit.
                if !self.model.since.contains_key(&(inbox, user)) {
                    continue;
                }
                self.agree_on(&cx, inbox, user).await;
            }
        }
    }

    async fn agree_on(&self, cx: &Cx, inbox: usize, user: usize) {
        let seen = self.model.seen(inbox, user, self.now());
        let reader = reader_in(INBOXES[inbox], USERS[user]);
        for (archived, unread_only, limit) in
            [(false, false, 3), (false, true, 100), (true, false, 2)]
        {
            let fits =
                |marked: &Marked| marked.archived == archived && !(unread_only && marked.read);
            let expected: Vec<_> = seen
                .iter()
                .filter(|(_, marked)| fits(marked))
                .map(|(message, marked)| (message.id.clone(), !marked.read))
                .collect();
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let listing = Listing { limit, cursor, category: None, unread_only, archived };
                let page = list(cx, &self.world.inbox, &reader, listing).await.unwrap();
                let shown = page.messages.into_iter();
                found.extend(shown.map(|shown| (shown.message.id, shown.is_unread)));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{reader:?}");
        }
        if self.is_late {
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
        let counts = counts(cx, &self.world.inbox, &reader).await.unwrap();
        assert_eq!((counts.total, counts.unread), (whole.total, whole.unread), "{reader:?}");
        assert_eq!(counts.categories, expected, "{reader:?}");
    }
}

async fn run(bed: &Bed, workspace: &str, steps: &[Step]) {
    bed.make_workspace(workspace).await;
    let world = World::inside(bed, workspace);
    let mut run = Run { world, model: Model::default(), is_late: false };
    // Those of which some steps come late.
    let mut earlier = run.world.cx().await;
    for (number, step) in steps.iter().enumerate() {
        run.take(step, &earlier).await;
        run.agree().await;
        if number % 4 == 0 {
            earlier = run.world.cx().await;
        }
        // Counting anew counts out too, so not each time.
        if number % 7 == 6 {
            run.world.verify().await;
        }
    }
    run.world.verify().await;
    run.world.expire().await;
    run.is_late = false;
    run.agree().await;
    run.world.verify().await;
    none_is_empty(&run.world).await;
}

fn on(bed: impl Future<Output = Bed>, cases: u32, length: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let steps = proptest::collection::vec(step(), length / 2..length);
    let run = TestRunner::new(config).run(&steps, |steps| {
        number.set(number.get() + 1);
        runtime.block_on(run(&bed, &format!("w{}", number.get()), &steps));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn counts_are_what_looking_says_in_memory() {
    on(Bed::memory(), 12, 50);
}

#[test]
fn counts_are_what_looking_says_on_postgres() {
    on(Bed::postgres(), 4, 40);
}
