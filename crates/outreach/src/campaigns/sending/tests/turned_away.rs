//! Who cannot be reached at his address at all.

use tidings_jobs::Outcome;
use tidings_kernel::{QueueEngine as _, SendError, queues};
use tidings_testbed::{Bed, each_store};

use super::World;

each_store!(who_cannot_be_reached_fails_and_is_told_of_once);

async fn who_cannot_be_reached_fails_and_is_told_of_once(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    let reason = "550 5.1.1 no such user to RCPT".to_owned();
    let nobody = SendError::NoSuchAddress { reason, status: "5.1.1".to_owned() };
    world.provider.answers("p001@example.org", nobody);
    world.provider.answers("p002@example.org", SendError::Refused("554 5.7.1 spam".to_owned()));
    for _ in 0..2 {
        assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    }
    for email in ["p001@example.org", "p002@example.org"] {
        assert_eq!(sending.column(email, "status").await.as_deref(), Some("failed"), "{email}");
    }
    let told = bed.queues.depth(&queues::SES_WEBHOOKS).await.unwrap();
    assert_eq!(told.ready, 1, "what a server thinks of the message says nothing of an address");
}
