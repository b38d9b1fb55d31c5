//! Does the store keep what it is given? An item is written, read and deleted again.

use anyhow::{Context as _, ensure};
use tidings_kernel::{Clock as _, Delete, Item, Key, Put, SystemClock, Workspace, tables};

use super::Finding;
use crate::store::Store;

/// If the doctor dies in between, the sweeper takes the probe away.
const PROBE_LIFE_SECONDS: i64 = 300;

pub(super) async fn check(store: &Store) -> Vec<Finding> {
    let mut findings = vec![match round_trip(store).await {
        Ok(()) => Finding::ok("store", "an item was written, read and deleted"),
        Err(error) => Finding::fail(
            "store",
            format!("{error:#}"),
            "the server's log and the database's own log say more",
        ),
    }];
    if let Some(database) = &store.database {
        findings.push(match database.schema_version().await {
            Ok(version) => Finding::ok("schema", format!("version {version}, up to date")),
            Err(error) => Finding::fail(
                "schema",
                format!("{:#}", anyhow::Error::new(error)),
                "restore a backup if the file is damaged",
            ),
        });
    }
    findings
}

async fn round_trip(store: &Store) -> anyhow::Result<()> {
    let workspace: Workspace = "default".parse().expect("it is a good name");
    let now = SystemClock.now();
    let key = Key::new("DOCTOR#probe", format!("{}#{}", now, std::process::id()));
    let item: Item = tables::MAIN.bare_item(&key).with("ttl", now.as_second() + PROBE_LIFE_SECONDS);

    let items = store.engine.open(&workspace).await.context("the workspace cannot be opened")?;
    let put = Put::new(&tables::MAIN, item.clone());
    items.put(put).await.context("the probe item cannot be written")?;
    let found = items.get(&tables::MAIN, &key).await.context("the probe item cannot be read")?;
    let deleted = items.delete(Delete::new(&tables::MAIN, key)).await;
    deleted.context("the probe item cannot be deleted")?;
    ensure!(found == Some(item), "the probe item did not come back as it was written");
    Ok(())
}
