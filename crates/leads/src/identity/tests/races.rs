//! Many at once: whoever resolves, merges and takes apart at the same time, there is one person for each identity.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tidings_access::StorageError;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{by, known_as, who};
use crate::identity::{Resolve, merge, merges, resolve, unmerge};

each_store!(
    a_hundred_first_events_of_one_person_make_one,
    events_that_join_each_other_at_once_end_as_one,
    merging_and_taking_apart_at_once_loses_nobody,
);

/// Again, as a worker does when it met another one too often.
async fn insist(cx: &tidings_access::Cx, cmd: Resolve) -> crate::identity::Resolved {
    loop {
        match resolve(cx, cmd.clone()).await {
            Ok(resolved) => return resolved.unwrap(),
            Err(StorageError::Relations(DatabaseError::Conflict)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn a_hundred_first_events_of_one_person_make_one(bed: &Bed) {
    let cx = bed.cx().await;
    let first = (0..100).map(|number| {
        let cx = &cx;
        let mut named = ["email=ada@example.org", "user_id=ada", "phone=+493012345"];
        named.rotate_left(number % 3);
        async move { insist(cx, by(&named[..1 + number % 3], cx)).await }
    });
    let found = join_all(first).await;
    // Some of them knew only one name, and were joined by those who knew two.
    let last = who(&cx, &["email=ada@example.org", "user_id=ada", "phone=+493012345"]).await;
    for name in ["email=ada@example.org", "user_id=ada", "phone=+493012345"] {
        assert_eq!(who(&cx, &[name]).await.lead_id, last.lead_id);
    }
    let made = found.iter().filter(|one| one.created).count();
    let joined = merges(&cx, None, 100).await.unwrap().len();
    assert_eq!(made, joined + 1, "everybody who was made was joined");
    let rows = cx.database().read(|tx| {
        let rows = tx.query("SELECT COUNT(*) FROM leads", &[])?;
        rows[0].int(0)
    });
    let leads: Result<i64, DatabaseError> = rows.await;
    assert_eq!(leads.unwrap(), made as i64, "nobody is left over");
}

async fn events_that_join_each_other_at_once_end_as_one(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..8 {
        who(&cx, &[&format!("custom:x={number}")]).await;
    }
    let pairs = (0..24).map(|number| {
        let cx = &cx;
        let (one, other) = (number % 8, (number * 3 + 1) % 8);
        async move {
            let (one, other) = (format!("custom:x={one}"), format!("custom:x={other}"));
            insist(cx, by(&[&one, &other], cx)).await
        }
    });
    join_all(pairs).await;
    let chain: Vec<String> = (0..8).map(|number| format!("custom:x={number}")).collect();
    let all = who(&cx, &chain.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(known_as(&cx, all.lead_id).await.len(), 8);
    let merged = merges(&cx, None, 100).await.unwrap();
    let losers: BTreeSet<_> = merged.iter().map(|merge| merge.loser).collect();
    assert_eq!((merged.len(), losers.len()), (7, 7), "each was joined once");
}

async fn merging_and_taking_apart_at_once_loses_nobody(bed: &Bed) {
    let cx = bed.cx().await;
    let mut leads = Vec::new();
    for number in 0..6 {
        leads.push(who(&cx, &[&format!("custom:x={number}")]).await.lead_id);
    }
    for round in 0..4 {
        let work = (0..12).map(|number: usize| {
            let (cx, leads) = (&cx, &leads);
            async move {
                if number % 3 == 2 {
                    for one in merges(cx, None, 100).await.unwrap() {
                        drop(unmerge(cx, one.id).await);
                    }
                } else {
                    let (one, other) = (leads[number % 6], leads[(number + round + 1) % 6]);
                    drop(merge(cx, one, other).await);
                }
            }
        });
        join_all(work).await;
    }
    for one in merges(&cx, None, 1_000).await.unwrap() {
        unmerge(&cx, one.id).await.unwrap();
    }
    for (number, lead) in leads.iter().enumerate() {
        assert_eq!(known_as(&cx, *lead).await, [format!("custom:x={number}")]);
    }
    let workspace = cx.workspace_id().get();
    let rows = cx.database().read(move |tx| {
        let sql = "SELECT COUNT(*) FROM channel_identities
                   WHERE workspace_id = $1 AND home_lead_id IS NOT NULL";
        tx.query(sql, &[Param::Int(workspace)])?[0].int(0)
    });
    let away: Result<i64, DatabaseError> = rows.await;
    assert_eq!(away.unwrap(), 0, "everything is at home");
}
