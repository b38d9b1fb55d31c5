//! Demo data: a few people and what was sent to them, in a workspace of its own.
//!
//! Here: what `tidings serve --demo` puts into the workspace `demo`, and the key to it. The items are in `items.jsonl`, in the order
//! in which they would have come about.

use serde::Deserialize;
use tidings_access::{Access, Actor, DisplayName, Scopes, Slug, clients, keys, workspaces};
use tidings_kernel::{Expect, Item, Put, StoreError, Workspace, tables};

use crate::failure::Failure;
use crate::output::{Layout, Output};
use crate::store::Store;

const WORKSPACE: &str = "demo";
const ITEMS: &str = include_str!("items.jsonl");

#[derive(Deserialize)]
struct Line {
    table: String,
    item: Item,
}

/// Puts what is not there yet. What somebody has changed since stays as it is.
pub(crate) async fn fill(store: &Store) -> Result<usize, Failure> {
    let workspace: Workspace = WORKSPACE.parse().expect("it is a good name");
    let items = store.workspace(&workspace).await?;
    let mut added = 0;
    for line in lines() {
        let table = tables::by_name(&line.table).expect("the demo uses tables that exist");
        let put = Put::new(table, line.item).expect(Expect::Absent);
        match items.put(put).await {
            Ok(_) => added += 1,
            Err(StoreError::ConditionFailed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(added)
}

/// Makes the client `demo` with a key, which it prints on stdout: the log must not have it. Where the client is there
/// already nothing happens: a key that somebody has revoked must not come back with the next start.
pub(crate) async fn give_key(access: &Access) -> Result<(), Failure> {
    let workspace: Workspace = WORKSPACE.parse().expect("it is a good name");
    match workspaces::create(access, workspace.clone()).await {
        Ok(_) | Err(workspaces::CreateError::Taken(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let cx = access.inside(&workspaces::find(access, workspace).await?, Actor::Operator);
    let slug: Slug = WORKSPACE.parse().expect("it is a good slug");
    let name = DisplayName::from(&slug);
    match clients::create(&cx, clients::Create { slug: slug.clone(), name: name.clone() }).await {
        Ok(_) => {}
        Err(clients::CreateError::Taken(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let create = keys::Create {
        client: slug,
        name,
        scopes: Scopes::all(),
        rate: keys::Rate::default(),
        expires_at: None,
        granted_by: keys::Granter::Operator,
    };
    let issued = keys::create(&cx, create).await?;
    let mut out = Output::new(Layout::Lines);
    out.text(&format!("{}\n", issued.api_key.expose()))?;
    out.finish()?;
    tracing::info!("A key to the workspace demo is on stdout; it is not shown again");
    Ok(())
}

fn lines() -> impl Iterator<Item = Line> {
    ITEMS.lines().map(|line| serde_json::from_str(line).expect("the demo is well-formed"))
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Write, tables};

    use super::{Put, lines};

    #[test]
    fn every_line_is_an_item_that_a_store_takes() {
        for line in lines() {
            let table = tables::by_name(&line.table).expect(&line.table);
            Write::Put(Put::new(table, line.item)).validate().unwrap();
        }
    }
}
