//! Whether and to whom a workspace passes replies on.

use serde_json::{Value, json};
use tidings_access::{Change, Cx};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

/// What stands in the place of an address.
const OFF: &str = "off";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PassOn {
    /// As the installation has it (`signals.forward_replies_to`).
    #[default]
    Default,
    /// To nobody, whatever the installation says.
    Off,
    To(EmailAddress),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use an e-mail address, off or default")]
pub struct PassOnError;

impl PassOn {
    /// `None` for the default.
    fn stored(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Off => Some(OFF),
            Self::To(address) => Some(address.as_str()),
        }
    }

    fn told(&self) -> Value {
        json!({ "forward_to": self.to_string() })
    }
}

impl std::fmt::Display for PassOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.stored().unwrap_or("default"))
    }
}

impl std::str::FromStr for PassOn {
    type Err = PassOnError;

    fn from_str(text: &str) -> Result<Self, PassOnError> {
        match text {
            "default" => Ok(Self::Default),
            OFF => Ok(Self::Off),
            address => address.parse().map(Self::To).map_err(|_| PassOnError),
        }
    }
}

/// What this workspace says.
pub async fn show(cx: &Cx) -> Result<PassOn, DatabaseError> {
    let within = cx.clone();
    cx.database().read(move |tx| load(tx, &within)).await
}

/// From now on replies to messages of this workspace are passed on so.
pub async fn put(cx: &Cx, pass_on: PassOn) -> Result<PassOn, DatabaseError> {
    let within = cx.clone();
    let put = cx.database().write(move |tx| {
        let before = load(tx, &within)?;
        if before == pass_on {
            return Ok(before);
        }
        let sql = "INSERT INTO workspace_settings (workspace_id, forward_replies_to, updated_at) VALUES ($1, $2, $3)
                   ON CONFLICT (workspace_id) DO UPDATE SET forward_replies_to = $2, updated_at = $3";
        let workspace = Param::Int(within.workspace_id().get());
        let text = pass_on.stored().map_or(Param::Null, Param::Text);
        tx.execute(sql, &[workspace, text, within.now().into()])?;
        let change = Change::new("settings.replies", "workspace", within.workspace())
            .between(before.told(), pass_on.told());
        within.record_change(tx, &change)?;
        Ok(pass_on.clone())
    });
    put.await
}

fn load(tx: &mut Tx<'_>, cx: &Cx) -> Result<PassOn, DatabaseError> {
    let sql = "SELECT forward_replies_to FROM workspace_settings WHERE workspace_id = $1";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get())])?;
    match rows.first() {
        Some(row) if row.optional_text(0)?.is_some() => row.parsed(0, "whom to pass replies on to"),
        _ => Ok(PassOn::Default),
    }
}
