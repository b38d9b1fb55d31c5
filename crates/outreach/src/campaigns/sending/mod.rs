//! The worker of `campaign-email`: from a batch of rows to the provider, each once.
//!
//! Here: what is to be done with a batch (this file), what it needs to know (`load`), whom it hands over and when
//! (`hand_over`), how many at once (`places`), their letters (`paper`), what is written down in one commit (`entry`) and
//! each change of the rows (`marks`), what is decided (`rules`), and what a person can do about what nobody knows
//! (`settle`). Not here: which batches there are and when they go (`batches`), and how one message is sent
//! (`delivery::transactional`).
//!
//! Everything that can go wrong before the provider is called happens before the claim; the claim, which also says that
//! somebody is being handed over, is the last commit before the call. So a crash leaves each recipient either untouched or
//! uncertain, and none is sent to twice. The queue keeps its message until the send log has its lines.

mod entry;
mod hand_over;
mod load;
mod marks;
mod paper;
mod places;
mod rules;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, btree_map};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, Cx, StorageError};
use tidings_delivery::eligibility::{self, ManyRelations, Verdict};
use tidings_delivery::ledger::insist;
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::sent::{self, Line};
use tidings_delivery::templates::display_names::{self, DisplayNames};
use tidings_delivery::templates::{Learned, Templates, Wanted, learned_of, others_of};
use tidings_jobs::contracts::CampaignEmail;
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::{EmailAddress, Sender, tables};
use tidings_people::keys;
use tidings_sql::{DatabaseError, Param, Tx};

use super::batches::{self, Finished};
use super::{CampaignId, RecipientId, Status, brake, control, lost, store};
use crate::audience::Gate;
use entry::{End, Entry, Run, Try, Written};
use hand_over::{HandOver, Stop};
use load::{Addressed, Loaded, Recipient};
use marks::Given;
use paper::{Desk, Paper, Papers, Person};
use places::Places;
use rules::Step;

pub use settle::{
    MAX_REASON, Settle, SettleError, Settled, Uncertain, UncertainList, settle, uncertain,
};

/// How long a batch waits that somebody else is busy with.
const A_MOMENT: Duration = Duration::from_secs(5);
/// How long a batch waits while a store cannot be used. It may be for as long as that takes.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// How often a batch is looked at again at once because its campaign has changed meanwhile.
const LOOKS: usize = 3;
/// What is said of who has an address that is none.
const UNREADABLE: &str = "its address cannot be read";
/// What those get who are the same person as another recipient.
pub const DUPLICATE: &str = "duplicate";
/// Of so many campaigns a worker remembers the workspace.
const KEPT: usize = 10_000;

/// What a worker stands on.
#[derive(Clone)]
pub struct Tools {
    pub access: Access,
    pub templates: Templates,
    pub links: Links,
    pub sender: Arc<dyn Sender>,
    pub pace: Arc<Pace>,
    pub settings: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Names this process in the claims.
    pub node: String,
    /// How long the send log is kept, if not for ever.
    pub ttl_days: Option<u32>,
    /// How many of a batch are handed over at once, if the provider carries as many. After a crash so many of each batch
    /// are uncertain at most.
    pub at_once: usize,
}

/// Works on batches. Clones share what is kept.
#[derive(Clone)]
pub struct Worker {
    access: Access,
    templates: Templates,
    links: Links,
    sender: Arc<dyn Sender>,
    pace: Arc<Pace>,
    settings: Settings,
    papers: Papers,
    places: Arc<Places>,
    /// When it is to stop, if anybody says so.
    stop: Option<tidings_jobs::Stop>,
    /// A campaign stays in its workspace, so that is looked up once.
    workspaces: Arc<Mutex<HashMap<i64, i64>>>,
    /// How often batches were looked at.
    looks: Arc<AtomicU64>,
    /// For tests: nobody hears of the commit with the so-many-th claims.
    #[cfg(test)]
    unheard: Arc<std::sync::atomic::AtomicIsize>,
}

/// What came of one look at a batch.
enum Next {
    Outcome(Outcome),
    LookAgain,
}

impl Worker {
    pub fn new(tools: Tools) -> Self {
        let Tools { access, templates, links, sender, pace, settings } = tools;
        let places = Arc::new(Places::new(settings.at_once, sender.at_once()));
        let (papers, stop, workspaces) = (Papers::default(), None, Arc::default());
        Self {
            access,
            templates,
            links,
            sender,
            pace,
            settings,
            papers,
            places,
            stop,
            workspaces,
            looks: Arc::default(),
            #[cfg(test)]
            unheard: Arc::default(),
        }
    }

    /// One that hands nothing more over once it is to stop. What it has handed over by then it writes down, and its
    /// batches go back to the queue.
    pub fn until(self, stop: tidings_jobs::Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Names one look at a batch in its claims, so that it knows them from those of any other look on any node.
    fn claimant(&self) -> String {
        format!("{}/{}", self.settings.node, self.looks.fetch_add(1, Ordering::Relaxed))
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(tidings_jobs::Stop::is_stopped)
    }

    pub fn handler(&self) -> Arc<dyn Handler> {
        for_contract(self.clone())
    }
}

#[async_trait]
impl Work<CampaignEmail> for Worker {
    async fn work(&self, message: CampaignEmail) -> Outcome {
        let batch = message.batch_id.clone();
        let id = message.campaign_id;
        let outcome = match self.deliver(message).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let causes = tidings_kernel::causes(&error);
                let reason = format!("{batch} of campaign {id} could not be worked on: {causes}");
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        };
        if let Outcome::Wait { after, .. } = &outcome {
            self.comes_again(id.into(), &batch, *after).await;
        }
        outcome
    }

    async fn given_up(&self, message: CampaignEmail, reason: &str) {
        let (id, batch) = (CampaignId::from(message.campaign_id), message.batch_id);
        if let Err(error) = self.stop_at(id, &batch, reason).await {
            let error = tidings_kernel::causes(&error);
            tracing::error!(campaign.id = %id, batch, error, "Campaign {id} is stuck, and could not be paused");
        }
    }
}

impl Worker {
    async fn deliver(&self, message: CampaignEmail) -> Result<Outcome, StorageError> {
        let campaign = CampaignId::from(message.campaign_id);
        let Some(number) = number_in(campaign, &message.batch_id) else {
            return Ok(Outcome::dead(format!("this is no batch of campaign {campaign}")));
        };
        let mut ids = message.campaign_recipient_ids;
        ids.sort_unstable();
        ids.dedup();
        for _ in 0..LOOKS {
            match Box::pin(self.look(campaign, number, &ids)).await? {
                Next::Outcome(outcome) => return Ok(outcome),
                Next::LookAgain => {}
            }
        }
        Ok(Outcome::wait(format!("campaign {campaign} keeps changing"), A_MOMENT))
    }

    async fn look(
        &self,
        campaign: CampaignId,
        number: i64,
        ids: &[i64],
    ) -> Result<Next, StorageError> {
        let missing =
            || Ok(Next::Outcome(Outcome::retry(format!("there is no campaign {campaign}"))));
        let Some(cx) = self.inside(campaign).await? else { return missing() };
        let batch_id = batches::batch_id(campaign, number);
        let (within, wanted) = (cx.clone(), ids.to_vec());
        let load =
            cx.database().read(move |tx| load::load(tx, &within, (campaign, number), &wanted));
        let Some(loaded) = load.await? else { return missing() };
        if loaded.foreign > 0 {
            let (foreign, named) = (loaded.foreign, ids.len());
            return Ok(Next::Outcome(Outcome::retry(format!(
                "{foreign} of {named} recipients of batch {batch_id} are not of campaign {campaign}"
            ))));
        }
        self.attend(&cx, loaded, ids, (number, batch_id)).await
    }

    /// Does what the campaign's status asks for.
    async fn attend(
        &self,
        cx: &Cx,
        loaded: Loaded,
        ids: &[i64],
        (number, batch_id): (i64, String),
    ) -> Result<Next, StorageError> {
        let Loaded { campaign, batch, rows, relations, unreadable, duplicates, later, .. } = loaded;
        let Some(batch) = batch else {
            return Ok(Next::Outcome(Outcome::retry(format!("there is no batch {batch_id}"))));
        };
        let papers = self.papers_of(cx, &campaign, &rows).await?;
        let run = Arc::new(Run {
            template_keys: papers.keys_of_templates(),
            campaign,
            number,
            batch_id,
            rows,
            claimant: self.claimant(),
            provider: self.sender.name(),
            cap: relations.as_ref().and_then(|(_, _, relations)| relations.cap()),
        });
        let seen = Seen::of(&run.rows, cx.now());
        let mut entry = Entry { given_up: seen.given_up, later, ..Entry::default() };
        entry.fails =
            unreadable.iter().map(|row| unwritten(row, "bad_address", UNREADABLE)).collect();
        let skip = |row: &Recipient| Given::new(row.id, row.attempts).word(DUPLICATE);
        entry.skips = duplicates.iter().map(skip).collect();
        let people = match relations {
            Some(wanted) => self.people(cx, wanted, (&papers, &mut entry)).await?,
            None => Vec::new(),
        };
        let labels = match people.is_empty() && seen.sent.is_empty() {
            true => DisplayNames::default(),
            false => display_names::get(cx).await?,
        };
        self.links.refresh(cx.now()).await?;
        let desk = Desk::new(&run.campaign, &self.links, &labels);
        let mut hand_over = HandOver::new(self, Arc::clone(&run), desk, entry);
        hand_over.people = people.into();
        let stop = Box::pin(hand_over.run()).await?;
        if stop.is_none() && batch.done_at.is_none() {
            match self.end(cx, &run).await {
                Ok(end) => hand_over.entry.end = end,
                // What the provider said of the last ones nobody else knows: it is written down whatever else cannot be read.
                Err(error) => {
                    hand_over.commit().await?;
                    return Err(error);
                }
            }
        }
        let written = match hand_over.entry.is_empty() {
            true => Written::default(),
            false => hand_over.commit().await?,
        };
        hand_over.leave();
        let known = seen.sent.len() + hand_over.taken;
        let mut lines = std::mem::take(&mut hand_over.lines);
        if !lines.is_empty() {
            let (id, number, sent) = (run.campaign.id, run.number, lines.len());
            tracing::info!(campaign.id = %id, batch = number, sent, "{sent} of batch {number} of campaign {id} were sent");
        }
        lines.extend(self.lines_of(cx, &hand_over, seen.sent, &papers).await?);
        sent::record_all(cx, &lines, self.settings.ttl_days).await?;
        let is_own = batch.recipients.iter().all(|id| ids.binary_search(id).is_ok());
        let finished = match written.ended {
            // Somebody else has sent to some of them since they were loaded, and may have ended before their lines were there.
            Some((Finished::Now | Finished::Before, sent)) if is_own && sent != known => {
                return Ok(Next::LookAgain);
            }
            ended => ended.map(|(finished, _)| finished),
        };
        let finished = finished.or(batch.done_at.map(|_| Finished::Before));
        Ok(after(&run, stop.as_ref(), finished, (seen.wait, is_own)))
    }

    /// Those who may be written to now. The others are noted in the entry, with the reason or until when they wait.
    async fn people(
        &self,
        cx: &Cx,
        (wanted, gate, relations): (Vec<Addressed>, Gate, ManyRelations),
        (papers, entry): (&Arms, &mut Entry),
    ) -> Result<Vec<Person>, StorageError> {
        let asked = wanted.iter().map(|one| eligibility::Person {
            email: one.email.clone(),
            profile: eligibility::Loaded::NotYet,
        });
        let answers = gate.check_with(cx, relations, asked.collect()).await?;
        let mut people = Vec::with_capacity(wanted.len());
        for (Addressed { row, email }, answer) in wanted.into_iter().zip(answers) {
            let profile = answer.profile;
            match answer.verdict {
                Verdict::Send => {}
                Verdict::Skip(reason) => {
                    let skip = Given::new(row.id, row.attempts).word(reason.as_str());
                    entry.skips.push(skip);
                    continue;
                }
                Verdict::Defer { until, .. } => {
                    entry.later.push((RecipientId::from(row.id), until));
                    continue;
                }
            }
            match papers.get(row.arm) {
                Ok(paper) => people.push(Person {
                    row,
                    email,
                    profile,
                    others: Vec::new(),
                    learned: Learned::default(),
                    paper: Arc::clone(paper),
                }),
                Err(why) => entry.fails.push(unwritten(&row, "not_rendered", why)),
            }
        }
        self.learn(cx, &mut people).await?;
        Ok(people)
    }

    /// Looks up what was learned of them and what their other addresses say, if their content names it.
    async fn learn(&self, cx: &Cx, people: &mut [Person]) -> Result<(), StorageError> {
        let mut wanted = Wanted::default();
        people.iter().for_each(|one| wanted.add(&one.paper.wanted));
        let emails: Vec<&EmailAddress> = people.iter().map(|person| &person.email).collect();
        let mut learned = learned_of(cx, &wanted, &emails).await?;
        let asked = people.iter().map(|person| (&person.email, person.profile.as_ref()));
        let mut others = others_of(cx, &wanted, asked).await?;
        for person in people {
            person.learned = learned.remove(person.email.as_str()).unwrap_or_default();
            person.others = others.remove(person.email.as_str()).unwrap_or_default();
        }
        Ok(())
    }

    /// What becomes of a batch with whose recipients nothing is left to do.
    async fn end(&self, cx: &Cx, run: &Run) -> Result<End, StorageError> {
        Ok(match run.campaign.status {
            Status::Sending => End::Finish(brake::came(cx, &run.campaign.key()).await?),
            Status::Cancelled | Status::Failed => End::GiveUp,
            Status::Draft
            | Status::Scheduled
            | Status::Snapshotting
            | Status::Paused
            | Status::Sent => End::HandBack,
        })
    }

    /// What the send log must say of those who were sent to before, by whoever did it.
    async fn lines_of(
        &self,
        cx: &Cx,
        hand_over: &HandOver<'_>,
        sent: Vec<Recipient>,
        papers: &Arms,
    ) -> Result<Vec<Line>, StorageError> {
        let mut people = Vec::new();
        for row in sent {
            // Who was erased in the meantime has no log.
            let email = row.email.as_deref().and_then(|text| text.parse::<EmailAddress>().ok());
            let (Some(email), Some(_), Ok(paper)) = (email, row.logged_at, papers.get(row.arm))
            else {
                continue;
            };
            let (paper, learned) = (Arc::clone(paper), Learned::default());
            people.push(Person { row, email, profile: None, others: Vec::new(), learned, paper });
        }
        if people.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<_> = people.iter().map(|one| keys::profile(&one.email)).collect();
        let profiles = cx.items().await?.batch_get(&tables::MAIN, &wanted).await?;
        for (person, profile) in people.iter_mut().zip(profiles) {
            person.profile = profile;
        }
        self.learn(cx, &mut people).await?;
        Ok(people.into_iter().filter_map(|person| hand_over.line_of(person, cx.now())).collect())
    }

    async fn papers_of(
        &self,
        cx: &Cx,
        campaign: &super::Campaign,
        rows: &[Recipient],
    ) -> Result<Arms, StorageError> {
        let mut arms = BTreeMap::new();
        for row in rows {
            if let btree_map::Entry::Vacant(place) = arms.entry(row.arm) {
                place.insert(self.papers.find(cx, &self.templates, campaign, row.arm).await?);
            }
        }
        Ok(Arms(arms))
    }

    /// Writes an entry down, however the database stumbles: without it those are uncertain whose answers it has. If nobody
    /// hears whether those were claimed whom it claims, they are let go, and not left to be called uncertain.
    async fn write(&self, run: &Arc<Run>, entry: Entry) -> Result<Written, StorageError> {
        let entry = Arc::new(entry);
        let mut which = Try::First;
        let mut write = || {
            let (entry, run) = (Arc::clone(&entry), Arc::clone(run));
            let this = std::mem::replace(&mut which, Try::Again);
            async move {
                // Whatever is decided in it is decided by the time of this very moment.
                let cx = self.access.working_for(run.campaign.workspace).await?;
                let cx = cx.ok_or(DatabaseError::NoRow)?;
                let write = move |tx: &mut Tx<'_>| entry.write(tx, &cx, &run, this);
                let written = self.access.database().write_committed(write).await?;
                #[cfg(test)]
                self.lose(&written)?;
                Ok(written)
            }
        };
        let written = match entry.answers.is_empty() {
            true => match write().await {
                Err(StorageError::Relations(DatabaseError::Uncertain(_))) => {
                    insist(&self.access, write).await?
                }
                done => done?,
            },
            false => insist(&self.access, write).await?,
        };
        for id in &written.uncertain {
            tracing::warn!(recipient.id = id, "Nobody knows whether recipient {id} was sent to");
        }
        Ok(written)
    }

    /// Says when a batch that waits comes again, so that nobody takes it for lost. If that fails, somebody may, and puts it on
    /// the queue once more.
    async fn comes_again(&self, campaign: CampaignId, batch: &str, after: Duration) {
        let Some(number) = number_in(campaign, batch) else { return };
        let now = self.access.now();
        let at = now.saturating_add(after).unwrap_or(now);
        let note = self
            .access
            .database()
            .write_committed(move |tx| lost::comes_again(tx, (campaign, number), at));
        if let Err(error) = note.await {
            let error = tidings_kernel::causes(&error);
            tracing::debug!(campaign.id = %campaign, batch, error, "Nobody knows that batch {batch} waits");
        }
    }

    /// Pauses a campaign whose batch nobody could work on. Who has no end yet goes with another batch when it is resumed, or
    /// nowhere if it was cancelled.
    async fn stop_at(&self, id: CampaignId, batch: &str, why: &str) -> Result<(), StorageError> {
        let Some(cx) = self.inside(id).await? else { return Ok(()) };
        let Some(number) = number_in(id, batch) else { return Ok(()) };
        let within = cx.clone();
        let find = cx.database().read(move |tx| batches::find(tx, &within, id, number));
        let found: Option<batches::Batch> = find.await?;
        // The campaign waits for no other: a message can be of anybody.
        if !found.is_some_and(|batch| batch.fed_at.is_some() && batch.done_at.is_none()) {
            return Ok(());
        }
        control::stuck(&cx, id, why).await?;
        let within = cx.clone();
        let end = cx.database().write_committed(move |tx| {
            let Some(locked) = store::lock(tx, &within, id)? else { return Ok(()) };
            let finished = match locked.status {
                Status::Paused => batches::hand_back(tx, &within, id, number)?,
                Status::Cancelled | Status::Failed => batches::give_up(tx, &within, id, number)?,
                // Whoever has resumed it meanwhile has put all its batches on the queue again.
                _ => return Ok(()),
            };
            match batches::find(tx, &within, id, number)? {
                // Somebody of it is handed over just now, and only its message can end it after that.
                Some(batch) if finished == Finished::Open => {
                    lost::after_the_claims(tx, &within, &locked, &batch)
                }
                _ => Ok::<_, DatabaseError>(()),
            }
        });
        Ok(end.await?)
    }

    /// The workspace of a campaign. `None` if there is no such campaign.
    async fn inside(&self, campaign: CampaignId) -> Result<Option<Cx>, StorageError> {
        let id = campaign.get();
        let known = self.workspaces().get(&id).copied();
        let workspace = match known {
            Some(workspace) => Some(workspace),
            None => {
                let find = self.access.database().read(move |tx| {
                    let sql = "SELECT workspace_id FROM campaigns WHERE id = $1";
                    let rows = tx.query(sql, &[Param::Int(id)])?;
                    rows.first().map(|row| row.int(0)).transpose()
                });
                let found: Result<Option<i64>, DatabaseError> = find.await;
                found?
            }
        };
        let Some(workspace) = workspace else { return Ok(None) };
        if known.is_none() {
            self.remember(id, workspace);
        }
        Ok(self.access.working_for(workspace).await?)
    }

    fn remember(&self, campaign: i64, workspace: i64) {
        let mut kept = self.workspaces();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(campaign, workspace);
    }

    fn workspaces(&self) -> std::sync::MutexGuard<'_, HashMap<i64, i64>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a batch, if it is one of that campaign.
fn number_in(campaign: CampaignId, batch_id: &str) -> Option<i64> {
    let number = batches::number_of(batch_id);
    number.filter(|number| batches::batch_id(campaign, *number) == batch_id)
}

/// What each variant says, or why nobody can be sent it.
struct Arms(BTreeMap<Option<i64>, Result<Arc<Paper>, String>>);

impl Arms {
    fn get(&self, arm: Option<i64>) -> Result<&Arc<Paper>, &str> {
        match self.0.get(&arm) {
            Some(Ok(paper)) => Ok(paper),
            Some(Err(why)) => Err(why),
            None => Err("it has no content"),
        }
    }

    fn keys_of_templates(&self) -> BTreeMap<Option<i64>, Option<String>> {
        let key = |paper: &Result<Arc<Paper>, String>| {
            paper.as_ref().ok()?.template_key().map(ToOwned::to_owned)
        };
        self.0.iter().map(|(arm, paper)| (*arm, key(paper))).collect()
    }
}

/// What the rows of a batch say, as far as nobody is to be sent to.
struct Seen {
    given_up: Vec<Given>,
    sent: Vec<Recipient>,
    /// How long somebody else may need for his.
    wait: Option<Duration>,
}

impl Seen {
    fn of(rows: &[Recipient], now: jiff::Timestamp) -> Self {
        let mut seen = Self { given_up: Vec::new(), sent: Vec::new(), wait: None };
        for row in rows {
            match rules::next(&row.state, now) {
                Step::GiveUp => seen.given_up.push(Given::new(row.id, row.attempts)),
                Step::Log => seen.sent.push(row.clone()),
                Step::Wait(wait) => seen.wait = seen.wait.max(Some(wait)),
                Step::Nothing | Step::Send => {}
            }
        }
        seen
    }
}

fn unwritten(row: &Recipient, kind: &'static str, why: &str) -> Given {
    Given::new(row.id, row.attempts).word(kind).text(why)
}

/// What becomes of the message in the queue.
fn after(
    run: &Run,
    stop: Option<&Stop>,
    finished: Option<Finished>,
    (wait, is_own): (Option<Duration>, bool),
) -> Next {
    let batch = &run.batch_id;
    match stop {
        Some(Stop::LookAgain) => return Next::LookAgain,
        Some(Stop::Wait(reason, after)) => {
            return Next::Outcome(Outcome::wait(format!("batch {batch} waits: {reason}"), *after));
        }
        None => {}
    }
    Next::Outcome(match finished {
        Some(Finished::Now | Finished::Before) => Outcome::Done,
        Some(Finished::Missing) | None => Outcome::retry(format!("there is no batch {batch}")),
        // Whoever only sees to a line of the send log leaves the batch to its own message.
        Some(Finished::Open) if !is_own && wait.is_none() => Outcome::Done,
        Some(Finished::Open) => {
            let after = wait.unwrap_or(A_MOMENT);
            Outcome::wait(format!("somebody else is busy with batch {batch}"), after)
        }
    })
}
