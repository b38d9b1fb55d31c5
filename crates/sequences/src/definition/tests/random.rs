//! Definitions by chance, of every kind of step: small words, so that what happens in one matters to another.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use tidings_kernel::Value as Known;
use tidings_outreach::audience::{Condition, Subject, Test};

use crate::definition::{
    Action, Branch, Check, Clause, Definition, Exit, InboxBody, InboxMessage, Mail, Mails, Mapping,
    OneOff, Path, Reentry, Setting, Step, Trigger, Wait, WaitFor, Window, ids,
};

/// Whole definitions, as reading one gives them.
pub(crate) fn definition() -> impl Strategy<Value = Definition> {
    let whose = (
        "[a-z][a-z0-9-]{0,8}",
        option::of("[A-Za-z]{1,9}"),
        option::of("[a-z]{1,5}"),
        any::<bool>(),
    );
    let marketing = (option::of("[a-z]{1,5}"), option::of("[a-z]{1,5}"));
    let comes = (option::of(trigger()), minutes(1..3_000_000), reentry(), option::of(window()));
    let events = (vec(exit(), 0..3), vec(one_off(), 0..3));
    (whose, marketing, comes, events, steps()).prop_map(
        |(
            (id, name, sender, transactional),
            (audience, topic),
            (trigger, timeout, reentry, window),
            (exit_on, events),
            steps,
        )| Definition {
            id: id.parse().unwrap(),
            description: name.clone(),
            name,
            client: "shop".parse().unwrap(),
            sender: sender.map(|slug| slug.parse().unwrap()),
            transactional,
            audience: audience.filter(|_| !transactional).map(|slug| slug.parse().unwrap()),
            topic: topic.filter(|_| !transactional).map(|slug| slug.parse().unwrap()),
            trigger,
            timeout,
            reentry,
            window,
            exit_on,
            events,
            steps,
        },
    )
}

/// The steps of one, in their places. Some have names of their own.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nested = step().prop_recursive(4, 40, 4, |inner| {
        let some = || vec(inner.clone(), 0..4);
        let wait_for = (event(), filter(), minutes(1..50_000), some(), some()).prop_map(
            |(event, filter, timeout, then, otherwise)| {
                Action::WaitFor(WaitFor { event, filter, timeout, then, otherwise })
            },
        );
        let values = vec![
            json!("pro"),
            json!("free"),
            json!(7),
            json!(true),
            json!("default"),
            json!("a b"),
        ];
        let within = inner.clone();
        let branches = subsequence(values, 1..4).prop_flat_map(move |values| {
            let count = values.len();
            (Just(values), vec(vec(within.clone(), 0..3), count))
        });
        let choice = (path(), branches, some()).prop_map(|(path, (values, steps), default)| {
            let branches = values.into_iter().zip(steps);
            let branches = branches.map(|(value, steps)| Branch { value, steps }).collect();
            Action::Choice { path, branches, default }
        });
        let condition = (check(), some(), some())
            .prop_map(|(check, then, otherwise)| Action::Condition { check, then, otherwise });
        prop_oneof![wait_for, choice, condition].prop_map(unplaced)
    });
    let top = prop_oneof![2 => step().boxed(), 3 => nested.boxed()];
    vec(top, 1..6).prop_map(|mut steps| {
        name_some(&mut steps, &mut 0);
        ids::assign(&mut steps);
        steps
    })
}

fn unplaced(action: Action) -> Step {
    Step { id: String::new(), pointer: String::new(), action }
}

/// Every fourth has a name that its author gave.
fn name_some(steps: &mut [Step], count: &mut usize) {
    for step in steps {
        *count += 1;
        if count.is_multiple_of(4) {
            step.id = format!("named-{count}");
        }
        match &mut step.action {
            Action::Condition { then, otherwise, .. }
            | Action::WaitFor(WaitFor { then, otherwise, .. }) => {
                name_some(then, count);
                name_some(otherwise, count);
            }
            Action::Choice { branches, default, .. } => {
                for branch in branches {
                    name_some(&mut branch.steps, count);
                }
                name_some(default, count);
            }
            _ => {}
        }
    }
}

/// One without branches. An exit is rare: what comes after it is dead.
fn step() -> impl Strategy<Value = Step> {
    let tags = || vec(select(vec!["a", "b"]), 1..3);
    let tag = (tags(), any::<bool>()).prop_map(|(tags, adds)| {
        let mut tags: Vec<_> = tags.into_iter().map(|tag| tag.parse().unwrap()).collect();
        tags.sort();
        tags.dedup();
        let (add, remove) = if adds { (tags, Vec::new()) } else { (Vec::new(), tags) };
        Action::Tag { add, remove }
    });
    let set = settings(1..3).prop_map(Action::Set);
    let webhook =
        (event(), settings(0..3)).prop_map(|(event, data)| Action::Webhook { event, data });
    let inbox = (option::of(settings(0..3)), path(), option::of(select(vec!["news", "tips"])));
    let inbox = inbox.prop_map(|(body, path, category)| {
        Action::Inbox(InboxMessage {
            inbox: "app".parse().unwrap(),
            title: Setting::FromTrigger(path),
            body: body.map(InboxBody::Fields),
            cta_uri: Some(Setting::Value(json!("/news"))),
            category: category.map(|name| name.parse().unwrap()),
            expires_in: Some("7d".parse().unwrap()),
        })
    });
    let exit = option::of("[a-z]{1,8}").prop_map(|reason| Action::Exit { reason });
    prop_oneof![
        6 => mails().prop_map(Action::Send),
        4 => wait().prop_map(Action::Wait),
        2 => tag,
        2 => set,
        1 => inbox,
        1 => webhook,
        1 => exit,
    ]
    .prop_map(unplaced)
}

fn mails() -> impl Strategy<Value = Mails> {
    prop_oneof![
        3 => mail().prop_map(Mails::One),
        1 => vec(mail(), 2..4).prop_map(Mails::Variants),
    ]
}

fn mail() -> impl Strategy<Value = Mail> {
    (template(), option::of("[A-Za-z][a-z ]{0,8}[a-z]"))
        .prop_map(|(template, subject)| Mail { template: template.parse().unwrap(), subject })
}

fn template() -> impl Strategy<Value = &'static str> {
    select(vec!["welcome", "tips/one", "tips/two", "bye"])
}

pub(crate) fn event() -> impl Strategy<Value = String> {
    select(vec!["user.activated", "Order Completed", "trial:end"]).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = Path> {
    select(vec!["$.plan", "$.user.plan", "$.items[0].n", "$['a b']"])
        .prop_map(|text| text.parse().unwrap())
}

fn wait() -> impl Strategy<Value = Wait> {
    let until = (option::of(weekday()), time(), zone())
        .prop_map(|(weekday, time, zone)| Wait::Until { weekday, time, zone });
    prop_oneof![3 => minutes(1..50_000).prop_map(Wait::For), 1 => until]
}

fn check() -> impl Strategy<Value = Check> {
    let key = || template().prop_map(|key| key.parse().unwrap());
    let matches = prop_oneof![
        Just(Condition::Audience("news".parse().unwrap())),
        Just(Condition::Tag("a".parse().unwrap())),
        test().prop_map(|test| Condition::Known(Subject::Attribute("plan".to_owned()), test)),
        Just(Condition::Not(Box::new(Condition::Tag("b".parse().unwrap())))),
    ];
    prop_oneof![
        key().prop_map(Check::HasBeenSent),
        key().prop_map(Check::HasOpened),
        key().prop_map(Check::HasClicked),
        Just(Check::FieldExists("plan".to_owned())),
        scalar().prop_map(|value| Check::FieldEquals("plan".to_owned(), value)),
        matches.prop_map(Check::Matches),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    select(vec![
        json!("pro"),
        json!("free"),
        json!(7),
        json!(1.5),
        json!(true),
        json!("$5"),
        json!("$$"),
    ])
}

fn test() -> impl Strategy<Value = Test> {
    let known = select(vec![Known::from("pro"), Known::from(7_i64)]);
    prop_oneof![
        known.clone().prop_map(Test::Equals),
        known.clone().prop_map(Test::AtLeast),
        vec(known, 1..3).prop_map(Test::In),
        any::<bool>().prop_map(Test::Exists),
    ]
}

fn filter() -> impl Strategy<Value = Vec<Clause>> {
    vec((path(), test()).prop_map(|(path, test)| Clause { path, test }), 0..3)
}

fn settings(count: std::ops::Range<usize>) -> impl Strategy<Value = BTreeMap<String, Setting>> {
    let value = prop_oneof![
        scalar().prop_map(Setting::Value),
        select(vec![json!("$.plan"), json!("$[x"), json!(null), json!({"a": ["$b", 1]})])
            .prop_map(Setting::Value),
        path().prop_map(Setting::FromTrigger),
    ];
    btree_map(select(vec!["plan", "source"]).prop_map(str::to_owned), value, count)
}

fn mapping() -> impl Strategy<Value = Mapping> {
    let named = btree_map(select(vec!["plan", "city"]).prop_map(str::to_owned), path(), 0..3);
    (option::of(path()), option::of(path()), named, option::of(path())).prop_map(
        |(email, first_name, attributes, all_attributes)| Mapping {
            email,
            first_name,
            attributes: if all_attributes.is_some() { BTreeMap::new() } else { attributes },
            all_attributes,
        },
    )
}

fn trigger() -> impl Strategy<Value = Trigger> {
    (event(), mapping(), filter()).prop_map(|(event, mapping, filter)| Trigger {
        event,
        mapping,
        filter,
    })
}

fn exit() -> impl Strategy<Value = Exit> {
    (event(), option::of(path()), filter()).prop_map(|(event, email, filter)| Exit {
        event,
        mapping: Mapping { email, ..Mapping::default() },
        filter,
    })
}

fn one_off() -> impl Strategy<Value = OneOff> {
    (event(), mail(), mapping(), filter()).prop_map(|(event, mail, mapping, filter)| OneOff {
        event,
        mail,
        mapping,
        filter,
    })
}

fn reentry() -> impl Strategy<Value = Reentry> {
    prop_oneof![
        Just(Reentry::Restart),
        Just(Reentry::Ignore),
        minutes(1..100_000).prop_map(Reentry::After),
    ]
}

fn window() -> impl Strategy<Value = Window> {
    let all: Vec<Weekday> = Weekday::Monday.cycle_forward().take(7).collect();
    (subsequence(all, 0..7), time(), time(), zone()).prop_map(|(days, from, until, zone)| Window {
        days,
        from,
        until,
        zone,
    })
}

fn minutes(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(|minutes| Duration::from_secs(minutes * 60))
}

fn time() -> impl Strategy<Value = Time> {
    (0..24_i8, 0..60_i8).prop_map(|(hour, minute)| Time::new(hour, minute, 0, 0).unwrap())
}

fn weekday() -> impl Strategy<Value = Weekday> {
    (0..7_i8).prop_map(|day| Weekday::from_monday_zero_offset(day).unwrap())
}

pub(crate) fn zone() -> impl Strategy<Value = TimeZone> {
    select(vec!["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
        .prop_map(|name| TimeZone::get(name).unwrap())
}
