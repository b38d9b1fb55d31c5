//! Versions of sequences on both engines.

mod looking;
mod putting;

use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_delivery::senders::{self, Add, NewSender};
use tidings_delivery::templates::{self, Content, TemplateKey, Then};
use tidings_people::consent::{audiences, topics};
use tidings_sql::DatabaseError;
use tidings_testbed::Bed;

use super::{Put, PutError, put};
use crate::definition::{Definition, from_json};

/// A client that can send, and templates `hello`, `bye` and `deal`.
pub(crate) async fn prepare(bed: &Bed) -> Cx {
    let cx = bed.cx().await;
    prepare_in(bed, &cx).await;
    cx
}

pub(crate) async fn prepare_in(bed: &Bed, cx: &Cx) {
    let sender = NewSender {
        slug: "team".parse().unwrap(),
        from_email: "team@example.org".parse().unwrap(),
        from_name: None,
        reply_to: None,
        is_default: true,
    };
    senders::add(cx, Add { client: bed.shop(cx).await.id, sender }).await.unwrap();
    for key in ["hello", "bye", "deal"] {
        make_template(cx, key, Then::Activate).await;
    }
}

pub(crate) async fn make_template(cx: &Cx, key: &str, then: Then) {
    let mut content = Content::default();
    content.source.subject = format!("This is {key}");
    content.source.text = Some("Text".to_owned());
    let cmd = templates::Put { key: key.parse::<TemplateKey>().unwrap(), content, then };
    templates::put(cx, cmd).await.unwrap();
}

pub(crate) async fn make_audience(cx: &Cx, slug: &str) {
    let create = audiences::Create {
        slug: slug.parse().unwrap(),
        name: slug.parse().unwrap(),
        double_opt_in: false,
        confirm_template_key: None,
    };
    audiences::create(cx, create).await.unwrap();
}

async fn make_topic(cx: &Cx, slug: &str) {
    let (slug, name) = (slug.parse().unwrap(), slug.parse().unwrap());
    topics::create(cx, topics::Create { slug, name, description: None }).await.unwrap();
}

/// A sequence of the shop that sends `hello`, but for what is said.
pub(crate) fn welcome(but: Value) -> Definition {
    let mut written = json!({
        "id": "welcome",
        "client": "shop",
        "trigger": { "event": "user.created" },
        "steps": [{ "send": "hello" }],
    });
    let Value::Object(but) = but else { panic!("an object") };
    written.as_object_mut().unwrap().extend(but);
    from_json(&written).unwrap()
}

pub(crate) async fn put_welcome(cx: &Cx, but: Value) -> Put {
    put(cx, welcome(but)).await.unwrap()
}

pub(crate) async fn rows(cx: &Cx, sql: &'static str) -> Vec<String> {
    let read = cx.database().read(move |tx| {
        let rows = tx.query(sql, &[])?;
        rows.iter().map(|row| row.text(0).map(str::to_owned)).collect()
    });
    read.await.map_err(|error: DatabaseError| error).unwrap()
}

fn faults(result: Result<Put, PutError>) -> Vec<String> {
    match result {
        Err(PutError::Faults(faults)) => faults.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}
