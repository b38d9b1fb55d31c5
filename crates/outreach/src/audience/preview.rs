//! The preview: how many a campaign means, how many of them would get it, and why the others would not.
//!
//! It walks over the audience as the snapshot does and asks the same gate, page by page: what it holds does not grow with
//! the audience. It changes nothing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tidings_access::{Cx, StorageError};
use tidings_delivery::eligibility::{Loaded, Person, Verdict};
use tidings_kernel::EmailAddress;
use tidings_people::consent::TopicId;
use tidings_people::contacts::ContactId;

use super::gate::{Gate, Own};
use super::walk::{Walk, page};

/// So many are looked at together.
const PAGE: usize = 500;
/// So many are shown.
const SAMPLE: usize = 20;

/// What is previewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previewed {
    pub walk: Walk,
    pub topic: Option<TopicId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preview {
    /// How many are meant.
    pub count: u64,
    /// How many of them would get it.
    pub sendable: u64,
    /// How many of those would get it later only: because of quiet hours, or of what they got lately.
    pub deferred: u64,
    /// How many would not get it, by reason.
    pub excluded: BTreeMap<&'static str, u64>,
    /// Some who would get it: the first that were met.
    pub sample: Vec<Sample>,
    /// How many were looked at to find them.
    pub looked_at: u64,
    /// Whether that was everybody.
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub lead_id: ContactId,
    pub email: EmailAddress,
}

/// A preview that goes on page by page.
pub struct Counting {
    walk: Walk,
    gate: Gate,
    has_profiles: bool,
    after: Option<String>,
    preview: Preview,
}

impl Counting {
    pub async fn begin(
        cx: &Cx,
        Previewed { walk, topic }: Previewed,
    ) -> Result<Self, StorageError> {
        let own = Own { client: walk.client, audience: walk.audience, topic };
        let (within, condition) = (cx.clone(), walk.condition.clone());
        let gate = cx.database().read(move |tx| Gate::load(tx, &within, &own, &condition));
        let gate: Gate = gate.await?;
        let has_profiles = walk.profiles || walk.condition.asks_profile();
        Ok(Self { walk, gate, has_profiles, after: None, preview: Preview::default() })
    }

    /// Counts some more, and tells whether there may be others.
    pub async fn page(&mut self, cx: &Cx) -> Result<ControlFlow<()>, StorageError> {
        if self.preview.complete {
            return Ok(ControlFlow::Break(()));
        }
        let found = page(cx, &self.walk, self.after.as_deref(), PAGE).await?;
        let ids = found.contacts.iter().map(|member| (member.lead_id, member.email.clone()));
        let ids: Vec<(ContactId, EmailAddress)> = ids.collect();
        let people = found.contacts.into_iter().map(|member| {
            let profile =
                if self.has_profiles { Loaded::Profile(member.profile) } else { Loaded::NotYet };
            Person { email: member.email, profile }
        });
        let answers = self.gate.check(cx, people.collect()).await?;
        for ((lead_id, email), answer) in ids.into_iter().zip(answers) {
            self.preview.add(lead_id, email, answer.verdict);
        }
        self.preview.looked_at += u64::try_from(found.looked_at).unwrap_or(u64::MAX);
        self.after = found.next;
        self.preview.complete = self.after.is_none();
        Ok(match self.preview.complete {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// What was counted until now.
    pub fn so_far(&self) -> &Preview {
        &self.preview
    }
}

/// Counts them all. `seen` is told after each page, and can end it there: what was counted until then is the answer, and
/// it says that it is not complete.
pub async fn preview(
    cx: &Cx,
    previewed: &Previewed,
    seen: &mut (dyn FnMut(&Preview) -> ControlFlow<()> + Send),
) -> Result<Preview, StorageError> {
    let mut counting = Counting::begin(cx, previewed.clone()).await?;
    loop {
        let more = counting.page(cx).await?;
        if seen(&counting.preview).is_break() || more.is_break() {
            return Ok(counting.preview);
        }
    }
}

/// The same over no more than about `most` people that are looked at.
pub async fn preview_of(
    cx: &Cx,
    previewed: &Previewed,
    most: u64,
) -> Result<Preview, StorageError> {
    let mut until_most = |preview: &Preview| match preview.looked_at < most {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    preview(cx, previewed, &mut until_most).await
}

impl Preview {
    fn add(&mut self, lead_id: ContactId, email: EmailAddress, verdict: Verdict) {
        self.count += 1;
        match verdict {
            Verdict::Skip(reason) => *self.excluded.entry(reason.as_str()).or_default() += 1,
            Verdict::Send | Verdict::Defer { .. } => {
                self.sendable += 1;
                self.deferred += u64::from(matches!(verdict, Verdict::Defer { .. }));
                if self.sample.len() < SAMPLE {
                    self.sample.push(Sample { lead_id, email });
                }
            }
        }
    }
}
