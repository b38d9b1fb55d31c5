//! What people put into their names does not become markup.

use serde_json::json;

use super::{html, rendered, text};

fn check(source: &str, expected: &str) {
    let data = json!({
        "name": "<b>Ada</b>", "url": "https://a.example/?x=1&y=\"2'", "lines": "a\n<i>",
        "list": ["<x>"], "object": {"k": "<v>"},
    });
    assert_eq!(rendered(&html(source), data).html.unwrap(), expected, "{source}");
}

#[test]
fn output_in_html_is_escaped_unless_the_author_says_otherwise() {
    check("{{ name }}", "&lt;b&gt;Ada&lt;/b&gt;");
    check("{{ name | raw }}", "<b>Ada</b>");
    check("{{ name | escape }}", "&lt;b&gt;Ada&lt;/b&gt;");
    check("{{ name | escape | escape }}", "&lt;b&gt;Ada&lt;/b&gt;");
    check("{{ name | escape_once }}", "&lt;b&gt;Ada&lt;/b&gt;");
    check("{{ '&amp; &' | escape_once }}", "&amp; &amp;");
    check("{{ name | raw | upcase }}", "&lt;B&gt;ADA&lt;/B&gt;");
    check("{{ name | default: 'x' }}", "&lt;b&gt;Ada&lt;/b&gt;");
    check("{{ '<i>' }}", "&lt;i&gt;");
    check("{{ list }}{{ object }}", "&lt;x&gt;{&quot;k&quot;:&quot;&lt;v&gt;&quot;}");
    check(
        "{% for x in list %}{{ x }}{% endfor %}{% cycle name %}{% echo name %}",
        "&lt;x&gt;&lt;b&gt;Ada&lt;/b&gt;&lt;b&gt;Ada&lt;/b&gt;",
    );
    check("{% assign x = name | raw %}{{ x }}", "<b>Ada</b>");
}

#[test]
fn quotes_cannot_leave_an_attribute() {
    check(
        "<a href=\"{{ url }}\">x</a>",
        "<a href=\"https://a.example/?x=1&amp;y=&quot;2&#39;\">x</a>",
    );
}

#[test]
fn what_was_captured_is_markup_with_escaped_values() {
    check(
        "{% capture c %}<p>{{ name }}</p>{% endcapture %}{{ c }}",
        "<p>&lt;b&gt;Ada&lt;/b&gt;</p>",
    );
    check(
        "{% capture c %}<p>{% endcapture %}{{ c | append: name }}",
        "&lt;p&gt;&lt;b&gt;Ada&lt;/b&gt;",
    );
}

#[test]
fn line_breaks_become_markup_and_nothing_else_does() {
    check("{{ lines | newline_to_br }}", "a<br />\n&lt;i&gt;");
    check("{{ lines | escape | newline_to_br }}", "a<br />\n&lt;i&gt;");
}

#[test]
fn text_and_subject_are_not_html() {
    let mut source = text("{{ name }} & <co>");
    source.subject = "{{ name }}".to_owned();
    let made = rendered(&source, json!({"name": "<A & B>"}));
    assert_eq!((made.text.as_str(), made.subject.as_str()), ("<A & B> & <co>", "<A & B>"));
}

#[test]
fn a_subject_is_one_line() {
    let mut source = text("x");
    source.subject = "Hi {{ name }}\n".to_owned();
    let made = rendered(&source, json!({"name": "Ada\r\nBcc: eve@example.org"}));
    assert_eq!(made.subject, "Hi Ada  Bcc: eve@example.org");
}
