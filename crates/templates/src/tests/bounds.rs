//! No template and no data can eat the machine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{compiled, faults, html, partials, text, told, variables};
use crate::{MAX_SOURCE, RenderError, compile};

fn refused(source: &str, json: Value) -> RenderError {
    compiled(&text(source)).render(&variables(json)).unwrap_err()
}

#[test]
fn loops_end() {
    assert_eq!(
        refused("{% for i in (1..10000000) %}{% endfor %}", json!({})),
        RenderError::TooManySteps
    );
    assert_eq!(
        refused("{% for i in (1..n) %}x{% endfor %}", json!({"n": i64::MAX})),
        RenderError::TooManySteps
    );
    assert_eq!(
        refused("{% for i in (a..n) %}x{% endfor %}", json!({"n": i64::MAX, "a": i64::MIN})),
        RenderError::TooManySteps
    );
    let nested = "{% for i in (1..1000) %}{% for j in (1..1000) %}{% endfor %}{% endfor %}";
    assert_eq!(refused(nested, json!({})), RenderError::TooManySteps);
}

#[test]
fn output_and_values_end() {
    let kilobyte = "x".repeat(1024);
    assert_eq!(
        refused(&format!("{{% for i in (1..2000) %}}{kilobyte}{{% endfor %}}"), json!({})),
        RenderError::OutputTooLong
    );
    let doubling =
        "{% assign x = 'xx' %}{% for i in (1..100) %}{% assign x = x | append: x %}{% endfor %}";
    assert_eq!(refused(doubling, json!({})), RenderError::ValueTooBig);
    let multiplied = "{{ a | replace: 'x', a }}";
    assert_eq!(refused(multiplied, json!({"a": "x".repeat(100_000)})), RenderError::ValueTooBig);
    assert_eq!(
        refused("{{ a | split: '' | join: a }}", json!({"a": "x".repeat(9000)})),
        RenderError::ValueTooBig
    );
    let copied = "{% for i in (1..100000) %}{% assign x = a %}{% endfor %}";
    assert_eq!(refused(copied, json!({"a": "x".repeat(100_000)})), RenderError::ValueTooBig);
    let captured = "{% capture x %}xx{% endcapture %}{% for i in (1..100) %}{% capture x %}{{ x }}{{ x }}{% endcapture %}{% endfor %}";
    assert!(matches!(
        refused(captured, json!({})),
        RenderError::ValueTooBig | RenderError::OutputTooLong
    ));
}

#[test]
fn what_the_author_wrote_is_not_copied_for_ever() {
    let long = "y".repeat(400_000);
    let turning = |body: &str| format!("{{% for i in (1..4000) %}}{body}{{% endfor %}}");
    for body in [
        format!("{{% if \"{long}\" == x %}}{{% endif %}}"),
        format!("{{% case x %}}{{% when \"{long}\" %}}{{% endcase %}}"),
        format!("{{{{ x[\"{long}\"] }}}}"),
        format!("{{{{ {long} }}}}"),
        format!("{{% assign {long} = 1 %}}"),
        format!("{{% for {long} in (1..2) %}}{{% endfor %}}"),
        format!("{{% cycle \"{long}\": '', '' %}}"),
    ] {
        let refused = refused(&turning(&body), json!({"x": {}}));
        assert_eq!(refused, RenderError::ValueTooBig, "{}", &body[..20]);
    }
    let all = partials(&[("p", "")]);
    let source = format!("{{% render 'p' for list as x, note: \"{long}\" %}}");
    let compiled = compile(&text(&source), &all).unwrap();
    let list = variables(json!({"list": vec![1; 4000]}));
    assert_eq!(compiled.render(&list).unwrap_err(), RenderError::ValueTooBig);
}

#[test]
fn each_comparison_is_a_step() {
    let many = vec!["i == 0"; 60].join(" or ");
    let source = format!("{{% for i in (1..5000) %}}{{% if {many} %}}{{% endif %}}{{% endfor %}}");
    assert_eq!(refused(&source, json!({})), RenderError::TooManySteps);
}

#[test]
fn nesting_ends() {
    let deep = |n: usize| format!("{}{}", "{% if a %}".repeat(n), "{% endif %}".repeat(n));
    compiled(&text(&deep(32)));
    insta::assert_snapshot!(faults(&text(&deep(33))), @"text 1:321: blocks are nested deeper than 32");
    let brackets = format!("{{{{ a{}{} }}}}", "[a".repeat(5000), "]".repeat(5000));
    insta::assert_snapshot!(faults(&text(&brackets)), @"text 1:22: brackets are nested too deep");
}

#[test]
fn sources_end() {
    compiled(&html(&"x".repeat(MAX_SOURCE)));
    insta::assert_snapshot!(faults(&html(&"x".repeat(MAX_SOURCE + 1))), @"html: use at most 512 KB");
    let half = "x".repeat(300 * 1024);
    let all = partials(&[("half", &half)]);
    let faults = compile(&html(&format!("{half}{{% include 'half' %}}")), &all).unwrap_err();
    insta::assert_snapshot!(told(&faults), @"template: it has 614420 bytes with its partials; use at most 512 KB");
    let many = "{{ a }}".repeat(10_001);
    insta::assert_snapshot!(super::faults(&text(&many)), @"text 1:70001: there is too much Liquid in this");
    let names: String = (0..501).map(|n| format!("{{{{ a{n} }}}}")).collect();
    insta::assert_snapshot!(super::faults(&text(&names)), @"template: it names more than 500 variables");
}

#[test]
fn partials_end() {
    let mut all = BTreeMap::new();
    for n in 0..12 {
        all.insert(format!("p{n}"), format!("{{% include 'p{}' %}}", n + 1).repeat(10));
    }
    all.insert("p12".to_owned(), "x".to_owned());
    let faults = compile(&text("{% include 'p0' %}"), &all).unwrap_err();
    assert!(faults.len() <= 50);
    insta::assert_snapshot!(faults[0].to_string(), @"partials/p7 1:12: partials call partials deeper than 8");
    let wide: BTreeMap<_, _> = (0..51).map(|n| (format!("p{n}"), "x".to_owned())).collect();
    let source: String = (0..51).map(|n| format!("{{% include 'p{n}' %}}")).collect();
    let faults = compile(&text(&source), &wide).unwrap_err();
    insta::assert_snapshot!(told(&faults), @"template: it uses more than 50 partials");
}
