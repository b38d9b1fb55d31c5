//! Which links are rewritten, and what becomes of them.

use crate::track;

fn tracked(html: &str, pixel: Option<&str>) -> (String, Vec<String>) {
    let mut asked = Vec::new();
    let html = track(
        html,
        &mut |url| {
            asked.push(url.to_owned());
            (!url.contains("unsubscribe"))
                .then(|| format!("https://t.example/c?n={}&k=1", asked.len()))
        },
        pixel,
    );
    (html, asked)
}

#[test]
fn links_to_the_web_are_rewritten() {
    let (html, asked) = tracked(
        "<p><a class=\"x\" href=\"https://a.example/?a=1&amp;b=2\">a</a> <A HREF='HTTP://b.example'>b</A></p>",
        None,
    );
    assert_eq!(asked, ["https://a.example/?a=1&b=2", "HTTP://b.example"]);
    insta::assert_snapshot!(html, @r#"<p><a class="x" href="https://t.example/c?n=1&amp;k=1">a</a> <A HREF="https://t.example/c?n=2&amp;k=1">b</A></p>"#);
}

#[test]
fn other_links_stay_as_they_are() {
    let html = "<a href=\"mailto:a@b.example\">m</a><a href=\"tel:1\">t</a><a href=\"#x\">f</a><a href=\"/rel\">r</a>\
                <a name=\"n\">n</a><link href=\"https://l.example\"><img src=\"https://i.example\">";
    assert_eq!(tracked(html, None), (html.to_owned(), Vec::new()));
    let (html, asked) = tracked("<a data-no-track href=\"https://a.example\">a</a>", None);
    assert_eq!((html.as_str(), asked.len()), ("<a href=\"https://a.example\">a</a>", 0));
    let kept = "<a href=\"https://t.example/unsubscribe?a=1&amp;b=2\">u</a>";
    assert_eq!(tracked(kept, None).0, kept);
}

#[test]
fn an_address_cannot_leave_its_attribute() {
    let html = track(
        "<a href=\"https://a.example\">a</a>",
        &mut |_| Some("https://t/\"><script>".to_owned()),
        None,
    );
    assert_eq!(html, "<a href=\"https://t/&quot;&gt;&lt;script&gt;\">a</a>");
}

#[test]
fn the_pixel_stands_at_the_end_of_the_body() {
    let pixel = Some("https://t.example/o?a=1&b=2");
    let image = "<img src=\"https://t.example/o?a=1&amp;b=2\" width=\"1\" height=\"1\" alt=\"\" style=\"display:block;border:0\">";
    assert_eq!(tracked("<BODY>x</BODY></html>", pixel).0, format!("<BODY>x{image}</BODY></html>"));
    assert_eq!(tracked("x", pixel).0, format!("x{image}"));
}
