//! Counts on the SQL engines, whatever happens in whatever order (`model`).
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod model;

use async_trait::async_trait;
use model::{Ground, Size, counts_are_what_looking_says};
use tidings_access::Cx;
use tidings_inbox::Inbox;
use tidings_kernel::ItemEngine as _;
use tidings_testbed::Bed;
use tidings_testkit::FakeClock;

struct Sql<'a> {
    bed: &'a Bed,
    workspace: String,
    inbox: Inbox,
}

#[async_trait]
impl Ground for Sql<'_> {
    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn clock(&self) -> &FakeClock {
        &self.bed.clock
    }

    async fn cx(&self) -> Cx {
        self.bed.inside(&self.workspace).await
    }

    async fn sweep(&self) {
        while self.bed.items().sweep(100).await.unwrap() > 0 {}
    }

    async fn retell(&self) {
        let sql = "UPDATE item_consumers SET seq = 0";
        let write = self.bed.access.database();
        write.write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
    }
}

fn on(bed: impl Future<Output = Bed>, size: Size) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = &runtime.block_on(bed);
    counts_are_what_looking_says(&runtime, size, async |workspace| {
        bed.make_workspace(&workspace).await;
        Sql { bed, workspace, inbox: Inbox::new() }
    });
}

#[test]
fn counts_are_what_looking_says_in_memory() {
    on(Bed::memory(), Size { cases: 12, steps: 120, every: 3 });
}

#[test]
fn counts_are_what_looking_says_on_postgres() {
    on(Bed::postgres(), Size { cases: 4, steps: 80, every: 4 });
}
