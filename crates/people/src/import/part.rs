//! A part of a file: what is known of its people, what that makes of each line, and writing it.

use std::collections::{BTreeSet, HashSet};

use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{
    EmailAddress, Expect, MAX_BATCH_GET, MAX_TXN_WRITES, Put, StoreError, Txn, Update, Write,
    tables,
};
use tidings_sql::DatabaseError;
use tidings_webhooks::EventType;

use super::Counts;
use super::bulk::{self, Audience, Moved};
use super::row::{Fault, Person};
use crate::contacts::many::{self, Contacts};
use crate::contacts::profile::Profile;
use crate::contacts::store::Known;
use crate::contacts::write::Held;
use crate::contacts::{
    self, Change, ContactId, Tag, TagChange, UpsertError, rules, write as contact,
};
use crate::suppression::memory::Secret;
use crate::suppression::{self, Kind, Reason, Suppress};
use crate::{keys, news, race, segments};

/// So many people are marked at once: their writes are committed together.
const MARKED_AT_ONCE: usize = 64;

/// What is to be done with everybody.
pub(super) struct Order {
    pub(super) tags: BTreeSet<Tag>,
    pub(super) audience: Option<Audience>,
    pub(super) source: String,
}

/// How a part ended.
#[derive(Default)]
pub(super) struct Done {
    pub(super) counts: Counts,
    pub(super) faults: Vec<Fault>,
    /// Those who were no contacts before, if they were only looked at.
    pub(super) new: Vec<EmailAddress>,
    /// Those who would be subscribed, if they were only looked at.
    pub(super) joining: Vec<EmailAddress>,
}

/// A line, with what is known of its person.
struct Case {
    person: Person,
    known: Option<Known>,
    held: Held,
}

/// Everything that is loaded for a part at once.
struct Loaded {
    contacts: Contacts,
    secret: Option<Secret>,
}

type Line = Result<Person, Fault>;

/// Writes nothing.
pub(super) async fn look(cx: &Cx, order: &Order, lines: Vec<Line>) -> Result<Done, StorageError> {
    let mut done = Done::default();
    let people = done.take(lines, order);
    let emails = distinct(&people);
    let (within, audience) = (cx.clone(), order.audience);
    let load = cx.database().read(move |tx| {
        let contacts = many::find(tx, &within, &emails)?;
        let known: Vec<i64> = contacts.values().map(|known| known.id.get()).collect();
        let subscribed = match audience {
            Some(audience) => bulk::subscribed(tx, &known, audience)?,
            None => HashSet::new(),
        };
        let loaded = Loaded { contacts, secret: Secret::find(tx, &within)? };
        Ok::<_, DatabaseError>((loaded, subscribed))
    });
    let (loaded, subscribed) = load.await?;
    for case in cases(cx, &loaded, people).await? {
        match rules::plan(&case.held.profile.clone().unwrap_or_default(), &case.person.edit) {
            Err(error) => {
                done.leave(&case.person, &error.to_string());
                continue;
            }
            Ok(plan) => done.count(&case, plan.is_empty() && case.new_zone().is_none()),
        }
        let is_in = case.known.as_ref().is_some_and(|known| subscribed.contains(&known.id.get()));
        if order.audience.is_some() && !is_in && !case.is_unsubscribed() {
            done.joining.push(case.person.email.clone());
        }
        if case.held.profile.is_none() {
            done.new.push(case.person.email);
        }
    }
    Ok(done)
}

pub(super) async fn write(cx: &Cx, order: &Order, lines: Vec<Line>) -> Result<Done, StorageError> {
    let mut done = Done::default();
    let mut rest = done.take(lines, order);
    // Who comes twice is looked at again when what the first line says is written.
    while !rest.is_empty() {
        let (people, again) = first_of_each(rest);
        rest = again;
        write_distinct(cx, order, people, &mut done).await?;
    }
    Ok(done)
}

async fn write_distinct(
    cx: &Cx,
    order: &Order,
    people: Vec<Person>,
    done: &mut Done,
) -> Result<(), StorageError> {
    let loaded = make_known(cx, order, &people).await?;
    let (mut writing, mut joining, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    let mut as_they_are = Vec::new();
    for case in cases(cx, &loaded, people).await? {
        let before = case.held.profile.clone().unwrap_or_default();
        let plan = match rules::plan(&before, &case.person.edit) {
            Ok(plan) => plan,
            Err(error) => {
                done.leave(&case.person, &error.to_string());
                as_they_are.push(case);
                continue;
            }
        };
        if let Some(known) = &case.known
            && !case.held.is_unsubscribed()
        {
            joining.push(known.id.get());
        }
        let as_is = case.held.profile.is_some() && plan.is_empty();
        let moves = case.moves(as_is);
        done.count(&case, as_is && moves.is_none());
        moved.extend(moves);
        match as_is {
            true => as_they_are.push(case),
            false => writing.push((plan, case)),
        }
    }
    mark(cx, order, &as_they_are).await?;
    let secret = loaded.secret.as_ref();
    // Of whoever is new the relations have told.
    let is_update = |(_, case): &(rules::Plan, Case)| case.held.profile.is_some();
    let tell = writing.iter().any(is_update)
        && tidings_webhooks::wanted(cx, EventType::ContactUpdated).await?;
    let check = !writing.is_empty() && segments::any(cx).await?;
    let written: Vec<EmailAddress> =
        writing.iter().map(|(_, case)| case.person.email.clone()).collect();
    let groups = grouped(cx, writing, Then { tell, check })?;
    try_join_all(groups.into_iter().map(|group| commit(cx, order, secret, group))).await?;
    contacts::take_back(cx, &written).await?;
    done.counts.subscribed += finish(cx, order, moved, joining).await? as u64;
    Ok(())
}

/// Last, when it is known whose line could be taken and who has left everything. Tells how many are new to the audience.
async fn finish(
    cx: &Cx,
    order: &Order,
    moved: Vec<Moved>,
    joining: Vec<i64>,
) -> Result<usize, StorageError> {
    if moved.is_empty() && order.audience.is_none() {
        return Ok(0);
    }
    let (within, source, audience) = (cx.clone(), order.source.clone(), order.audience);
    let write = cx.database().write(move |tx| {
        bulk::move_to(tx, &within, &moved)?;
        match audience {
            Some(audience) => bulk::subscribe(tx, &within, &joining, audience, &source),
            None => Ok(0),
        }
    });
    Ok(write.await?)
}

/// The relations: first, so that whoever has a profile is a contact.
async fn make_known(cx: &Cx, order: &Order, people: &[Person]) -> Result<Loaded, StorageError> {
    let emails = distinct(people);
    let leaving: Vec<String> =
        people.iter().filter(|one| one.unsubscribed).map(|one| one.email.to_string()).collect();
    // Most people of a file are new, or most are known. Who is which is looked up beside the one thread that writes.
    let (within, looked_for) = (cx.clone(), emails.clone());
    let known = cx.database().read(move |tx| many::find(tx, &within, &looked_for));
    let known: Contacts = known.await?;
    let (known, new): (Vec<_>, Vec<_>) =
        emails.into_iter().partition(|email| known.contains_key(email.as_str()));
    let (within, source) = (cx.clone(), order.source.clone());
    // Whoever is faster with an address decides who has it: so each statement is right by itself.
    let make = cx.database().write_committed(move |tx| {
        let contacts = many::ensure(tx, &within, (&known, &new), Some(&source))?;
        let leaving: Vec<i64> = leaving
            .iter()
            .filter_map(|email| contacts.get(email))
            .map(|one| one.id.get())
            .collect();
        bulk::unsubscribe(tx, &within, &leaving, &source)?;
        Ok::<_, DatabaseError>(Loaded { contacts, secret: Secret::find(tx, &within)? })
    });
    let mut loaded = make.await?;
    for person in people.iter().filter(|person| person.unsubscribed) {
        if let Some(known) = loaded.contacts.get_mut(person.email.as_str()) {
            known.unsubscribed_at.get_or_insert(cx.now());
        }
    }
    Ok(loaded)
}

/// The items of all of them, in as few reads as the store allows.
async fn cases(cx: &Cx, loaded: &Loaded, people: Vec<Person>) -> Result<Vec<Case>, StorageError> {
    let items = cx.items().await?;
    let secret = loaded.secret.as_ref();
    let each = if secret.is_some() { 3 } else { 2 };
    let mut found = Vec::with_capacity(people.len());
    let parts = people.chunks(MAX_BATCH_GET / each).map(|part| {
        let wanted: Vec<_> = part.iter().flat_map(|one| Held::keys(&one.email, secret)).collect();
        let items = &items;
        async move { items.batch_get(&tables::MAIN, &wanted).await }
    });
    for part in try_join_all(parts).await? {
        found.extend(part);
    }
    let mut found = found.into_iter();
    let cases = people.into_iter().map(|person| {
        let held = Held::read(&person.email, found.by_ref().take(each).collect());
        let known = loaded.contacts.get(person.email.as_str()).cloned();
        Case { person, known, held }
    });
    Ok(cases.collect())
}

/// People whose writes fit into one transaction.
struct Group {
    txn: Txn,
    cases: Vec<Case>,
}

/// What follows from a change.
#[derive(Clone, Copy)]
struct Then {
    /// Somebody wants to be told of each.
    tell: bool,
    /// There are segments, so everybody in a group is looked at again.
    check: bool,
}

fn grouped(
    cx: &Cx,
    writing: Vec<(rules::Plan, Case)>,
    then: Then,
) -> Result<Vec<Group>, StorageError> {
    // A message is an item where the queue is not in the same database.
    let count = |txn: &Txn| txn.writes.len() + txn.messages.len();
    let room = MAX_TXN_WRITES - usize::from(then.check);
    let mut groups: Vec<Group> = Vec::new();
    for (plan, case) in writing {
        let known = case.known.as_ref().expect("everybody in the part was made a contact");
        let update = case.held.update(&case.person.email, known, &plan, cx.now());
        let mut txn = case.held.txn(&case.person.email, update, &plan, cx.now());
        if case.held.profile.is_none() {
            store_whole(&mut txn).map_err(StorageError::from)?;
        } else if then.tell {
            let told = news::updated(cx, known.id.get(), &case.person.email);
            txn = txn.enqueue(told.wanted_message(cx));
        }
        match groups.last_mut() {
            Some(last) if count(&last.txn) + count(&txn) <= room => {
                last.txn.writes.append(&mut txn.writes);
                last.txn.messages.append(&mut txn.messages);
                last.cases.push(case);
            }
            _ => groups.push(Group { txn, cases: vec![case] }),
        }
    }
    if then.check {
        for group in &mut groups {
            let known = group.cases.iter().filter_map(|case| case.known.as_ref());
            let ids: Vec<ContactId> = known.map(|known| known.id).collect();
            group.txn.messages.extend(segments::messages(cx, &ids));
        }
    }
    Ok(groups)
}

/// A new item is stored as a whole: its text is then made here, and not by the one thread that writes. Of somebody new nothing
/// is there, so nothing has to be looked for; should something be, he is written as if he came alone.
fn store_whole(txn: &mut Txn) -> Result<(), StoreError> {
    for write in &mut txn.writes {
        match write {
            Write::Update(update) => {
                if let Some(item) = Update::apply(update, None)? {
                    *write = Write::Put(Put::new(update.table, item).expect(Expect::Absent));
                }
            }
            Write::Put(put) => put.expect = Expect::Absent,
            Write::Delete(_) | Write::Check(_) => {}
        }
    }
    Ok(())
}

async fn commit(
    cx: &Cx,
    order: &Order,
    secret: Option<&Secret>,
    group: Group,
) -> Result<(), StorageError> {
    match cx.items().await?.transact(group.txn).await {
        Ok(()) => {}
        // Somebody else changed one of them meanwhile: then each for himself, as if he came alone.
        Err(error) if race::lost(&error) => {
            for Case { person, known, .. } in &group.cases {
                let known = known.clone().expect("everybody in the part was made a contact");
                let alone = contact::Person { known, secret: secret.cloned() };
                match contact::write(cx, &person.email, alone, &person.edit).await {
                    // What somebody else added meanwhile can leave no room; his change stays.
                    Ok(_) | Err(UpsertError::TooMuch(_)) => {}
                    Err(UpsertError::Store(error)) => return Err(error),
                }
            }
        }
        Err(error) => return Err(error.into()),
    }
    mark(cx, order, &group.cases).await
}

/// The flags that lines ask for. They are only ever set. Nobody is among the cases twice.
async fn mark(cx: &Cx, order: &Order, cases: &[Case]) -> Result<(), StorageError> {
    let wanted = cases.iter().filter(|case| case.person.unsubscribed || case.person.suppressed);
    let marks: Vec<_> = wanted.map(|case| mark_one(cx, order, case)).collect();
    stream::iter(marks).buffer_unordered(MARKED_AT_ONCE).try_collect().await
}

async fn mark_one(cx: &Cx, order: &Order, case: &Case) -> Result<(), StorageError> {
    let email = &case.person.email;
    if case.person.unsubscribed && !case.held.is_unsubscribed() {
        // Whoever was erased meanwhile has no profile, and must not get one.
        let update = Update::new(&tables::MAIN, keys::profile(email))
            .set("unsubscribed", true)
            .expect(Expect::Present);
        match cx.items().await?.update(update).await {
            Ok(_) => {}
            Err(error) if error.is_condition_failed() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if case.person.suppressed && !case.held.is_suppressed() {
        let suppress = Suppress {
            email: email.clone(),
            kind: Kind::Manual,
            reason: Reason::clipped(&format!("import: {}", order.source)),
            source: None,
            note: None,
            at: cx.now(),
        };
        suppression::suppress(cx, suppress).await?;
    }
    Ok(())
}

impl Case {
    /// The time zone that the line names, if it is not the one that is known.
    fn new_zone(&self) -> Option<&str> {
        let Change::Set(zone) = &self.person.edit.timezone else { return None };
        let before = self.known.as_ref().and_then(|known| known.timezone.as_deref());
        Some(zone.as_str()).filter(|zone| before != Some(zone))
    }

    /// From everything, before or because of this line.
    fn is_unsubscribed(&self) -> bool {
        let known = self.known.as_ref().is_some_and(|known| known.unsubscribed_at.is_some());
        known || self.person.unsubscribed || self.held.is_unsubscribed()
    }

    fn moves(&self, alone: bool) -> Option<Moved> {
        let zone = self.new_zone()?.to_owned();
        let contact = self.known.as_ref()?.id.get();
        Some(Moved { contact, email: self.person.email.clone(), zone, alone })
    }
}

impl Done {
    /// The lines that can be read, with what everybody gets.
    fn take(&mut self, lines: Vec<Line>, order: &Order) -> Vec<Person> {
        self.counts.lines = lines.len() as u64;
        let mut people = Vec::with_capacity(lines.len());
        for line in lines {
            match line {
                Ok(mut person) => {
                    add_tags(&mut person, &order.tags);
                    // What is too much for anybody is left out before anything of it is written.
                    match rules::plan(&Profile::default(), &person.edit) {
                        Ok(_) => people.push(person),
                        Err(error) => self.leave(&person, &error.to_string()),
                    }
                }
                Err(fault) => {
                    self.counts.invalid += 1;
                    self.faults.push(fault);
                }
            }
        }
        people
    }

    fn leave(&mut self, person: &Person, reason: &str) {
        self.counts.invalid += 1;
        let (line, reason) = (person.line, reason.to_owned());
        self.faults.push(Fault { line, column: String::new(), reason });
    }

    fn count(&mut self, case: &Case, unchanged: bool) {
        let counts = &mut self.counts;
        match (&case.held.profile, unchanged) {
            (None, _) => counts.new += 1,
            (Some(_), true) => counts.unchanged += 1,
            (Some(_), false) => counts.updated += 1,
        }
        if case.is_unsubscribed() {
            counts.unsubscribed += 1;
        }
        if case.person.suppressed || case.held.is_suppressed() {
            counts.suppressed += 1;
        }
    }
}

fn add_tags(person: &mut Person, tags: &BTreeSet<Tag>) {
    if tags.is_empty() {
        return;
    }
    match &mut person.edit.tags {
        Some(TagChange::Add(own)) => own.extend(tags.iter().cloned()),
        other => *other = Some(TagChange::Add(tags.clone())),
    }
}

fn distinct(people: &[Person]) -> Vec<EmailAddress> {
    let mut seen = HashSet::new();
    let first = people.iter().filter(|person| seen.insert(person.email.as_str()));
    first.map(|person| person.email.clone()).collect()
}

fn first_of_each(people: Vec<Person>) -> (Vec<Person>, Vec<Person>) {
    let mut seen = HashSet::new();
    people.into_iter().partition(|person| seen.insert(person.email.clone()))
}
