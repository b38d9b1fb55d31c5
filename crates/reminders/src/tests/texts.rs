//! Templates of reminders: their variables, their versions, and what is missing.

use serde_json::json;
use tidings_delivery::templates as mails;
use tidings_testbed::{Bed, each_store};

use super::world::{World, new};
use crate::templates::{self, GetError, Put, PutError};
use crate::{Choose, ContentType, DraftError, Kind, Text, draft};

each_store!(
    a_template_says_what_is_owed,
    what_nobody_gives_is_told_and_nothing_is_drafted,
    a_version_never_changes_and_the_newest_is_active,
    templates_of_mails_in_the_same_table_are_none_of_ours,
);

fn put(id: &str, kind: Option<Kind>, subject: &str, body: &str) -> Put {
    Put {
        id: id.to_owned(),
        name: "First Reminder Template".to_owned(),
        kind,
        subject: subject.to_owned(),
        body: body.to_owned(),
        content_type: ContentType::Text,
        branding: Some("innovate_ai".to_owned()),
    }
}

async fn a_template_says_what_is_owed(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let body = "Dear {{ customer_name }},\nplease pay {{ overdue_amount }} {{ currency }} ({{ amount_due }}):\n\
                {% for one in invoices %}{{ one.id }} of {{ one.due }}: {{ one.amount }}\n{% endfor %}\
                Due {{ due_date }}, {{ days_overdue }} days ago. {{ note }} {{ customer_id }}";
    let subject = "Payment Reminder: Invoice {{invoice_id}} - Innovate AI";
    templates::put(&cx, put("reminder_first", Some(Kind::First), subject, body)).await.unwrap();
    let mut of = new("c1", Choose::Next);
    of.customer.name = "Doe & Sons <{{ x }}>".to_owned();
    let variables = json!({ "note": "Thanks.", "customer_id": "somebody else" });
    let variables = variables.as_object().cloned().unwrap();
    of.text = Text::Template { id: "reminder_first".to_owned(), variables };
    let made = draft(&cx, of).await.unwrap().draft;
    assert_eq!(made.subject.as_deref(), Some("Payment Reminder: Invoice c1-1 - Innovate AI"));
    insta::allow_duplicates! {
        insta::assert_snapshot!(made.content.as_deref().unwrap(), @"
        Dear Doe & Sons <{{ x }}>,
        please pay 1500.00 EUR (1500.00 EUR):
        c1-1 of 2026-06-15: 1000.00
        c1-2 of 2026-06-15: 500.00
        Due 2026-06-15, 16 days ago. Thanks. c1
        ");
    }
    assert_eq!(made.template.unwrap().version, 1);
    let mut of = new("c2", Choose::Next);
    of.text = Text::DefaultTemplate;
    let Err(DraftError::Invalid(wrong)) = draft(&cx, of).await else { panic!() };
    assert_eq!(wrong[0].field, "variables.note");
    let nothing = serde_json::Map::new();
    let preview = templates::preview(&cx, "reminder_first", Kind::First, None, &nothing);
    let preview = preview.await.unwrap();
    assert_eq!(preview.missing, ["note"]);
    assert!(preview.content.contains("1500.00 EUR"), "{}", preview.content);
}

async fn what_nobody_gives_is_told_and_nothing_is_drafted(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    templates::put(&cx, put("t", None, "{{ a }}", "{{ b.c }} {{ due_date }}")).await.unwrap();
    let mut of = new("c1", Choose::Next);
    for invoice in &mut of.facts.invoices {
        invoice.due = None;
    }
    of.text = Text::Template { id: "t".to_owned(), variables: serde_json::Map::new() };
    let Err(DraftError::Invalid(wrong)) = draft(&cx, of).await else { panic!() };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    assert!(
        ["variables.a", "variables.b.c", "variables.due_date"]
            .iter()
            .all(|one| fields.contains(one)),
        "{fields:?}"
    );
    templates::put(&cx, put("final", Some(Kind::Final), "s", "b")).await.unwrap();
    for id in ["nowhere", "final", "NO SUCH ID"] {
        let mut of = new("c1", Choose::Next);
        of.text = Text::Template { id: id.to_owned(), variables: serde_json::Map::new() };
        let Err(DraftError::Invalid(wrong)) = draft(&cx, of).await else { panic!("{id}") };
        assert_eq!(wrong[0].field, "template");
    }
    assert!(world.items().await.iter().all(|item| item.text("content_hash").is_none()));
    let bad = put("Bad id", None, "{{ a ", "{% if %}");
    let Err(PutError::Invalid(wrong)) = templates::put(&cx, bad).await else { panic!() };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["id", "subject", "body"]);
}

async fn a_version_never_changes_and_the_newest_is_active(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    for version in 1..=11 {
        let made =
            templates::put(&cx, put("t", None, "s", &format!("body {version}"))).await.unwrap();
        assert_eq!(made.version, version);
    }
    let same = templates::put(&cx, put("t", None, "s", "body 11")).await.unwrap();
    assert_eq!(same.version, 11);
    let versions: Vec<_> = templates::versions(&cx, "t")
        .await
        .unwrap()
        .iter()
        .map(|one| (one.version, one.active))
        .collect();
    assert_eq!((versions[0], versions[1], versions.len()), ((11, true), (10, false), 11));
    assert_eq!(templates::get(&cx, "t", None).await.unwrap().body, "body 11");
    assert_eq!(templates::get(&cx, "t", Some(3)).await.unwrap().body, "body 3");
    assert!(matches!(templates::get(&cx, "t", Some(12)).await, Err(GetError::Missing(_))));
    assert_eq!(templates::list(&cx).await.unwrap().len(), 1);
    let items = world.items().await;
    let item = items.iter().find(|item| item.text("SK") == Some("VERSION#11")).unwrap();
    for (name, value) in [
        ("PK", "TEMPLATE#t"),
        ("GSI1PK", "STATUS#active"),
        ("GSI1SK", "2026-07-01T12:00:00Z"),
        ("template_id", "t"),
        ("template_name", "First Reminder Template"),
        ("template_type", "any"),
        ("subject_template", "s"),
        ("body_template", "body 11"),
        ("status", "active"),
        ("created_date", "2026-07-01T12:00:00Z"),
        ("branding", "innovate_ai"),
    ] {
        assert_eq!(item.text(name), Some(value), "{name}");
    }
    let puts = (0..4).map(|n| templates::put(&cx, put("race", None, "s", &format!("body {n}"))));
    let mut made: Vec<_> = futures_util::future::join_all(puts)
        .await
        .into_iter()
        .map(|one| one.unwrap().version)
        .collect();
    made.sort_unstable();
    assert_eq!(made, [1, 2, 3, 4]);
    let active =
        templates::versions(&cx, "race").await.unwrap().iter().filter(|one| one.active).count();
    assert_eq!(active, 1);
}

async fn templates_of_mails_in_the_same_table_are_none_of_ours(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    for (key, then) in [("welcome", mails::Then::Activate), ("idea", mails::Then::KeepAsDraft)] {
        let mut content = mails::Content::default();
        content.source.subject = "Welcome".to_owned();
        content.source.text = Some("Hello".to_owned());
        let put = mails::Put { key: key.parse().unwrap(), content, then };
        mails::put(&cx, put).await.unwrap();
    }
    templates::put(&cx, put("ours", None, "s", "b")).await.unwrap();
    let ids: Vec<_> = templates::list(&cx).await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["ours"]);
    let taken = templates::put(&cx, put("welcome", None, "s", "b")).await;
    assert!(matches!(taken, Err(PutError::Invalid(wrong)) if wrong[0].field == "id"));
    // Nor the other way round.
    let mut content = mails::Content::default();
    content.source.subject = "Ours".to_owned();
    content.source.text = Some("Hello".to_owned());
    let put = mails::Put { key: "ours".parse().unwrap(), content, then: mails::Then::Activate };
    let taken = mails::put(&cx, put).await;
    assert!(
        matches!(taken, Err(mails::PutError::Faults(faults)) if faults[0].message.contains("reminders"))
    );
    assert!(matches!(templates::get(&cx, "welcome", Some(1)).await, Err(GetError::Missing(_))));
    let all = crate::Listing { limit: 100, cursor: None };
    assert!(crate::pending(&cx, all).await.unwrap().items.is_empty());
}
