//! What was seen is counted once and told from machines; what a reader said is done, and what he said last counts.

mod said;
mod seen;

use jiff::ToSpan as _;
use tidings_access::{Cx, DisplayName};
use tidings_delivery::ledger::Source;
use tidings_delivery::links::{Addressee, Links};
use tidings_jobs::Outcome;
use tidings_jobs::contracts::{Contract as _, EmailEvent, EventType};
use tidings_kernel::{Delivery, Query, Receipt, queues, tables};
use tidings_people::consent::proof::Act;
use tidings_people::consent::subscriptions::{self, Subscribe};
use tidings_people::consent::{By, Proof, Whom, audiences, topics};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::Bed;

use super::choices::{self, Choices, Scope};
use super::hits::{self, Request};
use super::reader::Reader;
use super::{ChoiceError, Tracking, handler, reader};
use crate::events::{Counts, keys};

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

struct World<'a> {
    bed: &'a Bed,
    cx: Cx,
    tracking: Tracking,
    /// A recipient of the campaign `spring`, ada.
    to: Addressee,
}

fn act() -> Act {
    Act { by: By::Person, source: "test".parse().unwrap(), reason: None, proof: Proof::default() }
}

impl<'a> World<'a> {
    async fn new(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let name: DisplayName = "News".parse().unwrap();
        let create = audiences::Create {
            slug: "news".parse().unwrap(),
            name: name.clone(),
            double_opt_in: false,
            confirm_template_key: None,
        };
        let audience = audiences::create(&cx, create).await.unwrap().id;
        let topic = topics::Create { slug: "offers".parse().unwrap(), name, description: None };
        topics::create(&cx, topic).await.unwrap();
        let whom = Whom::Email("Ada|Lovelace@example.org".parse().unwrap());
        let subscribe = Subscribe { whom, audience, client: None, confirmed: false, act: act() };
        let contact = subscriptions::subscribe(&cx, subscribe).await.unwrap().contact;
        let ids = (cx.workspace_id().get(), client.get(), audience.get(), contact.get());
        let at = cx.now().as_millisecond() - 3_600_000;
        let make = cx.database().write(move |tx| {
            let [workspace, client, audience, contact] =
                [ids.0, ids.1, ids.2, ids.3].map(Param::Int);
            let sql = "INSERT INTO campaigns (workspace_id, client_id, audience_id, external_key, name,
                           template_key, status, created_at, updated_at)
                       VALUES ($1, $2, $3, 'spring', 'Spring', 'spring', 'sending', 0, 0) RETURNING id";
            let campaign = tx.query(sql, &[workspace, client, audience])?[0].int(0)?;
            let sql = "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, status,
                           sent_at, created_at, updated_at)
                       VALUES ($1, $2, $3, 'ada|lovelace@example.org', 'sent', $4, 0, 0) RETURNING id";
            let params = [workspace, Param::Int(campaign), contact, Param::Int(at)];
            tx.query(sql, &params)?[0].int(0)
        });
        let recipient = make.await.map_err(|error: DatabaseError| error).unwrap();
        let to = Addressee {
            workspace: ids.0,
            source: Source::Recipient(recipient),
            contact: ids.3,
            client: ids.1,
            audience: Some(ids.2),
            topic: None,
        };
        let url = "https://mail.example.org";
        let links = Links::load(cx.database(), url, cx.now()).await.unwrap();
        let tracking = Tracking { access: bed.access.clone(), links };
        Self { bed, cx, tracking, to }
    }

    async fn run(&self, sql: &str) {
        let sql = sql.to_owned();
        let done = self.cx.database().write(move |tx| tx.execute(&sql, &[]).map(drop)).await;
        done.map_err(|error: DatabaseError| format!("{error:?}")).unwrap();
    }

    fn token(&self, link: &str) -> String {
        let link = link.split('?').next().unwrap();
        link.rsplit('/').next().unwrap().trim_end_matches(".gif").to_owned()
    }

    async fn open(&self, request: &Request) {
        let token = self.token(&self.tracking.links.pixel(&self.to));
        hits::opened(&self.tracking, &token, request).await.unwrap();
    }

    async fn click(&self, target: &str) {
        let token = self.token(&self.tracking.links.click(&self.to, target).unwrap());
        hits::clicked(&self.tracking, (&token, target), &person()).await.unwrap();
    }

    /// Works until nothing is due, and once more when clicks have waited for their second look. Tells how many came first.
    async fn work(&self) -> usize {
        let handler = handler(self.tracking.clone(), None);
        let first = self.bed.work(&queues::EMAIL_EVENTS, handler.clone()).await;
        self.bed.clock.advance(3.seconds());
        self.bed.work(&queues::EMAIL_EVENTS, handler).await;
        first
    }

    async fn handle(&self, event: &EmailEvent) -> Outcome {
        let delivery = Delivery {
            id: "m".into(),
            body: event.to_body().unwrap(),
            receives: 1,
            enqueued_at: self.cx.now(),
            receipt: Receipt("r".into()),
        };
        handler(self.tracking.clone(), None).handle(&delivery).await
    }

    fn event(&self, kind: EventType, link: &str) -> EmailEvent {
        hits::event(self.bed.access.now(), kind, &self.token(link), &self.to)
    }

    async fn counts(&self) -> Counts {
        let items = self.cx.items().await.unwrap();
        let item = items.get(&tables::MAIN, &keys::sequence("spring")).await.unwrap();
        item.as_ref().map(Counts::of).unwrap_or_default()
    }

    /// `open human`, `click machine` and the like, in order.
    async fn events(&self) -> Vec<String> {
        let items = self.cx.items().await.unwrap();
        let query = Query::new(&tables::EVENTS, "SUB#ada|lovelace@example.org").begins_with("EVT#");
        let found = items.query(query).await.unwrap().items;
        let told = found.iter().map(|item| {
            let verdict =
                item.get("verdict").map(crate::tracking::evidence::json).unwrap_or_default();
            let who = verdict["who"].as_str().unwrap_or("-").to_owned();
            format!("{} {who}", item.text("eventType").unwrap())
        });
        told.collect()
    }

    /// How everything stands that a reader can leave.
    async fn standing(&self) -> String {
        let reader = reader::find(&self.tracking.access, self.to).await.unwrap().unwrap();
        let mut parts: Vec<String> = Vec::new();
        for subscription in &reader.subscriptions {
            let whose = if subscription.client.is_some() { "client" } else { "audience" };
            parts.push(format!("{whose}={}", if subscription.is_on { "on" } else { "off" }));
        }
        parts.sort();
        if reader.left_everything {
            parts.push("left everything".to_owned());
        }
        parts.join(" ")
    }

    async fn leave(&self, scope: Scope) {
        let token = self.token(&self.tracking.links.unsubscribe(&self.to));
        let reader = choices::by_unsubscribe(&self.tracking, &token).await.unwrap();
        let reader = (&reader, token.as_str());
        choices::unsubscribe(&self.tracking, reader, scope, Proof::default()).await.unwrap();
    }

    async fn choose(&self, reader: &Reader, choices: &Choices) -> Result<(), ChoiceError> {
        let token = self.token(&self.tracking.links.preferences(&self.to));
        let reader = (reader, token.as_str());
        choices::choose(&self.tracking, reader, choices, Proof::default()).await
    }

    async fn come_back(&self, scope: Scope) {
        let reader = reader::find(&self.tracking.access, self.to).await.unwrap().unwrap();
        choices::resubscribe(&reader, scope, Proof::default()).await.unwrap();
    }
}

fn person() -> Request {
    Request {
        user_agent: Some(FIREFOX.to_owned()),
        ip: Some("192.0.2.7".parse().unwrap()),
        ..Request::default()
    }
}
