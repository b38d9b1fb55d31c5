//! The page says what the document says.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Docs, anchor, page};

fn small() -> Value {
    json!({
        "info": {"title": "Tidings", "description": "First.\n\nThen `next`."},
        "paths": {"/v1/notes/{slug}": {"put": {
            "tags": ["Notes"],
            "summary": "Write a <note>",
            "description": "Needs the scope `manage`.",
            "parameters": [{"name": "slug", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 40}}],
            "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewNote"}}}},
            "responses": {"200": {"description": "It is written", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewNote"}}}}}
        }}},
        "components": {"schemas": {"NewNote": {
            "type": "object",
            "required": ["title"],
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": 100, "example": "It's new"},
                "tags": {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": 3}
            }
        }}}
    })
}

#[test]
fn an_operation_is_told_with_everything_that_it_takes_and_answers() {
    let page = page(&small()).into_string();
    let shown = page.split_once("<main>").unwrap().1;
    assert_snapshot!(shown.replace("><", ">\n<"));
}

#[test]
fn every_route_and_schema_is_on_the_page_and_every_link_leads_somewhere() {
    let openapi = crate::openapi();
    let document: Value = serde_json::from_str(&openapi).unwrap();
    let page = String::from_utf8(Docs::new(&openapi).page.to_vec()).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, described) in methods.as_object().unwrap() {
            let id = format!("<article id=\"{}\">", anchor(&format!("{method} {path}")));
            assert!(page.contains(&id), "{method} {path}");
            assert!(page.contains(described["summary"].as_str().unwrap()), "{method} {path}");
        }
    }
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(!page.contains("<script") && !page.contains("src="), "nothing but text and style");
}
