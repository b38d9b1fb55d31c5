//! What a walk reads: no more than the people that it can mean, and nothing twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_kernel::{
    ChangeBatch, Delete, Item, ItemEngine, ItemStore, Key, Page, Put, Query, Scan, StoreError,
    Table, Txn, Update, Workspace,
};
use tidings_sql::SqlItems;
use tidings_testbed::{Bed, each_store};

use super::world::{Described, Fate, Person, address, make, names};
use crate::audience::{Condition, Previewed, Walk, page, preview_of};

/// How often something was read: keys by the end of their sort key, and what queries found.
type Counts = Arc<Mutex<BTreeMap<String, usize>>>;

struct Counting {
    inner: SqlItems,
    counts: Counts,
}

struct Counted {
    inner: Arc<dyn ItemStore>,
    counts: Counts,
}

#[async_trait]
impl ItemEngine for Counting {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let inner = self.inner.open(workspace).await?;
        Ok(Arc::new(Counted { inner, counts: Arc::clone(&self.counts) }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(limit).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }
}

impl Counted {
    fn count(&self, what: &str, more: usize) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += more;
    }
}

#[async_trait]
impl ItemStore for Counted {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        self.count("alone", 1);
        self.inner.get(table, key).await
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        for key in keys {
            self.count(key.sort.as_deref().unwrap_or(table.name), 1);
        }
        self.inner.batch_get(table, keys).await
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        self.inner.put(put).await
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        self.inner.update(update).await
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        self.inner.delete(delete).await
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        self.inner.transact(txn).await
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let what = query.partition.clone();
        let page = self.inner.query(query).await?;
        self.count(&what, page.items.len());
        Ok(page)
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        self.inner.count(query).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.count("scan", 1);
        self.inner.scan(scan).await
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        self.inner.changes(table, consumer, limit).await
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        self.inner.acknowledge(table, consumer, position).await
    }
}

/// The same workspace, where everything that is read of the items is counted.
async fn counting(bed: &Bed) -> (Cx, Counts) {
    let counts = Counts::default();
    let inner = SqlItems::new(bed.access.database().clone(), bed.clock.clone());
    let engine = Counting { inner, counts: Arc::clone(&counts) };
    let access = Access::new(bed.access.database().clone(), Arc::new(engine), bed.clock.clone());
    let acme = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
    (access.inside(&acme, Actor::Operator), counts)
}

each_store!(a_walk_reads_no_more_than_it_must, a_preview_reads_a_profile_once);

/// Forty people in `news`; the first five are tagged `a`, and the first two of them `b`.
async fn make_forty(bed: &Bed) -> Walk {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    let person = |number: usize| {
        let tags = [("a", 5), ("b", 2)].into_iter().filter(|(_, count)| number < *count);
        let tags = tags.map(|(tag, _)| tag).collect();
        Person {
            profiles: vec![Some(Described { tags, plan: Some("pro") })],
            fate: Fate::There,
            subscriptions: [Some(1), None, None, None],
            feature: Some(3),
            memory: Some(4),
        }
    };
    make(&cx, &names, &(0..40).map(person).collect::<Vec<_>>()).await;
    Walk { condition: Condition::EVERYONE, client: names.shop, audience: None, profiles: false }
}

fn taken(counts: &Counts) -> Json {
    json!(std::mem::take(&mut *counts.lock().unwrap()))
}

async fn a_walk_reads_no_more_than_it_must(bed: &Bed) {
    let mut walk = make_forty(bed).await;
    let (cx, counts) = counting(bed).await;
    let listed = json!({"contacts": [address(1, 0).as_str(), address(20, 0).as_str(), "nobody@example.org"]});
    for (condition, profiles, met, read) in [
        (json!({}), false, 40, json!({})),
        (json!({}), true, 40, json!({"PROFILE": 40})),
        (json!({"audience": "news"}), false, 40, json!({})),
        (json!({"tag": "a"}), true, 5, json!({"TAG#a": 5, "PROFILE": 5})),
        (json!({"tags": ["b", "a"]}), true, 2, json!({"TAG#b": 2, "PROFILE": 2})),
        (
            json!({"any": [{"tag": "b"}, {"tag": "a"}, {"tag": "nobody-has-it"}]}),
            true,
            5,
            json!({"TAG#a": 5, "TAG#b": 2, "TAG#nobody-has-it": 0, "PROFILE": 5}),
        ),
        (
            json!({"all": [{"tag": "a"}, {"audience": "news"}]}),
            false,
            5,
            json!({"TAG#a": 5, "PROFILE": 5}),
        ),
        (listed.clone(), false, 2, json!({})),
        (json!({"all": [listed, {"tag": "a"}]}), true, 1, json!({"PROFILE": 2})),
        (json!({"feature": "opens", "equals": 3}), false, 40, json!({"feature": 40})),
        (
            json!({"all": [{"tag": "a"}, {"memory": "purchase/a#b", "equals": 4}]}),
            false,
            5,
            json!({"TAG#a": 5, "PROFILE": 5, "purchase#a#b": 5}),
        ),
        // Only those who are met have their profile read, if nothing else asks for it.
        (json!({"feature": "opens", "equals": 4}), true, 0, json!({"feature": 40})),
    ] {
        walk.condition = Condition::parse(&condition, "").unwrap();
        walk.profiles = profiles;
        let (mut after, mut count) = (None::<String>, 0);
        loop {
            let found = page(&cx, &walk, after.as_deref(), 7).await.unwrap();
            count += found.contacts.len();
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((count, taken(&counts)), (met, read), "{condition}");
    }
}

async fn a_preview_reads_a_profile_once(bed: &Bed) {
    let walk = make_forty(bed).await;
    let (cx, counts) = counting(bed).await;
    for (condition, met) in [(json!({}), 40), (json!({"tag": "a"}), 5)] {
        let condition = Condition::parse(&condition, "").unwrap();
        let previewed = Previewed { walk: Walk { condition, ..walk.clone() }, topic: None };
        let counted = preview_of(&cx, &previewed, u64::MAX).await.unwrap();
        assert_eq!((counted.sendable, counted.complete), (met, true));
        let mut read = taken(&counts);
        read.as_object_mut().unwrap().remove("TAG#a");
        assert_eq!(read, json!({"PROFILE": met, "SUPPRESSION": met}));
    }
}
