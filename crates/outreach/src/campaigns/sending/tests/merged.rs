//! Two recipients who turn out to be one person while the campaign is on its way: he gets it once.

use tidings_jobs::Outcome;
use tidings_kernel::{SendError, queues};
use tidings_people::contacts::{self, Change, Edit, Update};
use tidings_testbed::{Bed, each_store};

use super::{Sending, World};
use crate::campaigns::steps;
use crate::campaigns::tallies::Kind as Tally;

each_store!(
    who_is_one_person_by_now_gets_it_once,
    who_waits_for_himself_gets_it_if_the_other_does_not,
    who_has_it_as_somebody_else_does_not_get_it_again,
    who_cannot_get_it_as_one_gets_it_as_the_other,
    who_is_tested_does_not_wait_for_himself_to_get_the_winner,
    a_letter_knows_what_any_address_of_the_person_says,
);

/// What a merge does to the relations that matter here.
async fn merge(world: &World<'_>, winner: &str, loser: &str) {
    let id = |email| world.people.iter().find(|(_, one)| one == email).unwrap().0;
    let (winner, loser) = (id(winner), id(loser));
    for sql in [
        format!("UPDATE leads SET merged_into_id = {winner}, merged_at = 5 WHERE id = {loser}"),
        format!("UPDATE channel_identities SET lead_id = {winner} WHERE lead_id = {loser}"),
    ] {
        world.run(&sql).await;
    }
}

async fn check_skipped(sending: &Sending<'_, '_>, email: &str) {
    let status = sending.column(email, "status").await;
    let why = sending.column(email, "skip_reason").await;
    assert_eq!(
        (status.as_deref(), why.as_deref()),
        (Some("skipped"), Some("duplicate")),
        "{email}"
    );
}

async fn who_is_one_person_by_now_gets_it_once(bed: &Bed) {
    let world = World::new(bed, 8).await;
    let sending = world.campaign(4).await;
    // In one batch, in another one, and one who was merged twice.
    merge(&world, "p001@example.org", "p002@example.org").await;
    merge(&world, "p007@example.org", "p003@example.org").await;
    merge(&world, "p006@example.org", "p007@example.org").await;
    for message in &sending.messages {
        assert_eq!(world.handle(message).await, Outcome::Done);
    }
    // Those who come later wait to know whether the first of them gets it.
    assert_eq!(world.provider.taken().len(), 5);
    bed.advance(2).await;
    sending.feed().await;
    world.work().await;
    for email in ["p002@example.org", "p006@example.org", "p007@example.org"] {
        check_skipped(&sending, email).await;
    }
    assert_eq!(world.provider.taken().len(), 5);
    assert_eq!(sending.tallies().await.get(Tally::Skipped, "duplicate"), 3);
    sending.check_end("with three who are others").await;
}

/// The one who goes first turns out not to get it, whether that is known before he is handed over or after.
async fn who_waits_for_himself_gets_it_if_the_other_does_not(bed: &Bed) {
    let world = World::new(bed, 4).await;
    let sending = world.campaign(2).await;
    merge(&world, "p001@example.org", "p003@example.org").await;
    merge(&world, "p002@example.org", "p004@example.org").await;
    // The later batch comes first.
    assert_eq!(world.handle(&sending.messages[1]).await, Outcome::Done);
    assert!(world.provider.taken().is_empty());
    world.provider.answers("p001@example.org", SendError::Refused("no such user".to_owned()));
    let sql = "UPDATE channel_identities SET validation_status = 'invalid' WHERE value = 'p002@example.org'";
    world.run(sql).await;
    world.take_brake_off().await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    bed.advance(2).await;
    sending.feed().await;
    world.work().await;
    assert_eq!(world.provider.taken(), ["p003@example.org", "p004@example.org"]);
    sending.check_end("with those who got it as the other").await;
}

async fn who_has_it_as_somebody_else_does_not_get_it_again(bed: &Bed) {
    let world = World::new(bed, 4).await;
    let sending = world.campaign(2).await;
    // The later one goes first.
    assert_eq!(world.handle(&sending.messages[1]).await, Outcome::Done);
    merge(&world, "p001@example.org", "p003@example.org").await;
    // What nobody knows of may have come.
    let lost = sending.id("p004@example.org").await;
    let sql = "UPDATE campaign_recipients SET status = 'uncertain', sent_at = NULL";
    world.run(&format!("{sql} WHERE id = {lost}")).await;
    merge(&world, "p002@example.org", "p004@example.org").await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    check_skipped(&sending, "p001@example.org").await;
    check_skipped(&sending, "p002@example.org").await;
    assert_eq!(world.provider.taken(), ["p003@example.org", "p004@example.org"]);
}

async fn who_cannot_get_it_as_one_gets_it_as_the_other(bed: &Bed) {
    let world = World::new(bed, 2).await;
    let sending = world.campaign(1).await;
    merge(&world, "p001@example.org", "p002@example.org").await;
    let sql = "UPDATE campaign_recipients SET status = 'skipped', skip_reason = 'hard_bounce'
               WHERE email = 'p001@example.org'";
    world.run(sql).await;
    for message in &sending.messages {
        assert_eq!(world.handle(message).await, Outcome::Done);
    }
    assert_eq!(world.provider.taken(), ["p002@example.org"]);
}

/// The one with the lower id waits for the winner, which is only known when the other has it.
async fn who_is_tested_does_not_wait_for_himself_to_get_the_winner(bed: &Bed) {
    let world = World::new(bed, 2).await;
    let variants =
        r#"[{"name":"a","weight":1,"subject":"A"},{"name":"b","weight":1,"subject":"B"}]"#;
    let sending = world.campaign_with(1, "NULL", "Hello", variants).await;
    for sql in [
        "UPDATE campaigns SET test_percent = 50, winner_metric = 'opens', winner_wait_ms = 3600000",
        "UPDATE campaign_batches SET held = 1, fed_at = NULL WHERE number = 1",
        "UPDATE campaign_recipients SET arm = 1 WHERE email = 'p002@example.org'",
    ] {
        assert_eq!(world.run(sql).await, 1);
    }
    merge(&world, "p001@example.org", "p002@example.org").await;
    assert_eq!(world.handle(&sending.messages[1]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p002@example.org"]);
    bed.advance(60).await;
    bed.work(&queues::CAMPAIGN_STEPS, steps::handler(bed.access.clone())).await;
    world.work().await;
    check_skipped(&sending, "p001@example.org").await;
    sending.check_end("with one who would have got the winner").await;
}

async fn a_letter_knows_what_any_address_of_the_person_says(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    let email = "p001@example.org".parse().unwrap();
    let edit = Edit { first_name: Change::Clear, ..Edit::default() };
    contacts::update(&bed.cx().await, Update { email, edit }).await.unwrap();
    merge(&world, "p001@example.org", "p002@example.org").await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    for (email, name) in [("p001@example.org", "Person 2"), ("p003@example.org", "Person 3")] {
        let mime = world.provider.mime(email);
        assert!(mime.contains(&format!("Subject: Hello {name}\r\n")), "{mime}");
        assert_eq!(world.log(email).await[0].text("subject"), Some(&*format!("Hello {name}")));
    }
}
