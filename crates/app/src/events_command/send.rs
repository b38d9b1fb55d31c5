//! `tidings events send`: telling what happened to a person.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sequences::events::{self, AcceptError, Accepted, Event, check_told_name};

use crate::failure::Failure;
use crate::open::Open;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings events send user.signed_up --email ada@example.org --data '{\"plan\":\"pro\"}'
  tidings events send order.paid --user-id 42 --message-id order-1001
  tidings events send subscriber.subscribed --email ada@example.org --data '{\"firstName\":\"Ada\",\"tags\":[\"beta\"]}'")]
pub(super) struct SendArgs {
    /// What happened, such as user.signed_up
    #[arg(value_parser = name)]
    name: String,
    /// To whom, by e-mail address
    #[arg(long, value_name = "ADDRESS")]
    email: Option<EmailAddress>,
    /// To whom, as your product calls the person
    #[arg(long, value_name = "ID")]
    user_id: Option<String>,
    /// What is told of it: a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    data: Option<Map<String, Value>>,
    /// Makes it safe to tell again: each id counts once
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// When it happened, for your own use: it comes into the data as timestamp
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

fn name(text: &str) -> Result<String, String> {
    check_told_name(text).map(|()| text.to_owned())
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("use a JSON object such as {\"plan\":\"pro\"}".to_owned()),
        Err(error) => Err(format!("this is no JSON: {error}")),
    }
}

#[derive(Serialize)]
struct Told {
    id: String,
    message_id: String,
    replayed: bool,
}

pub(super) async fn send(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    let event = Event {
        message_id: args.message_id,
        name: args.name,
        email: args.email,
        user_id: args.user_id,
        anonymous_id: None,
        occurred_at: args.at,
        data: args.data.unwrap_or_default(),
    };
    match events::accept(cx, vec![event]).await {
        Ok(accepted) => {
            let mut out = open.out();
            for Accepted { id, message_id, replayed } in accepted {
                out.json(&Told { id, message_id, replayed })?;
            }
            out.finish()
        }
        Err(AcceptError::Invalid(wrong)) => {
            let told: Vec<_> =
                wrong.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
            Err(Failure::usage(told.join("; ")))
        }
        Err(error) => Err(error.into()),
    }
}
