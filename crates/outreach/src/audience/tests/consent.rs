//! Whoever is subscribed by a condition is subscribed by the gate, and the other way round.

use std::collections::BTreeSet;

use serde_json::json;
use tidings_access::Cx;
use tidings_delivery::eligibility::{self, Kind, Question, Verdict};
use tidings_kernel::EmailAddress;
use tidings_people::contacts;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::world::{Names, names};
use crate::audience::{Condition, Gate, Own, Walk, page};

each_store!(
    a_condition_and_the_gate_mean_the_same_by_subscribed,
    every_audience_that_is_required_is_asked,
);

/// What somebody can have said: the status, when he agreed, and when he left.
type Said = Option<(&'static str, Option<i64>, Option<i64>)>;

const WHOLE: [Said; 4] = [
    None,
    Some(("subscribed", Some(3), None)),
    Some(("pending", None, None)),
    Some(("unsubscribed", Some(1), Some(5))),
];
const PART: [Said; 6] = [
    None,
    Some(("subscribed", Some(3), None)),
    Some(("subscribed", Some(8), None)),
    Some(("subscribed", None, None)),
    Some(("pending", None, None)),
    Some(("unsubscribed", Some(1), Some(5))),
];

async fn says(cx: &Cx, email: &str, (audience, client): (i64, Option<i64>), said: Said) {
    let (within, email) = (cx.clone(), email.parse::<EmailAddress>().unwrap());
    let write = cx.database().write(move |tx| {
        let id = contacts::ensure(tx, &within, &email)?;
        let Some((status, agreed_at, unsubscribed_at)) = said else { return Ok(()) };
        let sql = "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, client_id, status, agreed_at,
                       unsubscribed_at, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0)";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(id.get()),
            Param::Int(audience),
            client.into(),
            Param::Text(status),
            agreed_at.into(),
            unsubscribed_at.into(),
        ];
        tx.execute(sql, &params).map(drop)
    });
    write.await.map_err(|error: DatabaseError| error).unwrap();
}

fn over(names: &Names, condition: &serde_json::Value) -> Walk {
    let condition = Condition::parse(condition, "").unwrap();
    Walk { condition, client: names.shop, audience: None, profiles: false }
}

async fn meant(cx: &Cx, walk: &Walk) -> BTreeSet<String> {
    let found = page(cx, walk, None, 1_000).await.unwrap();
    assert_eq!(found.next, None);
    found.contacts.iter().map(|member| member.email.to_string()).collect()
}

async fn a_condition_and_the_gate_mean_the_same_by_subscribed(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    let (news, shop) = (names.news.get(), names.shop.get());
    let mut passing = BTreeSet::new();
    for (one, whole) in WHOLE.into_iter().enumerate() {
        for (other, part) in PART.into_iter().enumerate() {
            let email = format!("w{one}-p{other}@example.org");
            says(&cx, &email, (news, None), whole).await;
            says(&cx, &email, (news, Some(shop)), part).await;
            let question = Question {
                kind: Kind::Campaign,
                email: email.parse().unwrap(),
                client: names.shop,
                audience: Some(names.news),
                topic: None,
            };
            if eligibility::check(&cx, &question).await.unwrap().verdict == Verdict::Send {
                passing.insert(email);
            }
        }
    }
    assert!((5..20).contains(&passing.len()), "{passing:?}");
    // Driven by the audience, and by all contacts.
    let required = over(&names, &json!({"audience": "news"}));
    assert_eq!(meant(&cx, &required).await, passing);
    let any = over(&names, &json!({"any": [{"audience": "news"}, {"tag": "nobody"}]}));
    assert_eq!(meant(&cx, &any).await, passing);
    let others = over(&names, &json!({"not": {"audience": "news"}}));
    assert_eq!(meant(&cx, &others).await.len(), WHOLE.len() * PART.len() - passing.len());
}

async fn every_audience_that_is_required_is_asked(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    let asked = async |audience, condition: serde_json::Value| {
        let own = Own { client: names.shop, audience, topic: None };
        let condition = Condition::parse(&condition, "").unwrap();
        let within = cx.clone();
        let load = cx.database().read(move |tx| Gate::load(tx, &within, &own, &condition));
        let gate: Result<Gate, DatabaseError> = load.await;
        let id = |mailing: &eligibility::Mailing| mailing.audience.map_or(0, |id| id.get());
        let mut asked = Vec::new();
        for group in gate.unwrap().groups() {
            asked.push(group.iter().map(id).collect::<Vec<_>>());
        }
        asked
    };
    let (news, offers) = (names.news.get(), names.offers.get());
    let workspace = cx.workspace_id().get();
    let make = cx.database().write(move |tx| {
        let sql = "INSERT INTO segments (workspace_id, slug, name, condition, state, created_at, updated_at)
                   VALUES ($1, 'readers', 'Readers', $2, 'live', 1, 1)";
        let condition = json!({"all": [{"audience": "news"}, {"tag": "a"}]}).to_string();
        tx.execute(sql, &[Param::Int(workspace), Param::Text(&condition)])
    });
    make.await.map_err(|error: DatabaseError| error).unwrap();
    for (audience, condition, expected) in [
        (None, json!({}), vec![vec![0]]),
        (Some(names.news), json!({"tag": "a"}), vec![vec![news]]),
        (None, json!({"audience": "news"}), vec![vec![news]]),
        (Some(names.news), json!({"audience": "news"}), vec![vec![news]]),
        (Some(names.news), json!({"audience": "offers"}), vec![vec![news], vec![offers]]),
        (
            None,
            json!({"all": [{"tag": "a"}, {"all": [{"audience": "offers"}]}, {"any": [{"audience": "news"}]}]}),
            vec![vec![offers], vec![news]],
        ),
        (
            None,
            json!({"any": [{"audience": "news"}, {"audience": "offers"}]}),
            vec![vec![news, offers]],
        ),
        (
            None,
            json!({"any": [{"all": [{"audience": "news"}, {"tag": "a"}]}, {"all": [{"tag": "b"}, {"audience": "news"}]}]}),
            vec![vec![news]],
        ),
        (
            None,
            json!({"any": [{"all": [{"audience": "news"}, {"audience": "offers"}]}, {"audience": "news"}]}),
            vec![vec![news], vec![offers, news]],
        ),
        // Segments are what their conditions say.
        (None, json!({"segment": "readers"}), vec![vec![news]]),
        (
            None,
            json!({"any": [{"segment": "readers"}, {"audience": "offers"}]}),
            vec![vec![news, offers]],
        ),
        // Nobody has to be subscribed to meet these.
        (None, json!({"not": {"segment": "readers"}}), vec![vec![0]]),
        (None, json!({"segment": "unknown"}), vec![vec![0]]),
        (None, json!({"any": [{"audience": "news"}, {"tag": "a"}]}), vec![vec![0]]),
        (None, json!({"not": {"audience": "news"}}), vec![vec![0]]),
        (None, json!({"audience": "unknown"}), vec![vec![0]]),
    ] {
        assert_eq!(asked(audience, condition.clone()).await, expected, "{condition}");
    }
}
