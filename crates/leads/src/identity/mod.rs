//! Who is who: the identities of a person, found, made, merged and taken apart again.
//!
//! Whatever an event names a person by (an address, a number, an id of some system, a browser), it is about one contact.
//! Here: the normal forms (`channel`), whom an event is about (`rules`), `resolve`, merges and flags, what somebody is not known by after
//! all (`detach`), and the view of one contact over all channels. Not here: making a contact (`people::contacts`, the one way), and what consent becomes
//! (`people::consent::merged`).

mod channel;
mod detach;
mod flags;
mod merge;
mod rules;
mod store;
#[cfg(test)]
mod tests;
mod view;
mod zones;

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_people::contacts::{self, ContactId};
use tidings_sql::{DatabaseError, Tx};

pub use channel::{Channel, Identity, IdentityError, MAX_VALUE};
pub use detach::{DetachError, detach};
pub use flags::{Flag, FlagId, dismiss, flags, policy, set_policy};
pub use merge::{Merge, MergeError, MergeId, Moved, UnmergeError, merge, merges, unmerge};
pub use rules::{Cause, MAX_MERGED, Policy};
pub use view::{Owner, View, Whom, find, owner, view};

use merge::{Looked, Stopped, Why};
use rules::{Case, Plan, Who};
use store::Holder;

/// What is known of whom an event is about.
#[derive(Debug, Clone)]
pub struct Resolve {
    /// In the order in which the event names them. The first that is the person's says where the event is stored.
    pub identities: Vec<Identity>,
    /// When he was seen.
    pub at: Timestamp,
    /// When it was heard of. Whoever was erased since is not made again.
    pub received_at: Timestamp,
    /// The event, for the provenance.
    pub event_id: String,
    pub unknown: Unknown,
}

/// What to do with somebody whom nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// He is made.
    Make,
    /// Nothing: what we ourselves did is no reason to have a contact again who was erased meanwhile.
    Ignore,
}

/// Whom an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Where the event is to be stored: the partition that the identity is at home in.
    pub lead_organization_id: String,
    /// The person as he is known now.
    pub lead_id: ContactId,
    pub created: bool,
    pub merged: Vec<MergeId>,
    /// Those who may be the same person.
    pub flagged: Vec<ContactId>,
}

/// Finds or makes whoever has these identities, in one transaction, also when others do the same at the same time. `None` if
/// nobody has them and none is to be made, or whoever had them was erased since.
pub async fn resolve(cx: &Cx, cmd: Resolve) -> Result<Option<Resolved>, StorageError> {
    let mut looked = Looked::default();
    loop {
        let (within, known, again) = (cx.clone(), looked.clone(), cmd.clone());
        let resolve = cx.database().write(move |tx| resolve_in(tx, &within, &again, &known));
        match resolve.await {
            Ok(resolved) => return Ok(resolved),
            Err(Stopped::Unseen(both)) => looked.look(cx, both).await?,
            Err(Stopped::Failed(error)) => return Err(error.into()),
        }
    }
}

fn resolve_in(
    tx: &mut Tx<'_>,
    cx: &Cx,
    cmd: &Resolve,
    looked: &Looked,
) -> Result<Option<Resolved>, Stopped<DatabaseError>> {
    let mut named: Vec<(Identity, Option<Holder>)> = Vec::new();
    for identity in &cmd.identities {
        if !named.iter().any(|(known, _)| known == identity) {
            let holder = store::holder(tx, cx, identity)?;
            // Whoever has it since the event was heard of may be somebody else than it is about.
            let may_be_gone = match holder {
                None => cmd.unknown == Unknown::Make,
                Some(holder) => holder.since > cmd.received_at,
            };
            let is_gone = may_be_gone
                && contacts::was_erased_since(tx, cx, identity.known_by(), cmd.received_at)?;
            if !is_gone {
                named.push((identity.clone(), holder));
            }
        }
    }
    if named.is_empty()
        || (cmd.unknown == Unknown::Ignore && named.iter().all(|(_, holder)| holder.is_none()))
    {
        return Ok(None);
    }
    let identities: Vec<_> = named
        .iter()
        .map(|(identity, holder)| (identity.clone(), holder.map(|holder| holder.lead)))
        .collect();
    let mut known = BTreeMap::new();
    for lead in identities.iter().filter_map(|(_, lead)| *lead) {
        if let std::collections::btree_map::Entry::Vacant(entry) = known.entry(lead) {
            entry.insert(store::known(tx, lead)?);
        }
    }
    let leads: Vec<i64> = known.keys().copied().collect();
    let case = Case {
        identities: &identities,
        known: &known,
        taken_apart: &store::taken_apart(tx, &leads)?,
        policy: if leads.len() > 1 { store::policy(tx, cx)? } else { Policy::default() },
    };
    let mut plan = case.decide();
    if cmd.unknown == Unknown::Ignore {
        // He is called something else than whoever we know by the rest: that is nobody whom we know.
        if plan.who == Who::New {
            return Ok(None);
        }
        plan.others.clear();
    }
    let home = home_of(&named, &plan);
    let mut resolved = carry_out(tx, cx, (&plan, &identities), home, (cmd, looked))?;
    let home = home.unwrap_or(resolved.lead_id.get());
    let lead = resolved.lead_id.get();
    // Whoever was merged into him is seen besides. Nearly always it is himself.
    if lead != home {
        store::partition(tx, cx, lead)?;
        store::seen(tx, cx, lead, cmd.at)?;
    }
    resolved.lead_organization_id = store::partition(tx, cx, home)?.to_string();
    store::seen(tx, cx, home, cmd.at)?;
    Ok(Some(resolved))
}

/// Where the first identity of the person is at home, those that only one can have before the others.
fn home_of(named: &[(Identity, Option<Holder>)], plan: &Plan) -> Option<i64> {
    let his = |holder: &Holder| match plan.who {
        Who::Lead(lead) => holder.lead == lead || plan.merge.contains(&holder.lead),
        Who::New => plan.merge.contains(&holder.lead),
    };
    let of = |strong: bool| {
        named.iter().filter(move |(identity, _)| identity.channel().is_strong() == strong)
    };
    of(true).chain(of(false)).filter_map(|(_, holder)| *holder).find(his).map(|holder| holder.home)
}

fn carry_out(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (plan, identities): (&Plan, &[(Identity, Option<i64>)]),
    home: Option<i64>,
    (cmd, looked): (&Resolve, &Looked),
) -> Result<Resolved, Stopped<DatabaseError>> {
    let event = cmd.event_id.as_str();
    let mut attach = plan.attach.iter().filter_map(|place| identities.get(*place));
    let created = plan.who == Who::New;
    let mut lead = match plan.who {
        Who::Lead(lead) => lead,
        Who::New => {
            let (first, _) = attach.next().ok_or(DatabaseError::NoRow)?;
            made(tx, cx, first)?.get()
        }
    };
    for (identity, _) in attach {
        // Browsers come and go without end. Ids that only one can have do not.
        if !identity.channel().is_strong() && !store::has_room(tx, lead)? {
            continue;
        }
        if !contacts::attach(tx, cx, lead.into(), identity.known_by())? {
            return Err(DatabaseError::Conflict.into());
        }
        // It came with an identity of somebody who became this one, and goes with it if they are taken apart.
        if let Some(home) = home {
            store::is_at_home(tx, cx, identity, home)?;
        }
    }
    let mut flagged = Vec::new();
    let mut others = plan.flag.clone();
    for (identity, _) in plan.others.iter().filter_map(|place| identities.get(*place)) {
        others.push((made(tx, cx, identity)?.get(), Cause::IdsDiffer));
    }
    let mut merged = Vec::new();
    for other in &plan.merge {
        let (winner, loser) = store::older_first(tx, lead, *other)?;
        merged.push(merge::merge_in(tx, cx, (winner, loser), (Why::Event(event), looked))?);
        lead = winner.get();
    }
    for (other, cause) in others {
        store::flag(tx, cx, (lead, other), (cause, Some(event)))?;
        flagged.push(other.into());
    }
    let lead_organization_id = String::new();
    Ok(Resolved { lead_organization_id, lead_id: lead.into(), created, merged, flagged })
}

fn made(tx: &mut Tx<'_>, cx: &Cx, identity: &Identity) -> Result<ContactId, DatabaseError> {
    // Whoever was faster is found when this runs again.
    contacts::make(tx, cx, identity.known_by())?.ok_or(DatabaseError::Conflict)
}
