//! `tidings reminders draft-many`: a draft for everybody in a file who may get one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidings_access::Cx;
use tidings_kernel::hex;
use tidings_reminders::{
    self as reminders, Choose, Customer, Facts, MAX_ROWS, Money, New, Status, Text,
};

use super::args::ManyArgs;
use super::invoice;
use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

/// The columns that there must be.
const COLUMNS: [&str; 6] =
    ["customer_id", "customer_name", "customer_email", "overdue_amount", "currency", "invoices"];

/// A line of the file.
#[derive(Debug, Deserialize)]
struct Line {
    customer_id: String,
    customer_name: String,
    customer_email: String,
    overdue_amount: String,
    currency: String,
    invoices: String,
    reminder_type: Option<String>,
    template: Option<String>,
}

/// Who was left out.
#[derive(Serialize)]
struct Left {
    line: u64,
    customer_id: String,
    reason: &'static str,
    detail: String,
    allowed_from: String,
}

/// What is done with a file: drafted so far, and who was not.
struct Work<'a> {
    cx: &'a Cx,
    by: &'a str,
    drafted: u64,
    again: u64,
    left: Vec<Left>,
}

pub(super) async fn run(open: &Open, cx: &Cx, args: ManyArgs) -> Result<(), Failure> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(from(&args.file)?);
    let mut work = Work { cx, by: &args.by, drafted: 0, again: 0, left: Vec::new() };
    let names = reader.headers().map_err(|error| Failure::usage(error.to_string()))?.clone();
    if let Some(missing) = COLUMNS.iter().find(|column| !names.iter().any(|name| name == **column))
    {
        return Err(Failure::usage(format!("there is no column {missing}"))
            .hint("`tidings reminders draft-many --help` names the columns"));
    }
    let done = work.all(reader.into_deserialize(), args.run.as_deref()).await;
    // Also if it ends before the end of the file: what was done was done.
    work.report(args.left_out.as_deref())?;
    done?;
    let (drafted, left_out) = (work.drafted, work.left.len());
    open.print(&json!({ "drafted": drafted, "there_already": work.again, "left_out": left_out }))
}

impl Work<'_> {
    async fn all(
        &mut self,
        lines: impl Iterator<Item = csv::Result<Line>>,
        run: Option<&str>,
    ) -> Result<(), Failure> {
        let mut rows: Vec<(u64, New)> = Vec::new();
        for (number, line) in lines.enumerate() {
            let number = number as u64 + 2;
            match line {
                Ok(line) => match self.read(&line) {
                    Ok(mut new) => {
                        let round = reminders::round(self.cx, &new.customer.id).await?;
                        new.idempotency_key = Some(key_of(&line, self.by, (round.as_str(), run)));
                        rows.push((number, new));
                    }
                    Err(detail) => {
                        self.leave(number, (line.customer_id, "invalid", detail), String::new());
                    }
                },
                Err(error) if !error.is_io_error() => {
                    let what = (String::new(), "invalid", error.to_string());
                    self.leave(number, what, String::new());
                }
                Err(error) => return Err(Failure::failed(format!("line {number}: {error}"))),
            }
            if rows.len() == MAX_ROWS {
                self.draft(std::mem::take(&mut rows)).await?;
            }
        }
        if rows.is_empty() { Ok(()) } else { self.draft(rows).await }
    }

    fn read(&self, line: &Line) -> Result<New, String> {
        let at = |field: &str, error: &dyn ToString| format!("{field}: {}", error.to_string());
        let owed = Money::new(&line.overdue_amount, &line.currency)
            .map_err(|error| at("overdue_amount", &error))?;
        let parts = line.invoices.split(';').filter(|part| !part.trim().is_empty());
        let invoices = parts.map(|part| invoice(part, &line.currency)).collect::<Result<_, _>>()?;
        let kind = line.reminder_type.as_deref().filter(|word| !word.is_empty() && *word != "next");
        let kind = kind.map(str::parse).transpose().map_err(|error| at("reminder_type", &error))?;
        let template = line.template.clone().filter(|id| !id.is_empty());
        Ok(New {
            customer: Customer {
                id: line.customer_id.parse().map_err(|error| at("customer_id", &error))?,
                name: line.customer_name.clone(),
                email: line.customer_email.parse().map_err(|error| at("customer_email", &error))?,
            },
            choose: kind.map_or(Choose::Next, Choose::Kind),
            facts: Facts { owed, invoices },
            text: template.map_or(Text::DefaultTemplate, |id| Text::Template {
                id,
                variables: serde_json::Map::new(),
            }),
            created_by: self.by.to_owned(),
            idempotency_key: None,
        })
    }

    async fn draft(&mut self, rows: Vec<(u64, New)>) -> Result<(), Failure> {
        let (numbers, news): (Vec<u64>, Vec<New>) = rows.into_iter().unzip();
        let customers: Vec<_> = news.iter().map(|new| new.customer.id.clone()).collect();
        let report = reminders::draft_many(self.cx, news).await?;
        for one in report.drafted {
            let draft = one.draft;
            let is_over = !matches!(
                draft.status,
                Status::Draft | Status::Approved | Status::Sending | Status::Sent
            );
            match (one.replayed, is_over) {
                (false, _) => self.drafted += 1,
                (true, false) => self.again += 1,
                // Somebody has decided: the same line does not ask him again by itself.
                (true, true) => {
                    let row = customers.iter().position(|id| *id == draft.customer);
                    let number = row.and_then(|row| numbers.get(row)).copied().unwrap_or_default();
                    let detail = format!(
                        "draft {} of this line is {}; another --run drafts it again",
                        draft.id, draft.status
                    );
                    self.leave(
                        number,
                        (draft.customer.to_string(), "decided", detail),
                        String::new(),
                    );
                }
            }
        }
        for one in report.left_out {
            let number = numbers.get(one.row).copied().unwrap_or_default();
            let from = one.allowed_from.map(|at| at.to_string()).unwrap_or_default();
            self.leave(number, (one.customer.to_string(), one.reason, one.detail), from);
        }
        say(&format!("{} drafted, {} left out so far", self.drafted, self.left.len()));
        Ok(())
    }

    fn leave(
        &mut self,
        line: u64,
        (customer_id, reason, detail): (String, &'static str, String),
        allowed_from: String,
    ) {
        self.left.push(Left { line, customer_id, reason, detail, allowed_from });
    }

    /// Into the file, or as remarks.
    fn report(&self, file: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = file else {
            for one in &self.left {
                say(&format!(
                    "line {}: {} was left out: {}",
                    one.line, one.customer_id, one.detail
                ));
            }
            return Ok(());
        };
        let mut writer = csv::Writer::from_path(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        for one in &self.left {
            writer.serialize(one).context("who was left out cannot be written")?;
        }
        writer.flush().context("who was left out cannot be written")?;
        Ok(())
    }
}

/// The same line makes one draft, however often it is read, until a reminder was sent to the customer or he owes nothing:
/// then it is about the next one.
fn key_of(line: &Line, by: &str, (round, run): (&str, Option<&str>)) -> String {
    let parts = [
        by,
        round,
        run.unwrap_or_default(),
        &line.customer_id,
        &line.customer_name,
        &line.customer_email,
        &line.overdue_amount,
        &line.currency,
        &line.invoices,
        line.reminder_type.as_deref().unwrap_or_default(),
        line.template.as_deref().unwrap_or_default(),
    ];
    format!("file:{}", hex(&Sha256::digest(json!(parts).to_string())))
}

fn from(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(file))
}
