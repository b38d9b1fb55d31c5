//! What a server's answer, or its silence, means for the message. Not here: how an answer is read (`heard`).

use std::io;

use tidings_kernel::SendError;

/// Of what a server says no more is kept with a message.
const MAX_KEPT: usize = 1000;

/// A code and the lines with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: u16,
    /// Without codes, and with a line feed between one line and the next.
    pub(super) text: String,
}

impl Answer {
    /// What was asked for is done.
    pub(super) fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split('\n')
    }

    pub(super) fn first_line(&self) -> &str {
        self.lines().next().unwrap_or_default()
    }

    /// In one line. Many servers begin each line with the same enhanced code, of which the first is enough.
    pub(super) fn said(&self) -> String {
        let code = self.first_line().split(' ').next().filter(|word| is_enhanced_code(word));
        let mut said = String::new();
        for (place, line) in self.lines().enumerate() {
            let again = code.filter(|_| place > 0).and_then(|code| line.strip_prefix(code));
            let rest = again.filter(|rest| rest.starts_with(' ')).map_or(line, str::trim_start);
            if place > 0 {
                said.push(' ');
            }
            said.push_str(rest);
        }
        if let Some((end, _)) = said.char_indices().nth(MAX_KEPT) {
            said.truncate(end);
        }
        said
    }
}

/// Three numbers (RFC 3463): `5.1.1`.
fn is_enhanced_code(word: &str) -> bool {
    let is_number =
        |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    word.split('.').count() == 3 && word.split('.').all(is_number)
}

/// The code of what is wrong with an address for good: no such mailbox or domain, no address at all, moved, takes no mail.
/// What says less, or something of the sender, a policy or the message, says nothing certain of the address.
const BAD_ADDRESS: [&str; 5] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"];

fn bad_address(said: &str) -> Option<String> {
    let code = said.split(' ').next().filter(|code| BAD_ADDRESS.contains(code));
    code.map(ToOwned::to_owned)
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Connect,
    Login,
    Mail,
    Recipient,
    Data,
    /// The message is being written, and its end is not: the server cannot have it.
    Body,
    /// Its end was written, or may have been.
    End,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Connect => "the connection",
            Self::Login => "the login",
            Self::Mail => "MAIL",
            Self::Recipient => "RCPT",
            Self::Data => "DATA",
            Self::Body | Self::End => "the message",
        }
    }
}

/// Why a step has not led to the next one.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server has answered, and not with what was hoped for.
    Answer(Answer),
    Lost(io::Error),
    /// No answer in time.
    Late,
    /// What came is no answer, or what is needed is not offered.
    Wrong(&'static str),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

pub(super) fn judge(fault: &Fault, step: Step) -> SendError {
    let step_name = step.name();
    let text = match fault {
        // Of an answer only the server's words: they are kept with the message.
        Fault::Answer(answer) if answer.code >= 400 => {
            return judge_answer(step, answer.code, &answer.said());
        }
        Fault::Answer(answer) => format!("{} {} to {step_name}", answer.code, answer.said()),
        Fault::Lost(error) => format!("{step_name}: {error}"),
        Fault::Late => format!("no answer in time to {step_name}"),
        Fault::Wrong(what) => format!("{step_name}: {what}"),
    };
    // Without an answer that decides.
    match step {
        // Nothing was said of the message yet, so that nothing can be wrong with it.
        Step::Connect | Step::Login => SendError::Closed(text),
        Step::Mail | Step::Recipient | Step::Data | Step::Body => SendError::Later(text),
        // Nobody knows whether it has arrived.
        Step::End => SendError::Uncertain(text),
    }
}

/// A code that says no, and the words with it. A server that answers has decided, so this is never uncertain.
pub(super) fn judge_answer(step: Step, code: u16, said: &str) -> SendError {
    let text = format!("{code} {said} to {}", step.name());
    let lower = said.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let shut = matches!(code, 530 | 534 | 535 | 538)
        || says(&[
            "sending paused",
            "sending is paused",
            "account suspended",
            "account is suspended",
            "account disabled",
            "account is disabled",
        ]);
    let a_rate = says(&["throttl", "too many", "rate limit", "rate exceeded", "sending rate"]);
    let too_many = match step {
        // Of one recipient it says nothing of how fast we are: his mailbox is full or busy, or he keeps a grey list.
        Step::Recipient => {
            code == 454 || (a_rate && !["4.2.", "4.5.3"].iter().any(|of| said.starts_with(of)))
        }
        _ => {
            let a_policy = said.starts_with("4.7.") && !says(&["greylist", "graylist"]);
            code == 454 || a_rate || says(&["quota exceeded"]) || a_policy
        }
    };
    match (code, step) {
        (500.., Step::Connect | Step::Login) => SendError::Closed(text),
        (500.., _) if shut => SendError::Closed(text),
        (500.., Step::Recipient) if let Some(status) = bad_address(said) => {
            SendError::NoSuchAddress { reason: text, status }
        }
        (500.., _) => SendError::Refused(text),
        (_, Step::Login) => SendError::Closed(text),
        _ if too_many => SendError::Throttled { reason: text, retry_after: None },
        (_, Step::Connect) => SendError::Closed(text),
        _ => SendError::Later(text),
    }
}
