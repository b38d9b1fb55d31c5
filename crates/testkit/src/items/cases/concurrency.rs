//! Many writers at once: nothing is lost, nothing counts twice, and one of those who race wins.

use std::sync::Arc;

use tidings_kernel::{
    Cancellation, Condition, Expect, ItemStore, Key, Put, StoreError, Txn, Update, tables::MAIN,
};
use tokio::task::JoinSet;

use super::{Case, cases};
use crate::items::ground::{Ground, row};

pub(super) const CASES: &[Case] = &cases![
    additions_are_all_counted,
    additions_in_transactions_are_all_counted,
    updates_and_transactions_share_a_counter,
    one_put_wins_each_key,
    one_transaction_wins_its_keys,
    whoever_adds_what_is_there_leaves_nothing,
    versions_are_taken_one_by_one,
    transfers_keep_the_sum,
];

const TASKS: usize = 64;

/// Runs 64 tasks at once and gathers what each of them answers.
async fn race<T, F, R>(ground: &Ground, task: T) -> Vec<R>
where
    T: Fn(Arc<dyn ItemStore>, usize) -> F,
    F: Future<Output = R> + Send + 'static,
    R: Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        tasks.spawn(task(Arc::clone(&ground.store), number));
    }
    tasks.join_all().await
}

fn is_conflict(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict => true,
        StoreError::Cancelled(reasons) => {
            reasons.iter().any(|reason| matches!(reason, Cancellation::Conflict))
                && !error.is_condition_failed()
        }
        _ => false,
    }
}

/// A conflict says that nothing was written, so the same transaction may be sent again.
async fn transact(store: &dyn ItemStore, txn: Txn) -> Result<(), StoreError> {
    loop {
        match store.transact(txn.clone()).await {
            Err(error) if is_conflict(&error) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

async fn update(store: &dyn ItemStore, update: Update) -> Result<(), StoreError> {
    loop {
        match store.update(update.clone()).await {
            Err(error) if is_conflict(&error) => tokio::task::yield_now().await,
            answer => return answer.map(drop),
        }
    }
}

fn counter(number: usize) -> Key {
    Key::new("counters", number.to_string())
}

fn add(number: usize, by: i64) -> Update {
    Update::new(&MAIN, counter(number)).add("count", by)
}

async fn counted(ground: &Ground, number: usize) -> i64 {
    ground.get(&MAIN, &counter(number)).await.unwrap().integer("count").unwrap()
}

async fn additions_are_all_counted(ground: Ground) {
    race(&ground, |store, task| async move {
        for round in 0..5 {
            update(&*store, add(0, 1)).await.unwrap();
            update(&*store, add(1 + (task + round) % 3, 2)).await.unwrap();
        }
    })
    .await;
    assert_eq!(counted(&ground, 0).await, 64 * 5);
    let others = counted(&ground, 1).await + counted(&ground, 2).await + counted(&ground, 3).await;
    assert_eq!(others, 64 * 5 * 2);
}

async fn additions_in_transactions_are_all_counted(ground: Ground) {
    race(&ground, |store, task| async move {
        for round in 0..3 {
            // Every other task takes the counters in the opposite order.
            let (first, second) = if task % 2 == 0 { (0, 1) } else { (1, 0) };
            let txn = Txn::new().update(add(first, 1)).update(add(second, 1)).put(
                &MAIN,
                row("events", &format!("{task}-{round}")),
                Expect::Absent,
            );
            transact(&*store, txn).await.unwrap();
        }
    })
    .await;
    assert_eq!((counted(&ground, 0).await, counted(&ground, 1).await), (64 * 3, 64 * 3));
    let events = tidings_kernel::Query::new(&MAIN, "events");
    assert_eq!(ground.store.count(events).await.unwrap(), 64 * 3);
}

async fn updates_and_transactions_share_a_counter(ground: Ground) {
    race(&ground, |store, task| async move {
        for round in 0..3 {
            if (task + round) % 2 == 0 {
                update(&*store, add(0, 1)).await.unwrap();
            } else {
                transact(&*store, Txn::new().update(add(0, 1)).update(add(1, 1))).await.unwrap();
            }
        }
    })
    .await;
    assert_eq!(counted(&ground, 0).await, 64 * 3);
    assert_eq!(counted(&ground, 1).await, 64 * 3 / 2);
}

async fn one_put_wins_each_key(ground: Ground) {
    let wins = race(&ground, |store, task| async move {
        let mut wins = Vec::new();
        for key in 0..8 {
            let item = row("race", &key.to_string()).with("winner", task as i64);
            loop {
                let put = Put::new(&MAIN, item.clone()).expect(Expect::Absent);
                match store.put(put).await {
                    Ok(before) => {
                        assert_eq!(before, None);
                        wins.push((key, task as i64));
                    }
                    Err(StoreError::ConditionFailed { current }) => assert!(current.is_some()),
                    Err(error) if is_conflict(&error) => continue,
                    Err(error) => panic!("{error:?}"),
                }
                break;
            }
        }
        wins
    })
    .await;
    let mut wins: Vec<(i32, i64)> = wins.concat();
    wins.sort_unstable();
    assert_eq!(wins.iter().map(|(key, _)| *key).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    for (key, winner) in wins {
        let item = ground.get(&MAIN, &Key::new("race", key.to_string())).await.unwrap();
        assert_eq!(item.integer("winner"), Some(winner));
    }
}

/// Both rows of an execution belong to the same starter, and each loser has written nothing.
async fn one_transaction_wins_its_keys(ground: Ground) {
    let won = race(&ground, |store, task| async move {
        let winner = task as i64;
        let rows =
            [row("SUB#a", "EXEC#b").with("of", winner), row("EXEC#b", "SUB#a").with("of", winner)];
        let [first, second] = if task % 2 == 0 { rows } else { [rows[1].clone(), rows[0].clone()] };
        let txn = Txn::new()
            .put(&MAIN, first, Expect::Absent)
            .put(&MAIN, second, Expect::Absent)
            .update(add(0, 1));
        match transact(&*store, txn).await {
            Ok(()) => Some(winner),
            Err(error) => {
                assert!(error.is_condition_failed(), "{error:?}");
                None
            }
        }
    })
    .await;
    let winners: Vec<i64> = won.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1);
    for key in [Key::new("SUB#a", "EXEC#b"), Key::new("EXEC#b", "SUB#a")] {
        let item = ground.get(&MAIN, &key).await.unwrap();
        assert_eq!(item.integer("of"), Some(winners[0]));
    }
    assert_eq!(counted(&ground, 0).await, 1);
}

/// They only add rows: two of their own each, and between them one that eight of them want. Half of those are there already.
async fn whoever_adds_what_is_there_leaves_nothing(ground: Ground) {
    let item =
        |pk: &str, sk: usize, task: usize| row(pk, &sk.to_string()).with("task", task as i64);
    for shared in 0..4 {
        ground.store.put(Put::new(&MAIN, item("shared", shared, TASKS))).await.unwrap();
    }
    let made = race(&ground, |store, task| async move {
        let txn = Txn::new()
            .put(&MAIN, item("before", task, task), Expect::Absent)
            .put(&MAIN, item("shared", task % 8, task), Expect::Absent)
            .put(&MAIN, item("own", task, task), Expect::Absent);
        match transact(&*store, txn).await {
            Ok(()) => Some(task),
            Err(error) => {
                assert!(error.is_condition_failed(), "{error:?}");
                None
            }
        }
    })
    .await;
    let made: Vec<usize> = made.into_iter().flatten().collect();
    assert_eq!(made.len(), 4, "one for each that was not there: {made:?}");
    for task in 0..TASKS {
        for pk in ["before", "own"] {
            let found = ground.get(&MAIN, &Key::new(pk, task.to_string())).await;
            assert_eq!(found.is_some(), made.contains(&task), "{pk} {task}");
        }
    }
    for shared in 0..8 {
        let found = ground.get(&MAIN, &Key::new("shared", shared.to_string())).await.unwrap();
        let owner = found.integer("task").unwrap() as usize;
        assert_eq!(owner == TASKS, shared < 4, "{shared}");
        assert!(owner == TASKS || made.contains(&owner), "{shared}");
    }
}

async fn versions_are_taken_one_by_one(ground: Ground) {
    ground.put(&MAIN, row("doc", "1").with("version", 0)).await;
    let taken = race(&ground, |store, _| async move {
        let key = Key::new("doc", "1");
        loop {
            let item = store.get(&MAIN, &key).await.unwrap().unwrap();
            let version = item.integer("version").unwrap();
            let next = Update::new(&MAIN, key.clone())
                .set("version", version + 1)
                .expect(Expect::That(Condition::eq("version", version)));
            match update(&*store, next).await {
                Ok(()) => return version + 1,
                Err(error) => assert!(error.is_condition_failed(), "{error:?}"),
            }
        }
    })
    .await;
    let mut taken = taken;
    taken.sort_unstable();
    assert_eq!(taken, (1..=64).collect::<Vec<_>>());
}

async fn transfers_keep_the_sum(ground: Ground) {
    for account in 0..4 {
        ground.update(add(account, 10)).await;
    }
    race(&ground, |store, task| async move {
        let (from, to) = (task % 4, (task / 4 + 1 + task) % 4);
        if from == to {
            return;
        }
        let enough = Expect::That(Condition::Ge("count".into(), 3.into()));
        let txn = Txn::new().update(add(from, -3).expect(enough)).update(add(to, 3));
        if let Err(error) = transact(&*store, txn).await {
            assert!(error.is_condition_failed(), "{error:?}");
        }
    })
    .await;
    let mut sum = 0;
    for account in 0..4 {
        let count = counted(&ground, account).await;
        assert!(count >= 0, "account {account} was overdrawn: {count}");
        sum += count;
    }
    assert_eq!(sum, 40);
}
