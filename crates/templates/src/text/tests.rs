//! HTML in, text out.

use super::of_html;

fn check(html: &str, text: &str) {
    assert_eq!(of_html(html), text, "{html}");
}

#[test]
fn words_go_on_over_tags_and_blocks_begin_lines() {
    check("<p>over<b>all</b>, <i>you</i>.</p>", "overall, you.");
    check("<p>a</p><p>b</p>", "a\n\nb");
    check("<div>a</div><div>b</div>c", "a\nb\nc");
    check("<div><p>a</p></div><div>b</div>", "a\n\nb");
    check("a<br>b<br/><br>c", "a\nb\n\nc");
    check("  a \n\t b&nbsp;&nbsp;c  ", "a b c");
    check("<td>a<td>b<tr><th>c", "a\nb\nc");
    check("a<hr>b", &format!("a\n\n{}\n\nb", "-".repeat(38)));
    check("", "");
    check("<p> </p><p>&nbsp;</p>", "");
}

#[test]
fn headings_lists_and_quotes_have_their_marks() {
    check("<h1>A</h1><h3>B <b>c</b></h3>d", "# A\n\n### B c\n\nd");
    check("<h2></h2>a", "a");
    check("x<ul><li>a<li>b</li></ul>y", "x\n\n* a\n* b\n\ny");
    check("<ol start=9><li>a<li>b</ol>", "9. a\n10. b");
    check("<ul><li>a<ul><li>b</ul><li>c</ul>", "* a\n  * b\n* c");
    check("<ul><li><p>a</p><p>b</p></li></ul>", "* a\n\n  b");
    check("<blockquote>a<p>b</p></blockquote>c", "> a\n\n> b\n\nc");
    check("<pre>  a\n   b  c</pre>d", "  a\n   b  c\n\nd");
}

#[test]
fn links_are_notes_below_and_each_place_has_one() {
    let notes = "Read [this page][1] or [that][2].\n\n[1]: https://a.example/?x=1&y=2\n[2]: mailto:b@c.example";
    check(
        "<p>Read <a href=\"https://a.example/?x=1&amp;y=2\">this page</a> or <A class=x HREF='mailto:b@c.example'>that</A>.</p>",
        notes,
    );
    check("<a href=x>a</a> <a href=x>b</a>", "[a][1] [b][1]\n\n[1]: x");
    check("<a href=x><img src=y alt='Our logo'></a>", "[[Our logo]][1]\n\n[1]: x");
    check("<a href=x><img src=y></a>", "[1]\n\n[1]: x");
    check("<a href='#top'>up</a> <a name=x>here</a>", "up here");
    check("<a href=x>a<a href=y>b", "[a][1][b][2]\n\n[1]: x\n[2]: y");
}

#[test]
fn what_nobody_reads_is_left_out() {
    check("<head><title>t</title><style>p > a { x: 'y' }</style></head><p>a</p>", "a");
    check("<script>if (a < b) { '</p>' }</SCRIPT>a", "a");
    check(
        "<!-- <p>x</p> -->a<!--[if mso]><p>x</p><![endif]-->b<!--[if !mso]><!-->c<!--<![endif]-->",
        "abc",
    );
    check("<!DOCTYPE html><?xml x?>a", "a");
    check("a&#847;&zwnj;&shy;b", "ab");
    check("<style>a", "");
    check("<!-- a", "");
}

#[test]
fn what_is_no_tag_is_text() {
    check("1 < 2 and <3", "1 < 2 and <3");
    check("&lt;b&gt; &amp; é", "<b> & é");
    check("<p title=\"a > b\">c</p>", "c");
    check("<p title=it's>c</p>", "c");
    check("é<b>ü</b>", "éü");
    check("a<", "a<");
    check("a <b", "a");
    check("a <b title='x", "a");
}

#[test]
fn lines_are_as_wide_as_mail_is() {
    let long = of_html(&format!("<p>{}</p>", "word ".repeat(40)));
    let widths: Vec<usize> = long.lines().map(str::len).collect();
    assert_eq!(widths, [74, 74, 49]);
    let item = of_html(&format!("<ul><li>{}</ul>", "word ".repeat(20)));
    assert!(item.starts_with("* word"), "{item}");
    assert_eq!(item.lines().map(str::len).collect::<Vec<_>>(), [76, 26]);
    assert!(item.lines().nth(1).unwrap().starts_with("  word"), "{item}");
    let word = "x".repeat(200);
    check(&format!("a {word} b"), &format!("a\n{word}\nb"));
}

#[test]
fn neither_depth_nor_ends_that_end_nothing_matter() {
    for unit in [
        "<div>",
        "<ul><li>",
        "<blockquote>",
        "<h1>",
        "<pre>",
        "<b></i>",
        "</ul></li>",
        "<a href=x>",
    ] {
        let text = of_html(&format!("{}deep<br>down", unit.repeat(50_000)));
        assert!(text.contains("deep") && text.contains("down"), "{unit}");
        assert!(text.lines().all(|line| line.len() < 400_000), "{unit}");
    }
}
