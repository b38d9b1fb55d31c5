//! What typed values become, with each placeholder replaced by what it stands for.

use tidings_kernel::{
    Action, Condition, Expect, Index, Item, Key, Path, Query, SortRange, Update, Value, tables,
};

use super::{Placeholders, Simple, check, condition, expectation, key_condition, simplify, update};

/// Names in `«»`, values as JSON, so that an expected text can be read and typed.
fn spelled(text: &str, placeholders: &Placeholders) -> String {
    let names = placeholders.names.iter().map(|(name, holder)| (holder, format!("«{name}»")));
    let json = |value: &Value| serde_json::to_string(value).unwrap();
    let values = placeholders.values.iter().map(|(value, holder)| (holder, json(value)));
    let mut all: Vec<_> = names.chain(values).collect();
    // `:v1` must not eat the beginning of `:v12`.
    all.sort_by_key(|(holder, _)| std::cmp::Reverse(holder.len()));
    all.iter().fold(text.to_owned(), |text, (holder, spelled)| text.replace(*holder, spelled))
}

fn told(given: &Condition) -> String {
    let mut placeholders = Placeholders::default();
    match simplify(given) {
        Simple::Always => "always".to_owned(),
        Simple::Never => "never".to_owned(),
        Simple::When(simple) => {
            let text = condition(&simple, &mut placeholders);
            spelled(&text, &placeholders)
        }
    }
}

#[track_caller]
fn check_condition(given: &Condition, expected: &str) {
    assert_eq!(told(given), expected);
}

fn a() -> Path {
    Path::of("a")
}

fn eq(name: &str, value: i64) -> Condition {
    Condition::eq(name, value)
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

#[test]
fn comparisons_and_functions() {
    for (given, expected) in [
        (Condition::Eq(a(), 1.into()), "«a» = 1"),
        (Condition::Ne(a(), "x".into()), "«a» <> \"x\""),
        (Condition::Lt(a(), 1.into()), "«a» < 1"),
        (Condition::Le(a(), 1.into()), "«a» <= 1"),
        (Condition::Gt(a(), 1.into()), "«a» > 1"),
        (Condition::Ge(a(), 1.into()), "«a» >= 1"),
        (Condition::Between(a(), 1.into(), 2.into()), "«a» BETWEEN 1 AND 2"),
        (Condition::In(a(), vec![1.into(), "x".into()]), "«a» IN (1, \"x\")"),
        (Condition::BeginsWith(a(), "x".into()), "begins_with(«a», \"x\")"),
        (Condition::Contains(a(), "x".into()), "contains(«a», \"x\")"),
        (Condition::exists("a"), "attribute_exists(«a»)"),
        (Condition::not_exists("a"), "attribute_not_exists(«a»)"),
    ] {
        check_condition(&given, expected);
    }
}

#[test]
fn names_are_never_syntax() {
    let path = Path::of("a.b").key("size").index(3).key("#x[0]");
    check_condition(&Condition::exists("ttl"), "attribute_exists(«ttl»)");
    check_condition(&Condition::Exists(path), "attribute_exists(«a.b».«size»[3].«#x[0]»)");
}

#[test]
fn parentheses_stand_where_they_must_and_nowhere_else() {
    let or = eq("b", 2).or(eq("c", 3));
    check_condition(&eq("a", 1).and(eq("b", 2)), "«a» = 1 AND «b» = 2");
    check_condition(&eq("a", 1).and(or.clone()), "«a» = 1 AND («b» = 2 OR «c» = 3)");
    check_condition(&not(eq("a", 1)), "NOT («a» = 1)");
    check_condition(&not(or.clone()), "NOT («b» = 2 OR «c» = 3)");
    check_condition(&not(or.clone()).and(eq("a", 1)), "(NOT («b» = 2 OR «c» = 3)) AND «a» = 1");
    check_condition(&not(not(eq("a", 1))), "«a» = 1");
    check_condition(&Condition::All(vec![Condition::AnyOf(vec![eq("a", 1)])]), "«a» = 1");
    check_condition(
        &Condition::All(vec![eq("a", 1).and(eq("b", 2)), eq("c", 3)]),
        "«a» = 1 AND «b» = 2 AND «c» = 3",
    );
}

#[test]
fn what_is_decided_already_is_not_asked() {
    let (always, never) = (Condition::All(vec![]), Condition::AnyOf(vec![]));
    for (given, expected) in [
        (always.clone(), "always"),
        (never.clone(), "never"),
        (not(always.clone()), "never"),
        (not(never.clone()), "always"),
        (always.clone().and(eq("a", 1)), "«a» = 1"),
        (eq("a", 1).and(never.clone()), "never"),
        (eq("a", 1).or(always.clone()), "always"),
        (eq("a", 1).or(never.clone()), "«a» = 1"),
    ] {
        check_condition(&given, expected);
    }
}

#[test]
fn the_same_name_or_value_is_sent_once() {
    let mut placeholders = Placeholders::default();
    let Simple::When(simple) = simplify(&eq("a", 1).and(eq("b", 1)).and(eq("a", 2))) else {
        panic!("nothing here is decided");
    };
    assert_eq!(condition(&simple, &mut placeholders), "#n0 = :v0 AND #n1 = :v0 AND #n0 = :v1");
    let (names, values) = placeholders.finish();
    assert_eq!((names.unwrap().len(), values.unwrap().len()), (2, 2));
    assert_eq!(Placeholders::default().finish(), (None, None));
}

#[test]
fn what_a_write_expects() {
    let told = |expect: Expect| {
        let mut placeholders = Placeholders::default();
        let text = expectation(&tables::MAIN, &expect, &mut placeholders)?;
        Some(spelled(&text, &placeholders))
    };
    let never = "attribute_exists(«PK») AND attribute_not_exists(«PK»)";
    let always = "attribute_exists(«PK») OR attribute_not_exists(«PK»)";
    assert_eq!(told(Expect::Anything), None);
    assert_eq!(told(Expect::Absent).unwrap(), "attribute_not_exists(«PK»)");
    assert_eq!(told(Expect::Present).unwrap(), "attribute_exists(«PK»)");
    assert_eq!(told(Expect::That(eq("a", 1))).unwrap(), "«a» = 1");
    assert_eq!(told(Expect::That(Condition::All(vec![]))), None);
    assert_eq!(told(Expect::That(Condition::AnyOf(vec![]))).unwrap(), never);
    let mut placeholders = Placeholders::default();
    let text = check(&tables::MAIN, &Expect::Anything, &mut placeholders);
    assert_eq!(spelled(&text, &placeholders), always);
}

#[test]
fn updates_are_sorted_into_clauses() {
    let told = |given: Update| {
        let mut placeholders = Placeholders::default();
        let text = update(&given.actions, &mut placeholders)?;
        Some(spelled(&text, &placeholders))
    };
    let given = || Update::new(&tables::MAIN, Key::new("p", "s"));
    let nested = || Path::of("m").key("k").index(0);
    for (given, expected) in [
        (given().set("a", 1), "SET «a» = 1"),
        (given().set(nested(), 1), "SET «m».«k»[0] = 1"),
        (given().set_if_absent("a", 1), "SET «a» = if_not_exists(«a», 1)"),
        (given().append("a", vec![1.into()]), "SET «a» = list_append(if_not_exists(«a», []), [1])"),
        (given().remove("a").remove(nested()), "REMOVE «a», «m».«k»[0]"),
        (given().add("a", 1), "ADD «a» 1"),
        (given().add_to_set("a", Value::texts(["x"])), "ADD «a» {\"$ss\":[\"x\"]}"),
        (given().delete_from_set("a", Value::texts(["x"])), "DELETE «a» {\"$ss\":[\"x\"]}"),
        (
            given()
                .add("a", 1)
                .set("b", 2)
                .remove("c")
                .set("d", 3)
                .action(Action::Add("e".to_owned(), 4.into())),
            "SET «b» = 2, «d» = 3 REMOVE «c» ADD «a» 1, «e» 4",
        ),
    ] {
        assert_eq!(told(given).unwrap(), expected);
    }
    assert_eq!(told(given()), None);
}

#[test]
fn key_ranges() {
    let told = |query: Query, index: Option<&Index>| {
        let mut placeholders = Placeholders::default();
        let text = key_condition(&query, index, &mut placeholders);
        spelled(&text, &placeholders)
    };
    let one = || "x".to_owned();
    for (range, expected) in [
        (SortRange::All, ""),
        (SortRange::Eq(one()), " AND «SK» = \"x\""),
        (SortRange::BeginsWith(one()), " AND begins_with(«SK», \"x\")"),
        (SortRange::Between(one(), "y".to_owned()), " AND «SK» BETWEEN \"x\" AND \"y\""),
        (SortRange::Lt(one()), " AND «SK» < \"x\""),
        (SortRange::Le(one()), " AND «SK» <= \"x\""),
        (SortRange::Gt(one()), " AND «SK» > \"x\""),
        (SortRange::Ge(one()), " AND «SK» >= \"x\""),
    ] {
        let query = Query::new(&tables::MAIN, "p").range(range);
        assert_eq!(told(query, None), format!("«PK» = \"p\"{expected}"));
    }
    let query = Query::new(&tables::EVENTS, "t").index("TemplateIndex").begins_with("{}");
    let index = query.on_index().unwrap();
    assert_eq!(told(query, index), "«templateKey» = \"t\" AND begins_with(«SK», \"{}\")");
    assert_eq!(told(Query::new(&tables::FEATURE, "p"), None), "«lead_organization_id» = \"p\"");
}

/// Simplifying must not change what a condition means.
#[test]
fn simple_conditions_mean_the_same() {
    let items = [
        Item::new(),
        Item::new().with("a", 1),
        Item::new().with("a", 2).with("b", "x"),
        Item::new().with("a", "text").with("b", true),
    ];
    let leaves = [
        eq("a", 1),
        Condition::In(a(), vec![1.into(), "text".into()]),
        Condition::Lt(a(), 2.into()),
        Condition::All(vec![]),
        Condition::AnyOf(vec![]),
        Condition::exists("b"),
    ];
    for first in &leaves {
        for second in &leaves {
            for given in [
                first.clone().and(second.clone()),
                first.clone().or(not(second.clone())),
                not(first.clone().and(not(second.clone()))),
            ] {
                for item in &items {
                    let holds = match simplify(&given) {
                        Simple::Always => true,
                        Simple::Never => false,
                        Simple::When(simple) => simple.holds(item),
                    };
                    assert_eq!(holds, given.holds(item), "{given:?} of {item:?}");
                }
            }
        }
    }
}
