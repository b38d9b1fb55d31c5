//! `tidings reminders`: draft, review, approve, and see what came of it.

mod args;
mod many;
mod review;
mod shown;

use jiff::civil::Date;
use serde_json::json;
use tidings_access::Cx;
use tidings_reminders::templates::{self, Put};
use tidings_reminders::{
    self as reminders, Approve, ApproveMany, BatchError, Choose, ContentType, Customer, DraftError,
    Facts, Invoice, Listing, Money, New, Overdue, Page, Payment, Reject, Seen, Text, settings,
};

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};
use crate::output::say;
use args::{
    BetweenArgs, DraftArgs, OverdueArgs, PaidArgs, RemindersCommand, SettingsCommand,
    TemplatesCommand,
};

pub(crate) use args::RemindersArgs;

/// So many are asked for at a time.
const PAGE: usize = 100;

pub(crate) async fn run(args: RemindersArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: RemindersCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    use RemindersCommand as C;
    match command {
        C::List { status, customer, limit } => list(open, cx, (status, customer), limit).await,
        C::Show { id } => open.print(&shown::draft(&reminders::get(cx, &id).await?)),
        C::Draft(args) => draft(open, cx, *args).await,
        C::DraftMany(args) => many::run(open, cx, args).await,
        C::Review { by, editor } => review::run(cx, &by, editor.as_deref()).await,
        C::Approve { ids, edition, by } => approve(open, cx, ids, (edition, by)).await,
        C::Reject { id, reason, by } => {
            let rejected = reminders::reject(cx, Reject { draft: id, reason, by }).await?;
            open.print(&shown::draft(&rejected))
        }
        C::History { customer } => history(open, cx, &customer).await,
        C::Sent(BetweenArgs { from, to }) => {
            let mut out = open.out();
            let (mut cursor, mut more) = (None, true);
            while more {
                let found = reminders::sent_between(cx, from, to, part(cursor)).await?;
                for sent in &found.items {
                    out.json(&shown::sent(sent))?;
                }
                cursor = found.next;
                more = cursor.is_some();
            }
            out.finish()
        }
        C::Recent { customer, kind, since } => {
            let mut out = open.out();
            for sent in reminders::recent(cx, &customer, kind, since).await? {
                out.json(&shown::sent(&sent))?;
            }
            out.finish()
        }
        C::Allowed { customer } => {
            let mut out = open.out();
            for (kind, answer) in reminders::allowed(cx, &customer).await? {
                out.json(&shown::answer(kind, answer))?;
            }
            out.finish()
        }
        C::Payments { customer } => payments(open, cx, &customer).await,
        C::Overdue(args) => overdue(open, cx, args).await,
        C::Paid(args) => paid(open, cx, args).await,
        C::Outstanding => outstanding(open, cx).await,
        C::Report(BetweenArgs { from, to }) => {
            open.print(&shown::report(&reminders::report(cx, from, to).await?))
        }
        C::Templates(command) => of_templates(open, cx, command).await,
        C::Settings(SettingsCommand::Show) => open.print(&settings::get(cx).await?.to_json()),
        C::Settings(SettingsCommand::Put { json }) => {
            let json = serde_json::from_str(&json)
                .map_err(|error| Failure::usage(format!("the settings are not JSON: {error}")))?;
            let wanted = settings::parse(&json).map_err(settings::PutError::Invalid);
            let set = settings::put(cx, wanted.map_err(wrong)?).await.map_err(wrong)?;
            open.print(&set.to_json())
        }
    }
}

fn part(cursor: Option<String>) -> Listing {
    Listing { limit: PAGE, cursor }
}

fn wrong(error: settings::PutError) -> Failure {
    match error {
        settings::PutError::Invalid(_) => Failure::usage(error.to_string())
            .hint("`tidings reminders settings show` prints them as they are written"),
        settings::PutError::Store(_) => error.into(),
    }
}

async fn list(
    open: &Open,
    cx: &Cx,
    (status, customer): (Option<reminders::Status>, Option<reminders::CustomerId>),
    limit: usize,
) -> Result<(), Failure> {
    let (mut out, mut cursor, mut left) = (open.out(), None, limit);
    while left > 0 {
        let found: Page<reminders::Draft> = match (&customer, status) {
            (Some(customer), _) => reminders::drafts_of(cx, customer, part(cursor)).await?,
            (None, Some(status)) => reminders::by_status(cx, status, part(cursor)).await?,
            (None, None) => reminders::pending(cx, part(cursor)).await?,
        };
        for draft in found.items.iter().take(left) {
            out.json(&shown::draft(draft))?;
            left -= 1;
        }
        cursor = found.next;
        if cursor.is_none() {
            break;
        }
    }
    out.finish()
}

async fn draft(open: &Open, cx: &Cx, args: DraftArgs) -> Result<(), Failure> {
    let (customer, facts) = owing(args.owing)?;
    let text = match (args.subject, args.content, args.template) {
        (Some(subject), Some(content), _) => {
            Text::Written { subject, content, content_type: ContentType::Text }
        }
        (_, _, Some(id)) => Text::Template { id, variables: serde_json::Map::new() },
        _ => Text::DefaultTemplate,
    };
    let new = New {
        customer,
        choose: args.kind.map_or(Choose::Next, Choose::Kind),
        facts,
        text,
        created_by: args.by,
        idempotency_key: args.key,
    };
    let drafted = reminders::draft(cx, new).await.map_err(|error| match error {
        DraftError::Invalid(_) => Failure::usage(error.to_string()),
        DraftError::InProgress(_) => Failure::from(error)
            .hint("`tidings reminders show` says how far it is; edit it in a review, or reject it"),
        error => error.into(),
    })?;
    open.print(&shown::draft(&drafted.draft))
}

/// Who owes what.
fn owing(args: OverdueArgs) -> Result<(Customer, Facts), Failure> {
    let owed = money(&args.amount, &args.currency)?;
    let read = args.invoices.iter().map(|text| invoice(text, &args.currency));
    let invoices = read.collect::<Result<_, _>>().map_err(Failure::usage)?;
    let customer = Customer { id: args.customer, name: args.name, email: args.email };
    Ok((customer, Facts { owed, invoices }))
}

fn money(amount: &str, currency: &str) -> Result<Money, Failure> {
    Money::new(amount, currency).map_err(|error| Failure::usage(error.to_string()))
}

/// `ID`, `ID=AMOUNT` or `ID=AMOUNT@DUE`.
fn invoice(text: &str, currency: &str) -> Result<Invoice, String> {
    let (rest, due) = match text.trim().split_once('@') {
        Some((rest, due)) => (rest, Some(due)),
        None => (text.trim(), None),
    };
    let (id, amount) = match rest.split_once('=') {
        Some((id, amount)) => (id, Some(amount)),
        None => (rest, None),
    };
    let due = due.map(str::parse::<Date>).transpose();
    let due = due.map_err(|_| format!("{text}: use a due date such as 2026-06-30"))?;
    let amount = amount.map(|amount| Money::new(amount, currency)).transpose();
    let amount = amount.map_err(|error| format!("{text}: {error}"))?;
    Ok(Invoice { id: id.parse().map_err(|error| format!("{text}: {error}"))?, amount, due })
}

async fn approve(
    open: &Open,
    cx: &Cx,
    ids: Vec<reminders::DraftId>,
    (edition, by): (i64, String),
) -> Result<(), Failure> {
    let mut out = open.out();
    if let [draft] = ids.as_slice() {
        let seen = Seen::Edition(edition);
        let approved = reminders::approve(cx, Approve { draft: draft.clone(), seen, by }).await?;
        told(approved.missing);
        out.json(&shown::draft(&approved.draft))?;
        return out.finish();
    }
    let drafts = ids.into_iter().map(|id| (id, Seen::Edition(edition))).collect();
    let report = reminders::approve_many(cx, ApproveMany { drafts, by }).await;
    let report = report.map_err(|error| match error {
        BatchError::Refused(refused) => {
            for (_, why) in &refused {
                say(&why.to_string());
            }
            Failure::failed("none of them was approved")
        }
        error => error.into(),
    })?;
    for decided in report.decided {
        match decided.outcome {
            Ok(approved) => out.json(&shown::draft(&approved.draft))?,
            Err(error) => say(&format!("{}: {error}", decided.draft)),
        }
    }
    out.finish()
}

fn told(missing: u32) {
    match missing {
        0 => say("A running server sends it now, if the rules still allow it."),
        1 => say("One more person has to approve it."),
        more => say(&format!("{more} more people have to approve it.")),
    }
}

async fn history(open: &Open, cx: &Cx, customer: &reminders::CustomerId) -> Result<(), Failure> {
    let mut out = open.out();
    let mut cursor = None;
    loop {
        let found = reminders::history(cx, customer, part(cursor)).await?;
        for sent in &found.items {
            out.json(&shown::sent(sent))?;
        }
        cursor = found.next;
        if cursor.is_none() {
            break;
        }
    }
    out.finish()?;
    for (kind, allowed) in reminders::allowed(cx, customer).await? {
        say(&shown::allowed(kind, allowed));
    }
    Ok(())
}

async fn paid(open: &Open, cx: &Cx, args: PaidArgs) -> Result<(), Failure> {
    let money = match (&args.amount, &args.currency) {
        (Some(amount), Some(currency)) => Some(money(amount, currency)?),
        _ => None,
    };
    let payment = Payment {
        customer: args.customer,
        invoice: args.invoice,
        money,
        paid_at: args.at,
        reference: args.reference,
    };
    let recorded = reminders::paid(cx, payment).await.map_err(|error| match error {
        reminders::PaidError::Invalid(_) => Failure::usage(error.to_string()),
        error => error.into(),
    })?;
    if let Some(draft) = &recorded.withdrawn {
        say(&format!("Draft {draft} asked for it and is withdrawn."));
    }
    if let Some(left) = &recorded.left {
        say(&format!("{left} is left of the invoice."));
    }
    if let Some(over) = &recorded.payment.over {
        say(&format!("{over} of it is more than was owed."));
    }
    open.print(&shown::paid(&recorded))
}

async fn payments(open: &Open, cx: &Cx, customer: &reminders::CustomerId) -> Result<(), Failure> {
    let (mut out, mut cursor) = (open.out(), None);
    loop {
        let found = reminders::payments(cx, customer, part(cursor)).await?;
        for paid in &found.items {
            out.json(&shown::payment(paid))?;
        }
        cursor = found.next;
        if cursor.is_none() {
            return out.finish();
        }
    }
}

async fn overdue(open: &Open, cx: &Cx, args: OverdueArgs) -> Result<(), Failure> {
    let (customer, facts) = owing(args)?;
    let (id, owed) = (customer.id.clone(), facts.owed);
    let row = Overdue { customer, facts };
    match reminders::note_overdue(cx, vec![row]).await?.left_out.first() {
        Some(one) if one.reason == "invalid" => Err(Failure::usage(one.detail.clone())),
        Some(one) => Err(Failure::failed(one.detail.clone())),
        None => open.print(&json!({ "customer_id": id.as_str(), "overdue_amount": owed.digits(), "currency": owed.currency.as_str() })),
    }
}

async fn outstanding(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (mut out, mut cursor) = (open.out(), None);
    loop {
        let found = reminders::outstanding(cx, part(cursor)).await?;
        for one in &found.items {
            out.json(&shown::outstanding(one))?;
        }
        cursor = found.next;
        if cursor.is_none() {
            return out.finish();
        }
    }
}

async fn of_templates(open: &Open, cx: &Cx, command: TemplatesCommand) -> Result<(), Failure> {
    match command {
        TemplatesCommand::List => {
            let mut out = open.out();
            for template in templates::list(cx).await? {
                out.json(&shown::template(&template))?;
            }
            out.finish()
        }
        TemplatesCommand::Show { id } => {
            open.print(&shown::template(&templates::get(cx, &id, None).await?))
        }
        TemplatesCommand::Put { id, name, kind, subject, body, html } => {
            let content_type = if html { ContentType::Html } else { ContentType::Text };
            let put = Put { id, name, kind, subject, body, content_type, branding: None };
            let made = templates::put(cx, put).await.map_err(|error| match error {
                templates::PutError::Invalid(_) => Failure::usage(error.to_string()),
                templates::PutError::Store(_) => error.into(),
            })?;
            open.print(&shown::template(&made))
        }
        TemplatesCommand::Preview { id } => {
            let kind = templates::get(cx, &id, None).await?.kind;
            let kind = kind.unwrap_or(reminders::Kind::First);
            let nothing = serde_json::Map::new();
            let preview = templates::preview(cx, &id, kind, None, &nothing).await?;
            open.print(&shown::preview(&preview))
        }
    }
}
