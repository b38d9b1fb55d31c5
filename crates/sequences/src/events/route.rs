//! What is done with one event.
//!
//! Each part of it can be done again without doing more, and none of them stops the others: what met trouble with a store
//! is told at the end, and the event comes again. What is wrong with the event itself is not better the next time.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_access::{Cx, StorageError};
use tidings_delivery::transactional::{AcceptError, Lines, Send};
use tidings_jobs::contracts::{Origin, SequenceEvent};
use tidings_kernel::{EmailAddress, Outgoing, Txn, queues};
use tidings_people::contacts::{self, Change, Edit, Update, Upsert, UpsertError, Upserted};
use tidings_people::heard;

use super::person::{self, NoAddress};
use super::{IDENTIFY, INVOICE_PAID, payment};
use crate::definition::{Definition, Mapping, OneOff, filter};
use crate::executions::{
    self, Cause, Enrol, EnrolError, Heard, Person, Tools, Which, context, part_of,
};
use crate::versions::{Active, Listener, Role, Status, listeners};

/// Of so many versions before the active one it is asked where an exit has its address.
const OLDER: i64 = 20;

/// Why an event has to come again.
#[derive(Debug)]
pub(super) enum Trouble {
    Store(StorageError),
    /// Another worker does the same.
    Busy,
}

/// What became of an event.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Whether anybody wanted it.
    wanted: bool,
    /// Whether it is about somebody.
    is_about_somebody: bool,
    /// How often it could not be taken as it is.
    refused: usize,
    /// The first that was met.
    pub(super) trouble: Option<Trouble>,
}

pub(super) struct Routing<'a> {
    tools: &'a Tools,
    cx: &'a Cx,
    event: &'a SequenceEvent,
    data: Value,
    /// Whom it is about, as far as the event itself tells.
    person: Option<EmailAddress>,
    done: Done,
}

impl Done {
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self { refused: 1.., .. } => "refused",
            Self { wanted: true, .. } => "done",
            Self { is_about_somebody: false, .. } => "nobody",
            Self { .. } => "unheard",
        }
    }
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Self {
        Self::Store(error)
    }
}

impl<'a> Routing<'a> {
    pub(super) async fn new(
        tools: &'a Tools,
        cx: &'a Cx,
        event: &'a SequenceEvent,
    ) -> Result<Self, StorageError> {
        let data = Value::Object(event.data.clone().unwrap_or_default());
        let own = event.email.as_deref().and_then(|email| email.parse().ok());
        let person = match (own.or_else(|| person::address_in(&data)), &event.user_id) {
            (Some(email), _) => Some(email),
            (None, Some(user_id)) => contacts::of_user_id(cx, user_id).await?,
            (None, None) => None,
        };
        let done = Done { is_about_somebody: person.is_some(), ..Done::default() };
        Ok(Self { tools, cx, event, data, person, done })
    }

    pub(super) async fn run(mut self) -> Done {
        if let Some(email) = self.person.clone() {
            let left = self.leave(&email).await;
            self.note(left);
            let known = self.write_down(&email).await;
            self.note(known);
            let heard = self.hear(&email).await;
            self.note(heard);
        }
        let paid = self.pay().await;
        self.note(paid);
        match listeners(self.cx, &self.event.name).await {
            Ok(listeners) => self.tell(listeners).await,
            Err(error) => self.note(Err(StorageError::from(error).into())),
        }
        self.done
    }

    /// Who leaves a sequence leaves it before anybody comes in, and comes in before he gets a mail besides.
    async fn tell(&mut self, listeners: Vec<Listener>) {
        for wanted in [Role::Exit, Role::Trigger, Role::Event] {
            for listener in listeners.iter().filter(|listener| listener.role == wanted) {
                let done = match wanted {
                    Role::Exit => self.exit(&listener.sequence).await,
                    Role::Trigger if listener.status != Status::Archived => {
                        self.trigger(&listener.sequence).await
                    }
                    Role::Event if listener.status == Status::Active => {
                        self.one_offs(&listener.sequence).await
                    }
                    Role::Trigger | Role::Event | Role::Wait => Ok(false),
                };
                self.note(done);
            }
        }
    }

    fn note(&mut self, done: Result<bool, Trouble>) {
        match done {
            Ok(wanted) => self.done.wanted |= wanted,
            Err(trouble) => self.done.trouble = self.done.trouble.take().or(Some(trouble)),
        }
    }

    /// What a sequence cannot use, it cannot use the next time either.
    fn refuse(&mut self, sequence: &str, why: &str) {
        self.done.refused += 1;
        let id = &self.event.event_id;
        tracing::warn!(event.id = %id, sequence, why, "Event {id} could not be used");
    }

    /// What the system tells of a person ends what he is in.
    async fn leave(&self, email: &EmailAddress) -> Result<bool, Trouble> {
        if self.event.origin != Origin::System {
            return Ok(false);
        }
        let text = |field: &str| self.data.get(field).and_then(Value::as_str).map(str::to_owned);
        let (which, cause) = match self.event.name.as_str() {
            heard::SUPPRESSED => (Which::All, Cause::Suppressed),
            heard::UNSUBSCRIBED => match (text("scope").as_deref(), text("audience")) {
                (Some("everything"), _) => (Which::Marketing, Cause::Unsubscribed),
                (_, Some(audience)) => {
                    (Which::Audience { audience, client: text("client") }, Cause::Unsubscribed)
                }
                (_, None) => return Ok(false),
            },
            _ => return Ok(false),
        };
        // A provider tells late that somebody cannot be reached, and that ends whatever began in the meantime too, as long as
        // it holds.
        let by = match which {
            Which::All if contacts::flags(self.cx, email).await?.suppressed => Timestamp::MAX,
            Which::All => return Ok(false),
            Which::Marketing | Which::Audience { .. } | Which::Sequence(_) => {
                self.event.occurred_at
            }
        };
        let versions = &self.tools.versions;
        Ok(executions::stop_all(self.cx, versions, email, (&which, cause), by).await? > 0)
    }

    /// Money that came in: reminders of it are not sent. They find out by themselves what it means.
    async fn pay(&mut self) -> Result<bool, Trouble> {
        if self.event.name != INVOICE_PAID || self.event.origin != Origin::Api {
            return Ok(false);
        }
        let Some(step) = payment::step(self.cx.workspace(), self.event, &self.data) else {
            self.refuse("", "it names neither a customer nor an invoice that was paid");
            return Ok(false);
        };
        let txn = Txn::new().enqueue(Outgoing::new(&queues::REMINDER_STEPS, step));
        let items = self.cx.items().await?;
        items.transact(txn).await.map_err(StorageError::from)?;
        Ok(true)
    }

    /// What callers tell of a person with the names that mean so.
    async fn write_down(&mut self, email: &EmailAddress) -> Result<bool, Trouble> {
        let known = match (self.event.origin, self.event.name.as_str()) {
            (Origin::Api, heard::SUBSCRIBED) => person::subscribed(&self.data),
            (Origin::Api, IDENTIFY) => person::identified(&self.data),
            _ => return Ok(false),
        };
        let zone = person::zone(&self.data).filter(|_| self.event.name == IDENTIFY);
        let timezone = zone.map_or(Change::Keep, Change::Set);
        let Person { first_name, attributes, tags } = known;
        let first_name = first_name.map_or(Change::Keep, Change::Set);
        let edit = Edit { first_name, timezone, attributes, tags };
        let update = Update { email: email.clone(), edit };
        if !written(contacts::put(self.cx, update).await)? {
            self.refuse("", "more is told of the person than can be written down");
        }
        if let Some(user_id) = &self.event.user_id {
            let learnt =
                contacts::learn_user_id(self.cx, email, user_id, self.event.occurred_at).await;
            learnt.map_err(StorageError::from)?;
        }
        Ok(true)
    }

    /// Tells whether it could be written down.
    async fn upsert(&self, email: &EmailAddress, person: Person) -> Result<bool, StorageError> {
        let Person { first_name, attributes, tags } = person;
        let upsert = Upsert { email: email.clone(), first_name, attributes, tags };
        written(contacts::upsert(self.cx, upsert).await)
    }

    async fn hear(&self, email: &EmailAddress) -> Result<bool, Trouble> {
        let heard = Heard { event: &self.event.name, data: &self.data, at: self.event.occurred_at };
        Ok(executions::hear(self.cx, &self.tools.versions, email, &heard).await? > 0)
    }

    fn address(&self, mapping: &Mapping) -> Result<Option<EmailAddress>, NoAddress> {
        person::address(mapping, &self.data, self.person.as_ref())
    }

    /// Takes somebody out if the version says so that he walks through.
    async fn exit(&mut self, sequence: &str) -> Result<bool, Trouble> {
        let versions = &self.tools.versions;
        let active = versions.active(self.cx, sequence).await?;
        let addresses = self.leaving(sequence, active.as_ref()).await?;
        let mut stopped = false;
        for email in addresses {
            if let Some(active) = &active
                && self.ends(&active.program.definition, &email)
            {
                let by = self.exit_at(&active.program.definition);
                executions::remember_exit(self.cx, &email, sequence, by).await?;
            }
            let inside = executions::of_contact(self.cx, &email).await?;
            let Some(execution) = inside.into_iter().find(|one| one.sequence == sequence) else {
                continue;
            };
            let program = versions.program(self.cx, sequence, execution.version).await?;
            let Some(program) = program.filter(|one| self.ends(&one.definition, &email)) else {
                continue;
            };
            let which = (&Which::Sequence(sequence.to_owned()), Cause::Event);
            let by = self.exit_at(&program.definition);
            stopped |= executions::stop_all(self.cx, versions, &email, which, by).await? > 0;
        }
        Ok(stopped)
    }

    /// Whom it may be about: where the active version says so, and where older ones do, through which people still walk.
    async fn leaving(
        &mut self,
        sequence: &str,
        active: Option<&Active>,
    ) -> Result<BTreeSet<EmailAddress>, Trouble> {
        let mut addresses: BTreeSet<EmailAddress> = self.person.iter().cloned().collect();
        let newest = active.map_or(0, |active| active.version);
        for version in (newest.saturating_sub(OLDER).max(1)..=newest).rev() {
            let program = self.tools.versions.program(self.cx, sequence, version).await?;
            let Some(program) = program else { continue };
            let exits = program.definition.exit_on.iter();
            for exit in exits.filter(|exit| exit.event == self.event.name) {
                match self.address(&exit.mapping) {
                    Ok(email) => addresses.extend(email),
                    Err(NoAddress) if version == newest => {
                        self.refuse(sequence, "it has no address where one should be");
                    }
                    Err(NoAddress) => {}
                }
            }
        }
        Ok(addresses)
    }

    /// What was told by then ends. If the event lets people in as well, it does not end what it has begun itself when it comes
    /// again.
    fn exit_at(&self, definition: &Definition) -> Timestamp {
        let told_at = self.event.occurred_at;
        match &definition.trigger {
            Some(trigger) if trigger.event == self.event.name => {
                told_at.saturating_sub(SignedDuration::from_millis(1)).unwrap_or(told_at)
            }
            _ => told_at,
        }
    }

    fn ends(&self, definition: &Definition, email: &EmailAddress) -> bool {
        definition.exit_on.iter().any(|exit| {
            exit.event == self.event.name
                && self.address(&exit.mapping).ok().flatten().as_ref() == Some(email)
                && filter::holds(&exit.filter, &self.data)
        })
    }

    async fn trigger(&mut self, sequence: &str) -> Result<bool, Trouble> {
        let Some(active) = self.tools.versions.active(self.cx, sequence).await? else {
            return Ok(false);
        };
        let Some(trigger) = &active.program.definition.trigger else { return Ok(false) };
        // It may have become another one since the listeners were asked.
        if trigger.event != self.event.name || !filter::holds(&trigger.filter, &self.data) {
            return Ok(false);
        }
        let Some(email) = self.wanted_address(sequence, &trigger.mapping) else {
            return Ok(false);
        };
        let enrol = Enrol {
            sequence: sequence.to_owned(),
            email,
            person: person::mapped(&trigger.mapping, &self.data),
            input: self.data.clone(),
            cause: Some(self.event.event_id.clone()),
            told_at: Some(self.event.occurred_at),
        };
        match executions::enrol(self.cx, &self.tools.versions, enrol).await {
            Ok(_) => Ok(true),
            Err(EnrolError::Missing(_)) => Ok(false),
            Err(EnrolError::Person(UpsertError::TooMuch(_))) => {
                self.refuse(sequence, "more is told of the person than can be written down");
                Ok(false)
            }
            Err(EnrolError::Person(UpsertError::Store(error)) | EnrolError::Store(error)) => {
                Err(error.into())
            }
        }
    }

    /// Mails of their own, whether or not the person is in the sequence.
    async fn one_offs(&mut self, sequence: &str) -> Result<bool, Trouble> {
        let Some(active) = self.tools.versions.active(self.cx, sequence).await? else {
            return Ok(false);
        };
        let (mut sent, mut trouble) = (false, None);
        for (place, one) in active.program.definition.events.iter().enumerate() {
            if one.event != self.event.name || !filter::holds(&one.filter, &self.data) {
                continue;
            }
            match self.mail(&active, place, one).await {
                Ok(done) => sent |= done,
                Err(met) => trouble = Some(met),
            }
        }
        trouble.map_or(Ok(sent), Err)
    }

    async fn mail(&mut self, active: &Active, place: usize, one: &OneOff) -> Result<bool, Trouble> {
        let definition = &active.program.definition;
        let sequence = definition.id.as_str();
        let Some(email) = self.wanted_address(sequence, &one.mapping) else { return Ok(false) };
        if !self.upsert(&email, person::mapped(&one.mapping, &self.data)).await? {
            self.refuse(sequence, "more is told of the person than can be written down");
        }
        let mut send = Send::of_template(active.client, email, one.mail.template.as_str());
        send.idempotency_key =
            Some(format!("sequence-event/{}/{sequence}/{place}", self.event.event_id));
        send.sender.clone_from(&definition.sender);
        send.topic.clone_from(&definition.topic);
        send.lines = Lines { subject: one.mail.subject.clone(), preheader: None };
        send.context = context(&self.data);
        send.part_of = Some(part_of(definition, None));
        match self.tools.messages.accept(self.cx, send).await {
            // The same event with another content: what was accepted first is what is sent.
            Ok(_) | Err(AcceptError::KeyReused(_)) => Ok(true),
            Err(AcceptError::Store(error)) => Err(error.into()),
            Err(AcceptError::InFlight) => Err(Trouble::Busy),
            Err(AcceptError::NoTemplate(_) | AcceptError::NoVersion(..)) => {
                self.refuse(sequence, "the template of its mail is not active");
                Ok(false)
            }
            Err(AcceptError::Invalid(_) | AcceptError::BatchSize) => {
                self.refuse(sequence, "its mail cannot be made of it");
                Ok(false)
            }
        }
    }

    /// Whom it is about for this sequence. If it is nobody, that is noted.
    fn wanted_address(&mut self, sequence: &str, mapping: &Mapping) -> Option<EmailAddress> {
        let address = self.address(mapping);
        if address == Err(NoAddress) {
            self.refuse(sequence, "it has no address where one should be");
        }
        self.done.is_about_somebody |= matches!(address, Ok(Some(_)));
        address.ok().flatten()
    }
}

/// Whether there was room for it.
fn written(done: Result<Upserted, UpsertError>) -> Result<bool, StorageError> {
    match done {
        Ok(_) => Ok(true),
        Err(UpsertError::TooMuch(_)) => Ok(false),
        Err(UpsertError::Store(error)) => Err(error),
    }
}
