//! Liquid as authors know it, and leniently where they would be surprised.

use serde_json::{Value, json};

use super::{compiled, faults, partials, rendered, text, told, variables};
use crate::compile;

fn check(source: &str, json: Value, expected: &str) {
    assert_eq!(rendered(&text(source), json).text, expected, "{source}");
}

#[test]
fn an_absent_variable_is_empty_and_so_is_what_is_below_it() {
    check("[{{ a }}][{{ a.b.c }}][{{ a[0] }}]", json!({}), "[][][]");
    check("{{ a | default: 'x' }} {{ a.b | default: 'y' }}", json!({}), "x y");
    check("{{ a | default: 'x' }}{{ b | default: 'y' }}", json!({"a": "", "b": null}), "xy");
    check("{{ a | upcase | append: '!' }}", json!({}), "!");
    check("{% for x in a.b %}{{ x }}{% else %}none{% endfor %}", json!({}), "none");
    check(
        "{% for x in list %}[{{ x.a.b }}]{% endfor %}",
        json!({"list": [1, {}, {"a": {"b": 2}}]}),
        "[][][2]",
    );
    check("{% if a.b == nil %}nil{% endif %}{% if a > 3 %}no{% endif %}", json!({}), "nil");
    check("{% assign x = a.b %}{{ x.c }}.", json!({}), ".");
    check("{{ a | plus: 1 }} {{ a | date: '%Y' }}|{{ a | size }}", json!({}), "1 |0");
}

#[test]
fn values_print_as_in_liquid() {
    check(
        "{{ a }} {{ b }} {{ c }} {{ d }}",
        json!({"a": 1, "b": 1.5, "c": true, "d": [1, "x"]}),
        "1 1.5 true 1x",
    );
    check(
        "{{ list.first.n }}{{ list[1].n }}{{ list[-1].n }}{{ list.size }}",
        json!({"list": [{"n": 1}, {"n": 2}]}),
        "1222",
    );
    check("{{ m['a b'] }}{{ m[k] }}", json!({"m": {"a b": 1, "z": 2}, "k": "z"}), "12");
    check(
        "{{ features.score }} {{ memory.topic.x }}",
        json!({"features": {"score": 7}, "memory": {"topic": {"x": "y"}}}),
        "7 y",
    );
}

#[test]
fn conditions_choose() {
    let data = json!({"plan": "pro", "n": 5, "tags": ["a", "b"], "e": "", "f": false});
    check("{% if plan == 'pro' and n > 4 %}y{% else %}n{% endif %}", data.clone(), "y");
    check(
        "{% if n < 4 or plan == 'x' %}y{% elsif n == 5 %}five{% else %}n{% endif %}",
        data.clone(),
        "five",
    );
    check("{% unless f %}y{% endunless %}{% if e %}truthy{% endif %}", data.clone(), "ytruthy");
    check(
        "{% if tags contains 'b' %}y{% endif %}{% if plan contains 'r' %}y{% endif %}",
        data.clone(),
        "yy",
    );
    check(
        "{% if e == empty %}y{% endif %}{% if e == blank %}y{% endif %}{% if nix == blank %}y{% endif %}",
        data.clone(),
        "yyy",
    );
    check(
        "{% case plan %}{% when 'x', 'y' %}1{% when 'pro' or 'z' %}2{% else %}3{% endcase %}",
        data.clone(),
        "2",
    );
    check("{% if true or false and false %}right first{% endif %}", data, "right first");
}

#[test]
fn loops_turn() {
    let data = json!({"l": ["a", "b", "c"], "o": {"k": "v"}, "n": 3});
    check(
        "{% for x in l %}{{ forloop.index }}{{ x }}{% unless forloop.last %},{% endunless %}{% endfor %}",
        data.clone(),
        "1a,2b,3c",
    );
    check("{% for i in (1..n) reversed %}{{ i }}{% endfor %}", data.clone(), "321");
    check("{% for x in l limit: 1 offset: 1 %}{{ x }}{% endfor %}", data.clone(), "b");
    check(
        "{% for x in l %}{% if x == 'b' %}{% continue %}{% endif %}{{ x }}{% endfor %}",
        data.clone(),
        "ac",
    );
    check(
        "{% for x in l %}{% if x == 'b' %}{% break %}{% endif %}{{ x }}{% endfor %}",
        data.clone(),
        "a",
    );
    check("{% for p in o %}{{ p[0] }}={{ p[1] }}{% endfor %}", data.clone(), "k=v");
    check("{% for x in l %}{% cycle 'odd', 'even' %} {% endfor %}", data.clone(), "odd even odd ");
    check("{% for x in l %}{% assign last = x %}{% endfor %}{{ last }}{{ x }}", data.clone(), "c");
    check("{% increment a %}{% increment a %}{% decrement b %}", data, "01-1");
}

#[test]
fn filters_do_what_liquid_says() {
    let data = json!({"t": "Ada Lovelace", "n": -3, "f": 1.234, "l": [3, 1, 2, 3], "d": "2026-03-17T10:30:00Z",
        "p": [{"n": "b", "on": true}, {"n": "A"}]});
    for (source, expected) in [
        (
            "{{ t | downcase }}|{{ t | upcase }}|{{ 'ada' | capitalize }}",
            "ada lovelace|ADA LOVELACE|Ada",
        ),
        (
            "{{ t | truncate: 6 }}|{{ t | truncatewords: 1, '…' }}|{{ t | slice: 0, 3 }}|{{ t | slice: -3, 3 }}",
            "Ada...|Ada…|Ada|ace",
        ),
        (
            "{{ t | replace: 'a', 'o' }}|{{ t | remove: 'a' }}|{{ t | split: ' ' | join: '-' }}",
            "Ado Loveloce|Ad Lovelce|Ada-Lovelace",
        ),
        (
            "{{ n | abs }}|{{ n | plus: 1 }}|{{ f | round: 1 }}|{{ f | ceil }}|{{ 7 | divided_by: 2 }}|{{ 7 | modulo: 2 }}",
            "3|-2|1.2|2|3|1",
        ),
        (
            "{{ 7 | divided_by: 0 }}|{{ 9223372036854775807 | plus: 1 }}|{{ n | at_least: 0 }}",
            "||0",
        ),
        (
            "{{ l | sort | join: '' }}|{{ l | uniq | size }}|{{ l | first }}{{ l | last }}|{{ l | reverse | join }}",
            "1233|3|33|3 2 1 3",
        ),
        (
            "{{ p | map: 'n' | join: ',' }}|{{ p | sort_natural: 'n' | map: 'n' | join }}|{{ p | where: 'on' | map: 'n' | join }}",
            "b,A|A b|b",
        ),
        (
            "{{ d | date: '%d %B %Y' }}|{{ 'soon' | date: '%Y' }}|{{ 0 | date: '%Y' }}",
            "17 March 2026|soon|1970",
        ),
        (
            "{{ 'a b&c' | url_encode }}|{{ 'a+b%26c' | url_decode }}|{{ '<b>x</b>' | strip_html }}",
            "a+b%26c|a b&c|x",
        ),
        ("{{ false | default: 'x' }}|{{ false | default: 'x', allow_false: true }}", "x|false"),
    ] {
        check(source, data.clone(), expected);
    }
}

#[test]
fn the_names_of_a_template_are_those_that_it_does_not_make_itself() {
    let source = "{% assign a = given.one %}{{ a }}{{ two | default: three }}{% for x in four %}{{ x.n }}{{ forloop.index }}{% endfor %}
        {% capture c %}{{ five[6].seven }}{% endcapture %}{{ c }}{{ x }}{% if eight['nine'].size > ten[eleven] %}{% endif %}";
    let names: Vec<String> = compiled(&text(source)).variables().into_iter().collect();
    assert_eq!(names.join(" "), "eight.nine eleven five four given.one ten three two x");
}

#[test]
fn an_unknown_variable_is_a_fault_where_it_stands() {
    let compiled = compiled(&text("Hi {{ firstName }},\nsee {{ purchase.id }}"));
    let known = |path: &str| matches!(path.split('.').next(), Some("firstName" | "order"));
    assert_eq!(told(&compiled.unknown(known)), "text 2:8: nobody gives a variable purchase.id");
}

#[test]
fn partials_are_called() {
    let all = partials(&[
        ("footer", "-- {{ company }}{{ extra }}{% include 'year' %}"),
        ("year", " {{ currentYear }}"),
        ("row", "[{{ row }} {{ note }}]"),
    ]);
    let source = "{% assign extra = '!' %}{% include 'footer' %} {% render 'footer' %}{% render 'row' for list as row, note: 'n' %}{% render 'row' with one as row %}";
    let compiled = compile(&text(source), &all).unwrap();
    let data = json!({"company": "Acme", "currentYear": 2026, "list": [1, 2], "one": 3});
    assert_eq!(
        compiled.render(&variables(data)).unwrap().text,
        "-- Acme! 2026 -- Acme 2026[1 n][2 n][3 ]"
    );
    // `extra` is given to the first call, but not to the second.
    let names: Vec<String> = compiled.variables().into_iter().collect();
    assert_eq!(names.join(" "), "company currentYear extra list note one");
    assert_eq!(compiled.partials().collect::<Vec<_>>(), ["footer", "row", "year"]);
}

#[test]
fn faults_of_partials_are_told_where_they_are() {
    let all = partials(&[
        ("a", "{% include 'b' %}"),
        ("b", "\n{% include 'a' %}"),
        ("broken", "{{ | }}"),
    ]);
    let fault = |source: &str| told(&compile(&text(source), &all).unwrap_err());
    insta::assert_snapshot!(fault("x {% include 'nix' %}"), @"text 1:14: there is no partial nix");
    insta::assert_snapshot!(fault("{% include 'a' %}"), @"partials/b 2:12: partial a calls itself");
    insta::assert_snapshot!(fault("{% include 'broken' %}{% include 'broken' %}"), @r#"partials/broken 1:4: | is not expected in "|""#);
    insta::assert_snapshot!(fault("{% include name %}"), @"text 1:12: the name of a partial must be in quotes");
}

#[test]
fn faults_say_what_and_where() {
    let sources = [
        "{{ a",
        "{{ }}",
        "{{ a b }}",
        "{{ a | nix }}",
        "{{ a | append }}",
        "{{ a | plus: 1, 2 }}",
        "{{ a | default: 'x', allow: true }}",
        "{% nix %}",
        "{% if a %}x",
        "{% if %}{% endif %}",
        "{% if a %}{% endfor %}",
        "{% endif %}",
        "{% else %}",
        "{% for x of y %}{% endfor %}",
        "{% for x in y cols: 2 %}{% endfor %}",
        "{% break %}",
        "{% assign a %}",
        "{{ 'a }}",
        "{{ a & b }}",
        "{% %}",
    ];
    let all: Vec<String> = sources.iter().map(|s| format!("{s}\n  {}", faults(&text(s)))).collect();
    insta::assert_snapshot!(all.join("\n"));
}
