//! Templates as their authors and senders meet them.

mod crash;
mod store;
mod variables;

use serde_json::{Map, Value, json};
use tidings_access::Cx;
use tidings_templates::{Fault, Source};
use tidings_testbed::Bed;

use super::{Content, Put, PutError, PutOutcome, TemplateKey, Then, put};

fn key(text: &str) -> TemplateKey {
    text.parse().unwrap()
}

fn object(json: Value) -> Map<String, Value> {
    let Value::Object(map) = json else { panic!("an object is needed") };
    map
}

fn text(subject: &str, body: &str) -> Content {
    Content {
        source: Source {
            subject: subject.to_owned(),
            text: Some(body.to_owned()),
            ..Source::default()
        },
        examples: object(json!({"a": 1})),
        ..Content::default()
    }
}

fn html(subject: &str, body: &str) -> Content {
    let mut content = text(subject, "");
    content.source.text = None;
    content.source.html = Some(body.to_owned());
    content
}

async fn save(cx: &Cx, name: &str, content: Content) -> PutOutcome {
    put(cx, Put { key: key(name), content, then: Then::Activate }).await.unwrap()
}

async fn draft(cx: &Cx, name: &str, content: Content) -> PutOutcome {
    put(cx, Put { key: key(name), content, then: Then::KeepAsDraft }).await.unwrap()
}

fn told(error: PutError) -> String {
    match error {
        PutError::Faults(faults) => {
            faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
        }
        other => panic!("{other}"),
    }
}

async fn dump(bed: &Bed, name: &str) -> Vec<String> {
    use tidings_kernel::{Query, tables};
    let items = bed.cx().await.items().await.unwrap();
    let query = Query::new(&tables::EMAIL_TRACKING, format!("TEMPLATE#{name}"));
    let found = items.query(query).await.unwrap().items;
    let line = |item: &tidings_kernel::Item| {
        let number = |name: &str| item.integer(name).map_or("-".to_owned(), |n| n.to_string());
        let text = |name: &str| item.text(name).unwrap_or("-").to_owned();
        format!(
            "{} {} {} active={} latest={}",
            text("SK"),
            text("GSI1PK"),
            text("status"),
            number("active_version"),
            number("latest_version")
        )
    };
    found.iter().map(line).collect()
}
