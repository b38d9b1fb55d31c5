//! A commit that claims is made, and nobody hears of it: then nobody was handed over.

use std::sync::atomic::Ordering;

use futures_util::future::join;
use tidings_jobs::Outcome;
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::super::marks::{self, Given};
use super::crash::begin_again;
use super::{AT_ONCE, World};

each_store!(
    whichever_claim_nobody_hears_of_everybody_is_sent_to_once,
    who_is_claimed_by_somebody_else_is_not_let_go,
);

async fn whichever_claim_nobody_hears_of_everybody_is_sent_to_once(bed: &Bed) {
    let world = World::new(bed, 3 * AT_ONCE).await;
    for claim in 1..=3 {
        let sending = world.campaign(3 * AT_ONCE).await;
        world.worker.unheard.store(claim, Ordering::SeqCst);
        assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done, "claim {claim}");
        assert!(world.worker.unheard.load(Ordering::SeqCst) <= 0, "claim {claim} was never made");
        let statuses = sending.statuses().await;
        assert_eq!(
            statuses.get("sent"),
            Some(&(3 * AT_ONCE as i64)),
            "claim {claim}: {statuses:?}"
        );
        let mut taken = world.provider.taken();
        taken.dedup();
        assert_eq!(
            (taken.len(), world.provider.asked()),
            (3 * AT_ONCE, 3 * AT_ONCE),
            "claim {claim}"
        );
        assert_eq!(sending.tallies().await, sending.recount().await, "claim {claim}");
        begin_again(&world).await;
    }
}

/// The commit of which nobody heard was not made, and another worker was quicker: he has them, and keeps them.
async fn who_is_claimed_by_somebody_else_is_not_let_go(bed: &Bed) {
    let world = World::new(bed, 2).await;
    let sending = world.campaign(2).await;
    let now = bed.access.now();
    let claim = "UPDATE campaign_recipients SET status = 'claimed', attempts = 1, claimed_by = 'node-1/2', handed_at = 1,
                 claimed_until = 9999999999999";
    world.run(claim).await;
    let mut given = Vec::new();
    for (_, email) in &world.people {
        given.push(Given::new(sending.id(email).await, 0));
    }
    for (claimant, left) in [("node-1/1", 2), ("node-1", 2), ("node-1/22", 2), ("node-1/2", 0)] {
        let given = given.clone();
        let let_go = bed
            .access
            .database()
            .write_committed(move |tx| marks::let_go(tx, claimant, &given, now));
        let_go.await.map_err(|error: DatabaseError| error).unwrap();
        let claimed = sending.statuses().await.get("claimed").copied().unwrap_or(0);
        assert_eq!(claimed, left, "{claimant}");
    }
}

/// The commit of which nobody heard is not made yet: the connection is gone, and the server still has it.
#[tokio::test]
async fn a_claim_whose_commit_is_still_under_way_is_let_go() {
    let bed = Bed::postgres().await;
    let world = World::new(&bed, 2).await;
    let sending = world.campaign(2).await;
    let now = bed.access.now();
    let mut given = Vec::new();
    for (_, email) in &world.people {
        given.push(Given::new(sending.id(email).await, 0));
    }
    let (claimed, is_claimed) = tokio::sync::oneshot::channel();
    let (go, may_go) = std::sync::mpsc::channel();
    let mut claimed = Some(claimed);
    let other = bed.beside().await;
    let claim = other.access.database().write_committed(move |tx| {
        let sql = "UPDATE campaign_recipients SET status = 'claimed', attempts = 1, claimed_by = 'node-1/0',
                   handed_at = 1, claimed_until = 9999999999999";
        tx.execute(sql, &[])?;
        claimed.take().unwrap().send(()).unwrap();
        may_go.recv().unwrap();
        Ok::<_, DatabaseError>(())
    });
    let let_go =
        bed.access.database().write_committed(move |tx| marks::let_go(tx, "node-1/0", &given, now));
    let looking = async {
        // Whoever did not wait for it would be done by then.
        for _ in 0..50 {
            world.rows("SELECT 1").await;
        }
        go.send(()).unwrap();
    };
    let meanwhile = async {
        is_claimed.await.unwrap();
        join(let_go, looking).await.0
    };
    let (claimed, let_go) = join(claim, meanwhile).await;
    let_go.unwrap();
    claimed.unwrap();
    assert_eq!(sending.statuses().await.get("pending"), Some(&2));
}
