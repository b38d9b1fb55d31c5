//! Sending over SMTP: a few connections that are kept, and answers told apart by what they mean for the message.
//!
//! The client is our own. What a lost connection means depends on the step: before the end of the body nothing was handed
//! over, after it nobody knows. And a message costs two writes only if its commands go in one group (RFC 2920), which no
//! client that we could use does.

mod answer;
mod body;
mod connection;
mod handover;
mod heard;
mod pool;
#[cfg(test)]
mod tests;
mod tls;

use std::time::Duration;

use async_trait::async_trait;
use tidings_kernel::{Accepted, Mail, SendError, Sender};

use answer::{Fault, Step, judge};
use connection::{Connection, State};
use handover::{Failure, hand_over};
use pool::{Lease, Pool};
use tls::Protection;

/// How a server is reached.
#[derive(Clone)]
pub struct SmtpSettings {
    pub host: String,
    pub port: u16,
    pub tls: Tls,
    /// Name and password. Never sent in the clear, except to this machine.
    pub credentials: Option<(String, String)>,
    /// How many messages can be on their way at once.
    pub connections: usize,
    /// What we call ourselves; if not said, the machine's full name, or its address if it has none.
    pub hello_name: Option<String>,
    /// How long each step may take; the answer to a whole message may take twice as long.
    pub timeout: Duration,
    /// Certificates in PEM that are trusted besides the system's.
    pub roots: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// From the first byte on, usually port 465.
    Implicit,
    /// After STARTTLS, usually port 587. A server that does not offer it gets no mail.
    Starttls,
    /// Never.
    None,
}

/// Why mail cannot be sent in this way at all.
#[derive(Debug, thiserror::Error)]
pub enum SmtpError {
    #[error("the password for {0} would go over the network unencrypted: use TLS")]
    Unprotected(String),
    #[error("TLS for {host} cannot be set up: {reason}")]
    Tls { host: String, reason: String },
    #[error("use 1 to 1000 connections")]
    Connections,
    #[error("{0}")]
    Unreachable(String),
}

/// A sender over SMTP.
pub struct Smtp {
    settings: SmtpSettings,
    protection: Option<Protection>,
    pool: Pool,
}

impl Smtp {
    pub fn new(settings: SmtpSettings) -> Result<Self, SmtpError> {
        if !(1..=1000).contains(&settings.connections) {
            return Err(SmtpError::Connections);
        }
        let near = matches!(settings.host.as_str(), "localhost" | "127.0.0.1" | "::1");
        if settings.tls == Tls::None && settings.credentials.is_some() && !near {
            return Err(SmtpError::Unprotected(settings.host));
        }
        let protection = match settings.tls {
            Tls::None => None,
            Tls::Implicit | Tls::Starttls => Some(Protection::new(&settings)?),
        };
        let pool = Pool::new(settings.connections);
        Ok(Self { settings, protection, pool })
    }

    /// Whether the server answers and lets us in. Tells what it calls itself.
    pub async fn greet(&self) -> Result<String, SmtpError> {
        let mut connection =
            self.connect().await.map_err(|error| SmtpError::Unreachable(error.to_string()))?;
        // It is only politeness: whether it says goodbye as well does not matter.
        if connection.quit().await.is_ok() {
            let _ = connection.hear().await;
        }
        Ok(connection.server_name().to_owned())
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let settings = &self.settings;
        let open = Connection::open(settings, self.protection.as_ref());
        let mut connection = self.limited(open, Step::Connect).await?;
        if settings.tls == Tls::Starttls {
            let Some(protection) = &self.protection else {
                return Err(SendError::Closed("TLS is not set up".to_owned()));
            };
            if !connection.can("STARTTLS") {
                return Err(SendError::Closed("the server does not offer STARTTLS".to_owned()));
            }
            connection = self.limited(connection.protect(protection), Step::Connect).await?;
        }
        if let Some((name, password)) = &settings.credentials {
            self.limited(connection.log_in(name, password), Step::Login).await?;
        }
        Ok(connection)
    }

    /// All of it in the time of one step.
    async fn limited<T>(
        &self,
        doing: impl Future<Output = Result<T, Fault>>,
        step: Step,
    ) -> Result<T, SendError> {
        let done = tokio::time::timeout(self.settings.timeout, doing).await;
        done.unwrap_or(Err(Fault::Late)).map_err(|fault| judge(&fault, step))
    }
}

#[async_trait]
impl Sender for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.settings.connections)
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let place = self.pool.place(mail.lane).await;
        while let Some(mut lease) = place.kept() {
            // The server has closed it, or is about to: it costs nothing to see that.
            if !lease.connection().is_quiet().await {
                continue;
            }
            match hand_over(lease.connection(), mail).await {
                // Of a kept connection nobody knows whether the server has not left meanwhile. It has taken nothing if it
                // does not answer to MAIL, so a new one is tried.
                Err(Failure { is_stale: true, .. }) => break,
                handed => return finish(lease, handed).await,
            }
        }
        let mut lease = place.fresh(self.connect().await?);
        let handed = hand_over(lease.connection(), mail).await;
        finish(lease, handed).await
    }
}

/// Keeps the connection if it can carry another message: the server has answered, and not to say goodbye.
async fn finish(
    mut lease: Lease<'_>,
    handed: Result<Accepted, Failure>,
) -> Result<Accepted, SendError> {
    let sent = handed.map_err(|failure| failure.error);
    let is_usable = match sent {
        Ok(_) | Err(SendError::Refused(_) | SendError::NoSuchAddress { .. }) => {
            lease.connection().state() != State::Busy
        }
        Err(
            SendError::Later(_)
            | SendError::Throttled { .. }
            | SendError::Closed(_)
            | SendError::Uncertain(_),
        ) => false,
    };
    if is_usable && let Some(mut worn_out) = lease.give_back() {
        // The message is sent, whatever the server makes of a goodbye.
        let _ = worn_out.quit().await;
    }
    sent
}
