//! A part of a file: what is known of its people, what that makes of each line, and writing it.

use std::collections::{BTreeSet, HashSet};

use futures_util::future::try_join_all;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{
    EmailAddress, Expect, MAX_BATCH_GET, MAX_TXN_WRITES, Put, StoreError, Txn, Update, Write,
    tables,
};
use tidings_sql::DatabaseError;
use tidings_webhooks::EventType;

use super::Counts;
use super::bulk::{self, Audience, Contacts};
use super::row::{Fault, Person};
use crate::contacts::profile::Profile;
use crate::contacts::store::Known;
use crate::contacts::write::Held;
use crate::contacts::{Tag, TagChange, UpsertError, rules, write as contact};
use crate::suppression::memory::Secret;
use crate::suppression::{self, Kind, Reason, Suppress};
use crate::{keys, news, race};

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
    let within = cx.clone();
    let load = cx.database().read(move |tx| {
        let contacts = bulk::find(tx, &within, &emails)?;
        Ok::<_, DatabaseError>(Loaded { contacts, secret: Secret::find(tx, &within)? })
    });
    let loaded = load.await?;
    for case in cases(cx, &loaded, people).await? {
        match rules::plan(&case.held.profile.clone().unwrap_or_default(), &case.person.edit) {
            Err(error) => done.leave(&case.person, &error.to_string()),
            Ok(plan) => done.count(&case, plan.is_empty()),
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
    let (mut writing, mut joining) = (Vec::new(), Vec::new());
    for case in cases(cx, &loaded, people).await? {
        let before = case.held.profile.clone().unwrap_or_default();
        let plan = match rules::plan(&before, &case.person.edit) {
            Ok(plan) => plan,
            Err(error) => {
                done.leave(&case.person, &error.to_string());
                mark(cx, order, &case).await?;
                continue;
            }
        };
        if let Some(known) = &case.known
            && !case.held.is_unsubscribed()
        {
            joining.push(known.id.get());
        }
        let unchanged = case.held.profile.is_some() && plan.is_empty();
        done.count(&case, unchanged);
        match unchanged {
            true => mark(cx, order, &case).await?,
            false => writing.push((plan, case)),
        }
    }
    let secret = loaded.secret.as_ref();
    // Of whoever is new the relations have told.
    let is_update = |(_, case): &(rules::Plan, Case)| case.held.profile.is_some();
    let tell = writing.iter().any(is_update)
        && tidings_webhooks::wanted(cx, EventType::ContactUpdated).await?;
    let groups = grouped(cx, writing, tell)?;
    try_join_all(groups.into_iter().map(|group| commit(cx, order, secret, group))).await?;
    done.counts.subscribed += subscribe(cx, order, joining).await? as u64;
    Ok(())
}

/// Last, when it is known who has left everything.
async fn subscribe(cx: &Cx, order: &Order, joining: Vec<i64>) -> Result<usize, StorageError> {
    let Some(audience) = order.audience else { return Ok(0) };
    let (within, source) = (cx.clone(), order.source.clone());
    let write =
        cx.database().write(move |tx| bulk::subscribe(tx, &within, &joining, audience, &source));
    Ok(write.await?)
}

/// The relations: first, so that whoever has a profile is a contact.
async fn make_known(cx: &Cx, order: &Order, people: &[Person]) -> Result<Loaded, StorageError> {
    let emails = distinct(people);
    let leaving: Vec<String> =
        people.iter().filter(|one| one.unsubscribed).map(|one| one.email.to_string()).collect();
    let (within, source) = (cx.clone(), order.source.clone());
    let make = cx.database().write(move |tx| {
        let contacts = bulk::ensure(tx, &within, &emails, &source)?;
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

/// With the news of each change, if somebody wants to be told.
fn grouped(
    cx: &Cx,
    writing: Vec<(rules::Plan, Case)>,
    tell: bool,
) -> Result<Vec<Group>, StorageError> {
    // A message is an item where the queue is not in the same database.
    let count = |txn: &Txn| txn.writes.len() + txn.messages.len();
    let mut groups: Vec<Group> = Vec::new();
    for (plan, case) in writing {
        let known = case.known.as_ref().expect("everybody in the part was made a contact");
        let update = case.held.update(&case.person.email, known, &plan, cx.now());
        let mut txn = case.held.txn(&case.person.email, update, &plan, cx.now());
        if case.held.profile.is_none() {
            store_whole(&mut txn).map_err(StorageError::from)?;
        } else if tell {
            let told = news::updated(cx, known.id.get(), &case.person.email);
            txn = txn.enqueue(told.wanted_message(cx));
        }
        match groups.last_mut() {
            Some(last) if count(&last.txn) + count(&txn) <= MAX_TXN_WRITES => {
                last.txn.writes.append(&mut txn.writes);
                last.txn.messages.append(&mut txn.messages);
                last.cases.push(case);
            }
            _ => groups.push(Group { txn, cases: vec![case] }),
        }
    }
    Ok(groups)
}

/// A new item is stored as a whole: its text is then made here, and not by the one thread that writes.
fn store_whole(txn: &mut Txn) -> Result<(), StoreError> {
    for write in &mut txn.writes {
        if let Write::Update(update) = write
            && let Some(item) = Update::apply(update, None)?
        {
            let put = Put::new(update.table, item).expect(Expect::Absent);
            *write = Write::Put(put);
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
    for case in &group.cases {
        mark(cx, order, case).await?;
    }
    Ok(())
}

/// The flags that a line asks for. They are only ever set.
async fn mark(cx: &Cx, order: &Order, case: &Case) -> Result<(), StorageError> {
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
        let known = case.known.as_ref().is_some_and(|known| known.unsubscribed_at.is_some());
        if known || case.person.unsubscribed || case.held.is_unsubscribed() {
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
