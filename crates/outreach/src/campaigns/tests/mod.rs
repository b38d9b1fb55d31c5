//! Campaigns on both engines, with a mailer that knows nothing but batches.

mod batches;
mod control;
mod crash;
mod drafts;
mod lost;
mod model;
mod pace;
mod racing;
mod results;
mod snapshots;
mod tries;
mod variants;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_access::{Access, ClientId, Cx};
use tidings_delivery::senders;
use tidings_delivery::templates as stored;
use tidings_jobs::contracts::{CampaignEmail, CampaignStep, Contract as _};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::{Delivery, Receipt, queues};
use tidings_people::contacts;
use tidings_sql::{DatabaseError, Param, Row};
use tidings_testbed::Bed;

use super::batches::{self as groups, Finished, finish, give_up, hand_back, number_of};
use super::brake;
use super::control::{Start, start};
use super::draft::{self, Draft, Find};
use super::steps::{self, Sizes};
use super::tallies::{self, Counts};
use super::{Campaign, CampaignId, Content, Status, store};

/// Sends as simply as can be: marks the rows of a batch and ends it. Whose address begins with `fail` fails, with `lost`
/// is uncertain.
#[derive(Clone)]
pub(super) struct Mailer {
    access: Access,
    /// The recipients that were sent to, in order.
    pub(super) sent: Arc<Mutex<Vec<i64>>>,
}

#[async_trait]
impl Work<CampaignEmail> for Mailer {
    async fn work(&self, message: CampaignEmail) -> Outcome {
        let id = CampaignId::from(message.campaign_id);
        let number = number_of(&message.batch_id).unwrap();
        let workspace = self.access.database().read(move |tx| {
            let sql = "SELECT workspace_id FROM campaigns WHERE id = $1";
            tx.query(sql, &[Param::Int(id.get())])?[0].int(0)
        });
        let workspace = workspace.await.map_err(|error: DatabaseError| error).unwrap();
        let cx = self.access.working_for(workspace).await.unwrap().unwrap();
        let within = cx.clone();
        let campaign = cx.database().read(move |tx| store::glance(tx, &within, id)).await;
        let campaign = campaign.map_err(|error: DatabaseError| error).unwrap().unwrap();
        let came = brake::came(&cx, &campaign.key()).await.unwrap();
        let (within, sent) = (cx.clone(), Arc::clone(&self.sent));
        let named = message.campaign_recipient_ids;
        let work = cx.database().write_committed(move |tx| {
            // The status is looked at in the transaction that would send: a pause takes effect at once.
            let locked = store::lock(tx, &within, id)?.unwrap();
            // Those who were moved to another batch since are not sent to with this one.
            let batch = groups::find(tx, &within, id, number)?.unwrap();
            match locked.status {
                _ if batch.done_at.is_some() => Ok(Finished::Before),
                Status::Sending => {
                    for recipient in batch.recipients.iter().filter(|id| named.contains(id)) {
                        let sql = "UPDATE campaign_recipients
                                   SET status = CASE WHEN email LIKE 'fail%' THEN 'failed'
                                                     WHEN email LIKE 'lost%' THEN 'uncertain' ELSE 'sent' END,
                                       sent_at = CASE WHEN email LIKE 'fail%' OR email LIKE 'lost%' THEN NULL
                                                      ELSE CAST($2 AS BIGINT) END,
                                       fail_reason = CASE WHEN email LIKE 'fail%' THEN 'refused' ELSE NULL END,
                                       attempts = attempts + 1
                                   WHERE id = $1 AND status = 'pending'";
                        let params = [Param::Int(*recipient), Param::from(within.now())];
                        if tx.execute(sql, &params)? == 1 {
                            sent.lock().unwrap().push(*recipient);
                        }
                    }
                    finish(tx, &within, id, number, &came)
                }
                Status::Cancelled => give_up(tx, &within, id, number),
                _ => hand_back(tx, &within, id, number),
            }
        });
        match work.await {
            Ok(Finished::Open) => Outcome::retry("it has an open row"),
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::retry(format!("{error:?}")),
        }
    }
}

pub(super) struct World<'a> {
    pub(super) bed: &'a Bed,
    pub(super) client: ClientId,
    pub(super) steps: Arc<dyn Handler>,
    pub(super) mailer: Mailer,
}

impl<'a> World<'a> {
    pub(super) async fn new(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let sender = senders::NewSender {
            slug: "hello".parse().unwrap(),
            from_email: "hello@example.org".parse().unwrap(),
            from_name: Some("The shop".parse().unwrap()),
            reply_to: None,
            is_default: true,
        };
        senders::add(&cx, senders::Add { client, sender }).await.unwrap();
        let sizes = Sizes { people: 4, rows: 3, batches: 2, turns: 3 };
        let mailer = Mailer { access: bed.access.clone(), sent: Arc::default() };
        Self { bed, client, steps: steps::with(bed.access.clone(), sizes), mailer }
    }

    /// People with these addresses, who can be written to.
    pub(super) async fn people(&self, emails: impl IntoIterator<Item = String>) {
        let cx = self.bed.cx().await;
        let (within, emails) = (cx.clone(), emails.into_iter().collect::<Vec<_>>());
        let write = cx.database().write(move |tx| {
            for email in &emails {
                contacts::ensure(tx, &within, &email.parse().unwrap())?;
            }
            Ok::<_, DatabaseError>(())
        });
        write.await.unwrap();
    }

    pub(super) async fn crowd(&self, count: usize) {
        self.people((0..count).map(|number| format!("p{number}@example.org"))).await;
    }

    pub(super) fn draft(&self) -> Draft {
        let content = Content {
            subject: Some("Hello".to_owned()),
            text: Some("Hello {{ email }}".to_owned()),
            ..Content::default()
        };
        Draft::of(self.client, "Spring", content)
    }

    pub(super) async fn drafted(&self, draft: Draft) -> CampaignId {
        draft::create(&self.bed.cx().await, draft).await.unwrap().campaign.id
    }

    pub(super) async fn start(&self, id: CampaignId) -> Campaign {
        let cmd = Start { campaign: find(id), when: None };
        start(&self.bed.cx().await, cmd).await.unwrap().campaign
    }

    pub(super) async fn started(&self, draft: Draft) -> CampaignId {
        let id = self.drafted(draft).await;
        self.start(id).await;
        id
    }

    pub(super) async fn campaign(&self, id: CampaignId) -> Campaign {
        draft::get(&self.bed.cx().await, find(id)).await.unwrap()
    }

    /// Whatever else of its row can be read.
    pub(super) async fn status_text(&self, id: CampaignId) -> String {
        let rows = self.rows(&format!("SELECT status FROM campaigns WHERE id = {id}")).await;
        rows[0].text(0).unwrap().to_owned()
    }

    pub(super) async fn status(&self, id: CampaignId) -> Status {
        self.campaign(id).await.status
    }

    /// Lets the workers work until there is nothing to do now.
    pub(super) async fn run(&self) {
        while self.step().await + self.mail().await > 0 {}
    }

    pub(super) async fn step(&self) -> usize {
        self.bed.work(&queues::CAMPAIGN_STEPS, Arc::clone(&self.steps)).await
    }

    pub(super) async fn mail(&self) -> usize {
        self.bed.work(&queues::CAMPAIGN_EMAIL, for_contract(self.mailer.clone())).await
    }

    pub(super) async fn handle_step(&self, id: CampaignId) -> Outcome {
        self.steps.handle(&step_delivery(id)).await
    }

    pub(super) fn sent(&self) -> usize {
        self.mailer.sent.lock().unwrap().len()
    }

    /// Moves the clock to a time at which the timers that are due then fire.
    pub(super) async fn advance_to(&self, at: Timestamp) {
        self.bed.clock.set(at);
        self.bed.advance(0).await;
    }

    pub(super) async fn rows(&self, sql: &str) -> Vec<Row> {
        let sql = sql.to_owned();
        let rows = self.bed.access.database().read(move |tx| tx.query(&sql, &[])).await;
        rows.map_err(|error: DatabaseError| format!("{error:?}")).unwrap()
    }

    pub(super) async fn count(&self, from: &str) -> i64 {
        self.rows(&format!("SELECT COUNT(*) FROM {from}")).await[0].int(0).unwrap()
    }

    pub(super) async fn run_sql(&self, sql: &str) -> u64 {
        let sql = sql.to_owned();
        let run = self.bed.access.database().write(move |tx| tx.execute(&sql, &[])).await;
        run.map_err(|error: DatabaseError| format!("{error:?}")).unwrap()
    }

    /// Status and reason of each recipient by his address.
    pub(super) async fn recipients(&self, id: CampaignId) -> BTreeMap<String, String> {
        let sql = format!(
            "SELECT email, status, skip_reason FROM campaign_recipients WHERE campaign_id = {id}"
        );
        let rows = self.rows(&sql).await;
        let one = |row: &Row| {
            let reason = row.optional_text(2).unwrap().map(|reason| format!(" {reason}"));
            let status = format!("{}{}", row.text(1).unwrap(), reason.unwrap_or_default());
            (row.optional_text(0).unwrap().unwrap_or("-").to_owned(), status)
        };
        rows.iter().map(one).collect()
    }

    pub(super) async fn tallies(&self, id: CampaignId) -> Counts {
        let cx = self.bed.cx().await;
        let within = cx.clone();
        cx.database().read(move |tx| tallies::load(tx, &within, id)).await.unwrap()
    }

    /// What must be true of a campaign at every moment.
    pub(super) async fn check(&self, id: CampaignId) {
        let cx = self.bed.cx().await;
        let within = cx.clone();
        let check = cx.database().read(move |tx| {
            let campaign = store::glance(tx, &within, id)?.unwrap();
            let sql = format!(
                "SELECT number, CAST(recipient_ids AS TEXT), size, fed_at, done_at FROM campaign_batches
                 WHERE campaign_id = {id} ORDER BY number"
            );
            let mut open = BTreeSet::new();
            let sql_of = format!("SELECT id, batch_id FROM campaign_recipients WHERE campaign_id = {id}");
            let named: BTreeMap<i64, String> = tx.query(&sql_of, &[])?.iter().map(|row| (row.int(0).unwrap(), row.optional_text(1).unwrap().unwrap_or_default().to_owned())).collect();
            for row in tx.query(&sql, &[])? {
                let ids: Vec<i64> = serde_json::from_str(row.text(1)?).unwrap();
                assert_eq!(ids.len() as i64, row.int(2)?);
                if row.optional_int(4)?.is_some() {
                    continue;
                }
                for recipient in ids {
                    assert!(open.insert(recipient), "recipient {recipient} is in two batches");
                    assert_eq!(named[&recipient], groups::batch_id(id, row.int(0)?));
                }
            }
            let sql = format!(
                "SELECT id, {} FROM campaign_recipients WHERE campaign_id = {id} ORDER BY id",
                tallies::ENDED
            );
            let mut counts = Counts::default();
            let rows = tx.query(&sql, &[])?;
            assert_eq!(campaign.progress.recipients, rows.len() as i64);
            for row in &rows {
                let ended = tallies::read(row, 1)?;
                match (open.contains(&row.int(0)?), ended) {
                    (true, _) => {}
                    (false, Some(mut ended)) => {
                        ended.arm = campaign.arm(ended.arm);
                        counts.row(&ended, 1);
                    }
                    (false, None) => panic!("recipient {} is in no batch", row.int(0)?),
                }
            }
            assert_eq!(tallies::load(tx, &within, id)?, counts, "of {}", campaign.status);
            if campaign.status == Status::Sent {
                assert!(open.is_empty());
            }
            Ok::<_, DatabaseError>(())
        });
        check.await.unwrap();
    }
}

pub(super) fn find(id: CampaignId) -> Find {
    Find { id, client: None }
}

pub(super) fn step_delivery(id: CampaignId) -> Delivery {
    delivery(CampaignStep { campaign_id: id.get() }.to_body().unwrap())
}

pub(super) fn delivery(body: String) -> Delivery {
    Delivery {
        id: "m".to_owned(),
        body,
        receives: 1,
        enqueued_at: Timestamp::UNIX_EPOCH,
        receipt: Receipt("r".to_owned()),
    }
}

/// Makes a version of a template the active one.
pub(super) async fn put_template(cx: &Cx, key: &str, subject: &str) {
    let content = stored::Content {
        source: tidings_templates::Source {
            subject: subject.to_owned(),
            text: Some("Hello".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    let put = stored::Put { key: key.parse().unwrap(), content, then: stored::Then::Activate };
    stored::put(cx, put).await.unwrap();
}
