//! Reminders as a caller meets them: what he is answered where something is refused, left out or paid in part.

use serde_json::{Value, json};
use tidings_access::Scopes;
use tidings_kernel::{Expect, Key, Txn, Value as Stored, tables};

use super::World;

fn row(customer: &str) -> Value {
    json!({
        "customer_id": customer, "customer_name": "Ada Ltd", "overdue_amount": "10.00",
        "customer_email": format!("{customer}@example.org"), "currency": "EUR",
        "invoices": [{ "id": format!("INV-{customer}") }],
    })
}

fn new(customer: &str) -> Value {
    let mut new = row(customer);
    for (name, value) in [("subject", "s"), ("content", "c"), ("created_by", "agent")] {
        new[name] = value.into();
    }
    new
}

struct Api {
    world: World,
    keys: [String; 2],
}

impl Api {
    async fn new() -> Self {
        let world = World::new().await;
        let one = world.key(&world.acme, Scopes::all()).await.api_key.expose();
        let two = world.key_of(&world.acme, "shop").await.api_key.expose();
        let senders = r#"{"senders":[{"slug":"billing","from_email":"billing@example.org"}]}"#;
        assert_eq!(world.send("PUT /v1/senders", Some(&one), senders).await.status, 200);
        Self { world, keys: [one, two] }
    }

    /// The status and the body.
    async fn send(&self, line: &str, body: &Value) -> (u16, Value) {
        self.send_as(0, line, body).await
    }

    async fn send_as(&self, key: usize, line: &str, body: &Value) -> (u16, Value) {
        let answer = self.world.send(line, Some(&self.keys[key]), &body.to_string()).await;
        (answer.status, answer.json())
    }

    async fn draft(&self, customer: &str) -> String {
        let (status, made) = self.send("POST /v1/reminders", &new(customer)).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// A first reminder was sent to him just now.
    async fn was_reminded(&self, customer: &str) {
        let last = [
            ("at".to_owned(), Stored::from("2026-07-01T12:00:00Z")),
            ("draft".to_owned(), Stored::from(format!("20260701_120000_{customer}").as_str())),
        ];
        let key = Key::new(format!("CUSTOMER#{customer}"), "STATE");
        let item = tables::EMAIL_TRACKING
            .bare_item(&key)
            .with("customer_id", customer)
            .with("rev", 1_i64)
            .with("last_first", Stored::M(last.into_iter().collect()));
        let txn = Txn::new().put(&tables::EMAIL_TRACKING, item, Expect::Anything);
        self.world.acme.items().await.unwrap().transact(txn).await.unwrap();
    }
}

#[tokio::test]
async fn too_early_says_from_when_on() {
    let api = Api::new().await;
    api.was_reminded("c1").await;
    let mut first = new("c1");
    first["reminder_type"] = "first".into();
    let (status, problem) = api.send("POST /v1/reminders", &first).await;
    assert_eq!((status, &problem["reason"]), (409, &json!("too_early")), "{problem}");
    assert_eq!(problem["allowed_from"], "2026-07-08T12:00:00Z");
}

#[tokio::test]
async fn a_row_that_is_wrong_is_left_out_and_the_others_are_drafted() {
    let api = Api::new().await;
    api.was_reminded("c3").await;
    let mut wrong = new("c1");
    wrong["customer_email"] = "nobody".into();
    wrong["typo"] = 1.into();
    let rows = json!({ "reminders": [wrong, new("c2"), 7, new("c3"), new("c2")] });
    let (status, report) = api.send("POST /v1/reminders/bulk", &rows).await;
    assert_eq!((status, report["drafted"].as_array().unwrap().len()), (200, 1), "{report}");
    assert_eq!(report["drafted"][0]["customer_id"], "c2");
    let left: Vec<_> = report["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {}", one["row"], one["customer_id"], one["reason"]))
        .collect();
    let expected = [
        r#"0 "c1" "invalid""#,
        r#"2 null "invalid""#,
        r#"3 "c3" "too_early""#,
        r#"4 "c2" "duplicate""#,
    ];
    assert_eq!(left, expected);
    let detail = report["left_out"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("customer_email") && detail.contains("typo"), "{detail}");
    let (status, report) =
        api.send("POST /v1/reminders/overdue", &json!({ "customers": [{}, row("c4")] })).await;
    assert_eq!((status, &report["left_out"][0]["reason"]), (200, &json!("invalid")));
    assert_eq!(report["left_out"].as_array().unwrap().len(), 1);
    // A list that is none is refused as a whole.
    for body in [json!({ "reminders": [] }), json!({ "reminders": 1 }), json!({})] {
        assert_eq!(api.send("POST /v1/reminders/bulk", &body).await.0, 422, "{body}");
    }
}

#[tokio::test]
async fn what_was_edited_or_is_not_alike_is_not_approved() {
    let api = Api::new().await;
    let (one, two) = (api.draft("c1").await, api.draft("c2").await);
    let edit = json!({ "by": "Eve", "subject": "Other" });
    assert_eq!(api.send(&format!("PATCH /v1/reminders/{one}"), &edit).await.0, 200);
    let approve = format!("POST /v1/reminders/{one}/approve");
    let (status, problem) = api.send(&approve, &json!({ "by": "Eve", "edition": 1 })).await;
    assert_eq!((status, &problem["reason"]), (409, &json!("edited")), "{problem}");
    let both = json!({ "by": "Eve", "reminders": [
        { "id": one, "edition": 2 }, { "id": two, "edition": 1 },
    ] });
    let (status, problem) = api.send("POST /v1/reminders/approve", &both).await;
    assert_eq!((status, &problem["reason"]), (409, &json!("not_alike")), "{problem}");
}

#[tokio::test]
async fn two_people_have_two_keys() {
    let api = Api::new().await;
    let settings = json!({ "two_person_above": { "EUR": "1" } });
    assert_eq!(api.send("PUT /v1/settings/reminders", &settings).await.0, 200);
    let approve = format!("POST /v1/reminders/{}/approve", api.draft("c1").await);
    let by = |name: &str| json!({ "by": name, "edition": 1 });
    let (status, approved) = api.send(&approve, &by("Ada")).await;
    assert_eq!((status, &approved["missing"]), (200, &json!(1)), "{approved}");
    let (status, problem) = api.send(&approve, &by("Eve")).await;
    assert_eq!((status, &problem["reason"]), (409, &json!("same_key")), "{problem}");
    let (status, approved) = api.send_as(1, &approve, &by("Eve")).await;
    assert_eq!((status, &approved["missing"]), (200, &json!(0)), "{approved}");
}

#[tokio::test]
async fn a_part_leaves_the_rest_and_too_much_is_told() {
    let api = Api::new().await;
    api.draft("c1").await;
    let pay = async |amount: &str, reference: &str| {
        let body = json!({
            "invoice_id": "INV-c1", "amount": amount, "currency": "EUR", "reference": reference,
        });
        api.send("POST /v1/reminders/payments", &body).await
    };
    let (status, paid) = pay("4.00", "a").await;
    assert_eq!((status, &paid["left"], &paid["over"]), (200, &json!("6.00"), &Value::Null));
    assert_eq!(paid["withdrawn"], "20260701_120000_c1");
    let (status, problem) = pay("5.00", "a").await;
    assert_eq!((status, &problem["reason"]), (409, &json!("reference_reused")), "{problem}");
    let (_, paid) = pay("7.00", "b").await;
    assert_eq!((&paid["left"], &paid["over"]), (&Value::Null, &json!("1.00")));
    let little = json!({ "customer_id": "c2", "reference": "r", "amount": "1", "currency": "EUR" });
    api.draft("c2").await;
    let (status, problem) = api.send("POST /v1/reminders/payments", &little).await;
    assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("invoice_id")), "{problem}");
}
