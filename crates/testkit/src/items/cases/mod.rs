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

use super::BoxFuture;
use super::ground::Ground;

#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) run: fn(Ground) -> BoxFuture<'static, ()>,
}

/// Names the cases of a module. A function that is left out is dead code, and the compiler says so: that is what
/// the macro is for.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        [$(crate::items::cases::Case {
            name: stringify!($name),
            run: |ground| Box::pin($name(ground)),
        }),+]
    };
}
use cases;

pub(super) const GROUPS: &[(&str, &[Case])] = &[
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
