//! Segments in the conditions of others.

use serde_json::json;
use tidings_testbed::{Bed, each_store};

use super::{inside, names, person, segment, vip, work};
use crate::audience::{Condition, Walk, page, unknown_segments, why};

each_store!(a_condition_can_name_a_segment, what_is_not_there_means_nobody,);

fn walk(client: tidings_access::ClientId, condition: &serde_json::Value) -> Walk {
    let condition = Condition::parse(condition, "filter").unwrap();
    Walk { condition, client, audience: None, profiles: false }
}

async fn all(cx: &tidings_access::Cx, walk: &Walk) -> (Vec<String>, usize) {
    let (mut found, mut after, mut looked_at) = (Vec::new(), None::<String>, 0);
    loop {
        let some = page(cx, walk, after.as_deref(), 2).await.unwrap();
        looked_at += some.looked_at;
        let name = |email: &str| email.split('@').next().unwrap().to_owned();
        found.extend(some.contacts.iter().map(|one| name(one.email.as_str())));
        after = some.next;
        if after.is_none() {
            found.sort();
            return (found, looked_at);
        }
    }
}

async fn a_condition_can_name_a_segment(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    for number in 0..9 {
        let plan = if number % 3 == 0 { "pro" } else { "free" };
        let tags: &[&str] = if number < 6 { &["vip"] } else { &[] };
        person(&cx, &format!("p{number}"), tags, plan).await;
    }
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    assert_eq!(inside(&cx, "vip").await, names(&["p0", "p3"]));
    // Only those inside are looked at.
    let (found, looked_at) = all(&cx, &walk(shop, &json!({ "segment": "vip" }))).await;
    assert_eq!((found, looked_at), (vec!["p0".to_owned(), "p3".to_owned()], 2));
    let besides =
        json!({ "all": [{ "segment": "vip" }, { "attribute": "plan", "equals": "free" }] });
    assert!(all(&cx, &walk(shop, &besides)).await.0.is_empty());
    let others = json!({ "all": [{ "not": { "segment": "vip" } }, { "tag": "vip" }] });
    assert_eq!(all(&cx, &walk(shop, &others)).await.0, ["p1", "p2", "p4", "p5"]);
    let either = json!({ "any": [{ "segment": "vip" }, { "contacts": ["p8@example.org"] }] });
    assert_eq!(all(&cx, &walk(shop, &either)).await.0, ["p0", "p3", "p8"]);

    let asked = walk(shop, &json!({ "segment": "vip" }));
    let told = why(&cx, &asked, &"p1@example.org".parse().unwrap()).await.unwrap();
    let clause = told.condition.unwrap();
    assert_eq!((clause.clause.as_str(), clause.fact.as_str()), ("segment vip", "not in it"));
    let told = why(&cx, &asked, &"p3@example.org".parse().unwrap()).await.unwrap();
    assert!(told.meant);
    let json = json!({ "all": [{ "segment": "vip" }, { "tag": "a" }] });
    assert_eq!(Condition::parse(&json, "filter").unwrap().to_json(), json);
}

async fn what_is_not_there_means_nobody(bed: &Bed) {
    let cx = bed.cx().await;
    let shop = bed.shop(&cx).await.id;
    person(&cx, "ada", &["vip"], "pro").await;
    let asked = walk(shop, &json!({ "segment": "gone" }));
    assert!(all(&cx, &asked).await.0.is_empty());
    let unknown = unknown_segments(&cx, &asked.condition).await.unwrap();
    assert_eq!(unknown, ["gone".parse().unwrap()]);
}
