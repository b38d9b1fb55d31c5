//! Each operator of a condition, asked both as what a write expects and as what a query lets through.

use tidings_kernel::{
    Condition, Expect, Invalid, Item, Key, Number, Path, Put, Query, Txn, Value, tables::MAIN,
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, cancelled, item, row};

pub(super) const CASES: &[Case] = &cases![
    exists_and_not_exists,
    equal_means_same_type_and_value,
    not_equal_is_true_of_what_is_absent,
    numbers_compare_by_value,
    long_numbers_compare_exactly,
    texts_compare_by_their_bytes,
    bytes_compare_as_unsigned,
    values_of_different_types_have_no_order,
    between_includes_both_ends,
    one_of_several,
    begins_with,
    contains_a_part_a_member_or_an_element,
    all_of_several,
    any_of_several,
    not,
    paths_reach_into_maps_and_lists,
    names_with_dots_are_names,
    maps_and_lists_are_equal_as_a_whole,
    what_cannot_be_compared_is_refused,
];

struct Asked<'a> {
    ground: &'a Ground,
}

impl<'a> Asked<'a> {
    async fn about(ground: &'a Ground, item: Item) -> Self {
        let attributes = item.into_iter().chain(row("a", "b"));
        ground.put(&MAIN, attributes.collect::<std::collections::BTreeMap<_, _>>().into()).await;
        Self { ground }
    }

    async fn holds(&self, condition: Condition) -> bool {
        let expect = Expect::That(condition.clone());
        let check = Txn::new().check(&MAIN, Key::new("a", "b"), expect);
        let expected = match self.ground.store.transact(check).await {
            Ok(()) => true,
            failure => cancelled(failure).is_empty(),
        };
        let query = Query::new(&MAIN, "a").filter(condition.clone());
        let let_through = !self.ground.query(query).await.is_empty();
        assert_eq!(expected, let_through, "expected and filtered differ: {condition:?}");
        expected
    }

    async fn yes(&self, condition: Condition) {
        assert!(self.holds(condition.clone()).await, "should hold: {condition:?}");
        let negated = Condition::Not(Box::new(condition));
        assert!(!self.holds(negated.clone()).await, "should not hold: {negated:?}");
    }

    async fn no(&self, condition: Condition) {
        assert!(!self.holds(condition.clone()).await, "should not hold: {condition:?}");
    }
}

fn p(name: &str) -> Path {
    Path::of(name)
}

fn n(text: &str) -> Value {
    Value::N(text.parse::<Number>().unwrap())
}

async fn exists_and_not_exists(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": null, "e": ""})).await;
    asked.yes(Condition::exists("x")).await;
    asked.yes(Condition::exists("e")).await;
    asked.no(Condition::exists("y")).await;
    asked.yes(Condition::not_exists("y")).await;
    asked.no(Condition::not_exists("x")).await;
}

async fn equal_means_same_type_and_value(ground: Ground) {
    let item = item!({"s": "1", "n": 1, "t": true, "z": null}).with("b", vec![49u8]);
    let asked = Asked::about(&ground, item).await;
    let values = [("s", "1".into()), ("n", n("1")), ("t", true.into()), ("z", Value::Null)];
    for (name, _) in &values {
        for (other, value) in &values {
            let condition = Condition::Eq(p(name), value.clone());
            if name == other { asked.yes(condition).await } else { asked.no(condition).await }
        }
        asked.no(Condition::Eq(p(name), vec![49u8].into())).await;
    }
    asked.yes(Condition::Eq(p("n"), n("1.0"))).await;
    asked.no(Condition::eq("absent", "1")).await;
}

async fn not_equal_is_true_of_what_is_absent(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": 1})).await;
    asked.no(Condition::Ne(p("x"), n("1"))).await;
    asked.yes(Condition::Ne(p("x"), n("2"))).await;
    asked.yes(Condition::Ne(p("x"), "1".into())).await;
    asked.yes(Condition::Ne(p("absent"), n("1"))).await;
}

async fn numbers_compare_by_value(ground: Ground) {
    let asked = Asked::about(&ground, item!({"nine": 9, "minus": -20, "half": 0.5})).await;
    for (name, bound) in
        [("nine", "10"), ("nine", "9.1"), ("minus", "-3"), ("half", "1e2"), ("minus", "0")]
    {
        asked.yes(Condition::Lt(p(name), n(bound))).await;
        asked.yes(Condition::Le(p(name), n(bound))).await;
        asked.no(Condition::Gt(p(name), n(bound))).await;
        asked.no(Condition::Ge(p(name), n(bound))).await;
    }
    asked.yes(Condition::Le(p("nine"), n("9.0"))).await;
    asked.yes(Condition::Ge(p("nine"), n("9.0"))).await;
    asked.no(Condition::Lt(p("nine"), n("9"))).await;
    asked.no(Condition::Gt(p("nine"), n("9"))).await;
    asked.no(Condition::Lt(p("absent"), n("9"))).await;
}

async fn long_numbers_compare_exactly(ground: Ground) {
    let item = Item::new().with("x", n("12345678901234567890123456789012345678"));
    let asked = Asked::about(&ground, item).await;
    asked.yes(Condition::Lt(p("x"), n("12345678901234567890123456789012345679"))).await;
    asked.yes(Condition::Gt(p("x"), n("12345678901234567890123456789012345677"))).await;
    asked.yes(Condition::Gt(p("x"), n("1e-130"))).await;
    asked.yes(Condition::Lt(p("x"), n("1e125"))).await;
}

async fn texts_compare_by_their_bytes(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": "b", "high": "\u{FFFF}"})).await;
    asked.yes(Condition::Gt(p("x"), "B".into())).await;
    asked.yes(Condition::Gt(p("x"), "a\u{10FFFF}".into())).await;
    asked.yes(Condition::Lt(p("x"), "ba".into())).await;
    asked.yes(Condition::Gt(p("x"), "".into())).await;
    // In UTF-16 an astral character would sort below this one.
    asked.yes(Condition::Lt(p("high"), "\u{10000}".into())).await;
}

async fn bytes_compare_as_unsigned(ground: Ground) {
    let asked = Asked::about(&ground, Item::new().with("x", vec![128u8, 0])).await;
    asked.yes(Condition::Gt(p("x"), vec![127u8].into())).await;
    asked.yes(Condition::Gt(p("x"), vec![128u8].into())).await;
    asked.yes(Condition::Lt(p("x"), vec![128u8, 1].into())).await;
}

async fn values_of_different_types_have_no_order(ground: Ground) {
    let asked = Asked::about(&ground, item!({"s": "5", "n": 5, "l": [5], "t": true})).await;
    for name in ["n", "l", "t"] {
        asked.no(Condition::Lt(p(name), "9".into())).await;
        asked.no(Condition::Ge(p(name), "0".into())).await;
        asked.no(Condition::Between(p(name), "0".into(), "9".into())).await;
    }
    asked.no(Condition::Lt(p("s"), n("9"))).await;
    asked.no(Condition::Ge(p("s"), n("0"))).await;
}

async fn between_includes_both_ends(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": 5, "s": "m"})).await;
    for (low, high) in [("5", "9"), ("1", "5"), ("5", "5"), ("-1", "10")] {
        asked.yes(Condition::Between(p("x"), n(low), n(high))).await;
    }
    asked.no(Condition::Between(p("x"), n("6"), n("9"))).await;
    asked.no(Condition::Between(p("x"), n("1"), n("4.9"))).await;
    asked.yes(Condition::Between(p("s"), "m".into(), "n".into())).await;
    asked.no(Condition::Between(p("absent"), n("1"), n("9"))).await;
}

async fn one_of_several(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": 5})).await;
    asked.yes(Condition::In(p("x"), vec![n("5")])).await;
    asked.yes(Condition::In(p("x"), vec!["5".into(), n("7"), n("5.0")])).await;
    asked.no(Condition::In(p("x"), vec!["5".into(), n("7")])).await;
    asked.no(Condition::In(p("absent"), vec![n("5")])).await;
    let hundred: Vec<Value> = (0..100).map(Value::from).collect();
    asked.yes(Condition::In(p("x"), hundred)).await;
}

async fn begins_with(ground: Ground) {
    let item = item!({"s": "sent#2026", "n": 12}).with("b", vec![1u8, 2, 3]);
    let asked = Asked::about(&ground, item).await;
    asked.yes(Condition::BeginsWith(p("s"), "sent#".into())).await;
    asked.yes(Condition::BeginsWith(p("s"), "sent#2026".into())).await;
    asked.yes(Condition::BeginsWith(p("b"), vec![1u8, 2].into())).await;
    asked.no(Condition::BeginsWith(p("s"), "Sent".into())).await;
    asked.no(Condition::BeginsWith(p("s"), "sent#2026-".into())).await;
    asked.no(Condition::BeginsWith(p("b"), vec![2u8].into())).await;
    asked.no(Condition::BeginsWith(p("n"), "1".into())).await;
    asked.no(Condition::BeginsWith(p("absent"), "a".into())).await;
}

async fn contains_a_part_a_member_or_an_element(ground: Ground) {
    let item = item!({"s": "product-updates", "l": ["beta", 1, null], "n": 123})
        .with("ss", Value::texts(["beta", "gamma"]))
        .with("ns", Value::numbers([1, 2]))
        .with("b", vec![1u8, 2, 3]);
    let asked = Asked::about(&ground, item).await;
    asked.yes(Condition::Contains(p("s"), "-up".into())).await;
    asked.yes(Condition::Contains(p("ss"), "beta".into())).await;
    asked.yes(Condition::Contains(p("ns"), n("2.0"))).await;
    asked.yes(Condition::Contains(p("l"), "beta".into())).await;
    asked.yes(Condition::Contains(p("l"), n("1"))).await;
    asked.yes(Condition::Contains(p("b"), vec![2u8, 3].into())).await;
    asked.no(Condition::Contains(p("s"), "UP".into())).await;
    asked.no(Condition::Contains(p("ss"), "bet".into())).await;
    asked.no(Condition::Contains(p("l"), "bet".into())).await;
    asked.no(Condition::Contains(p("ns"), "1".into())).await;
    asked.no(Condition::Contains(p("n"), n("2"))).await;
    asked.no(Condition::Contains(p("absent"), "x".into())).await;
}

async fn all_of_several(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": 1, "y": 2})).await;
    let (x, y, z) = (Condition::eq("x", 1), Condition::eq("y", 2), Condition::exists("z"));
    asked.yes(x.clone().and(y.clone())).await;
    asked.no(x.clone().and(z).and(y)).await;
    asked.yes(Condition::All(vec![x])).await;
    asked.yes(Condition::All(vec![])).await;
}

async fn any_of_several(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": 1, "y": 2})).await;
    let (x, z) = (Condition::eq("x", 1), Condition::exists("z"));
    asked.yes(z.clone().or(x.clone())).await;
    asked.no(z.clone().or(Condition::eq("x", 2))).await;
    // And binds no tighter than the values say: (z or x) and z.
    asked.no(z.clone().or(x).and(z)).await;
    asked.no(Condition::AnyOf(vec![])).await;
}

async fn not(ground: Ground) {
    let asked = Asked::about(&ground, item!({"x": 1})).await;
    let not = |condition| Condition::Not(Box::new(condition));
    asked.yes(not(Condition::eq("x", 2))).await;
    asked.yes(not(Condition::eq("x", 1).and(Condition::exists("y")))).await;
    asked.yes(not(not(Condition::eq("x", 1)))).await;
    asked.yes(not(Condition::Lt(p("absent"), n("1")))).await;
}

async fn paths_reach_into_maps_and_lists(ground: Ground) {
    let asked = Asked::about(&ground, item!({"m": {"l": [10, {"k": "v"}]}, "s": "text"})).await;
    let list = || Path::of("m").key("l");
    asked.yes(Condition::Eq(list().index(0), n("10"))).await;
    asked.yes(Condition::Eq(list().index(1).key("k"), "v".into())).await;
    asked.yes(Condition::Exists(list())).await;
    asked.no(Condition::Exists(list().index(2))).await;
    asked.no(Condition::Exists(Path::of("m").index(0))).await;
    asked.no(Condition::Exists(Path::of("s").key("x"))).await;
    asked.no(Condition::Exists(Path::of("absent").key("x").index(3))).await;
}

async fn names_with_dots_are_names(ground: Ground) {
    let asked = Asked::about(&ground, item!({"a.b": 1, "a": {"b": 2, "b.c": 3}, "c[0]": 4})).await;
    asked.yes(Condition::eq("a.b", 1)).await;
    asked.yes(Condition::Eq(Path::of("a").key("b"), n("2"))).await;
    asked.yes(Condition::Eq(Path::of("a").key("b.c"), n("3"))).await;
    asked.yes(Condition::eq("c[0]", 4)).await;
    asked.no(Condition::exists("c")).await;
}

async fn maps_and_lists_are_equal_as_a_whole(ground: Ground) {
    let item = item!({"m": {"x": 1, "y": [1, 2]}}).with("ss", Value::texts(["b", "a"]));
    let asked = Asked::about(&ground, item).await;
    let map = item!({"y": [1.0, 2], "x": 1}).into_iter().collect();
    asked.yes(Condition::Eq(p("m"), Value::M(map))).await;
    asked.yes(Condition::Eq(p("ss"), Value::texts(["a", "b"]))).await;
    asked.no(Condition::Eq(p("ss"), Value::texts(["a"]))).await;
    asked.no(Condition::Eq(Path::of("m").key("y"), vec![n("2"), n("1")].into())).await;
}

/// DynamoDB refuses these before it looks at any item, so nothing may be written either.
async fn what_cannot_be_compared_is_refused(ground: Ground) {
    for condition in [
        Condition::Lt(p("x"), true.into()),
        Condition::Ge(p("x"), Value::Null),
        Condition::Gt(p("x"), vec![n("1")].into()),
        Condition::Between(p("x"), n("1"), "2".into()),
        Condition::Between(p("x"), n("2"), n("1")),
        Condition::BeginsWith(p("x"), n("1")),
        Condition::In(p("x"), vec![]),
        Condition::In(p("x"), vec![n("1"); 101]),
        Condition::Eq(p("x"), Value::Ss([].into())),
        Condition::exists("y").or(Condition::Not(Box::new(Condition::Le(p("x"), Value::Null)))),
    ] {
        let put = Put::new(&MAIN, row("a", "b")).expect(Expect::That(condition.clone()));
        assert_refused!(ground.store.put(put).await, _);
        let query = Query::new(&MAIN, "a").filter(condition);
        assert_refused!(ground.store.query(query).await, Invalid::BadCondition | Invalid::EmptySet);
    }
    assert_eq!(ground.contents(&MAIN).await, []);
}
