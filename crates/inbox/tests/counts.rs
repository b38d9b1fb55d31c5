//! Counts on the SQL engines, whatever happens in whatever order (`model`).
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod model;

use async_trait::async_trait;
use model::{Ground, NODES, Size, TENANTS, counts_are_what_looking_says, narrow};
use tidings_access::Cx;
use tidings_inbox::Inbox;
use tidings_kernel::ItemEngine as _;
use tidings_testbed::Bed;
use tidings_testkit::FakeClock;

/// On each of the nodes, which may have a database in common without having the connections in common.
struct Sql<'a> {
    beds: [&'a Bed; NODES],
    workspaces: [String; TENANTS],
    inboxes: [Inbox; NODES],
}

#[async_trait]
impl Ground for Sql<'_> {
    fn inbox(&self, node: usize) -> &Inbox {
        &self.inboxes[node]
    }

    fn clock(&self) -> &FakeClock {
        &self.beds[0].clock
    }

    async fn cx(&self, node: usize, tenant: usize) -> Cx {
        self.beds[node].inside(&self.workspaces[tenant]).await
    }

    async fn sweep(&self) {
        while self.beds[0].items().sweep(100).await.unwrap() > 0 {}
    }

    async fn retell(&self) {
        let sql = "UPDATE item_consumers SET seq = 0";
        let write = self.beds[0].access.database();
        write.write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
    }
}

fn on(size: Size, beds: impl AsyncFn() -> (Bed, Option<Bed>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = &runtime.block_on(beds());
    let beds = [first, second.as_ref().unwrap_or(first)];
    counts_are_what_looking_says(&runtime, size, async |workspaces| {
        for workspace in &workspaces {
            first.make_workspace(workspace).await;
        }
        Sql { beds, workspaces, inboxes: std::array::from_fn(|_| narrow()) }
    });
}

#[test]
fn counts_are_what_looking_says_in_memory() {
    on(Size { cases: 12, steps: 120, every: 3 }, async || (Bed::memory().await, None));
}

#[test]
fn counts_are_what_looking_says_in_a_file() {
    on(Size { cases: 4, steps: 100, every: 3 }, async || (Bed::file().await, None));
}

#[test]
fn counts_are_what_looking_says_on_postgres() {
    on(Size { cases: 4, steps: 80, every: 4 }, async || {
        let bed = Bed::postgres().await;
        let beside = bed.beside().await;
        (bed, Some(beside))
    });
}
