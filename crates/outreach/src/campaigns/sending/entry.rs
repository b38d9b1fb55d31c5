//! What a worker writes down in one commit: the answers for those who were handed over, who is not written to and who
//! waits, and who is handed over next.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_delivery::eligibility::rules::Cap;
use tidings_delivery::eligibility::{self, Claiming};
use tidings_delivery::ledger::news::{About, News, announcement};
use tidings_delivery::ledger::turned_away::{self, TurnedAway};
use tidings_delivery::links::Source;
use tidings_kernel::{Accepted, SendError};
use tidings_sql::{DatabaseError, Param, Tx};
use tidings_webhooks::announce_each;

use super::load::Recipient;
use super::marks::{self, Given, Place, Taken};
use super::rules::{self, Refused};
use crate::campaigns::batches::{self, Finished};
use crate::campaigns::brake::Came;
use crate::campaigns::tallies::REFUSED;
use crate::campaigns::{Campaign, RecipientId, store};

/// The batch that is worked on.
pub(super) struct Run {
    pub(super) campaign: Campaign,
    pub(super) number: i64,
    pub(super) batch_id: String,
    /// In the order of their ids.
    pub(super) rows: Vec<Recipient>,
    /// What is told of a message besides, by the arm of its recipient.
    pub(super) template_keys: BTreeMap<Option<i64>, Option<String>>,
    /// Who claims in it: this look at the batch, and nobody else ever.
    pub(super) claimant: String,
    pub(super) provider: &'static str,
    /// What everybody is held to once more when he is claimed.
    pub(super) cap: Option<Cap>,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// What the provider said of whom it was handed.
    pub(super) answers: Vec<(Given, Result<Accepted, SendError>)>,
    pub(super) skips: Vec<Given>,
    pub(super) fails: Vec<Given>,
    /// Until when who waits.
    pub(super) later: Vec<(RecipientId, Timestamp)>,
    /// Whose claims are over, and no answer is known.
    pub(super) given_up: Vec<Given>,
    /// Who is handed over once this is committed.
    pub(super) claims: Vec<Given>,
    pub(super) end: End,
}

/// What becomes of the batch with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    GoesOn,
    /// With what came back of the campaign so far.
    Finish(Came),
    HandBack,
    /// Its campaign was cancelled, or has failed.
    GiveUp,
}

/// The how many-th try to write it down it is. After the first, what was asked about those who are to be handed over next
/// may be long ago: then nobody is, and the batch is looked at again. Nobody heard of the first, but it may have claimed
/// them: then they are let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Try {
    First,
    Again,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) taken: Vec<Taken>,
    pub(super) claimed: Vec<i64>,
    /// Until when those wait who were not claimed because they have had enough. It is still to be written down.
    pub(super) put_off: Vec<(RecipientId, Timestamp)>,
    pub(super) uncertain: Vec<i64>,
    /// Whether the campaign is sending, if somebody was to be claimed.
    pub(super) sending: bool,
    /// If the batch was to be ended, with how many of its recipients who were sent to.
    pub(super) ended: Option<(Finished, usize)>,
}

/// The answers, by what they mean.
#[derive(Default)]
struct Sorted {
    accepted: Vec<Given>,
    refused: Vec<Given>,
    not_now: Vec<Given>,
    back: Vec<Given>,
    /// How long who waits alone, of those that are back.
    put_off: Vec<(RecipientId, Duration)>,
    unanswered: Vec<Given>,
}

impl Entry {
    pub(super) fn is_empty(&self) -> bool {
        let lists = [&self.skips, &self.fails, &self.given_up, &self.claims];
        self.answers.is_empty()
            && self.later.is_empty()
            && self.end == End::GoesOn
            && lists.iter().all(|list| list.is_empty())
    }

    /// It may run again, and then decides again.
    pub(super) fn write(
        &self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        run: &Run,
        which: Try,
    ) -> Result<Written, DatabaseError> {
        let (now, campaign) = (cx.now(), run.campaign.id);
        let sorted = self.sorted();
        let lists = [self.later.is_empty(), sorted.not_now.is_empty(), sorted.put_off.is_empty()];
        let moves = lists.contains(&false);
        if moves || self.end != End::GoesOn {
            // Whoever changes a campaign and its recipients locks the campaign first, so that two cannot wait for each other.
            store::lock(tx, cx, campaign)?;
        }
        let put_off = match which {
            Try::First => self.put_off(tx, run, now)?,
            Try::Again => Vec::new(),
        };
        let taken = marks::accepted(tx, cx, &sorted.accepted, now)?;
        let mut written = Written { taken, put_off, ..Written::default() };
        let mut failed = marks::refused(tx, cx, &sorted.refused, now)?;
        self.tell_turned_away(tx, run, &failed, now)?;
        let not_now = marks::not_now(tx, cx, &sorted.not_now, now)?;
        failed.extend(not_now.failed);
        failed.extend(marks::back(tx, cx, &sorted.back, now)?);
        written.uncertain = marks::unanswered(tx, &sorted.unanswered, now)?;
        written.uncertain.extend(marks::given_up(tx, &self.given_up, now)?);
        failed.extend(marks::failed(tx, &self.fails, now)?);
        let skipped = marks::skipped(tx, &self.skips, now)?;
        let again = not_now.again.iter();
        let again =
            again.map(|(id, times)| (RecipientId::from(*id), rules::tried_again(*times, now)));
        let put_off = sorted.put_off.iter();
        let put_off = put_off.map(|(id, after)| (*id, now.saturating_add(*after).unwrap_or(now)));
        let later: Vec<_> = self.later.iter().copied().chain(again).chain(put_off).collect();
        if !later.is_empty() {
            batches::regroup(tx, cx, campaign, run.number, &later)?;
        }
        match which {
            Try::First => self.claim(tx, run, now, &mut written)?,
            Try::Again => marks::let_go(tx, &run.claimant, &self.claims, now)?,
        }
        self.tell(tx, cx, run, (&written.taken, &failed, &skipped))?;
        let finished = match &self.end {
            End::GoesOn => return Ok(written),
            End::Finish(came) => batches::finish(tx, cx, campaign, run.number, came)?,
            End::HandBack => batches::hand_back(tx, cx, campaign, run.number)?,
            End::GiveUp => batches::give_up(tx, cx, campaign, run.number)?,
        };
        written.ended = Some((finished, run.sent(tx)?));
        Ok(written)
    }

    /// Until when those wait who have had enough. It locks people, and whoever locks them does it before he changes their
    /// rows.
    fn put_off(
        &self,
        tx: &mut Tx<'_>,
        run: &Run,
        now: Timestamp,
    ) -> Result<Vec<(RecipientId, Timestamp)>, DatabaseError> {
        let Some(cap) = run.cap else { return Ok(Vec::new()) };
        let rows = self.claims.iter().filter_map(|given| run.row(given.id));
        let claiming = rows.map(|row| Claiming {
            source: row.source(),
            contact: row.contact,
            email: row.email.as_deref().unwrap_or_default(),
        });
        let claiming: Vec<_> = claiming.collect();
        let waits = eligibility::put_off(tx, run.campaign.workspace, cap, &claiming, now)?;
        let waits = claiming.iter().zip(waits);
        let put_off = waits.filter_map(|(one, until)| Some((one.source.id().into(), until?)));
        Ok(put_off.collect())
    }

    fn claim(
        &self,
        tx: &mut Tx<'_>,
        run: &Run,
        now: Timestamp,
        written: &mut Written,
    ) -> Result<(), DatabaseError> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let place = Place {
            campaign: run.campaign.id,
            batch_id: &run.batch_id,
            claimant: &run.claimant,
            provider: run.provider,
        };
        let waits = |given: &&Given| written.put_off.iter().any(|(id, _)| id.get() == given.id);
        let claims: Vec<Given> =
            self.claims.iter().filter(|given| !waits(given)).cloned().collect();
        written.claimed = marks::claim(tx, &place, &claims, now)?;
        written.sending = !written.claimed.is_empty() || {
            let sql = "SELECT 1 FROM campaigns WHERE id = $1 AND status = 'sending'";
            !tx.query(sql, &[Param::Int(run.campaign.id.get())])?.is_empty()
        };
        Ok(())
    }

    fn tell(
        &self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        run: &Run,
        (taken, failed, skipped): (&[Taken], &[i64], &[i64]),
    ) -> Result<(), DatabaseError> {
        if taken.is_empty() && failed.is_empty() && skipped.is_empty() {
            return Ok(());
        }
        let reason = |id: i64| {
            let skip = self.skips.iter().find(|skip| skip.id == id);
            skip.and_then(|skip| skip.word.as_deref()).unwrap_or_default()
        };
        let sent = taken.iter().map(|taken| (taken.id, News::Sent));
        let failed = failed.iter().map(|id| (*id, News::Failed));
        let skipped = skipped.iter().map(|id| (*id, News::Skipped(reason(*id))));
        let key = run.campaign.key();
        let told = sent.chain(failed).chain(skipped).filter_map(|(id, news)| {
            let about = run.about(id, &key)?;
            Some(Cow::Owned(announcement(&about, &news, cx.now())))
        });
        announce_each(cx, tx, told)
    }

    /// Tells who cannot be reached at all, of those who were just refused.
    fn tell_turned_away(
        &self,
        tx: &mut Tx<'_>,
        run: &Run,
        refused: &[i64],
        now: Timestamp,
    ) -> Result<(), DatabaseError> {
        for (given, answer) in &self.answers {
            let Err(SendError::NoSuchAddress { reason, status }) = answer else { continue };
            let email = run.row(given.id).and_then(|row| row.email.as_deref());
            let Some(email) = email.filter(|_| refused.contains(&given.id)) else { continue };
            let (workspace, source) = (run.campaign.workspace, Source::Recipient(given.id));
            let attempt = given.attempts;
            let turned_away =
                TurnedAway { workspace, source, attempt, email, status, said: reason };
            turned_away::tell(tx, &turned_away, now)?;
        }
        Ok(())
    }

    fn sorted(&self) -> Sorted {
        let mut sorted = Sorted::default();
        for (given, answer) in &self.answers {
            let given = given.clone();
            match answer {
                Ok(accepted) => {
                    let word = accepted.provider_id.clone();
                    sorted.accepted.push(Given { word, ..given });
                }
                Err(error) => {
                    let given = given.text(&error.to_string());
                    // The claim that was answered is no claim before it.
                    match rules::refused(error, given.attempts - 1) {
                        Refused::Failed => sorted.refused.push(given.word(REFUSED)),
                        Refused::Again => sorted.not_now.push(given),
                        Refused::Stop(_) => sorted.back.push(given),
                        Refused::PutOff(after) => {
                            sorted.put_off.push((RecipientId::from(given.id), after));
                            sorted.back.push(given);
                        }
                        Refused::Uncertain => sorted.unanswered.push(given),
                    }
                }
            }
        }
        sorted
    }
}

impl Run {
    pub(super) fn row(&self, id: i64) -> Option<&Recipient> {
        let place = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        self.rows.get(place)
    }

    /// How many of them were sent to, by whomever.
    fn sent(&self, tx: &mut Tx<'_>) -> Result<usize, DatabaseError> {
        let ids: Vec<i64> = self.rows.iter().map(|row| row.id).collect();
        let sql = "SELECT id FROM campaign_recipients
                   WHERE id {among} AND workspace_id = $1 AND status IN ('sent', 'delivered', 'bounced', 'complained')";
        let params = [Param::Int(self.campaign.workspace)];
        Ok(tx.query_among(sql, &params, tidings_sql::Among::Ints(&ids))?.len())
    }

    pub(super) fn template_key(&self, arm: Option<i64>) -> Option<&str> {
        self.template_keys.get(&arm)?.as_deref()
    }

    fn about<'a>(&'a self, id: i64, key: &'a str) -> Option<About<'a>> {
        let row = self.row(id)?;
        Some(About {
            source: Source::Recipient(id),
            client: self.campaign.client.get(),
            contact: row.contact,
            email: row.email.as_deref(),
            template_key: self.template_key(row.arm),
            campaign: Some((self.campaign.id.get(), key)),
            sequence: None,
        })
    }
}
