//! People as a test makes them up, in the stores and as they ought to be seen.

use std::collections::{BTreeMap, BTreeSet};

use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::json;
use tidings_access::{ClientId, Cx, DisplayName, Slug, clients};
use tidings_kernel::{EmailAddress, Item, Put, Value, tables};
use tidings_people::consent::{AudienceId, audiences};
use tidings_people::contacts::{self, Attributes, Profile, TagChange, Upsert};
use tidings_sql::{DatabaseError, Param, Tx};
use tidings_testbed::Bed;

use crate::audience::{Addresses, Condition, Facts, Subject, Test};

/// Somebody, in words.
#[derive(Debug, Clone)]
pub(super) struct Person {
    /// Of each of his addresses, the first of them where he is written to.
    pub(super) profiles: Vec<Option<Described>>,
    pub(super) fate: Fate,
    /// To the whole of `news`, to the part of `shop`, to that of `blog`, and to the whole of `offers`.
    pub(super) subscriptions: [Option<usize>; 4],
    pub(super) feature: Option<i64>,
    pub(super) memory: Option<i64>,
}

/// What a profile says.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub(super) tags: Vec<&'static str>,
    pub(super) plan: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    There,
    Erased,
    Merged,
}

pub(super) struct Names {
    pub(super) shop: ClientId,
    pub(super) blog: ClientId,
    pub(super) news: AudienceId,
    pub(super) offers: AudienceId,
}

const TAGS: [&str; 3] = ["a", "b", "c"];
const PLANS: [&str; 2] = ["free", "pro"];
const STATUSES: [&str; 3] = ["pending", "subscribed", "unsubscribed"];

pub(super) fn person() -> impl Strategy<Value = Person> {
    let described =
        (proptest::sample::subsequence(TAGS.to_vec(), 0..=3), weighted(0.7, 0..2_usize))
            .prop_map(|(tags, plan)| Described { tags, plan: plan.map(|plan| PLANS[plan]) });
    let addresses = prop_oneof![1 => Just(0_usize), 8 => Just(1), 3 => Just(2)];
    let profiles = addresses.prop_flat_map(move |count| {
        proptest::collection::vec(weighted(0.9, described.clone()), count)
    });
    let fate =
        prop_oneof![10 => Just(Fate::There), 1 => Just(Fate::Erased), 1 => Just(Fate::Merged)];
    let status = || weighted(0.5, prop_oneof![1 => Just(0_usize), 3 => Just(1), 1 => Just(2)]);
    let subscriptions = [status(), status(), status(), status()];
    (profiles, fate, subscriptions, weighted(0.6, 0..5_i64), weighted(0.4, 0..5_i64)).prop_map(
        |(profiles, fate, subscriptions, feature, memory)| Person {
            profiles,
            fate,
            subscriptions,
            feature,
            memory,
        },
    )
}

/// Over the few words that those people are made of.
pub(super) fn condition() -> impl Strategy<Value = Condition> {
    let test = prop_oneof![
        any::<bool>().prop_map(Test::Exists),
        (0..5_i64).prop_map(|number| Test::AtLeast(number.into())),
        (0..5_i64).prop_map(|number| Test::NotEquals(number.into())),
    ];
    let memory = Subject::Memory { memory_type: "purchase".into(), key: "a#b".into() };
    let derived = proptest::sample::select(vec![Subject::Feature("opens".into()), memory]);
    let plan = proptest::sample::select(PLANS.to_vec());
    let slug = proptest::sample::select(vec!["news", "offers", "gone"]);
    let addresses = proptest::collection::vec((0..24_usize, 0..2_usize), 1..9);
    let clause = prop_oneof![
        1 => Just(Condition::EVERYONE),
        4 => proptest::sample::select(TAGS.to_vec()).prop_map(|tag| Condition::Tag(tag.parse().unwrap())),
        2 => slug.prop_map(|slug| Condition::Audience(slug.parse().unwrap())),
        2 => plan.prop_map(|plan| {
            Condition::Known(Subject::Attribute("plan".into()), Test::Equals(plan.into()))
        }),
        2 => (derived, test).prop_map(|(subject, test)| Condition::Known(subject, test)),
        2 => addresses.prop_map(|list| {
            let list = list.into_iter().map(|(number, place)| address(number, place));
            Condition::Contacts(Addresses::new(list.collect()))
        }),
    ];
    clause.prop_recursive(3, 12, 3, |inner| {
        let some = |from| proptest::collection::vec(inner.clone(), from..4);
        prop_oneof![
            3 => some(0).prop_map(Condition::All),
            1 => some(1).prop_map(Condition::Any),
            1 => inner.prop_map(|inner| Condition::Not(Box::new(inner))),
        ]
    })
}

/// The `place`th address of somebody. Their order is not that of the people, nor of their addresses.
pub(super) fn address(number: usize, place: usize) -> EmailAddress {
    format!("P{}.{number}@example.org", (number * 7 + place * 5) % 11).parse().unwrap()
}

impl Person {
    /// Whether he has agreed to all of it or to the shop's part, whatever he said since.
    pub(super) fn has_agreed_to_news(&self) -> bool {
        self.subscriptions[..2].iter().flatten().any(|it| STATUSES[*it] == "subscribed")
    }

    /// What ought to be known of him. `None` if he cannot be meant at all.
    pub(super) fn facts(&self, number: usize) -> Option<Facts> {
        if self.fate != Fate::There || self.profiles.is_empty() {
            return None;
        }
        let is_in =
            |place: usize| self.subscriptions[place].is_some_and(|it| STATUSES[it] == "subscribed");
        let left = |place: usize| {
            self.subscriptions[place].is_some_and(|it| STATUSES[it] == "unsubscribed")
        };
        let mut audiences = Vec::<Slug>::new();
        // Whoever left all of it, or the shop's part, has left: nobody here has agreed to anything since.
        if (is_in(0) || is_in(1)) && !left(0) && !left(1) {
            audiences.push("news".parse().unwrap());
        }
        if is_in(3) {
            audiences.push("offers".parse().unwrap());
        }
        let mut profiles = self.profiles.iter().map(|one| Profile::from(described(one.as_ref())));
        let memory = Subject::Memory { memory_type: "purchase".into(), key: "a#b".into() };
        let derived = [(Subject::Feature("opens".into()), self.feature), (memory, self.memory)];
        let derived =
            derived.into_iter().filter_map(|(subject, value)| Some((subject, value?.into())));
        Some(Facts {
            addresses: (0..self.profiles.len()).map(|place| address(number, place)).collect(),
            audiences: audiences.into_iter().collect(),
            segments: BTreeSet::new(),
            profile: profiles.next().unwrap_or_default(),
            others: profiles.collect(),
            derived: derived.collect(),
            until: None,
        })
    }
}

fn described(of: Option<&Described>) -> Item {
    let mut profile = Item::new();
    if let Some(described) = of {
        let tags = described.tags.iter().map(|tag| Value::from(*tag)).collect::<Vec<_>>();
        profile.set("tags", tags);
        if let Some(plan) = described.plan {
            profile.set("plan", plan);
        }
    }
    profile
}

pub(super) async fn names(bed: &Bed, cx: &Cx) -> Names {
    let client = |slug: &str| {
        let slug: Slug = slug.parse().unwrap();
        clients::Create { name: DisplayName::from(&slug), slug }
    };
    let audience = |slug: &str| {
        let slug: Slug = slug.parse().unwrap();
        let name = DisplayName::from(&slug);
        audiences::Create { slug, name, double_opt_in: false, confirm_template_key: None }
    };
    Names {
        shop: bed.shop(cx).await.id,
        blog: clients::create(cx, client("blog")).await.unwrap().id,
        news: audiences::create(cx, audience("news")).await.unwrap().id,
        offers: audiences::create(cx, audience("offers")).await.unwrap().id,
    }
}

/// Makes them, each with the contact's id that they get.
pub(super) async fn make(cx: &Cx, names: &Names, people: &[Person]) -> Vec<i64> {
    let mut ids = Vec::new();
    for (number, person) in people.iter().enumerate() {
        let subscribed = [
            (names.news, None),
            (names.news, Some(names.shop)),
            (names.news, Some(names.blog)),
            (names.offers, None),
        ];
        let subscriptions = subscribed.into_iter().zip(person.subscriptions);
        let subscriptions: Vec<_> =
            subscriptions.filter_map(|(to, status)| Some((to, status?))).collect();
        let (within, addresses) = (cx.clone(), person.profiles.len());
        let write = cx.database().write(move |tx| {
            let (id, organization) = make_rows(tx, &within, number, addresses)?;
            for ((audience, client), status) in &subscriptions {
                subscribe(tx, &within, id, (*audience, *client), STATUSES[*status])?;
            }
            Ok::<_, DatabaseError>((id, organization))
        });
        let (id, organization) = write.await.unwrap();
        for (place, described) in person.profiles.iter().enumerate() {
            if let Some(described) = described {
                describe(cx, address(number, place), described).await;
            }
        }
        derive(cx, &organization, person).await;
        match (person.fate, ids.first().copied()) {
            (Fate::There, _) => {}
            (Fate::Merged, Some(into)) if person.profiles.len() != 1 => merge(cx, id, into).await,
            _ if person.profiles.is_empty() => mark_erased(cx, id).await,
            _ => drop(contacts::erase(cx, &address(number, 0)).await.unwrap()),
        }
        ids.push(id);
    }
    ids
}

fn make_rows(
    tx: &mut Tx<'_>,
    cx: &Cx,
    number: usize,
    addresses: usize,
) -> Result<(i64, String), DatabaseError> {
    let workspace = Param::Int(cx.workspace_id().get());
    let id = if addresses == 0 {
        // Somebody who is known by his number only.
        let rows = tx.query(
            "INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ($1, 0, 0) RETURNING id",
            &[workspace],
        )?;
        let id = rows[0].int(0)?;
        identity(tx, (cx, id), "phone", &format!("+49{number:04}"))?;
        id
    } else {
        contacts::ensure(tx, cx, &address(number, 0))?.get()
    };
    for place in 1..addresses {
        identity(tx, (cx, id), "email", address(number, place).as_str())?;
    }
    let rows =
        tx.query("SELECT id FROM lead_organizations WHERE lead_id = $1", &[Param::Int(id)])?;
    let organization = rows.first().map_or(Ok(0), |row| row.int(0))?;
    Ok((id, organization.to_string()))
}

fn identity(
    tx: &mut Tx<'_>,
    (cx, id): (&Cx, i64),
    channel: &str,
    value: &str,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO channel_identities (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
               VALUES ($1, $2, $3, $4, $4, 0, 0)";
    let workspace = Param::Int(cx.workspace_id().get());
    tx.execute(sql, &[workspace, Param::Int(id), Param::Text(channel), Param::Text(value)])
        .map(drop)
}

fn subscribe(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: i64,
    (audience, client): (AudienceId, Option<ClientId>),
    status: &str,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, client_id, status, unsubscribed_at,
                   created_at, updated_at) VALUES ($1, $2, $3, $4, $5, 0, 0, 0)";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(id),
        Param::Int(audience.get()),
        client.map(ClientId::get).into(),
        Param::Text(status),
    ];
    tx.execute(sql, &params).map(drop)
}

pub(super) async fn describe(cx: &Cx, email: EmailAddress, described: &Described) {
    let tags = described.tags.iter().map(|tag| tag.parse().unwrap()).collect();
    let attributes = match described.plan {
        Some(plan) => json!({"plan": plan}),
        None => json!({}),
    };
    let attributes = Attributes::parse(attributes.as_object().unwrap().clone()).unwrap();
    let tags = Some(TagChange::Replace(tags));
    let upsert = Upsert { email, first_name: None, attributes, tags };
    contacts::upsert(cx, upsert).await.unwrap();
}

async fn derive(cx: &Cx, organization: &str, person: &Person) {
    let items = cx.items().await.unwrap();
    let bare = || Item::new().with("lead_organization_id", organization);
    if let Some(number) = person.feature {
        let features = BTreeMap::from([("opens".to_owned(), Value::from(number))]);
        let item = bare().with("features", features);
        items.put(Put::new(&tables::FEATURE, item)).await.unwrap();
    }
    if let Some(number) = person.memory {
        let item = bare().with("memory_type#key", "purchase#a#b").with("value", number);
        items.put(Put::new(&tables::MEMORY, item)).await.unwrap();
    }
}

/// Into somebody else.
async fn merge(cx: &Cx, id: i64, into: i64) {
    let sql = "UPDATE leads SET merged_into_id = $2, merged_at = 1 WHERE id = $1";
    let write = cx.database().write(move |tx| tx.execute(sql, &[Param::Int(id), Param::Int(into)]));
    write.await.unwrap();
}

/// Whoever has no address cannot be erased by it.
async fn mark_erased(cx: &Cx, id: i64) {
    let sql = "UPDATE leads SET erased_at = 1 WHERE id = $1";
    let write = cx.database().write(move |tx| tx.execute(sql, &[Param::Int(id)]));
    write.await.unwrap();
}
