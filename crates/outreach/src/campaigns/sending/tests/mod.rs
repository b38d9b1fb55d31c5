//! Batches on both engines, with a provider that says what it is told to say.

mod answers;
mod capped;
mod consent;
mod crash;
mod logs;
mod merged;
mod pausing;
mod places;
mod stories;
mod turned_away;
mod unheard;
mod waiting;
mod whole;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidings_access::{Access, ClientId, Cx, DisplayName, Slug};
use tidings_delivery::counters::{self, SENDS};
use tidings_delivery::ledger::tallies::{self, Counts, ENDED};
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::templates::Templates;
use tidings_jobs::Outcome;
use tidings_kernel::{
    Accepted, Delivery, Item, Mail, Query, QueueEngine as _, Receipt, SendError, Sender, queues,
    tables,
};
use tidings_people::consent::audiences::{self, Audience};
use tidings_people::{contacts, keys};
use tidings_sql::{Database, DatabaseError, Row, Tx};
use tidings_testbed::Bed;

use super::entry::Written;
use super::{Settings, Tools, Worker};
use crate::campaigns::batches::batch_id;
use crate::campaigns::{CampaignId, Status, store};

/// How many are handed over at once in these tests.
const AT_ONCE: usize = 4;

type Hook = Box<dyn Fn(usize) -> Vec<String> + Send + Sync>;

/// A provider that takes everything, unless it is told otherwise.
#[derive(Default)]
struct Provider {
    /// What it says of whom, the next first.
    answers: Mutex<HashMap<String, VecDeque<SendError>>>,
    taken: Mutex<Vec<Mail>>,
    /// How often it was asked.
    asked: Mutex<usize>,
    /// What happens in the database when it is asked for the so-many-th time.
    meanwhile: Mutex<Option<(Database, Hook)>>,
}

impl Provider {
    fn answers(&self, email: &str, error: SendError) {
        self.answers.lock().unwrap().entry(email.to_owned()).or_default().push_back(error);
    }

    fn taken(&self) -> Vec<String> {
        let mut taken: Vec<_> =
            self.taken.lock().unwrap().iter().map(|mail| mail.to[0].to_string()).collect();
        taken.sort();
        taken
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    /// The mail to somebody, as it went over the wire.
    fn mime(&self, email: &str) -> String {
        let taken = self.taken.lock().unwrap();
        let mail = taken.iter().find(|mail| mail.to[0].as_str() == email).unwrap();
        String::from_utf8(mail.mime.clone()).unwrap()
    }
}

#[async_trait]
impl Sender for Provider {
    fn name(&self) -> &'static str {
        "test"
    }

    /// It can be interrupted before it takes a message, and after.
    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let asked = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let change = {
            let meanwhile = self.meanwhile.lock().unwrap();
            meanwhile.as_ref().map(|(database, hook)| (database.clone(), hook(asked)))
        };
        if let Some((database, changes)) = change {
            for sql in changes {
                let done = database.write_committed(move |tx| tx.execute(&sql, &[])).await;
                done.map_err(|error: DatabaseError| error).unwrap();
            }
        }
        tokio::task::yield_now().await;
        let to = mail.to[0].as_str();
        let answer = self.answers.lock().unwrap().get_mut(to).and_then(VecDeque::pop_front);
        if let Some(error) = answer {
            return Err(error);
        }
        self.taken.lock().unwrap().push(mail.clone());
        tokio::task::yield_now().await;
        Ok(Accepted::by_all(Some(format!("p-{to}"))))
    }
}

struct World<'a> {
    bed: &'a Bed,
    provider: Arc<Provider>,
    worker: Worker,
    client: ClientId,
    audience: Audience,
    people: Vec<(i64, String)>,
}

impl<'a> World<'a> {
    /// With so many subscribers: `p001@example.org` and so on.
    async fn new(bed: &'a Bed, people: usize) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let slug: Slug = "news".parse().unwrap();
        let name = DisplayName::from(&slug);
        let create =
            audiences::Create { slug, name, double_opt_in: false, confirm_template_key: None };
        let audience = audiences::create(&cx, create).await.unwrap();
        let provider = Arc::new(Provider::default());
        let worker = worker(bed, &provider, "node-1").await;
        let mut world = Self { bed, provider, worker, client, audience, people: Vec::new() };
        for number in 1..=people {
            let email = format!("p{number:03}@example.org");
            let upsert = contacts::Upsert {
                email: email.parse().unwrap(),
                first_name: Some(format!("Person {number}").parse().unwrap()),
                attributes: contacts::Attributes::default(),
                tags: None,
            };
            let id = contacts::upsert(&cx, upsert).await.unwrap().contact.id.get();
            world.people.push((id, email));
        }
        world
            .run(&format!(
                "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, agreed_at, created_at, updated_at)
                 SELECT {}, id, {}, 'subscribed', 1, 1, 1 FROM leads",
                cx.workspace_id().get(),
                audience_id(&world.audience)
            ))
            .await;
        world
    }

    async fn run(&self, sql: &str) -> u64 {
        let sql = sql.to_owned();
        let run = self.bed.access.database().write(move |tx| tx.execute(&sql, &[]));
        run.await.map_err(|error: DatabaseError| format!("{error:?}")).unwrap()
    }

    /// As if somebody had let it go on after too many bounces.
    async fn take_brake_off(&self) {
        let sql = "INSERT INTO campaign_moves (workspace_id, campaign_id, status, reason, actor, happened_at)
                   SELECT workspace_id, id, 'paused', 'bounces', 'worker', 1 FROM campaigns";
        self.run(sql).await;
    }

    async fn rows(&self, sql: &str) -> Vec<Row> {
        let sql = sql.to_owned();
        let rows = self.bed.access.database().read(move |tx| tx.query(&sql, &[])).await;
        rows.map_err(|error: DatabaseError| error).unwrap()
    }

    /// A campaign that is sending, with everybody in batches of this size, all of them on the queue.
    async fn campaign(&self, size: usize) -> Sending<'_, 'a> {
        self.campaign_with(size, "NULL", "Hello {{ firstName }}", "[]").await
    }

    async fn campaign_with(
        &self,
        size: usize,
        template: &str,
        subject: &str,
        variants: &str,
    ) -> Sending<'_, 'a> {
        let workspace = self.bed.cx().await.workspace_id().get();
        let (now, people) = (self.bed.access.now().as_millisecond(), self.people.len());
        let batches = people.div_ceil(size);
        let html = if template == "NULL" {
            "'<p>Dear {{ firstName }}, <a href=\"https://example.org/a\">read</a> or <a href=\"{{ unsubscribeUrl }}\">leave</a></p>'"
        } else {
            "NULL"
        };
        let version = if template == "NULL" { "NULL" } else { "1" };
        let rows = self
            .write(&format!(
                "INSERT INTO campaigns (workspace_id, client_id, audience_id, external_key, name, status, from_email,
                     from_name, subject, html_body, template_key, template_version, variants, snapshot_done_at,
                     started_at, batch_count, recipient_count, created_at, updated_at)
                 VALUES ({workspace}, {}, {}, 'spring', 'Spring', 'sending', 'news@example.org', 'The shop', '{subject}',
                     {html}, {template}, {version}, '{variants}', {now}, {now}, {batches}, {people}, {now}, {now})
                 RETURNING id",
                self.client,
                audience_id(&self.audience)
            ))
            .await;
        let campaign = CampaignId::from(rows[0].int(0).unwrap());
        let mut messages = Vec::new();
        for (index, some) in self.people.chunks(size).enumerate() {
            let (number, mut ids) = (index as i64 + 1, Vec::new());
            let batch = batch_id(campaign, number);
            for (contact, email) in some {
                let sql = format!(
                    "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, batch_id, created_at, updated_at)
                     VALUES ({workspace}, {campaign}, {contact}, '{email}', '{batch}', {now}, {now}) RETURNING id"
                );
                ids.push(self.write(&sql).await[0].int(0).unwrap());
            }
            self.run(&format!(
                "INSERT INTO campaign_batches (workspace_id, campaign_id, number, recipient_ids, size, due_at, fed_at)
                 VALUES ({workspace}, {campaign}, {number}, '{}', {}, {now}, {now})",
                serde_json::json!(ids),
                ids.len()
            ))
            .await;
            let body = serde_json::json!({
                "contract": "campaign-email", "version": 1, "campaign_id": campaign.get(), "batch_id": batch,
                "campaign_recipient_ids": ids,
            });
            messages.push(body.to_string());
        }
        Sending { world: self, campaign, messages }
    }

    async fn write(&self, sql: &str) -> Vec<Row> {
        let sql = sql.to_owned();
        let rows = self.bed.access.database().write(move |tx| tx.query(&sql, &[])).await;
        rows.map_err(|error: DatabaseError| error).unwrap()
    }

    /// The worker's answer to one message.
    async fn handle(&self, body: &str) -> Outcome {
        self.worker.handler().handle(&delivery(body)).await
    }

    async fn queue(&self) -> u64 {
        self.bed.queues.depth(&queues::CAMPAIGN_EMAIL).await.unwrap().ready
    }

    /// Works on what is in the queue.
    async fn work(&self) -> usize {
        self.bed.work(&queues::CAMPAIGN_EMAIL, self.worker.handler()).await
    }

    /// The send log of a person.
    async fn log(&self, email: &str) -> Vec<Item> {
        let cx: Cx = self.bed.cx().await;
        let partition = keys::subscriber(&email.parse().unwrap());
        let query = Query::new(&tables::MAIN, partition).begins_with("SENT#");
        cx.items().await.unwrap().query(query).await.unwrap().items
    }

    /// How many are counted as sent for the campaign.
    async fn sends(&self) -> i64 {
        let items = self.bed.cx().await.items().await.unwrap();
        let item = items.get(&tables::MAIN, &counters::keys::sequence("spring")).await.unwrap();
        item.and_then(|item| item.integer(SENDS)).unwrap_or(0)
    }
}

async fn worker(bed: &Bed, provider: &Arc<Provider>, node: &str) -> Worker {
    worker_on(bed.access.clone(), provider, node).await
}

async fn worker_on(access: Access, provider: &Arc<Provider>, node: &str) -> Worker {
    worker_over(access, Arc::clone(provider) as Arc<dyn Sender>, node).await
}

async fn worker_over(access: Access, sender: Arc<dyn Sender>, node: &str) -> Worker {
    let now = access.now();
    let links = Links::load(access.database(), "https://mail.example.org", now).await.unwrap();
    Worker::new(Tools {
        access,
        templates: Templates::default(),
        links,
        sender,
        pace: Arc::new(Pace::new(100_000, now)),
        settings: Settings { node: node.to_owned(), ttl_days: None, at_once: AT_ONCE },
    })
}

impl Worker {
    /// The answer to a commit is lost on its way, if it is the one.
    pub(super) fn lose(&self, written: &Written) -> Result<(), DatabaseError> {
        if written.claimed.is_empty() || self.unheard.fetch_sub(1, Ordering::SeqCst) != 1 {
            return Ok(());
        }
        Err(DatabaseError::Uncertain(Arc::new(std::fmt::Error)))
    }
}

fn audience_id(audience: &Audience) -> i64 {
    audience.id.get()
}

/// A campaign that is on its way.
struct Sending<'w, 'a> {
    world: &'w World<'a>,
    campaign: CampaignId,
    /// What the queue hands over for each batch.
    messages: Vec<String>,
}

impl Sending<'_, '_> {
    /// How many recipients have which status.
    async fn statuses(&self) -> BTreeMap<String, i64> {
        let sql = format!(
            "SELECT status, COUNT(*) FROM campaign_recipients WHERE campaign_id = {} GROUP BY status",
            self.campaign
        );
        let rows = self.world.rows(&sql).await;
        rows.iter().map(|row| (row.text(0).unwrap().to_owned(), row.int(1).unwrap())).collect()
    }

    async fn status(&self) -> Status {
        let sql = format!("SELECT status FROM campaigns WHERE id = {}", self.campaign);
        self.world.rows(&sql).await[0].text(0).unwrap().parse().unwrap()
    }

    /// One column of somebody's row, as text.
    async fn column(&self, email: &str, column: &str) -> Option<String> {
        let sql = format!(
            "SELECT CAST({column} AS TEXT) FROM campaign_recipients WHERE campaign_id = {} AND email = '{email}'",
            self.campaign
        );
        self.world.rows(&sql).await[0].optional_text(0).unwrap().map(str::to_owned)
    }

    async fn id(&self, email: &str) -> i64 {
        self.column(email, "id").await.unwrap().parse().unwrap()
    }

    async fn set(&self, status: Status) {
        let sql = format!(
            "UPDATE campaigns SET status = '{status}', sent_at = 1 WHERE id = {}",
            self.campaign
        );
        self.world.run(&sql).await;
    }

    async fn tallies(&self) -> Counts {
        let (workspace, campaign) =
            (self.world.bed.cx().await.workspace_id().get(), self.campaign.get());
        let database = self.world.bed.access.database();
        database.read(move |tx| tallies::load(tx, (workspace, campaign))).await.unwrap()
    }

    /// What counting the rows gives that have their end.
    async fn recount(&self) -> Counts {
        let sql = format!(
            "SELECT {ENDED} FROM campaign_recipients WHERE campaign_id = {}",
            self.campaign
        );
        let mut counts = Counts::default();
        for row in self.world.rows(&sql).await {
            if let Some(ended) = tallies::read(&row, 0).unwrap() {
                counts.row(&ended, 1);
            }
        }
        counts
    }

    /// Everything is as it must be when all have their end: each was sent once or nobody knows, the log has those who
    /// were sent to, the tallies are what counting gives, and the campaign has ended.
    async fn check_end(&self, case: &str) {
        let statuses = self.statuses().await;
        let open = ["pending", "queued", "claimed"].iter().filter_map(|one| statuses.get(*one));
        assert_eq!(open.sum::<i64>(), 0, "{case}: {statuses:?}");
        let taken = self.world.provider.taken();
        let mut once = taken.clone();
        once.dedup();
        assert_eq!(taken, once, "{case}: somebody was sent to twice");
        for (_, email) in &self.world.people {
            let status = self.column(email, "status").await.unwrap();
            let lines = self.world.log(email).await.len();
            let was_taken = taken.contains(email);
            match status.as_str() {
                "sent" => assert!(was_taken && lines == 1, "{case}: {email} {was_taken} {lines}"),
                "uncertain" => assert_eq!(lines, 0, "{case}: {email}"),
                _ => assert!(!was_taken && lines == 0, "{case}: {email} is {status}"),
            }
        }
        assert_eq!(self.world.sends().await, statuses.get("sent").copied().unwrap_or(0), "{case}");
        assert_eq!(self.tallies().await, self.recount().await, "{case}");
        assert_eq!(self.status().await, Status::Sent, "{case}");
        let left = format!(
            "SELECT COUNT(*) FROM campaign_batches WHERE campaign_id = {} AND done_at IS NULL",
            self.campaign
        );
        assert_eq!(self.world.rows(&left).await[0].int(0).unwrap(), 0, "{case}");
    }

    /// Takes the campaign further, as its steps' worker does.
    async fn feed(&self) {
        let (cx, id) = (self.world.bed.cx().await, self.campaign);
        let within = cx.clone();
        let feed = cx.database().write_committed(move |tx: &mut Tx<'_>| {
            let mut campaign = store::lock(tx, &within, id)?.unwrap();
            crate::campaigns::batches::feed(tx, &within, &mut campaign, &Default::default())
        });
        feed.await.unwrap();
    }
}

fn delivery(body: &str) -> Delivery {
    Delivery {
        id: "m".to_owned(),
        body: body.to_owned(),
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
        receipt: Receipt("r".to_owned()),
    }
}
