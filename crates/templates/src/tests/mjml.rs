//! MJML with Liquid in it.

use serde_json::json;

use super::{faults, partials, rendered, told, variables};
use crate::{Source, compile};

fn mjml(body: &str) -> Source {
    let source = format!("<mjml><mj-body>{body}</mj-body></mjml>");
    Source { subject: "s".to_owned(), mjml: Some(source), ..Source::default() }
}

fn section(content: &str) -> Source {
    mjml(&format!("<mj-section><mj-column>{content}</mj-column></mj-section>"))
}

#[test]
fn mjml_becomes_html_with_its_liquid() {
    let source = section(
        "<mj-text>Hi {{ name | default: \"you\" }}{% if n < 3 && %}{% endif %}</mj-text>"
            .replace(" &&", "")
            .as_str(),
    );
    let html = rendered(&source, json!({"name": "<Ada>"})).html.unwrap();
    assert!(html.contains("Hi &lt;Ada&gt;"), "{html}");
    assert!(!html.contains("zqliquid") && !html.contains("{{"), "{html}");
    assert!(html.to_lowercase().contains("<!doctype html>"), "{html}");
    let html = rendered(&source, json!({})).html.unwrap();
    assert!(html.contains("Hi you"), "{html}");
}

#[test]
fn liquid_may_stand_in_attributes_and_between_elements() {
    let source = section(
        "{% for item in items %}<mj-button href=\"{{ item.url | append: \"?a=1\" }}\">{{ item.name }}</mj-button>{% endfor %}",
    );
    let items = json!({"items": [{"name": "One", "url": "https://1"}, {"name": "Two", "url": "https://2"}]});
    let html = rendered(&source, items).html.unwrap();
    for wanted in ["href=\"https://1?a=1\"", "href=\"https://2?a=1\"", "One", "Two"] {
        assert!(html.contains(wanted), "{wanted}: {html}");
    }
    let source = mjml(
        "{% if vip %}<mj-section><mj-column><mj-text>VIP</mj-text></mj-column></mj-section>{% endif %}",
    );
    assert!(rendered(&source, json!({"vip": true})).html.unwrap().contains("VIP"));
    assert!(!rendered(&source, json!({})).html.unwrap().contains("VIP"));
}

#[test]
fn a_greater_than_sign_may_follow_any_letter() {
    let text = "日> é]> {% if 1 < 2 %}ü>{% endif %}<a title=\"Café\" href=\"https://é\">ß></a>";
    let html = rendered(&section(&format!("<mj-text>{text}</mj-text>")), json!({})).html.unwrap();
    for wanted in ["日>", "é]>", "ü>", "title=\"Café\"", "ß>"] {
        assert!(html.contains(wanted), "{wanted}: {html}");
    }
}

#[test]
fn raw_liquid_stays_raw() {
    let source = section(
        "<mj-text>{% raw %}{{ as is }}{% endraw %}{% comment %}gone{% endcomment %}</mj-text>",
    );
    let html = rendered(&source, json!({})).html.unwrap();
    assert!(html.contains("{{ as is }}") && !html.contains("gone"), "{html}");
}

#[test]
fn partials_with_mjml_are_put_in_before_it_is_compiled() {
    let all = partials(&[
        (
            "head",
            "<mj-section><mj-column><mj-text>{{ company }}</mj-text></mj-column></mj-section>",
        ),
        ("foot", "<p>{{ company }} foot</p>"),
    ]);
    let source = mjml(
        "{% include 'head' %}<mj-section><mj-column><mj-text>{% include 'foot' %}</mj-text></mj-column></mj-section>",
    );
    let compiled = compile(&source, &all).unwrap_or_else(|faults| panic!("{}", told(&faults)));
    let html = compiled.render(&variables(json!({"company": "A&B"}))).unwrap().html.unwrap();
    assert!(html.contains("A&amp;B foot") && !html.contains("<mj-"), "{html}");
    assert_eq!(html.matches("A&amp;B").count(), 2);
}

#[test]
fn faults_of_mjml_say_where() {
    let all: Vec<String> = [
        section("<mj-nope>x</mj-nope>"),
        section("\n<mj-text>x"),
        section("<mj-text>x</mj-button></mj-text>"),
        mjml("<mj-include path=\"/etc/passwd\" />"),
        mjml("<mj-section full-width=\"a\" {{ x }}></mj-section>"),
        section("<mj-text>{{ a | nix }}</mj-text>"),
        Source { subject: "s".to_owned(), mjml: Some("<p>x</p>".to_owned()), ..Source::default() },
        mjml("<mj-section><p>x</mj-section>"),
    ]
    .iter()
    .map(faults)
    .collect();
    insta::assert_snapshot!(all.join("\n"));
}
