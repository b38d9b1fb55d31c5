//! What holds for all inboxes of a workspace, and for one: shown and changed.

use tidings_access::Cx;
use tidings_inbox::keys::InboxKey;
use tidings_inbox::settings::{
    self, NewConfiguration, NewSettings, SettingsError, delete_inbox, inbox, inboxes, put_inbox,
    put_tenant,
};

use super::SENDER;
use super::args::{ConfigCommand, SettingsCommand};
use super::shown::{ConfigurationShown, SettingsShown};
use crate::failure::Failure;
use crate::open::Open;

pub(super) async fn tenant(open: &Open, cx: &Cx, command: SettingsCommand) -> Result<(), Failure> {
    let now = settings::tenant(cx).await?;
    let SettingsCommand::Set {
        title,
        ttl,
        no_ttl,
        look_back,
        no_look_back,
        allow_origins,
        no_origins,
    } = command
    else {
        return open.print(&SettingsShown::from(now));
    };
    let ttl_now = now.ttl.filter(|_| !no_ttl).map(|ttl| ttl.to_string());
    let look_back_now = now.look_back.filter(|_| !no_look_back).map(|time| time.to_string());
    let keeps_origins = allow_origins.is_empty() && !no_origins;
    let new = NewSettings {
        title: title.unwrap_or(now.title),
        ttl: ttl.or(ttl_now),
        look_back: look_back.or(look_back_now),
        allowed_origins: if keeps_origins { now.allowed_origins } else { allow_origins },
        uid: SENDER.to_owned(),
    };
    open.print(&SettingsShown::from(put_tenant(cx, new).await.map_err(refused)?))
}

pub(super) async fn of_inbox(open: &Open, cx: &Cx, command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::List => list(open, cx).await,
        ConfigCommand::Show { inbox: key } => {
            let found = inbox(cx, &key).await?.ok_or_else(|| missing(&key))?;
            open.print(&ConfigurationShown::of(key.as_str(), found))
        }
        ConfigCommand::Set { inbox: key, title, description, times, no_ttl } => {
            let now = inbox(cx, &key).await?.unwrap_or_default();
            let keeps_times = times.is_empty() && !no_ttl;
            let before = now.ttl.into_iter().map(|(name, ttl)| (name, ttl.to_string()));
            let new = NewConfiguration {
                title: title.unwrap_or(now.title),
                description: description.unwrap_or(now.description),
                ttl: if keeps_times { before.collect() } else { times.into_iter().collect() },
                uid: SENDER.to_owned(),
            };
            let made = put_inbox(cx, &key, new).await.map_err(refused)?;
            open.print(&ConfigurationShown::of(key.as_str(), made))
        }
        ConfigCommand::Delete { inbox: key } => {
            if delete_inbox(cx, &key).await? {
                Ok(())
            } else {
                Err(missing(&key))
            }
        }
    }
}

async fn list(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (mut out, mut after) = (open.out(), None);
    loop {
        let page = inboxes(cx, 100, after).await?;
        for (key, configuration) in page.inboxes {
            out.json(&ConfigurationShown::of(key.as_str(), configuration))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

fn missing(key: &InboxKey) -> Failure {
    Failure::failed(format!("the inbox {key} has no configuration"))
        .hint("it needs none; `tidings inbox config list` shows those that have one")
}

fn refused(error: SettingsError) -> Failure {
    match error {
        SettingsError::Invalid(_) => Failure::usage(error.to_string())
            .hint("`tidings inbox settings set --help` and `tidings inbox config set --help` show what fits"),
        SettingsError::Busy | SettingsError::Store(_) => error.into(),
    }
}
