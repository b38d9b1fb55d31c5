//! A person who is erased: what was owed, sent and paid stays, and nothing tells whose it was.

use tidings_people::contacts;
use tidings_testbed::{Bed, each_store};

use super::world::{World, customer};
use crate::{Kind, Status};

each_store!(
    nothing_personal_is_left_and_nothing_is_sent,
    what_is_being_sent_is_taken_back,
    nobody_is_known_for_longer_than_he_can_be_found,
);

async fn nothing_personal_is_left_and_nothing_is_sent(bed: &Bed) {
    let world = World::new(bed).await;
    world.remind("c1", Kind::First).await;
    world.days(8).await;
    let open = world.draft("c1", Kind::Second).await;
    world.approve(&open).await;
    let other = world.draft("c2", Kind::First).await;
    contacts::erase(&world.cx().await, &"C1@example.org".parse().unwrap()).await.unwrap();
    world.run().await;
    let all = format!("{:?}", world.items().await);
    for personal in ["c1@example.org", "Customer c1", "Dear c1"] {
        assert!(!all.contains(personal), "{personal}: {all}");
    }
    assert!(all.contains("c2@example.org"));
    let gone = world.get(&open.id).await;
    assert_eq!((gone.status, gone.reason.as_deref()), (Status::Withdrawn, Some("erased")));
    assert_eq!((gone.name, gone.email, gone.content), (None, None, None));
    let sent = world.sent("c1").await;
    assert_eq!((sent.len(), sent[0].owed.to_string().as_str()), (1, "1500.00 EUR"));
    assert_eq!(world.outbox().len(), 1);
    assert_eq!(world.get(&other.id).await.status, Status::Draft);
    let answers = crate::allowed(&world.cx().await, &customer("c1")).await.unwrap();
    assert_eq!(answers[1].1, crate::rules::Answer::Allowed);
}

async fn what_is_being_sent_is_taken_back(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    world.approve(&draft).await;
    bed.work(&tidings_kernel::queues::REMINDER_STEPS, world.steps()).await;
    assert_eq!(world.get(&draft.id).await.status, Status::Sending);
    contacts::erase(&world.cx().await, &"c1@example.org".parse().unwrap()).await.unwrap();
    world.run().await;
    let gone = world.get(&draft.id).await;
    assert_eq!((gone.status, gone.reason.as_deref()), (Status::Withdrawn, Some("erased")));
    assert!(world.outbox().is_empty());
    let answers = crate::allowed(&world.cx().await, &customer("c1")).await.unwrap();
    assert_eq!(answers[0].1, crate::rules::Answer::Allowed);
}

async fn nobody_is_known_for_longer_than_he_can_be_found(bed: &Bed) {
    let world = World::new(bed).await;
    world.remind("c1", Kind::First).await;
    world.days(390).await;
    let all = format!("{:?}", world.items().await);
    assert!(all.contains("Customer c1"), "{all}");
    world.days(11).await;
    let all = format!("{:?}", world.items().await);
    for personal in ["c1@example.org", "Customer c1", "Dear c1"] {
        assert!(!all.contains(personal), "{personal}: {all}");
    }
    // And he can be written down anew, swept or not.
    world.draft("c1", Kind::First).await;
}
