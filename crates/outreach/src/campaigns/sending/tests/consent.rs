//! Audiences that only the filter names: whoever leaves one before his turn comes is not written to.

use tidings_access::{DisplayName, Slug};
use tidings_jobs::Outcome;
use tidings_people::consent::audiences;
use tidings_testbed::{Bed, each_store};

use super::{Sending, World, audience_id};

each_store!(
    who_left_what_the_filter_requires_is_skipped,
    what_the_filter_requires_may_want_a_confirmation,
    all_that_the_filter_requires_is_asked,
    one_of_several_audiences_is_enough,
    who_left_what_a_segment_requires_is_skipped,
);

/// Makes it a campaign to no audience of its own.
async fn filtered(sending: &Sending<'_, '_>, filter: &str) {
    sending
        .world
        .run(&format!(
            "UPDATE campaigns SET audience_id = NULL, filter = '{filter}' WHERE id = {}",
            sending.campaign
        ))
        .await;
}

/// Makes a second audience, with this one as its only subscriber.
async fn second(world: &World<'_>, place: usize) -> i64 {
    let cx = world.bed.cx().await;
    let slug: Slug = "offers".parse().unwrap();
    let name = DisplayName::from(&slug);
    let create = audiences::Create { slug, name, double_opt_in: false, confirm_template_key: None };
    let offers = audiences::create(&cx, create).await.unwrap().id.get();
    world
        .run(&format!(
            "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, agreed_at, created_at, updated_at)
             VALUES ({}, {}, {offers}, 'subscribed', 1, 1, 1)",
            cx.workspace_id().get(),
            world.people[place].0
        ))
        .await;
    offers
}

async fn leave(world: &World<'_>, place: usize, audience: i64) {
    world
        .run(&format!(
            "UPDATE subscriptions SET status = 'unsubscribed', unsubscribed_at = 5
             WHERE lead_id = {} AND audience_id = {audience}",
            world.people[place].0
        ))
        .await;
}

async fn skipped(sending: &Sending<'_, '_>, email: &str) -> String {
    sending.column(email, "skip_reason").await.unwrap_or_else(|| "-".to_owned())
}

async fn who_left_what_the_filter_requires_is_skipped(bed: &Bed) {
    let world = World::new(bed, 4).await;
    let sending = world.campaign(4).await;
    filtered(&sending, r#"{"all":[{"audience":"news"},{"not":{"tag":"x"}}]}"#).await;
    leave(&world, 1, audience_id(&world.audience)).await;
    // He agreed to the client's part long before he left all of it.
    let sql = format!(
        "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, client_id, status, agreed_at, created_at, updated_at)
         SELECT workspace_id, lead_id, audience_id, {}, 'subscribed', 1, 1, 1 FROM subscriptions WHERE lead_id = {}",
        world.client, world.people[1].0
    );
    world.run(&sql).await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(skipped(&sending, "p002@example.org").await, "audience_unsubscribe");
    assert_eq!(world.provider.taken().len(), 3);
    sending.check_end("without the one who left").await;
}

async fn what_the_filter_requires_may_want_a_confirmation(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    filtered(&sending, r#"{"audience":"news"}"#).await;
    world.run("UPDATE audiences SET double_opt_in = 1").await;
    let confirmed = world.people[0].0;
    world
        .run(&format!("UPDATE subscriptions SET verified_at = 5 WHERE lead_id = {confirmed}"))
        .await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p001@example.org"]);
    assert_eq!(skipped(&sending, "p002@example.org").await, "unverified");
}

async fn all_that_the_filter_requires_is_asked(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    let offers = second(&world, 0).await;
    filtered(&sending, r#"{"all":[{"audience":"news"},{"audience":"offers"}]}"#).await;
    leave(&world, 2, audience_id(&world.audience)).await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p001@example.org"]);
    assert_eq!(skipped(&sending, "p002@example.org").await, "not_subscribed", "{offers}");
    assert_eq!(skipped(&sending, "p003@example.org").await, "audience_unsubscribe");
}

async fn one_of_several_audiences_is_enough(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    second(&world, 0).await;
    filtered(&sending, r#"{"any":[{"audience":"news"},{"audience":"offers"}]}"#).await;
    for place in [0, 1] {
        leave(&world, place, audience_id(&world.audience)).await;
    }
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p001@example.org", "p003@example.org"]);
    assert_eq!(skipped(&sending, "p002@example.org").await, "audience_unsubscribe");
}

async fn who_left_what_a_segment_requires_is_skipped(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    filtered(&sending, r#"{"segment":"readers"}"#).await;
    let workspace = bed.cx().await.workspace_id().get();
    world
        .run(&format!(
            "INSERT INTO segments (workspace_id, slug, name, condition, state, created_at, updated_at)
             VALUES ({workspace}, 'readers', 'Readers', '{{\"all\":[{{\"audience\":\"news\"}}]}}', 'live', 1, 1)"
        ))
        .await;
    leave(&world, 1, audience_id(&world.audience)).await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(skipped(&sending, "p002@example.org").await, "audience_unsubscribe");
    assert_eq!(world.provider.taken(), ["p001@example.org", "p003@example.org"]);
}
