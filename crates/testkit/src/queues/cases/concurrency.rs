//! Many at once: every message reaches one receiver within its lease, and none is lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::queues::PROBE;
use tidings_kernel::{Outgoing, Receive};
use tokio::task::JoinSet;

use super::{Case, cases};
use crate::queues::ground::{Ground, LONG, take};

pub(super) const CASES: &[Case] =
    &cases![receivers_share_what_is_there, senders_and_receivers_at_once];

const RECEIVERS: usize = 8;

async fn receivers_share_what_is_there(ground: Ground) {
    ground.send_numbers(&PROBE, 500).await;
    let mut receivers = JoinSet::new();
    for _ in 0..RECEIVERS {
        let engine = Arc::clone(&ground.engine);
        receivers.spawn(async move {
            let mut taken = Vec::new();
            loop {
                let request = Receive { max: 10, lease: LONG, wait: Duration::ZERO };
                let deliveries = engine.receive(&PROBE, request).await.unwrap();
                if deliveries.is_empty() {
                    return taken;
                }
                taken.extend(deliveries);
            }
        });
    }
    let taken = receivers.join_all().await.concat();
    assert!(taken.iter().all(|delivery| delivery.receives == 1));
    let distinct: HashSet<_> = taken.iter().map(|delivery| &delivery.body).collect();
    assert_eq!((distinct.len(), taken.len()), (500, 500));
}

async fn senders_and_receivers_at_once(ground: Ground) {
    let mut senders = JoinSet::new();
    for sender in 0..4 {
        let engine = Arc::clone(&ground.engine);
        senders.spawn(async move {
            for number in 0..25 {
                let body = format!("{sender} {number}");
                engine.send(vec![Outgoing::new(&PROBE, body)]).await.unwrap();
            }
        });
    }
    let mut receivers = JoinSet::new();
    for _ in 0..4 {
        let engine = Arc::clone(&ground.engine);
        receivers.spawn(async move { take(&*engine, &PROBE, 25).await });
    }
    senders.join_all().await;
    let taken = receivers.join_all().await.concat();
    let distinct: HashSet<_> = taken.iter().map(|delivery| &delivery.body).collect();
    assert_eq!((distinct.len(), taken.len()), (100, 100));
}
