//! The cases, grouped by subject. The name of a case is its claim.

mod agreement;
mod batch_get;
mod concurrency;
mod conditions;
mod count;
mod cursor;
mod filter;
mod index;
mod limits;
mod nested_update;
mod operators;
mod put_get;
mod query;
mod scan;
mod seed_inbox;
mod seed_leads;
mod seed_mailshot;
mod seed_mailshot_events;
mod seed_reminders;
mod stream;
mod transact;
mod ttl;
mod update;
mod values;
mod workspaces;

use super::ground::Ground;
use crate::suite::{Group, cases};

type Case = crate::suite::Case<Ground>;

pub(super) const GROUPS: &[Group<Ground>] = &[
    ("agreement", agreement::CASES),
    ("batch_get", batch_get::CASES),
    ("concurrency", concurrency::CASES),
    ("conditions", conditions::CASES),
    ("count", count::CASES),
    ("cursor", cursor::CASES),
    ("filter", filter::CASES),
    ("index", index::CASES),
    ("limits", limits::CASES),
    ("nested_update", nested_update::CASES),
    ("operators", operators::CASES),
    ("put_get", put_get::CASES),
    ("query", query::CASES),
    ("scan", scan::CASES),
    ("seed_inbox", seed_inbox::CASES),
    ("seed_leads", seed_leads::CASES),
    ("seed_mailshot", seed_mailshot::CASES),
    ("seed_mailshot_events", seed_mailshot_events::CASES),
    ("seed_reminders", seed_reminders::CASES),
    ("stream", stream::CASES),
    ("transact", transact::CASES),
    ("ttl", ttl::CASES),
    ("update", update::CASES),
    ("values", values::CASES),
    ("workspaces", workspaces::CASES),
];
