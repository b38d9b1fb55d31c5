//! Publishing from the command line: the post of flags or of a file.

use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tidings_inbox::publish::{NewPost, To};

use super::args::PublishArgs;
use crate::failure::Failure;

/// More than any post needs: 100,000 users.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// A post as the API takes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    to: Recipients,
    category: Option<String>,
    title: String,
    #[serde(default)]
    body: Value,
    cta_uri: Option<String>,
    host_system_id: Option<String>,
    send_at: Option<Timestamp>,
    expires_in: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipients {
    #[serde(default)]
    everyone: bool,
    users: Option<Vec<String>>,
    label: Option<String>,
}

pub(super) fn of(args: PublishArgs) -> Result<NewPost, Failure> {
    match &args.file {
        Some(file) => of_file(file, args.sender.clone()),
        None => of_flags(args),
    }
}

fn of_file(file: &Path, sender: String) -> Result<NewPost, Failure> {
    let text = read(file)?;
    let written: Written = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{} is no post: {error}", file.display()))
            .hint("`tidings inbox publish --help` shows one")
    })?;
    let to = match (written.to.everyone, written.to.users) {
        (true, None) => To::Everyone,
        (false, Some(users)) => To::Users(users),
        _ => return Err(nobody("say in `to` either \"everyone\": true or \"users\": […]")),
    };
    Ok(NewPost {
        to,
        label: written.to.label,
        category: written.category,
        title: written.title,
        body: written.body,
        cta_uri: written.cta_uri,
        host_system_id: written.host_system_id,
        send_at: written.send_at,
        expires_in: written.expires_in,
        sender,
    })
}

fn of_flags(args: PublishArgs) -> Result<NewPost, Failure> {
    let mut users = args.to;
    if let Some(file) = &args.users_from {
        let text = read(file)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        users.extend(lines.map(ToOwned::to_owned));
    }
    let to = match args.everyone {
        true => To::Everyone,
        false if users.is_empty() => {
            return Err(nobody("name users with --to or --users-from, or say --everyone"));
        }
        false => To::Users(users),
    };
    let body = match (args.body, args.body_json) {
        (Some(text), _) => Value::String(text),
        (None, Some(json)) => serde_json::from_str(&json).map_err(|error| {
            Failure::usage(format!("--body-json is no JSON: {error}")).hint("use --body for text")
        })?,
        (None, None) => Value::Null,
    };
    Ok(NewPost {
        to,
        label: args.label,
        category: args.category,
        title: args.title.unwrap_or_default(),
        body,
        cta_uri: args.cta,
        host_system_id: args.key,
        send_at: args.at,
        expires_in: args.expires_in,
        sender: args.sender,
    })
}

fn nobody(hint: &str) -> Failure {
    Failure::usage("nobody would get it").hint(hint)
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be read: {error}", file.display()))
    };
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    } else {
        let opened = std::fs::File::open(file).map_err(failed)?;
        opened.take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    }
    if text.len() as u64 == MAX_FILE {
        return Err(Failure::usage(format!("{} is too long", file.display())));
    }
    Ok(text)
}
