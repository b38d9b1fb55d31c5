//! How a command ends when it cannot do what it was asked: one line, what to do about it, and the exit code.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use crate::config::ConfigError;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    ending: Ending,
    hint: Option<String>,
}

#[derive(Debug)]
enum Ending {
    /// What was asked for makes no sense: exit code 2.
    Usage(anyhow::Error),
    Config(ConfigError),
    /// It made sense and did not work: exit code 1.
    Failed(anyhow::Error),
    /// The same, and the output has already said why.
    Told,
    /// Whoever read our output has had enough, as `head` has. That is no failure.
    ReaderGone,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { ending: Ending::Usage(anyhow::Error::msg(message.into())), hint: None }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        anyhow::Error::msg(message.into()).into()
    }

    pub(crate) fn told() -> Self {
        Self { ending: Ending::Told, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error and its causes, for those who show it themselves.
    pub(crate) fn message(&self) -> String {
        match &self.ending {
            Ending::Usage(error) | Ending::Failed(error) => format!("{error:#}"),
            Ending::Config(error) => error.to_string(),
            Ending::Told | Ending::ReaderGone => String::new(),
        }
    }

    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Tells the user, and gives the code to exit with.
    pub(crate) fn report(self) -> ExitCode {
        match self.ending {
            Ending::Usage(error) => {
                tell(&format!("{error:#}"), self.hint.as_deref());
                ExitCode::from(2)
            }
            Ending::Config(error) => {
                for fault in error.0 {
                    tell(&fault.message, fault.hint.as_deref());
                }
                ExitCode::from(2)
            }
            Ending::Failed(error) => {
                tell(&format!("{error:#}"), self.hint.as_deref());
                ExitCode::from(1)
            }
            Ending::Told => ExitCode::from(1),
            Ending::ReaderGone => ExitCode::SUCCESS,
        }
    }
}

fn tell(message: &str, hint: Option<&str>) {
    let styles = clap::builder::Styles::styled();
    let (error, note) = (styles.get_error(), styles.get_valid());
    let mut text = if in_colour() {
        format!("{error}error:{error:#} {message}\n")
    } else {
        format!("error: {message}\n")
    };
    match hint {
        Some(hint) if in_colour() => text.push_str(&format!("  {note}hint:{note:#} {hint}\n")),
        Some(hint) => text.push_str(&format!("  hint: {hint}\n")),
        None => {}
    }
    // If nobody reads stderr, there is nobody left to tell.
    drop(io::stderr().write_all(text.as_bytes()));
}

/// Whether stderr is a terminal whose user has not asked for plain text (<https://no-color.org>).
pub(crate) fn in_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !refused
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let ending = match error.downcast::<ConfigError>() {
            Ok(error) => Ending::Config(error),
            Err(error) => Ending::Failed(error),
        };
        Self { ending, hint: None }
    }
}

/// The outcome of a write to stdout.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(Failure { ending: Ending::ReaderGone, hint: None })
        }
        Err(error) => Err(anyhow::Error::new(error).context("the output cannot be written").into()),
    }
}
