//! Sending over SMTP: a few connections that are kept, and answers told apart by what they mean for the message.
//!
//! lettre speaks the protocol on one connection. The steps and the pool are ours, because what a lost connection means
//! depends on the step: before the body nothing was handed over, after it nobody knows. Commands of one message are not
//! pipelined; messages share connections, which is what saves the time.

mod answer;
mod pool;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::{ClientId, Extension};
use lettre::transport::smtp::response::Response;
use tidings_kernel::{Accepted, Mail, SendError, Sender, causes};

use answer::{Step, judge};
use pool::{Lease, Pool};

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
    /// What we call ourselves; the machine's name if not said.
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
    tls: Option<TlsParameters>,
    hello: ClientId,
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
        let tls = match settings.tls {
            Tls::None => None,
            Tls::Implicit | Tls::Starttls => Some(tls_parameters(&settings)?),
        };
        let hello = settings.hello_name.clone().map_or_else(ClientId::default, ClientId::Domain);
        let pool = Pool::new(settings.connections);
        Ok(Self { settings, tls, hello, pool })
    }

    /// Whether the server answers and lets us in. Tells what it calls itself.
    pub async fn greet(&self) -> Result<String, SmtpError> {
        let mut connection =
            self.connect().await.map_err(|error| SmtpError::Unreachable(error.to_string()))?;
        let name = connection.server_info().name().to_owned();
        // It is only politeness: whether it says goodbye as well does not matter.
        let _ = tokio::time::timeout(self.settings.timeout, connection.quit()).await;
        Ok(name)
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SendError> {
        let settings = &self.settings;
        let at_once = self.tls.clone().filter(|_| settings.tls == Tls::Implicit);
        let server = (settings.host.as_str(), settings.port);
        let open = AsyncSmtpConnection::connect_tokio1(
            server,
            Some(settings.timeout),
            &self.hello,
            at_once,
            None,
        );
        let mut connection = self.limited(open, Step::Connect).await?;
        if settings.tls == Tls::Starttls {
            let Some(tls) = self.tls.clone() else {
                return Err(SendError::Closed("TLS is not set up".to_owned()));
            };
            if !connection.can_starttls() {
                return Err(SendError::Closed("the server does not offer STARTTLS".to_owned()));
            }
            self.limited(connection.starttls(tls, &self.hello), Step::Connect).await?;
        }
        if let Some((name, password)) = &settings.credentials {
            let credentials = Credentials::new(name.clone(), password.clone());
            let ways = [Mechanism::Plain, Mechanism::Login];
            self.limited(connection.auth(&ways, &credentials), Step::Login).await?;
        }
        Ok(connection)
    }

    /// One connection's part: everything from MAIL to the answer to the body.
    async fn deliver(&self, lease: &mut Lease<'_>, mail: &Mail) -> Result<Accepted, SendError> {
        let connection = lease.connection();
        let options = mail_options(connection, mail)?;
        let from = format!("MAIL FROM:<{}>{options}\r\n", mail.from);
        self.command(connection, from, Step::Mail).await?;
        self.recipients(connection, mail).await?;
        self.command(connection, "DATA\r\n", Step::Data).await?;

        let patience = self.settings.timeout.saturating_mul(2);
        let answer = match str::from_utf8(&mail.mime) {
            // In one write: the end of the message would otherwise wait for the server to acknowledge the rest.
            Ok(text) => tokio::time::timeout(patience, connection.command(Body(text))).await,
            Err(_) => tokio::time::timeout(patience, connection.message(&mail.mime)).await,
        };
        match answer {
            Ok(Ok(response)) if response.has_code(250) => {
                Ok(Accepted { provider_id: queue_id(&response) })
            }
            Ok(Ok(response)) => {
                let said = response.first_line().unwrap_or_default();
                Err(SendError::Uncertain(format!("the server answered {} {said}", response.code())))
            }
            Ok(Err(error)) => Err(judge(&error, Step::Body)),
            Err(_) => Err(SendError::Uncertain("no answer in time".to_owned())),
        }
    }

    /// The first decides; a copy that the server does not take is left out. Any other trouble is everybody's.
    async fn recipients(
        &self,
        connection: &mut AsyncSmtpConnection,
        mail: &Mail,
    ) -> Result<(), SendError> {
        let mut left_out = 0;
        for (place, to) in mail.to.iter().enumerate() {
            let command = connection.command(format!("RCPT TO:<{to}>\r\n"));
            let answer = tokio::time::timeout(self.settings.timeout, command).await;
            match answer {
                Ok(Ok(_)) => {}
                Ok(Err(error)) if place > 0 && is_of_mailbox(&error) => left_out += 1,
                Ok(Err(error)) => return Err(judge(&error, Step::Recipient)),
                Err(_) => return Err(SendError::Later("no answer in time to RCPT".to_owned())),
            }
        }
        if left_out > 0 {
            tracing::warn!(
                copies = left_out,
                "The server did not take {left_out} copies of a message"
            );
        }
        Ok(())
    }

    async fn command(
        &self,
        connection: &mut AsyncSmtpConnection,
        command: impl fmt::Display,
        step: Step,
    ) -> Result<Response, SendError> {
        self.limited(connection.command(command), step).await
    }

    /// Only for what comes before the body: no answer in time means that nothing was handed over.
    async fn limited<T>(
        &self,
        doing: impl Future<Output = Result<T, Error>>,
        step: Step,
    ) -> Result<T, SendError> {
        match tokio::time::timeout(self.settings.timeout, doing).await {
            Ok(done) => done.map_err(|error| judge(&error, step)),
            Err(_) => {
                let text = format!("no answer in time to {}", step.name());
                let waits = step.is_before_message();
                Err(if waits { SendError::Closed(text) } else { SendError::Later(text) })
            }
        }
    }
}

#[async_trait]
impl Sender for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let place = self.pool.place().await;
        // Of a kept connection nobody knows whether the server has not closed it meanwhile. It has taken nothing if
        // MAIL fails, so the next one is tried, and a new one at last.
        while let Some(mut lease) = place.kept() {
            let reset = lease.connection().command("RSET\r\n");
            if tokio::time::timeout(self.settings.timeout, reset)
                .await
                .is_ok_and(|said| said.is_ok())
            {
                let sent = self.deliver(&mut lease, mail).await;
                lease.give_back_if(is_usable(&sent));
                return sent;
            }
        }
        let mut lease = place.fresh(self.connect().await?);
        let sent = self.deliver(&mut lease, mail).await;
        lease.give_back_if(is_usable(&sent));
        sent
    }
}

/// Whether the server said something of this one mailbox, and the connection goes on.
fn is_of_mailbox(error: &Error) -> bool {
    error.status().is_some_and(|code| u16::from(code) != 421)
}

/// Whether the connection can carry another message: the server has answered, and not to say goodbye.
fn is_usable(sent: &Result<Accepted, SendError>) -> bool {
    match sent {
        Ok(_) | Err(SendError::Refused(_)) => true,
        Err(
            SendError::Later(_)
            | SendError::Throttled { .. }
            | SendError::Closed(_)
            | SendError::Uncertain(_),
        ) => false,
    }
}

fn tls_parameters(settings: &SmtpSettings) -> Result<TlsParameters, SmtpError> {
    let failed =
        |error: Error| SmtpError::Tls { host: settings.host.clone(), reason: causes(&error) };
    let mut builder = TlsParameters::builder(settings.host.clone());
    if let Some(roots) = &settings.roots {
        builder =
            builder.add_root_certificate(Certificate::from_pem(roots.as_bytes()).map_err(failed)?);
    }
    builder.build_rustls().map_err(failed)
}

/// What the server must be able to do for this message.
fn mail_options(connection: &AsyncSmtpConnection, mail: &Mail) -> Result<String, SendError> {
    let server = connection.server_info();
    let mut options = String::new();
    let foreign = std::iter::once(&mail.from).chain(&mail.to).any(|one| !one.as_str().is_ascii());
    if foreign {
        if !server.supports_feature(Extension::SmtpUtfEight) {
            let reason = "an address is not ASCII, and the server takes no such addresses";
            return Err(SendError::Refused(reason.to_owned()));
        }
        options.push_str(" SMTPUTF8");
    }
    if !mail.mime.is_ascii() {
        if !server.supports_feature(Extension::EightBitMime) {
            let reason = "the message is not ASCII, and the server takes no such messages";
            return Err(SendError::Refused(reason.to_owned()));
        }
        options.push_str(" BODY=8BITMIME");
    }
    Ok(options)
}

/// What the server calls it: `250 2.0.0 Ok: queued as 4F2A1`, `250 Ok 0100…`.
fn queue_id(response: &Response) -> Option<String> {
    let line = response.first_line()?;
    let last = line.split_whitespace().next_back()?;
    let id = last.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let known = (6..=200).contains(&id.len()) && id.bytes().any(|byte| byte.is_ascii_digit());
    known.then(|| id.to_owned())
}

/// The message as DATA wants it: a dot at the beginning of a line doubled, and a dot alone at the end.
struct Body<'a>(&'a str);

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.0.split_inclusive("\r\n") {
            if line.starts_with('.') {
                f.write_str(".")?;
            }
            f.write_str(line)?;
        }
        if !self.0.ends_with("\r\n") {
            f.write_str("\r\n")?;
        }
        f.write_str(".\r\n")
    }
}
