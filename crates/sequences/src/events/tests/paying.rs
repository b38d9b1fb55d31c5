//! Money that an event tells of: the reminders are asked to look at it.

use serde_json::{Value, json};
use tidings_testbed::{Bed, each_store};

use super::World;

each_store!(
    a_payment_is_passed_on_to_the_reminders,
    what_names_nobody_is_not_passed_on,
    what_cannot_be_read_pays_nothing,
);

async fn passed_on(world: &World<'_>) -> Vec<Value> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'reminder-steps' ORDER BY id";
    let bodies = crate::versions::tests::rows(&world.cx().await, sql).await;
    bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

async fn a_payment_is_passed_on_to_the_reminders(bed: &Bed) {
    let world = World::new(bed).await;
    let data = json!({
        "customer_id": "cust_001", "invoice_id": "INV-001", "amount": 1500.1, "currency": "EUR",
    });
    world.tell("e1", "invoice.paid", data).await;
    world.tell("e2", "invoice.paid", json!({ "invoice_id": "INV-002", "amount": "0.30" })).await;
    world.tell("e3", "invoice.sent", json!({ "invoice_id": "INV-003" })).await;
    let steps = passed_on(&world).await;
    let told = |step: &Value| {
        ["task", "customer_id", "invoice_id", "amount", "currency", "reference"]
            .map(|name| step[name].as_str().unwrap_or("-").to_owned())
            .join(" ")
    };
    let told: Vec<_> = steps.iter().map(told).collect();
    assert_eq!(told, ["paid cust_001 INV-001 1500.1 EUR e1", "paid - INV-002 0.30 - e2"]);
}

async fn what_names_nobody_is_not_passed_on(bed: &Bed) {
    let world = World::new(bed).await;
    for (at, data) in
        [json!({}), json!({ "invoice_id": null }), json!({ "amount": "1" })].into_iter().enumerate()
    {
        world.tell(&format!("e{at}"), "invoice.paid", data).await;
    }
    world.tell_of_system("s1", "invoice.paid", json!({ "invoice_id": "INV-001" })).await;
    assert_eq!(passed_on(&world).await, Vec::<Value>::new());
}

/// Each passes on a message that names what is on the right. One that names nothing is buried by whoever works on it.
async fn what_cannot_be_read_pays_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let cases = [
        (json!({ "invoice": "INV-1" }), "- INV-1 -"),
        (json!({ "invoice_number": 17 }), "- 17 -"),
        (json!({ "invoice": { "id": 1 }, "invoice_id": "INV-2" }), "- INV-2 -"),
        (json!({ "invoice": { "id": 1 }, "customer_id": "c1" }), "- - -"),
        (json!({ "invoice_id": "no id", "customer_id": "c1" }), "- - -"),
        (json!({ "invoice_id": "x".repeat(65), "everything": true, "customer_id": "c1" }), "- - -"),
        (json!({ "invoice_id": [1] }), "- - -"),
        (json!({ "invoice_id": "INV-3", "customer_id": "c1", "amount": ["1"] }), "- - -"),
        (json!({ "customer_id": "c1" }), "- - -"),
        (json!({ "customer_id": "c1", "everything": "true" }), "- - -"),
        (json!({ "customer_id": "c1", "everything": true }), "c1 - everything"),
        // An address is nobody's id.
        (json!({ "customer_id": "ada@example.org", "everything": true }), "- - everything"),
        (json!({ "customer_id": "ada@example.org", "invoice_id": "INV-4" }), "- INV-4 -"),
    ];
    for (at, (data, _)) in cases.iter().enumerate() {
        world.tell(&format!("e{at}"), "invoice.paid", data.clone()).await;
    }
    let told = |step: &Value| {
        ["customer_id", "invoice_id", "pays"]
            .map(|name| step[name].as_str().unwrap_or("-").to_owned())
            .join(" ")
    };
    let told: Vec<_> = passed_on(&world).await.iter().map(told).collect();
    assert_eq!(told, cases.map(|(_, expected)| expected));
}
