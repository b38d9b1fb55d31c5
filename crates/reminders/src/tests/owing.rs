//! What a customer owes is on the timeline of the contact who he is, and in his features.

use tidings_access::Cx;
use tidings_kernel::queues;
use tidings_leads::identity::{Whom, view};
use tidings_leads::{features, ingestion};
use tidings_people::contacts::{self, Attributes, Upsert};
use tidings_testbed::{Bed, each_store};

use super::money::of;
use super::world::{World, customer, invoice, money, new};
use crate::{Choose, Customer, Facts, Kind, Overdue, Payment, draft, note_overdue, paid};

each_store!(what_is_owed_is_a_feature_of_whoever_owes_it, whoever_is_called_otherwise_owes_nothing,);

async fn known(cx: &Cx, email: &str) {
    let email = email.parse().unwrap();
    let upsert = Upsert { email, first_name: None, attributes: Attributes::default(), tags: None };
    contacts::upsert(cx, upsert).await.unwrap();
}

/// What the feature says after all that was told.
async fn owes(bed: &Bed, email: &str) -> String {
    let access = bed.access.clone();
    bed.work(&queues::LEAD_INGESTION, ingestion::handler(access.clone())).await;
    bed.work(&queues::FEATURE_PROCESSING, features::handler(access)).await;
    let cx = bed.cx().await;
    let view = view(&cx, Whom::Email(email.parse().unwrap())).await.unwrap().unwrap();
    let features = features::get(&cx, &view.owner.lead_organization_id).await.unwrap().unwrap();
    let owed = features.values.get("overdue_amount").map(serde_json::to_string);
    owed.map_or_else(|| "-".to_owned(), Result::unwrap)
}

fn overdue(id: &str, amount: &str, invoices: Vec<crate::Invoice>) -> Overdue {
    let email = format!("{id}@example.org").parse().unwrap();
    let customer = Customer { id: customer(id), name: id.to_owned(), email };
    Overdue { customer, facts: Facts { owed: money(amount), invoices } }
}

async fn what_is_owed_is_a_feature_of_whoever_owes_it(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let email = "c1@example.org";
    known(&cx, email).await;
    world.draft("c1", Kind::First).await;
    assert_eq!(owes(bed, email).await, "1500");
    let known_as = view(&cx, Whom::Email(email.parse().unwrap())).await.unwrap().unwrap();
    let is: Vec<_> = known_as.identities.iter().filter_map(|one| one.is.as_deref()).collect();
    assert_eq!(is, ["SUB#c1@example.org", "CUSTOMER#c1"], "who is drafted for is known by his id");

    bed.advance(1).await;
    paid(&world.cx().await, of("c1", "c1-1")).await.unwrap();
    assert_eq!(owes(bed, email).await, "500");
    bed.advance(1).await;
    let all = Payment { invoice: None, reference: Some("bank-1".to_owned()), ..of("c1", "x") };
    paid(&world.cx().await, all).await.unwrap();
    assert_eq!(owes(bed, email).await, "0");

    // Without a draft, and where nobody says how much each invoice is.
    bed.advance(1).await;
    let bare = |id: &str| crate::Invoice { amount: None, ..invoice(id, "1") };
    let rows = vec![overdue("c1", "80", vec![bare("c1-3"), bare("c1-4")])];
    note_overdue(&world.cx().await, rows).await.unwrap();
    assert_eq!(owes(bed, email).await, "80");
    bed.advance(1).await;
    let part = Payment { money: Some(money("30")), ..of("c1", "c1-3") };
    paid(&world.cx().await, part).await.unwrap();
    assert_eq!(owes(bed, email).await, "50");
    // What the next list has no more is owed no more.
    bed.advance(1).await;
    let rows = vec![overdue("c1", "7", vec![invoice("c1-5", "7")])];
    note_overdue(&world.cx().await, rows).await.unwrap();
    assert_eq!(owes(bed, email).await, "7");
}

/// Two customers with one address are two, and a customer who is no contact becomes none by being reminded.
async fn whoever_is_called_otherwise_owes_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    known(&cx, "c1@example.org").await;
    world.draft("c1", Kind::First).await;
    assert_eq!(owes(bed, "c1@example.org").await, "1500");
    let mut second = new("c2", Choose::Next);
    second.customer.email = "c1@example.org".parse().unwrap();
    draft(&cx, second).await.unwrap();
    world.draft("c3", Kind::First).await;
    assert_eq!(owes(bed, "c1@example.org").await, "1500");
    for email in ["c2@example.org", "c3@example.org"] {
        let found = view(&cx, Whom::Email(email.parse().unwrap())).await.unwrap();
        assert_eq!(found, None, "{email}");
    }
}
