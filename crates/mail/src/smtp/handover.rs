//! One message over one connection: its envelope, in one group if the server takes that, and then the body.
//!
//! A server that announces PIPELINING (RFC 2920) gets MAIL, every RCPT and DATA in one write and answers them in order;
//! any other gets one command at a time. The body goes only after the server has asked for it, and nothing goes after
//! it before the server has answered: there is one message in flight on a connection.

use std::fmt::Write as _;
use std::str::SplitInclusive;

use tidings_kernel::{Accepted, EmailAddress, Mail, SendError};

use super::answer::{Answer, Fault, Step, judge};
use super::body::Body;
use super::connection::{Connection, State};

/// Why a message was not accepted over this connection.
pub(super) struct Failure {
    pub(super) error: SendError,
    /// The server had left before it heard of the message: another connection may do.
    pub(super) is_stale: bool,
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self { error, is_stale: false }
    }
}

pub(super) async fn hand_over(
    connection: &mut Connection,
    mail: &Mail,
) -> Result<Accepted, Failure> {
    let commands = commands(connection, mail)?;
    let before = connection.state();
    // Until the server has answered to everything, whatever happens meanwhile.
    connection.set_state(State::Busy);
    let mut talk = Talk::begin(connection, &commands).await.map_err(|fault| stale(&fault))?;
    if before == State::NeedsReset {
        let answer = talk.next().await.map_err(|fault| stale(&fault))?;
        if !answer.is_done() {
            return Err(stale(&Fault::Answer(answer)));
        }
    }
    let left_out = talk.envelope(&mail.to).await?;
    let provider_id = tell_message(connection, &mail.mime).await?;
    Ok(Accepted { provider_id, left_out })
}

fn stale(fault: &Fault) -> Failure {
    Failure { error: judge(fault, Step::Mail), is_stale: true }
}

/// Everything that is said before the body, one command in a line.
fn commands(connection: &Connection, mail: &Mail) -> Result<String, SendError> {
    let mut commands = String::with_capacity(128 + 64 * mail.to.len());
    if connection.state() == State::NeedsReset {
        commands.push_str("RSET\r\n");
    }
    let _ = write!(commands, "MAIL FROM:<{}>", mail.from);
    let foreign = std::iter::once(&mail.from).chain(&mail.to).any(|one| !one.as_str().is_ascii());
    if foreign {
        if !connection.can("SMTPUTF8") {
            let reason = "an address is not ASCII, and the server takes no such addresses";
            return Err(SendError::Refused(reason.to_owned()));
        }
        commands.push_str(" SMTPUTF8");
    }
    if !mail.mime.is_ascii() {
        if !connection.can("8BITMIME") {
            let reason = "the message is not ASCII, and the server takes no such messages";
            return Err(SendError::Refused(reason.to_owned()));
        }
        commands.push_str(" BODY=8BITMIME");
    }
    commands.push_str("\r\n");
    for to in &mail.to {
        let _ = write!(commands, "RCPT TO:<{to}>\r\n");
    }
    commands.push_str("DATA\r\n");
    Ok(commands)
}

/// Commands and their answers, in order.
struct Talk<'a> {
    connection: &'a mut Connection,
    commands: SplitInclusive<'a, char>,
    /// All commands are written already, and all answers will come.
    in_one_group: bool,
}

impl<'a> Talk<'a> {
    async fn begin(connection: &'a mut Connection, commands: &'a str) -> Result<Self, Fault> {
        let in_one_group = connection.can("PIPELINING");
        if in_one_group {
            connection.tell(commands).await?;
        }
        Ok(Self { connection, commands: commands.split_inclusive('\n'), in_one_group })
    }

    /// The answer to the next command.
    async fn next(&mut self) -> Result<Answer, Fault> {
        let command = self.commands.next().unwrap_or_default();
        if self.in_one_group {
            self.connection.hear().await
        } else {
            self.connection.ask(command).await
        }
    }

    /// From MAIL to the server's asking for the body. What says no first is the reason; in a group the answers to the
    /// rest are heard as well, so that the next message does not take them for its own. Tells whose copy it does not take.
    async fn envelope(
        mut self,
        recipients: &[EmailAddress],
    ) -> Result<Vec<(EmailAddress, SendError)>, Failure> {
        let mut refusal = None;
        let answer = self.next().await.map_err(|fault| stale(&fault))?;
        if !answer.is_done() {
            refusal = Some(judge(&Fault::Answer(answer), Step::Mail));
        }
        let (mut taken, mut left_out) = (0, Vec::new());
        for (place, to) in recipients.iter().enumerate() {
            if let Some(refusal) = self.stop_at(&mut refusal) {
                return Err(refusal);
            }
            match self.next().await {
                Ok(answer) if answer.is_done() => taken += 1,
                // The first decides; a copy that the server does not take is left out.
                Ok(answer) if place > 0 && answer.code >= 400 => {
                    left_out.push((to.clone(), judge(&Fault::Answer(answer), Step::Recipient)));
                }
                Ok(answer) => {
                    let reason = judge(&Fault::Answer(answer), Step::Recipient);
                    refusal.get_or_insert(reason);
                }
                Err(fault) => {
                    return Err(refusal.unwrap_or_else(|| judge(&fault, Step::Recipient)).into());
                }
            }
        }
        if let Some(refusal) = self.stop_at(&mut refusal) {
            return Err(refusal);
        }
        let answer = match self.next().await {
            Ok(answer) => answer,
            Err(fault) => return Err(refusal.unwrap_or_else(|| judge(&fault, Step::Data)).into()),
        };
        let wants_body = answer.code == 354;
        let Some(refusal) = refusal else {
            if wants_body {
                return Ok(left_out);
            }
            self.connection.set_state(State::NeedsReset);
            return Err(judge(&Fault::Answer(answer), Step::Data).into());
        };
        if wants_body {
            self.withdraw(taken).await;
        } else {
            self.connection.set_state(State::NeedsReset);
        }
        Err(refusal.into())
    }

    /// With one command at a time nothing more is said after a refusal.
    fn stop_at(&mut self, refusal: &mut Option<SendError>) -> Option<Failure> {
        if self.in_one_group {
            return None;
        }
        let refusal = refusal.take()?;
        self.connection.set_state(State::NeedsReset);
        Some(refusal.into())
    }

    /// The server waits for the body of a message that is not to be sent. An empty one goes to nobody if nobody was taken;
    /// otherwise it would arrive, and only a lost connection makes the server forget it.
    async fn withdraw(&mut self, taken: usize) {
        if taken == 0 && self.connection.ask(".\r\n").await.is_ok() {
            self.connection.set_state(State::NeedsReset);
        }
    }
}

/// Tells what the server calls it.
async fn tell_message(
    connection: &mut Connection,
    mime: &[u8],
) -> Result<Option<String>, SendError> {
    let body = Body::new(mime);
    let mut written = 0;
    let told = connection.tell_message(&body, &mut written).await;
    let step = if body.is_unfinished(written) { Step::Body } else { Step::End };
    match told {
        Ok(answer) if answer.code == 250 && step == Step::End => {
            connection.set_state(State::Ready);
            Ok(queue_id(&answer))
        }
        Ok(answer) => {
            if step == Step::End {
                connection.set_state(State::NeedsReset);
            }
            Err(judge(&Fault::Answer(answer), step))
        }
        Err(fault) => Err(judge(&fault, step)),
    }
}

/// What the server calls it: `250 2.0.0 Ok: queued as 4F2A1`, `250 Ok 0100…`.
fn queue_id(answer: &Answer) -> Option<String> {
    let last = answer.first_line().split_whitespace().next_back()?;
    let id = last.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let known = (6..=200).contains(&id.len()) && id.bytes().any(|byte| byte.is_ascii_digit());
    known.then(|| id.to_owned())
}
