//! The parts of a mail.

use serde_json::json;

use super::{compiled, faults, html, rendered, text, told, variables};
use crate::{Source, Warning, compile_lines};

#[test]
fn the_text_part_is_made_of_the_html() {
    let source = html(
        "<html><head><style>p { color: red }</style><title>t</title></head><body><h1>Hello {{ name }}</h1>\
         <p>Read <a href=\"https://a.example/x?a=1&amp;b=2\">this page</a>.</p>\
         <table><tr><td>One</td><td>Two</td></tr></table><ul><li>a</li><li>b</li></ul></body></html>",
    );
    insta::assert_snapshot!(rendered(&source, json!({"name": "<Ada> & Bob"})).text);
}

#[test]
fn a_text_part_of_the_author_is_taken_as_it_is() {
    let source = Source { text: Some("Hi {{ name }}".to_owned()), ..html("<p>x</p>") };
    assert_eq!(rendered(&source, json!({"name": "Ada"})).text, "Hi Ada");
    let made = rendered(&text("only"), json!({}));
    assert_eq!((made.html, made.text.as_str()), (None, "only"));
}

#[test]
fn the_preheader_is_hidden_at_the_beginning_and_not_in_the_text() {
    let with = |body: &str| {
        let source = Source { preheader: Some("For {{ name }}".to_owned()), ..html(body) };
        rendered(&source, json!({"name": "<Ada>"}))
    };
    let made = with("<html><BODY class=\"a>b\"><p>x</p></BODY></html>");
    let html = made.html.unwrap();
    assert!(html.starts_with("<html><BODY class=\"a>b\"><div style=\"display:none;"), "{html}");
    assert!(html.contains(">For &lt;Ada&gt;&#847;&zwnj;&nbsp;"), "{html}");
    assert!(html.ends_with("&nbsp;</div><p>x</p></BODY></html>"), "{html}");
    assert_eq!(made.text, "x");
    assert!(with("<p>x</p>").html.unwrap().starts_with("<div style=\"display:none;"));
}

#[test]
fn an_empty_preheader_is_none() {
    let source = Source { preheader: Some("{{ nix }}".to_owned()), ..html("<p>x</p>") };
    assert_eq!(rendered(&source, json!({})).html.unwrap(), "<p>x</p>");
}

#[test]
fn a_source_has_a_subject_and_one_body() {
    let both = Source { mjml: Some("<mjml></mjml>".to_owned()), ..html("x") };
    insta::assert_snapshot!(faults(&both), @"template: use either html or mjml, not both");
    insta::assert_snapshot!(faults(&Source::default()), @r"
    subject: a subject is needed
    template: use html, mjml or text: there is no body
    ");
    let empty = Source { text: Some(" ".to_owned()), ..html("") };
    insta::assert_snapshot!(faults(&empty), @r"
    html: it is empty; leave it out instead
    text: it is empty; leave it out instead
    ");
}

#[test]
fn html_that_gmail_would_clip_is_warned_of() {
    let made = rendered(&html(&"x".repeat(102 * 1024)), json!({}));
    assert_eq!(made.warnings(), []);
    let made = rendered(&html(&"x".repeat(102 * 1024 + 1)), json!({}));
    assert_eq!(made.warnings(), [Warning::Clipped(102 * 1024 + 1)]);
}

#[test]
fn other_lines_stand_in_the_place_of_a_template_s_own() {
    let source =
        Source { preheader: Some("own".to_owned()), ..html("<body><p>{{ a }}</p></body>") };
    let (template, values) = (compiled(&source), variables(json!({ "a": 1, "b": { "c": "<2>" } })));
    let check = |subject: Option<&str>, preheader: Option<&str>, expected: (&str, &str)| {
        let lines = compile_lines(subject, preheader).unwrap();
        let mail = template.render_with(&lines, &values).unwrap();
        let html = mail.html.unwrap();
        assert_eq!(
            (mail.subject.as_str(), html.contains(expected.1)),
            (expected.0, true),
            "{html}"
        );
        assert_eq!(mail.text, "1");
        lines
    };
    check(None, None, ("s", "own"));
    let lines = check(Some("{{ b.c }}"), None, ("<2>", "own"));
    assert_eq!(lines.roots().collect::<Vec<_>>(), ["b"]);
    check(None, Some("{{ b.c }}!"), ("s", "&lt;2&gt;!"));
    let wrong = compile_lines(Some("{{ a"), Some("{% if %}")).unwrap_err();
    assert_eq!(wrong.len(), 2, "{}", told(&wrong));
}
