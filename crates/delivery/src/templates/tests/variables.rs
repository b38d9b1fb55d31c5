//! What a template knows of a person.

use serde_json::{Map, Value, json};
use tidings_access::Cx;
use tidings_kernel::{EmailAddress, Item, Put as PutItem, tables};
use tidings_people::contacts;
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::{Content, html, key, object, save, text};
use crate::templates::display_names::{self, DisplayNames};
use crate::templates::{
    Pick, Preview, PreviewError, Recipient, Stored, Templates, Which, missing, preview,
    variables_for,
};

each_store!(
    later_variables_win,
    the_stored_profile_counts_and_not_what_an_event_said,
    memory_and_features_are_loaded_where_they_are_named,
    what_an_address_does_not_say_another_of_the_person_does,
    required_variables_are_missing_when_empty,
    a_preview_is_what_a_contact_would_get,
    labels_stand_for_values,
    nothing_a_person_wrote_becomes_markup,
);

async fn stored(cx: &Cx, body: &str) -> std::sync::Arc<Stored> {
    let mut content = html("s", body);
    for name in ["plan", "planName", "a", "firstName"] {
        content.examples.insert(name.to_owned(), json!("example"));
    }
    content.required = vec!["plan".to_owned(), "order.id".to_owned()];
    save(cx, "t", content).await;
    Templates::default().active(cx, &key("t")).await.unwrap().unwrap()
}

async fn profile(cx: &Cx, email: &EmailAddress, attributes: Value) {
    let mut item = tables::MAIN.bare_item(&tidings_people::keys::profile(email));
    for (name, value) in object(attributes) {
        item.set(&name, serde_json::from_value::<tidings_kernel::Value>(value).unwrap());
    }
    put_item(cx, &tables::MAIN, item).await;
}

async fn put_item(cx: &Cx, table: &'static tidings_kernel::Table, item: Item) {
    cx.items().await.unwrap().put(PutItem::new(table, item)).await.unwrap();
}

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

async fn variables(cx: &Cx, template: &Stored, context: Value) -> Map<String, Value> {
    let (email, context) = (ada(), object(context));
    let recipient = Recipient {
        email: &email,
        context: &context,
        unsubscribe_url: Some("https://u"),
        preferences_url: None,
    };
    variables_for(cx, template, &recipient).await.unwrap()
}

async fn later_variables_win(bed: &Bed) {
    let cx = bed.cx().await;
    let template = stored(&cx, "x").await;
    let attributes = json!({"email": "ada@example.org", "firstName": "Ada", "plan": "pro", "unsubscribed": true,
        "suppressed": false, "n": 3, "createdAt": "2026-01-01T00:00:00.000Z", "currentYear": 1, "unsubscribeUrl": "https://evil"});
    profile(&cx, &ada(), attributes).await;
    let all = variables(&cx, &template, json!({"plan": "free", "email": "x"})).await;
    assert_eq!(
        Value::Object(all),
        json!({"currentYear": 2026, "email": "x", "firstName": "Ada", "n": 3, "plan": "free", "unsubscribeUrl": "https://u"})
    );
}

async fn the_stored_profile_counts_and_not_what_an_event_said(bed: &Bed) {
    let cx = bed.cx().await;
    let template = stored(&cx, "Hi {{ firstName }}").await;
    profile(&cx, &ada(), json!({"firstName": "Stored"})).await;
    let all = variables(&cx, &template, json!({})).await;
    assert_eq!(template.render(&all).unwrap().html.unwrap(), "Hi Stored");
    // Somebody without a profile has no name, and gets his mail.
    let (nobody, context) = ("bob@example.org".parse().unwrap(), Map::new());
    let recipient = Recipient {
        email: &nobody,
        context: &context,
        unsubscribe_url: None,
        preferences_url: None,
    };
    let all = variables_for(&cx, &template, &recipient).await.unwrap();
    assert_eq!(template.render(&all).unwrap().html.unwrap(), "Hi ");
}

async fn memory_and_features_are_loaded_where_they_are_named(bed: &Bed) {
    let cx = bed.cx().await;
    let within = cx.clone();
    let made = cx.database().write(move |tx| {
        contacts::ensure(tx, &within, &ada())?;
        let rows = tx.query("SELECT id FROM lead_organizations", &[])?;
        rows[0].int(0)
    });
    let lead = made.await.unwrap().to_string();
    // Nothing has happened yet.
    let template = stored(&cx, "{{ features.has_purchased }} {{ features.recency_days }}").await;
    let all = variables(&cx, &template, json!({})).await;
    assert_eq!(template.render(&all).unwrap().html.unwrap(), "false ");
    let memory = Item::new()
        .with("lead_organization_id", lead.as_str())
        .with("memory_type#key", "topic#x")
        .with("value", "chess");
    put_item(&cx, &tables::MEMORY, memory).await;
    let numbers = std::collections::BTreeMap::from([("score".to_owned(), 7.into())]);
    let feature = Item::new().with("lead_organization_id", lead.as_str()).with("features", numbers);
    put_item(&cx, &tables::FEATURE, feature).await;
    let template =
        stored(&cx, "{{ memory.topic.x }} {{ features.score }} {{ features.none }}").await;
    let all = variables(&cx, &template, json!({})).await;
    assert_eq!(template.render(&all).unwrap().html.unwrap(), "chess 7 ");
    let template = stored(&cx, "nothing of it").await;
    let all = variables(&cx, &template, json!({})).await;
    assert!(!all.contains_key("memory") && !all.contains_key("features"));
    // The last is seen too, however much is remembered.
    for number in 0..600 {
        let memory = Item::new()
            .with("lead_organization_id", lead.as_str())
            .with("memory_type#key", format!("purchase#{number:03}"))
            .with("value", "x".repeat(2_000));
        put_item(&cx, &tables::MEMORY, memory).await;
    }
    let template = stored(&cx, "{{ memory.topic.x }}").await;
    let all = variables(&cx, &template, json!({})).await;
    assert_eq!(template.render(&all).unwrap().html.unwrap(), "chess");
}

/// He has become one with others: each address keeps its profile, and says first what the mail to it says.
async fn what_an_address_does_not_say_another_of_the_person_does(bed: &Bed) {
    let cx = bed.cx().await;
    let [ada, eva, eve] = ["ada", "eva", "eve"].map(|name| format!("{name}@example.org"));
    let emails = [&ada, &eva, &eve].map(|text| text.parse::<EmailAddress>().unwrap());
    let (within, his) = (cx.clone(), emails.clone());
    let made = cx.database().write(move |tx| {
        let contact = contacts::ensure(tx, &within, &his[0])?;
        for email in &his[1..] {
            assert!(contacts::attach(tx, &within, contact, email.into())?);
        }
        Ok::<_, DatabaseError>(())
    });
    made.await.unwrap();
    let [ada, eva, eve] = emails;
    profile(&cx, &ada, json!({"plan": "pro", "unset": null, "tags": ["vip"]})).await;
    let second = json!({"firstName": "Eva", "plan": "free", "unset": 7, "zone": null, "tags": ["old", "vip"]});
    profile(&cx, &eva, second).await;
    profile(&cx, &eve, json!({"firstName": "Eve", "zone": "north"})).await;
    let all =
        "{{ email }} {{ firstName }} {{ plan }} {{ unset }} {{ zone }} {{ tags | join: '+' }}";
    let mut content = html("s", all);
    for name in ["plan", "unset", "zone"] {
        content.examples.insert(name.to_owned(), json!("example"));
    }
    save(&cx, "all", content).await;
    let template = Templates::default().active(&cx, &key("all")).await.unwrap().unwrap();
    let rendered = async |email: &EmailAddress, context: Value| {
        let context = object(context);
        let recipient =
            Recipient { email, context: &context, unsubscribe_url: None, preferences_url: None };
        let all = variables_for(&cx, &template, &recipient).await.unwrap();
        template.render(&all).unwrap().html.unwrap()
    };
    assert_eq!(rendered(&ada, json!({})).await, "ada@example.org Eva pro 7 north old+vip");
    assert_eq!(rendered(&eva, json!({})).await, "eva@example.org Eva free 7 north old+vip");
    assert_eq!(rendered(&eve, json!({})).await, "eve@example.org Eve pro 7 north old+vip");
    let said = json!({"firstName": "A", "plan": "b", "tags": ["c"]});
    assert_eq!(rendered(&ada, said).await, "ada@example.org A b 7 north c");
    // Where his own address says all that is named, nobody looks at the others.
    let template = stored(&cx, "{{ plan }}").await;
    let all = variables(&cx, &template, json!({"order": {"id": 1}})).await;
    assert_eq!((all.get("plan"), all.get("zone")), (Some(&json!("pro")), None));
    // What is required and named nowhere is looked for too.
    let template = stored(&cx, "{{ a }}").await;
    profile(&cx, &ada, json!({"a": 1})).await;
    let all = variables(&cx, &template, json!({"order": {"id": 1}})).await;
    assert!(missing(&template, &all).is_empty(), "{all:?}");
}

async fn required_variables_are_missing_when_empty(bed: &Bed) {
    let template = stored(&bed.cx().await, "x").await;
    let check = |given: Value, expected: &[&str]| {
        assert_eq!(missing(&template, &object(given)), expected);
    };
    check(json!({}), &["plan", "order.id"]);
    check(json!({"plan": " ", "order": {"id": null}}), &["plan", "order.id"]);
    check(json!({"plan": "pro", "order": "x"}), &["order.id"]);
    check(json!({"plan": false, "order": {"id": 0}}), &[]);
}

async fn a_preview_is_what_a_contact_would_get(bed: &Bed) {
    let cx = bed.cx().await;
    let _ = stored(&cx, "{{ firstName }} {{ plan }} {{ a }} {{ unsubscribeUrl }}").await;
    profile(&cx, &ada(), json!({"firstName": "Ada"})).await;
    let cmd = |email: Option<EmailAddress>, pick: Pick| Preview {
        template: Which { key: key("t"), pick },
        as_contact: email,
        variables: object(json!({"plan": "pro"})),
    };
    let made = preview(&cx, cmd(Some(ada()), Pick::Active)).await.unwrap();
    let html = made.rendered.html.unwrap();
    assert_eq!(html, "Ada pro example https://example.com/unsubscribe");
    assert_eq!(made.missing, ["order.id"]);
    let made = preview(&cx, cmd(None, Pick::Latest)).await.unwrap();
    assert!(made.rendered.html.unwrap().starts_with("example pro"));
    let refused = preview(&cx, cmd(None, Pick::Number(2))).await.unwrap_err();
    assert!(matches!(refused, PreviewError::Missing(_)));
}

async fn labels_stand_for_values(bed: &Bed) {
    let cx = bed.cx().await;
    assert_eq!(display_names::get(&cx).await.unwrap(), DisplayNames::default());
    let labels = json!({"planName": {"pro": "Professional"}, "nName": {"3": "Three"}, "otherName": {"x": "X"}});
    let names = DisplayNames::parse(object(labels)).unwrap();
    display_names::set(&cx, &names).await.unwrap();
    assert_eq!(display_names::get(&cx).await.unwrap(), names);
    let template = stored(&cx, "x").await;
    profile(&cx, &ada(), json!({"plan": "pro", "n": 3})).await;
    let all = variables(&cx, &template, json!({})).await;
    assert_eq!((all.get("planName"), all.get("nName")), (Some(&json!("Professional")), None));
    profile(&cx, &ada(), json!({"plan": "unknown"})).await;
    let all = variables(&cx, &template, json!({})).await;
    assert_eq!((all.get("planName"), all.get("otherName")), (Some(&json!("unknown")), None));
    let of = |all: &Map<String, Value>| all.get("planName").cloned();
    let said = variables(&cx, &template, json!({"plan": "pro"})).await;
    assert_eq!(of(&said), Some(json!("Professional")), "of what the message says");
    let said = variables(&cx, &template, json!({"plan": "pro", "planName": "Ours"})).await;
    assert_eq!(of(&said), Some(json!("Ours")));
    let faults = DisplayNames::parse(object(json!({"plan": {}, "aName": 1, "bName": {"x": 2}})));
    let fields: Vec<String> = faults.unwrap_err().into_iter().map(|fault| fault.field).collect();
    assert_eq!(fields, ["aName", "bName.x", "plan"]);
}

/// What seeds 000 and 003 got wrong: values stood raw in the HTML, and the text part was empty.
async fn nothing_a_person_wrote_becomes_markup(bed: &Bed) {
    let cx = bed.cx().await;
    let template = stored(&cx, "<p>Hi {{ firstName }}</p>").await;
    let name = "<script>alert(1)</script>";
    profile(&cx, &ada(), json!({"firstName": name})).await;
    let all = variables(&cx, &template, json!({})).await;
    let made = template.render(&all).unwrap();
    assert_eq!(made.html.unwrap(), "<p>Hi &lt;script&gt;alert(1)&lt;/script&gt;</p>");
    assert_eq!(made.text, format!("Hi {name}"));
    let content = Content { ..text("{{ firstName }}", "x") };
    save(&cx, "s", content).await;
    let subject = Templates::default().active(&cx, &key("s")).await.unwrap().unwrap();
    let all = object(json!({"firstName": "Eve\r\nBcc: all@example.org"}));
    assert_eq!(subject.render(&all).unwrap().subject, "Eve  Bcc: all@example.org");
}
