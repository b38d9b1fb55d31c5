//! The form in which a definition is walked.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::random;
use crate::definition::{Action, Op, Program, Step, WaitFor, arm, choose, is_same, read};

fn program(text: &str) -> Program {
    Program::of(read(text).unwrap_or_else(|faults| panic!("{faults:?}")))
}

/// Each place with its step and where it goes on.
fn told(program: &Program) -> String {
    let line = |(at, place): (usize, &crate::definition::Place)| {
        let name = format!("{:?}", place.op);
        let name = name.split([' ', '{']).next().unwrap_or_default().to_owned();
        format!("{at:>2} {name} {} -> {:?}\n", place.step, place.op.nexts())
    };
    program.places.iter().enumerate().map(line).collect()
}

#[test]
fn branches_nest_and_meet_again() {
    let program = program(
        r#"
id: nested
client: shop
steps:
  - send: one
  - condition: { has_opened: one }
    then:
      - choice: $.plan
        branches:
          - { value: pro, steps: [ { send: pro }, { wait: 1 day } ] }
          - { value: free }
          - { value: "a b", steps: [ { exit: gone } , { send: never } ] }
        default:
          - wait_for: user.activated
            timeout: 3 days
            then: [ { tag: { add: [active] } } ]
      - id: after-choice
        send: two
    else:
      - wait: 2 hours
  - set: { done: true }
"#,
    );
    assert_eq!(program.end(), 12);
    insta::assert_snapshot!(told(&program));
    assert_eq!(program.find("after-choice"), Some(9));
    assert_eq!(program.find("nothing"), None);
    assert_eq!(program.place(12), None);
}

#[test]
fn a_choice_is_by_value_and_what_is_not_there_takes_the_default() {
    let program = program(
        "{id: x, client: shop, steps: [{choice: $.v, branches: [{value: pro, steps: [{exit: a}]}, {value: 1, steps: [{exit: b}]}, {value: true, steps: [{exit: c}]}, {value: \"2.5\", steps: [{exit: d}]}, {value: empty}], default: [{exit: z}]}]}",
    );
    let check = |data: Value, expected: &str| {
        let Op::Choice { path, branches, default } = &program.places[0].op else { panic!() };
        let to = choose(path, branches, *default, &data);
        let reason = match program.place(to).map(|place| &place.op) {
            Some(Op::Exit { reason }) => reason.clone().unwrap_or_default(),
            None => "end".to_owned(),
            Some(other) => panic!("{other:?}"),
        };
        assert_eq!(reason, expected, "{data}");
    };
    check(json!({"v": "pro"}), "a");
    check(json!({"v": "Pro"}), "z");
    check(json!({"v": 1}), "b");
    check(json!({"v": 1.0}), "b");
    check(json!({"v": "1"}), "b");
    check(json!({"v": "1.0"}), "z");
    check(json!({"v": 2.5}), "d");
    check(json!({"v": true}), "c");
    check(json!({"v": "true"}), "z");
    // An empty branch is a branch (seed 000 lets it fall into the default).
    check(json!({"v": "empty"}), "end");
    for nothing in [json!({}), json!({"v": null}), json!({"v": [1]}), json!([]), json!("pro")] {
        check(nothing, "z");
    }
}

#[test]
fn values_are_one_as_people_see_them() {
    let check = |one: Value, other: Value, same: bool| {
        assert_eq!(is_same(&one, &other), same, "{one} {other}");
        assert_eq!(is_same(&other, &one), same, "{other} {one}");
    };
    check(json!(0), json!(-0.0), true);
    check(json!(100), json!(1e2), true);
    check(json!(0.1), json!("0.1"), true);
    check(json!(u64::MAX), json!(u64::MAX.to_string()), true);
    check(json!(1), json!(true), false);
    check(json!(false), json!("false"), false);
    check(json!(null), json!(null), false);
    check(json!([]), json!([]), false);
}

/// All places to which some walk comes, the end among them.
fn reached(program: &Program) -> BTreeSet<usize> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![0]);
    while let Some(at) = next.pop() {
        if seen.insert(at) {
            next.extend(program.place(at).into_iter().flat_map(|place| place.op.nexts()));
        }
    }
    seen
}

proptest! {
    #[test]
    fn no_place_dangles_and_every_walk_ends(definition in random::definition()) {
        let program = Program::of(definition);
        let mut steps = BTreeSet::new();
        for (at, place) in program.places.iter().enumerate() {
            // Only forward: so every walk ends, and after as many steps as there are places at the latest.
            for next in place.op.nexts() {
                prop_assert!(at < next && next <= program.end(), "{at} -> {next}");
            }
            prop_assert!(steps.insert(&place.step), "{} is there twice", place.step);
            prop_assert_eq!(program.find(&place.step), Some(at));
        }
        let reached = reached(&program);
        let mut alive = BTreeSet::new();
        let ends = goes_on(&program.definition.steps, &mut alive);
        prop_assert_eq!(reached.contains(&program.end()), ends);
        let walked = reached.iter().filter_map(|at| program.place(*at));
        prop_assert_eq!(walked.map(|place| place.step.as_str()).collect::<BTreeSet<_>>(), alive);
    }
}

/// Whether something can come after these steps, by the definition alone, and all of them that somebody can come to: what
/// stands behind an exit is dead, and nothing else is.
fn goes_on<'d>(steps: &'d [Step], alive: &mut BTreeSet<&'d str>) -> bool {
    for step in steps {
        alive.insert(&step.id);
        let goes_on = match &step.action {
            Action::Exit { .. } => false,
            Action::Condition { then, otherwise, .. }
            | Action::WaitFor(WaitFor { then, otherwise, .. }) => {
                // Both are looked at, whatever the first says.
                goes_on(then, alive) | goes_on(otherwise, alive)
            }
            Action::Choice { branches, default, .. } => {
                let some = branches
                    .iter()
                    .fold(false, |some, branch| goes_on(&branch.steps, alive) | some);
                goes_on(default, alive) | some
            }
            _ => true,
        };
        if !goes_on {
            return false;
        }
    }
    true
}

#[test]
fn the_variant_of_a_person_is_that_of_the_seed() {
    let (email, sequence) = ("Ada@example.org".parse().unwrap(), "spring".parse().unwrap());
    // SHA-256("ada@example.org:spring") begins with these bytes.
    for count in 1..=10 {
        assert_eq!(arm(&email, &sequence, count), 0x867c_8ece % count, "{count}");
    }
    let other = "autumn".parse().unwrap();
    let people = || (0..2_000).map(|number| format!("p{number}@example.org").parse().unwrap());
    // Even, and one sequence says nothing of another.
    let first = people().filter(|email| arm(email, &sequence, 2) == 0).count();
    let both = people().filter(|email| arm(email, &sequence, 2) == arm(email, &other, 2)).count();
    for count in [first, both] {
        assert!((900..1_100).contains(&count), "{count}");
    }
}
