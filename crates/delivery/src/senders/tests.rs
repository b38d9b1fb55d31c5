//! The senders of a client, on every store.

use jiff::ToSpan as _;
use tidings_access::{ClientId, Cx, Slug};
use tidings_testbed::{Bed, each_store};

use super::*;

each_store!(
    the_first_sender_is_the_default,
    replacing_keeps_what_stays,
    what_cannot_be_is_refused_and_changes_nothing,
    a_message_finds_its_sender,
    nobody_sees_the_senders_of_another_workspace,
    two_who_add_the_same_at_once_leave_one,
);

fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

fn new(name: &str) -> NewSender {
    NewSender {
        slug: slug(name),
        from_email: format!("{name}@Example.org").parse().unwrap(),
        from_name: Some("Käse, \"Söhne\"".parse().unwrap()),
        reply_to: None,
        is_default: false,
    }
}

fn default(name: &str) -> NewSender {
    NewSender { is_default: true, ..new(name) }
}

async fn shown(cx: &Cx, client: ClientId) -> Vec<String> {
    let star = |is| if is { "*" } else { "" };
    let all = list(cx, client).await.unwrap();
    all.iter().map(|one| format!("{}{}", one.slug, star(one.is_default))).collect()
}

async fn the_first_sender_is_the_default(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    let first = add(&cx, Add { client: shop, sender: new("news") }).await.unwrap();
    assert!(first.is_default);
    assert_eq!(first.from_email.as_str(), "news@example.org");
    add(&cx, Add { client: shop, sender: new("team") }).await.unwrap();
    assert_eq!(shown(&cx, shop).await, ["news*", "team"]);
    add(&cx, Add { client: shop, sender: default("boss") }).await.unwrap();
    assert_eq!(shown(&cx, shop).await, ["boss*", "news", "team"]);
    set_default(&cx, shop, slug("team")).await.unwrap();
    set_default(&cx, shop, slug("team")).await.unwrap();
    assert_eq!(shown(&cx, shop).await, ["boss", "news", "team*"]);

    assert!(matches!(remove(&cx, shop, slug("team")).await, Err(ChangeError::IsDefault(_))));
    remove(&cx, shop, slug("boss")).await.unwrap();
    assert!(matches!(remove(&cx, shop, slug("boss")).await, Err(ChangeError::Missing(_))));
    remove(&cx, shop, slug("news")).await.unwrap();
    remove(&cx, shop, slug("team")).await.unwrap();
    assert_eq!(shown(&cx, shop).await, [""; 0]);
}

async fn replacing_keeps_what_stays(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    let replaced = |senders: Vec<NewSender>| Replace { client: shop, senders };
    let before = replace(&cx, replaced(vec![new("news"), default("team")])).await.unwrap();
    assert_eq!(shown(&cx, shop).await, ["news", "team*"]);
    bed.clock.advance(1.hour());
    let cx = bed.cx().await;
    let changed = NewSender { reply_to: Some("help@example.org".parse().unwrap()), ..new("team") };
    let after = replace(&cx, replaced(vec![changed.clone(), new("boss")])).await.unwrap();
    assert_eq!(shown(&cx, shop).await, ["boss", "team*"]);
    assert_eq!(after[1].id, before[1].id);
    assert_eq!(after[1].created_at, before[1].created_at);
    assert_eq!(after[1].updated_at, cx.now());
    bed.clock.advance(1.hour());
    let cx = bed.cx().await;
    let again = replace(&cx, replaced(vec![changed, new("boss")])).await.unwrap();
    assert_eq!(again, after);
    replace(&cx, replaced(vec![])).await.unwrap();
    assert_eq!(shown(&cx, shop).await, [""; 0]);
}

async fn what_cannot_be_is_refused_and_changes_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    let replaced = |senders: Vec<NewSender>| Replace { client: shop, senders };
    replace(&cx, replaced(vec![new("news")])).await.unwrap();
    let twice = replace(&cx, replaced(vec![new("a"), new("a")])).await;
    assert!(matches!(twice, Err(ReplaceError::Twice(_))));
    let two = replace(&cx, replaced(vec![default("a"), default("b")])).await;
    assert!(matches!(two, Err(ReplaceError::TwoDefaults(_, _))));
    let many = (0..=MAX_SENDERS).map(|n| new(&format!("s{n}"))).collect();
    assert!(matches!(replace(&cx, replaced(many)).await, Err(ReplaceError::TooMany)));
    let taken = add(&cx, Add { client: shop, sender: default("news") }).await;
    assert!(matches!(taken, Err(AddError::Taken(_))));
    let missing = set_default(&cx, shop, slug("none")).await;
    assert!(matches!(missing, Err(ChangeError::Missing(_))));
    assert_eq!(shown(&cx, shop).await, ["news*"]);
}

async fn a_message_finds_its_sender(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    let find = async |requested: Option<&'static str>, template: Option<&'static str>| {
        let within = cx.clone();
        let found = cx.database().read(move |tx| {
            let (requested, template) = (requested.map(slug), template.map(slug));
            resolve(tx, &within, shop, requested.as_ref(), template.as_ref())
        });
        found
            .await
            .map(|found| found.slug.to_string())
            .map_err(|error: ResolveError| error.to_string())
    };
    assert!(find(None, None).await.unwrap_err().contains("no sender yet"));
    let senders = vec![default("news"), new("team"), new("boss")];
    replace(&cx, Replace { client: shop, senders }).await.unwrap();
    assert_eq!(find(Some("boss"), Some("team")).await.unwrap(), "boss");
    assert_eq!(find(None, Some("team")).await.unwrap(), "team");
    assert_eq!(find(None, None).await.unwrap(), "news");
    // Not silently another one.
    assert_eq!(
        find(Some("none"), Some("team")).await.unwrap_err(),
        "the client has no sender none"
    );
    assert_eq!(find(None, Some("none")).await.unwrap_err(), "the client has no sender none");
}

async fn nobody_sees_the_senders_of_another_workspace(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    add(&cx, Add { client: shop, sender: new("news") }).await.unwrap();
    let other = bed.make_workspace("other").await;
    assert_eq!(shown(&other, shop).await, [""; 0]);
    assert!(matches!(remove(&other, shop, slug("news")).await, Err(ChangeError::Missing(_))));
    // A client of somebody else cannot be given one.
    assert!(add(&other, Add { client: shop, sender: new("mine") }).await.is_err());
    assert!(replace(&other, Replace { client: shop, senders: vec![new("news")] }).await.is_err());
    assert_eq!(shown(&cx, shop).await, ["news*"]);
}

async fn two_who_add_the_same_at_once_leave_one(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    let one = || add(&cx, Add { client: shop, sender: default("news") });
    let (first, second) = tokio::join!(one(), one());
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    assert_eq!(shown(&cx, shop).await, ["news*"]);
}
