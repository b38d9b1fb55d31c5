//! What the send log says when somebody else than the sender writes its lines.

use tidings_jobs::Outcome;
use tidings_testbed::{Bed, each_store};

use super::World;

each_store!(lines_that_are_missing_are_written_when_the_batch_comes_again);

/// The process ended between the commit that ended the batch and the lines.
async fn lines_that_are_missing_are_written_when_the_batch_comes_again(bed: &Bed) {
    let world = World::new(bed, 60).await;
    let sending = world.campaign(60).await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    let items = bed.cx().await.items().await.unwrap();
    let mut before = Vec::new();
    for (number, (_, email)) in world.people.iter().enumerate() {
        let lines = world.log(email).await;
        before.push(lines.clone());
        if number % 2 == 0 {
            let key = tidings_kernel::Key::new(
                lines[0].text("PK").unwrap(),
                lines[0].text("SK").unwrap(),
            );
            let delete = tidings_kernel::Delete::new(&tidings_kernel::tables::MAIN, key);
            items.delete(delete).await.unwrap();
        }
    }
    bed.advance(10).await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    for ((_, email), before) in world.people.iter().zip(before) {
        assert_eq!(world.log(email).await, before, "{email}");
    }
    assert_eq!(world.provider.asked(), 60);
}
