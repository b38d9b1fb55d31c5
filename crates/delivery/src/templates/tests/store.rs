//! Versions, which of them is active, and who meets whom.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tidings_access::Limit;
use tidings_kernel::{Query, tables};
use tidings_testbed::{Bed, each_store};

use super::{draft, dump, html, key, object, save, text, told};
use crate::templates::{
    Activate, ActivateError, Content, MAX_STORED, Pick, Put, Status, Templates, Then, activate,
    compare, deactivate, find, list, put, validate, versions,
};

each_store!(
    a_version_is_the_item_of_the_seed,
    the_same_content_again_is_the_same_version,
    one_version_is_active,
    racing_puts_get_a_version_each,
    racing_activations_leave_one_active,
    a_version_keeps_its_partials,
    lists_come_in_pages,
    another_workspace_has_its_own,
    faults_write_nothing,
    what_was_put_comes_back,
    an_item_must_fit,
    a_key_that_reminders_have_is_refused_before_anything_is_written,
);

async fn a_key_that_reminders_have_is_refused_before_anything_is_written(bed: &Bed) {
    let cx = bed.cx().await;
    let mut theirs = tables::EMAIL_TRACKING.bare_item(&key("first").version(1));
    theirs.set("content_type", "text");
    let theirs = tidings_kernel::Put::new(&tables::EMAIL_TRACKING, theirs);
    cx.items().await.unwrap().put(theirs).await.unwrap();
    let wanted = || Put { key: key("first"), content: text("s", "x"), then: Then::Activate };
    let looked = compare(&cx, &wanted(), &BTreeMap::new()).await.unwrap_err();
    assert!(told(looked).contains("a template of reminders has this name"));
    let refused = put(&cx, wanted()).await.unwrap_err();
    assert!(told(refused).contains("a template of reminders has this name"));
}

async fn a_version_is_the_item_of_the_seed(bed: &Bed) {
    let cx = bed.cx().await;
    let content = Content {
        name: Some("First Reminder Template".to_owned()),
        kind: Some("first_reminder".to_owned()),
        required: vec!["invoice_id".to_owned()],
        ..html("Payment Reminder: {{invoice_id}}", "<p>Dear {{ firstName }}</p>")
    };
    save(&cx, "reminder_first", content).await;
    let items = cx.items().await.unwrap();
    let item = items.get(&tables::EMAIL_TRACKING, &key("reminder_first").version(1)).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&item.unwrap()).unwrap());
    let active = Query::new(&tables::EMAIL_TRACKING, "STATUS#active").index("GSI1");
    assert_eq!(items.query(active).await.unwrap().items.len(), 1);
}

async fn the_same_content_again_is_the_same_version(bed: &Bed) {
    let cx = bed.cx().await;
    let first = draft(&cx, "a", text("s", "one")).await;
    assert_eq!((first.version, first.created, first.status), (1, true, Status::Draft));
    let again = draft(&cx, "a", text("s", "one")).await;
    assert_eq!((again.version, again.created, again.status), (1, false, Status::Draft));
    let active = save(&cx, "a", text("s", "one")).await;
    assert_eq!((active.version, active.created, active.status), (1, false, Status::Active));
    let other = save(&cx, "a", text("s", "two")).await;
    assert_eq!((other.version, other.created), (2, true));
    // Back to what it was: that is new again, because the newest is different.
    assert_eq!(save(&cx, "a", text("s", "one")).await.version, 3);
}

async fn one_version_is_active(bed: &Bed) {
    let cx = bed.cx().await;
    save(&cx, "a", text("s", "one")).await;
    draft(&cx, "a", text("s", "two")).await;
    let templates = Templates::default();
    let body = async |templates: &Templates| {
        let stored = templates.active(&cx, &key("a")).await.unwrap()?;
        Some(stored.render(&object(json!({}))).unwrap().text)
    };
    assert_eq!(body(&templates).await.as_deref(), Some("one"));
    activate(&cx, Activate { key: key("a"), version: 2 }).await.unwrap();
    assert_eq!(body(&templates).await.as_deref(), Some("two"));
    activate(&cx, Activate { key: key("a"), version: 1 }).await.unwrap();
    activate(&cx, Activate { key: key("a"), version: 1 }).await.unwrap();
    assert_eq!(body(&templates).await.as_deref(), Some("one"));
    assert_eq!(
        dump(bed, "a").await,
        [
            "CURRENT TEMPLATES - active=1 latest=2",
            "VERSION#1 STATUS#active active active=- latest=-",
            "VERSION#2 STATUS#inactive inactive active=- latest=-",
        ]
    );
    deactivate(&cx, key("a")).await.unwrap();
    deactivate(&cx, key("a")).await.unwrap();
    assert_eq!(body(&templates).await, None);
    // What was promised to go out still can.
    assert!(templates.version(&cx, &key("a"), 1).await.unwrap().is_some());
    let refused = activate(&cx, Activate { key: key("a"), version: 3 }).await.unwrap_err();
    assert!(matches!(refused, ActivateError::NoVersion(_, 3)));
    let refused = activate(&cx, Activate { key: key("b"), version: 1 }).await.unwrap_err();
    assert!(matches!(refused, ActivateError::Missing(_)));
}

async fn racing_puts_get_a_version_each(bed: &Bed) {
    let cx = bed.cx().await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let cx = cx.clone();
        tasks.spawn(async move { save(&cx, "a", text("s", &format!("body {n}"))).await.version });
    }
    let versions: BTreeSet<i64> = tasks.join_all().await.into_iter().collect();
    assert_eq!(versions, (1..=6).collect());
    let items = dump(bed, "a").await;
    assert_eq!(items.iter().filter(|line| line.contains("STATUS#active")).count(), 1, "{items:?}");
    assert_eq!(items[0], "CURRENT TEMPLATES - active=6 latest=6");
}

async fn racing_activations_leave_one_active(bed: &Bed) {
    let cx = bed.cx().await;
    for n in 1..=4 {
        draft(&cx, "a", text("s", &format!("body {n}"))).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for version in 1..=4 {
        let cx = cx.clone();
        tasks.spawn(async move { activate(&cx, Activate { key: key("a"), version }).await });
    }
    for done in tasks.join_all().await {
        done.unwrap();
    }
    let items = dump(bed, "a").await;
    let active: Vec<&String> = items.iter().filter(|line| line.contains("STATUS#active")).collect();
    assert_eq!(active.len(), 1, "{items:?}");
    let number = active[0].strip_prefix("VERSION#").unwrap().split(' ').next().unwrap();
    assert_eq!(items[0], format!("CURRENT TEMPLATES - active={number} latest=4"));
}

async fn a_version_keeps_its_partials(bed: &Bed) {
    let cx = bed.cx().await;
    let partial = |body: &str| Content { ..html("", body) };
    save(&cx, "partials/year", partial("{{ currentYear }}")).await;
    save(&cx, "partials/footer", partial("-- {{ company }} {% include 'year' %}")).await;
    let mut content = html("s", "x {% include 'footer' %}");
    content.examples.insert("company".to_owned(), json!("Acme"));
    save(&cx, "a", content.clone()).await;
    save(&cx, "partials/footer", partial("++ {{ company }}")).await;
    let sendable = Templates::default().active(&cx, &key("partials/footer")).await.unwrap();
    assert!(sendable.is_none(), "a partial is no mail");
    let render = async |version: i64| {
        let stored = Templates::default().version(&cx, &key("a"), version).await.unwrap().unwrap();
        stored.render(&object(json!({"company": "B", "currentYear": 2026}))).unwrap().html.unwrap()
    };
    assert_eq!(render(1).await, "x -- B 2026");
    // With the new footer the same text is a new version.
    let again = save(&cx, "a", content).await;
    assert_eq!((again.version, again.created), (2, true));
    assert_eq!((render(1).await, render(2).await), ("x -- B 2026".into(), "x ++ B".into()));
}

async fn lists_come_in_pages(bed: &Bed) {
    let cx = bed.cx().await;
    for name in ["b/two", "a", "b/one", "c"] {
        save(&cx, name, text("s", name)).await;
    }
    for n in 1..=2 {
        draft(&cx, "a", text("s", &format!("more {n}"))).await;
    }
    let two = Limit::try_from(2).unwrap();
    let keys = async |prefix: Option<&str>, after: Option<&str>| {
        let page = list(&cx, prefix, after.map(key), two).await.unwrap();
        let keys: Vec<String> = page.items.iter().map(|one| one.key.to_string()).collect();
        format!("{} next={}", keys.join(","), page.next.map_or("-".into(), |key| key.to_string()))
    };
    assert_eq!(keys(None, None).await, "a,b/one next=b/one");
    assert_eq!(keys(None, Some("b/one")).await, "b/two,c next=-");
    assert_eq!(keys(Some("b/"), None).await, "b/one,b/two next=-");
    assert_eq!(keys(Some("b/"), Some("b/one")).await, "b/two next=-");
    assert_eq!(keys(Some("b/"), Some("c")).await, " next=-");
    assert_eq!(keys(Some("nix"), None).await, " next=-");
    let page = versions(&cx, &key("a"), None, two).await.unwrap().unwrap();
    let numbers: Vec<i64> = page.items.iter().map(|one| one.version).collect();
    assert_eq!((numbers, page.next), (vec![3, 2], Some(2)));
    let page = versions(&cx, &key("a"), Some(2), two).await.unwrap().unwrap();
    assert_eq!((page.items.len(), page.items[0].status, page.next), (1, Status::Active, None));
    assert_eq!(versions(&cx, &key("nix"), None, two).await.unwrap(), None);
}

async fn another_workspace_has_its_own(bed: &Bed) {
    let (cx, other) = (bed.cx().await, bed.make_workspace("other").await);
    save(&cx, "a", text("s", "mine")).await;
    let templates = Templates::default();
    assert!(templates.active(&cx, &key("a")).await.unwrap().is_some());
    assert!(templates.active(&other, &key("a")).await.unwrap().is_none());
    assert!(templates.version(&other, &key("a"), 1).await.unwrap().is_none());
    assert_eq!(list(&other, None, None, Limit::MAX).await.unwrap().items, []);
}

async fn faults_write_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let mut content = html("{{ purchase.id }}", "{{ x | nix }}{% include 'nix' %}");
    let refused = put(&cx, Put { key: key("a"), content: content.clone(), then: Then::Activate });
    insta::assert_snapshot!(told(refused.await.unwrap_err()), @"html 1:8: there is no filter nix");
    content.source.html = Some("{{ plan }} {{ planName }} {{ a.b }} {{ memory.x.y }}".to_owned());
    content.required = vec!["order.id".to_owned(), "no path".to_owned()];
    let refused = validate(&cx, &key("a"), content).await.unwrap_err();
    insta::assert_snapshot!(told(refused), @r#"
    template: required_variables: "no path" is no path such as order.id
    html 1:4: nobody gives a variable plan
    html 1:15: nobody gives a variable planName
    subject 1:4: nobody gives a variable purchase.id
    "#);
    assert_eq!(dump(bed, "a").await, Vec::<String>::new());
}

async fn what_was_put_comes_back(bed: &Bed) {
    let cx = bed.cx().await;
    let mut content = html("Hi {{ plan }}", "");
    content.source.html = None;
    content.source.mjml = Some(
        "<mjml><mj-body><mj-section><mj-column><mj-text>{{ plan }}</mj-text></mj-column></mj-section></mj-body></mjml>"
            .to_owned(),
    );
    content.source.text = Some("{{ plan }}".to_owned());
    content.source.preheader = Some("pre".to_owned());
    content.required = vec!["plan".to_owned()];
    content.examples = object(json!({"n": null, "f": 1.5, "deep": {"l": [1, "x"]}}));
    content.default_sender = Some("news".to_owned());
    content.description = Some("d".to_owned());
    save(&cx, "a", content.clone()).await;
    let (summary, status, stored) = find(&cx, &key("a"), Pick::Latest).await.unwrap().unwrap();
    assert_eq!((&stored.content, status), (&content, Status::Active));
    assert_eq!((summary.name.as_str(), summary.active_version), ("a", Some(1)));
    let made = stored.render(&object(json!({"plan": "<pro>"}))).unwrap();
    assert!(made.html.unwrap().contains("&lt;pro&gt;"));
    assert_eq!((made.subject.as_str(), made.text.as_str()), ("Hi <pro>", "<pro>"));
    // A draft of the same text is the same version.
    assert!(!draft(&cx, "a", content).await.created);
}

async fn an_item_must_fit(bed: &Bed) {
    let cx = bed.cx().await;
    let refused = put(
        &cx,
        Put { key: key("a"), content: text("s", &"x".repeat(MAX_STORED)), then: Then::Activate },
    );
    insta::assert_snapshot!(told(refused.await.unwrap_err()), @"template: it takes 781 KB to store with its partials, and 390 KB can be stored");
    save(&cx, "a", html("s", &"x".repeat(MAX_STORED - 1000))).await;
}
