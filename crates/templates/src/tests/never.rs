//! What never happens, whatever comes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{compiled, html, variables};
use crate::{Source, compile, track};

/// Pieces that a template is made of, so that random sources get somewhere.
fn source() -> impl Strategy<Value = String> {
    let words = [
        "{{",
        "}}",
        "{%",
        "%}",
        "{%-",
        "-}}",
        "if ",
        "endif",
        "for x in ",
        "endfor",
        "a",
        ".b",
        "[0]",
        " | ",
        "append: ",
        "'t'",
        "\"",
        "(1..",
        "3)",
        "raw",
        "endraw",
        "case ",
        "when ",
        "endcase",
        "else",
        "assign x = ",
        "<p>",
        "é",
        "\n",
        "{{ a }}",
        "{% if a %}",
        "{% endif %}",
        "capture c",
        "endcapture",
        "include 'p'",
        "slice: -9, 99",
        "date: '%'",
        "truncate: -1",
        "divided_by: 0",
        "round: 99",
        "cycle ",
        ", ",
        "<mj-text>",
        "</mj-text>",
        "url_decode",
        "<!--",
        "日>",
        "é]>",
        "<b title=\"é\">",
        "</b>",
        "<br/>",
        "'",
    ];
    prop::collection::vec(prop_oneof![4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => ".{0,3}"], 0..24)
        .prop_map(|parts| parts.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[<>&\"'a-z/ é\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab<\"]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Every filter that an author may end with, but the one that says that it is markup.
fn filter() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "| upcase",
        "| append: a",
        "| default: a",
        "| escape_once",
        "| escape",
        "| strip",
        "| url_decode",
        "| slice: 0, 5",
        "| split: '' | join: ''",
        "| newline_to_br | strip_newlines",
        "| strip_html",
        "| truncate: 3",
        "| first",
        "| map: 'a'",
        "| replace: 'a', '<'",
        "| sort | reverse",
        "| uniq",
        "| size",
    ])
}

proptest! {
    #[test]
    fn a_source_panics(source in source(), data in any_json()) {
        let all = BTreeMap::from([("p".to_owned(), source.clone())]);
        for mail in [
            html(&source),
            Source { preheader: Some(source.clone()), subject: source.clone(), text: Some(source.clone()), ..Source::default() },
            Source { mjml: Some(format!("<mjml><mj-body>{source}</mj-body></mjml>")), ..html("") },
            Source { html: None, mjml: Some(format!("<mjml><mj-body><mj-section><mj-column><mj-text>{source}</mj-text></mj-column></mj-section></mj-body></mjml>")), ..html("") },
        ] {
            if let Ok(compiled) = compile(&mail, &all) {
                let _ = compiled.render(&variables(json!({"a": data})));
            }
        }
        let _ = track(&source, &mut |url| Some(url.to_owned()), Some(&source));
    }

    #[test]
    fn data_becomes_markup(data in any_json(), filter in filter()) {
        let source = format!("{{{{ a {filter} }}}}{{% for x in a %}}{{{{ x }}}}{{% endfor %}}{{% capture c %}}{{{{ a }}}}{{% endcapture %}}{{{{ c }}}}{{% cycle a, a %}}");
        let made = compiled(&html(&source)).render(&variables(json!({"a": data}))).unwrap();
        let html = made.html.unwrap();
        prop_assert!(!html.replace("<br />", "").contains(['<', '>', '"', '\'']), "{}", html);
        prop_assert!(!made.subject.contains(['\r', '\n']));
    }
}
