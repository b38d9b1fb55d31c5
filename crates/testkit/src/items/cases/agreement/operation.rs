//! Random operations over few keys, few attributes and few values, so that they meet each other.

use std::fmt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;
use proptest::strategy::Union;
use tidings_kernel::{
    Action, Check, Condition, Delete, Direction, Expect, Item, Key, Path, Put, Query, Returns,
    SortRange, Table, Txn, Update, Value, Write,
    tables::{EMAIL_TRACKING, INBOX},
};

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Put(Put),
    Update(Update),
    Delete(Delete),
    Transact(Txn),
    Get(&'static Table, Key),
    BatchGet(&'static Table, Vec<Key>),
    Query(Query),
    Count(Query),
    Pass(i64),
    Sweep,
}

impl fmt::Display for Operation {
    /// As for debugging, but with the names of tables in place of all that they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            [&EMAIL_TRACKING, &INBOX].into_iter().fold(format!("{self:?}"), |text, table| {
                text.replace(&format!("{table:?}"), table.name)
            });
        f.write_str(&text)
    }
}

pub(super) const INDEX_PARTITIONS: [&str; 2] = ["g", "h"];
const PARTITIONS: [&str; 2] = ["p", "q"];
const SORTS: [&str; 5] = ["a", "aa", "b", "ä", "\u{10FFFF}"];
const NAMES: [&str; 6] = ["x", "y", "s", "l", "m", "a.b"];
/// Around the second in which every sequence begins, in both attributes that the two tables use.
const SECONDS: [i64; 4] = [1_751_328_000, 1_751_328_001, 1_751_328_010, 1_760_000_000];

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    Union::new_weighted(vec![
        (6, put().prop_map(Operation::Put).boxed()),
        (8, update(0).prop_map(Operation::Update).boxed()),
        (3, delete().prop_map(Operation::Delete).boxed()),
        (5, transaction().prop_map(Operation::Transact).boxed()),
        (2, (table(), key()).prop_map(|(table, key)| Operation::Get(table, key)).boxed()),
        (1, (table(), vec(key(), 0..6)).prop_map(|(t, keys)| Operation::BatchGet(t, keys)).boxed()),
        (5, query().prop_map(Operation::Query).boxed()),
        (2, query().prop_map(Operation::Count).boxed()),
        (1, (1..5i64).prop_map(Operation::Pass).boxed()),
        (1, Just(Operation::Sweep).boxed()),
    ])
}

fn table() -> impl Strategy<Value = &'static Table> {
    select(vec![&EMAIL_TRACKING, &INBOX])
}

fn key() -> impl Strategy<Value = Key> {
    (select(&PARTITIONS[..]), select(&SORTS[..])).prop_map(|(p, s)| Key::new(p, s))
}

fn scalar() -> impl Strategy<Value = Value> {
    const NUMBERS: [&str; 7] = ["-1", "0", "1", "1.5", "2", "10", "12345678901234567890.5"];
    Union::new_weighted(vec![
        (5, select(&NUMBERS[..]).prop_map(|text| Value::N(text.parse().unwrap())).boxed()),
        (4, select(&["", "a", "b", "ab", "😀"][..]).prop_map(Value::from).boxed()),
        (1, any::<bool>().prop_map(Value::Bool).boxed()),
        (1, Just(Value::Null).boxed()),
        (1, vec(select(&[0u8, 1, 255][..]), 0..3).prop_map(Value::B).boxed()),
    ])
}

fn set() -> impl Strategy<Value = Value> {
    let texts = vec(select(&["a", "b", "c"][..]), 1..3).prop_map(Value::texts);
    let numbers = vec(0..3i64, 1..3).prop_map(Value::numbers);
    Union::new([texts.boxed(), numbers.boxed()])
}

fn value() -> impl Strategy<Value = Value> {
    let list = vec(scalar(), 0..3).prop_map(Value::L);
    let map = vec((select(&["k", "j", "$b"][..]), scalar()), 0..3).prop_map(|entries| {
        Value::M(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    });
    Union::new_weighted(vec![
        (6, scalar().boxed()),
        (2, list.boxed()),
        (2, map.boxed()),
        (2, set().boxed()),
    ])
}

/// A place in the index, now and then one that no item may have.
fn index_key() -> impl Strategy<Value = Value> {
    let good = select(&["g", "h"][..]).prop_map(Value::from);
    Union::new_weighted(vec![(12, good.boxed()), (1, select(vec!["".into(), 1.into()]).boxed())])
}

fn item() -> impl Strategy<Value = Item> {
    let attributes = vec((select(&NAMES[..]), value()), 0..4);
    let place = (option::of(index_key()), option::of(index_key()));
    (key(), attributes, place, option::weighted(0.3, select(&SECONDS[..]))).prop_map(
        |(key, attributes, (partition, sort), expiry)| {
            let mut item = INBOX.bare_item(&key);
            for (name, value) in attributes {
                item.set(name, value);
            }
            for (name, value) in [("GSI1PK", partition), ("GSI1SK", sort)] {
                if let Some(value) = value {
                    item.set(name, value);
                }
            }
            if let Some(second) = expiry {
                item.set("ttl", second);
                item.set("expiredat", second);
            }
            item
        },
    )
}

fn path() -> impl Strategy<Value = Path> {
    let place = select(vec![
        Path::of("m").key("k"),
        Path::of("m").key("j"),
        Path::of("l").index(0),
        Path::of("l").index(1),
        Path::of("x").key("k"),
    ]);
    Union::new([select(&NAMES[..]).prop_map(Path::from).boxed(), place.boxed()])
}

/// Of one kind and in order, but for the last.
fn bounds() -> impl Strategy<Value = (Value, Value)> {
    select(vec![
        (Value::from(0), Value::from(2)),
        (Value::from(1), Value::from(1)),
        (Value::from(-5), Value::from(20)),
        ("a".into(), "b".into()),
        ("".into(), "\u{10FFFF}".into()),
        (Value::from(2), Value::from(1)),
    ])
}

fn condition() -> impl Strategy<Value = Condition> {
    let simple = Union::new([
        path().prop_map(Condition::Exists).boxed(),
        path().prop_map(Condition::NotExists).boxed(),
        (path(), value()).prop_map(|(p, v)| Condition::Eq(p, v)).boxed(),
        (path(), value()).prop_map(|(p, v)| Condition::Ne(p, v)).boxed(),
        (path(), scalar()).prop_map(|(p, v)| Condition::Lt(p, v)).boxed(),
        (path(), scalar()).prop_map(|(p, v)| Condition::Le(p, v)).boxed(),
        (path(), scalar()).prop_map(|(p, v)| Condition::Gt(p, v)).boxed(),
        (path(), scalar()).prop_map(|(p, v)| Condition::Ge(p, v)).boxed(),
        (path(), bounds()).prop_map(|(p, (a, b))| Condition::Between(p, a, b)).boxed(),
        (path(), vec(scalar(), 1..4)).prop_map(|(p, v)| Condition::In(p, v)).boxed(),
        (path(), select(&["", "a", "ab"][..]))
            .prop_map(|(p, v)| Condition::BeginsWith(p, v.into()))
            .boxed(),
        (path(), scalar()).prop_map(|(p, v)| Condition::Contains(p, v)).boxed(),
    ]);
    simple.prop_recursive(2, 6, 3, |inner| {
        Union::new([
            vec(inner.clone(), 0..3).prop_map(Condition::All).boxed(),
            vec(inner.clone(), 0..3).prop_map(Condition::AnyOf).boxed(),
            inner.prop_map(|condition| Condition::Not(Box::new(condition))).boxed(),
        ])
    })
}

fn expect() -> impl Strategy<Value = Expect> {
    Union::new_weighted(vec![
        (4, Just(Expect::Anything).boxed()),
        (1, Just(Expect::Absent).boxed()),
        (2, Just(Expect::Present).boxed()),
        (3, condition().prop_map(Expect::That).boxed()),
    ])
}

fn put() -> impl Strategy<Value = Put> {
    (table(), item(), expect()).prop_map(|(table, item, expect)| Put { table, item, expect })
}

fn delete() -> impl Strategy<Value = Delete> {
    (table(), key(), expect()).prop_map(|(table, key, expect)| Delete { table, key, expect })
}

fn action() -> impl Strategy<Value = Action> {
    let name = || select(&NAMES[..]).prop_map(str::to_owned);
    let number = || (-2..3i64).prop_map(tidings_kernel::Number::from);
    Union::new([
        (path(), value()).prop_map(|(p, v)| Action::Set(p, v)).boxed(),
        (path(), value()).prop_map(|(p, v)| Action::SetIfAbsent(p, v)).boxed(),
        (path(), vec(scalar(), 0..3)).prop_map(|(p, v)| Action::Append(p, v)).boxed(),
        path().prop_map(Action::Remove).boxed(),
        (name(), number()).prop_map(|(name, number)| Action::Add(name, number)).boxed(),
        (name(), set()).prop_map(|(name, set)| Action::AddToSet(name, set)).boxed(),
        (name(), set()).prop_map(|(name, set)| Action::DeleteFromSet(name, set)).boxed(),
        index_key().prop_map(|value| Action::Set("GSI1PK".into(), value)).boxed(),
        index_key().prop_map(|value| Action::Set("GSI1SK".into(), value)).boxed(),
        Just(Action::Remove("GSI1SK".into())).boxed(),
        select(&SECONDS[..]).prop_map(|at| Action::Set("expiredat".into(), at.into())).boxed(),
    ])
}

/// With at least so many actions, one for each attribute: two in one place are refused, which is soon boring.
fn update(least: usize) -> impl Strategy<Value = Update> {
    let returns = select(vec![Returns::Nothing, Returns::Old, Returns::New]);
    (table(), key(), vec(action(), least..5), expect(), returns).prop_map(
        |(table, key, mut actions, expect, returns)| {
            let mut seen = Vec::new();
            actions.retain(|action| {
                let name = action.path().attribute().to_owned();
                let fresh = !seen.contains(&name);
                seen.push(name);
                fresh
            });
            Update { table, key, actions, expect, returns }
        },
    )
}

fn transaction() -> impl Strategy<Value = Txn> {
    let check = (table(), key(), expect())
        .prop_map(|(table, key, expect)| Write::Check(Check { table, key, expect }));
    let write = Union::new_weighted(vec![
        (3, put().prop_map(Write::Put).boxed()),
        (4, update(1).prop_map(Write::Update).boxed()),
        (1, delete().prop_map(Write::Delete).boxed()),
        (1, check.boxed()),
    ]);
    vec(write, 1..5).prop_map(|writes| Txn { writes, ..Txn::default() })
}

fn query() -> impl Strategy<Value = Query> {
    let bound = || select(&SORTS[..]).prop_map(str::to_owned);
    let range = Union::new([
        Just(SortRange::All).boxed(),
        bound().prop_map(SortRange::Eq).boxed(),
        bound().prop_map(SortRange::BeginsWith).boxed(),
        (bound(), bound()).prop_map(|(low, high)| SortRange::Between(low, high)).boxed(),
        bound().prop_map(SortRange::Lt).boxed(),
        bound().prop_map(SortRange::Le).boxed(),
        bound().prop_map(SortRange::Gt).boxed(),
        bound().prop_map(SortRange::Ge).boxed(),
    ]);
    let on_table = (table(), select(&PARTITIONS[..])).prop_map(|(t, p)| Query::new(t, p));
    let on_index = select(&INDEX_PARTITIONS[..])
        .prop_map(|partition| Query::new(&EMAIL_TRACKING, partition).index("GSI1"));
    let direction = select(vec![Direction::Forward, Direction::Backward]);
    let place = Union::new_weighted(vec![(2, on_table.boxed()), (1, on_index.boxed())]);
    (place, range, direction, 1..5usize, option::weighted(0.4, condition())).prop_map(
        |(query, range, direction, limit, filter)| Query {
            range,
            direction,
            limit,
            filter,
            ..query
        },
    )
}
