//! A definition as a drawing.

use proptest::prelude::*;

use super::random;
use crate::definition::{mermaid, read};

fn drawn(text: &str) -> String {
    mermaid(&read(text).unwrap_or_else(|faults| panic!("{faults:?}")))
}

#[test]
fn the_whole_graph_is_drawn() {
    insta::assert_snapshot!(drawn(
        r#"
id: drawn
client: shop
trigger: { event: user.signed_up }
exitOn: [ user.cancelled, email.replied ]
events: [ { event: user.password_changed, send: account/password-changed } ]
steps:
  - send: { variants: [ { template: a, subject: 'Say "hi" & <b>go</b> #1' }, { template: b } ] }
  - wait: 2 days
  - wait: { until: "09:00", weekday: mon }
  - wait_for: user.activated
    timeout: 3 days
    else: [ { send: help, subject: Need a hand? } ]
  - choice: $.plan
    branches:
      - { value: pro, steps: [ { tag: { add: [vip], remove: [trial] } } ] }
      - { value: 7 }
    default: [ { condition: { subscriber_field_equals: { field: plan, value: "x`y" } }, then: [ { exit: done here } ] } ]
  - condition: { matches: { any: [ { tag: a }, { audience: news } ] } }
    then: [ { exit: } ]
  - set: { plan: pro, source: $.utm.source }
  - webhook: { event: trial.ending }
"#
    ));
    insta::assert_snapshot!(drawn("{id: x, client: shop, steps: [{send: a}]}"));
}

proptest! {
    /// Whatever stands in a label, a line is a line, and its quotes are its own.
    #[test]
    fn labels_are_harmless(mut definition in random::definition(), subject in "[ -~]{1,30}") {
        for one in &mut definition.events {
            one.mail.subject = Some(subject.clone());
        }
        for line in mermaid(&definition).lines() {
            prop_assert!(line.matches('"').count() % 2 == 0, "{line}");
            prop_assert!(!line.replace("<br/>", "").contains('<'), "{line}");
        }
    }
}
