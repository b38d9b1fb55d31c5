//! `tidings events send`: tells that something happened to somebody, as an application would over HTTP.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sequences::events::{self, AcceptError, Event};

use crate::failure::Failure;
use crate::open::Open;
use crate::sequences::data;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings events send user.signed_up --email ada@example.org --data '{\"plan\":\"team\"}'
  tidings events send project.created --user-id 4711 --message-id project-17

A running server (`tidings serve`) does what the sequences want with it. The same message id again counts once.")]
pub(super) struct SendArgs {
    /// What happened, such as user.signed_up
    name: String,
    /// To whom; without it a sequence looks where its map says, in the data
    #[arg(long, value_name = "EMAIL")]
    email: Option<EmailAddress>,
    /// To whom, by what your product calls the person
    #[arg(long, value_name = "ID")]
    user_id: Option<String>,
    /// What the steps and filters can ask
    #[arg(long, value_name = "JSON", value_parser = data)]
    data: Option<Value>,
    /// Tells this event from all others: told twice, it counts once
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// When it happened [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

pub(super) async fn send(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    let data = match args.data {
        Some(Value::Object(data)) => data,
        _ => serde_json::Map::new(),
    };
    let event = Event {
        message_id: args.message_id,
        name: args.name,
        email: args.email,
        user_id: args.user_id,
        occurred_at: args.at,
        data,
    };
    let accepted = events::accept(cx, vec![event]).await.map_err(|error| match error {
        AcceptError::Invalid(wrong) => {
            let told = wrong.iter().map(|one| format!("{}: {}", one.field, one.message));
            Failure::usage(told.collect::<Vec<_>>().join("; "))
        }
        AcceptError::Count | AcceptError::Store(_) => error.into(),
    })?;
    let mut out = open.out();
    for one in accepted {
        out.json(&json!({
            "id": one.id, "message_id": one.message_id, "replayed": one.replayed,
        }))?;
    }
    out.finish()
}
