//! One connection to a server: opened, protected, logged in, and then lines out and answers in.
//!
//! Each line and each answer has its time. Not here: the order of a message's commands (`handover`), and which
//! connection is used again (`pool`).

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answer::{Answer, Fault};
use super::body::Body;
use super::heard::Heard;
use super::tls::Protection;
use super::{SmtpSettings, Tls};

pub(super) struct Connection {
    stream: Box<dyn Stream>,
    heard: Heard,
    hello: String,
    /// The answer to EHLO: the server's name, and a line for each thing it can do.
    server: Answer,
    state: State,
    timeout: Duration,
}

/// Bytes in both directions, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What a connection can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The next message.
    Ready,
    /// The next message, after what is left of the last one is forgotten.
    NeedsReset,
    /// Nothing more: a message is under way, or nobody knows where the server is.
    Busy,
}

impl Connection {
    /// Connects, with TLS from the first byte on if that is meant, and exchanges greetings.
    pub(super) async fn open(
        settings: &SmtpSettings,
        protection: Option<&Protection>,
    ) -> Result<Self, Fault> {
        let tcp = TcpStream::connect((settings.host.as_str(), settings.port)).await?;
        // What we write is complete: waiting for more to go with it would only delay it.
        tcp.set_nodelay(true)?;
        let hello = match &settings.hello_name {
            Some(name) => name.clone(),
            None => own_name(tcp.local_addr()?),
        };
        let stream: Box<dyn Stream> = match protection {
            Some(protection) if settings.tls == Tls::Implicit => {
                Box::new(protection.wrap(tcp).await?)
            }
            Some(_) | None => Box::new(tcp),
        };
        let mut connection = Self {
            stream,
            heard: Heard::new(),
            hello,
            server: Answer { code: 250, text: String::new() },
            state: State::Busy,
            timeout: settings.timeout,
        };
        done(connection.hear().await?)?;
        connection.say_hello().await?;
        Ok(connection)
    }

    /// Goes on with TLS after STARTTLS. What the server said before is forgotten: anybody could have said it.
    pub(super) async fn protect(mut self, protection: &Protection) -> Result<Self, Fault> {
        done(self.ask("STARTTLS\r\n").await?)?;
        self.check_quiet()?;
        self.stream = Box::new(protection.wrap(self.stream).await?);
        self.say_hello().await?;
        Ok(self)
    }

    pub(super) async fn log_in(&mut self, name: &str, password: &str) -> Result<(), Fault> {
        if self.can_log_in_with("PLAIN") {
            let both = BASE64.encode(format!("\0{name}\0{password}"));
            done(self.ask(&format!("AUTH PLAIN {both}\r\n")).await?)
        } else if self.can_log_in_with("LOGIN") {
            // It asks for the name, and then for the password.
            let mut command = "AUTH LOGIN\r\n".to_owned();
            for secret in [name, password] {
                let answer = self.ask(&command).await?;
                if answer.code != 334 {
                    return Err(Fault::Answer(answer));
                }
                command = format!("{}\r\n", BASE64.encode(secret));
            }
            done(self.ask(&command).await?)
        } else {
            Err(Fault::Wrong("the server offers no login that we know (PLAIN, LOGIN)"))
        }
    }

    /// Says goodbye and does not wait for the answer.
    pub(super) async fn quit(&mut self) -> Result<(), Fault> {
        self.state = State::Busy;
        self.tell("QUIT\r\n").await
    }

    pub(super) fn server_name(&self) -> &str {
        self.server.first_line().split_whitespace().next().unwrap_or_default()
    }

    /// Whether the server has said that it can do this: `PIPELINING`, `8BITMIME`.
    pub(super) fn can(&self, ability: &str) -> bool {
        self.abilities().any(|mut words| words.next().is_some_and(is(ability)))
    }

    fn can_log_in_with(&self, way: &str) -> bool {
        self.abilities().any(|mut words| words.next().is_some_and(is("AUTH")) && words.any(is(way)))
    }

    fn abilities(&self) -> impl Iterator<Item = std::str::SplitWhitespace<'_>> {
        self.server.lines().skip(1).map(str::split_whitespace)
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// Nothing has come since the last answer, not even the end of the connection. It does not wait for anything.
    pub(super) async fn is_quiet(&mut self) -> bool {
        let mut space = [0; 1];
        let mut space = ReadBuf::new(&mut space);
        let stream = &mut self.stream;
        let nothing = poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut *stream).poll_read(cx, &mut space).is_pending())
        });
        self.heard.is_empty() && nothing.await
    }

    /// Whoever answers more than was asked is out of step: the surplus would pass for the answer to what comes next.
    fn check_quiet(&self) -> Result<(), Fault> {
        if self.heard.is_empty() {
            Ok(())
        } else {
            Err(Fault::Wrong("the server answers what nobody has asked"))
        }
    }

    pub(super) async fn ask(&mut self, command: &str) -> Result<Answer, Fault> {
        self.tell(command).await?;
        self.hear().await
    }

    /// Writes one command, or a group of them.
    pub(super) async fn tell(&mut self, commands: &str) -> Result<(), Fault> {
        self.check_quiet()?;
        let write = async {
            self.stream.write_all(commands.as_bytes()).await?;
            self.stream.flush().await
        };
        timeout(self.timeout, write).await.map_err(|_| Fault::Late)?.map_err(Fault::Lost)
    }

    /// The next answer. One that says goodbye is a fault, whatever was asked.
    pub(super) async fn hear(&mut self) -> Result<Answer, Fault> {
        timeout(self.timeout, self.read_answer()).await.map_err(|_| Fault::Late)?
    }

    /// Writes the message and hears the answer, both within twice the time of a step. `written` is true however this
    /// ends, because it decides what a failure means.
    pub(super) async fn tell_message(
        &mut self,
        body: &Body<'_>,
        written: &mut usize,
    ) -> Result<Answer, Fault> {
        self.check_quiet()?;
        let patience = self.timeout.saturating_mul(2);
        let telling = async {
            let wrote = self.write_message(body, written).await;
            // A server may refuse a message before it has seen the end, and close. Its reason is then still to be read.
            match (wrote, self.read_answer().await) {
                (_, Ok(answer)) => Ok(answer),
                (Err(error), Err(_)) => Err(Fault::Lost(error)),
                (Ok(()), Err(fault)) => Err(fault),
            }
        };
        timeout(patience, telling).await.map_err(|_| Fault::Late)?
    }

    /// In one write, as far as the network takes it: the end of the message must not wait for the rest to be acknowledged.
    async fn write_message(&mut self, body: &Body<'_>, written: &mut usize) -> io::Result<()> {
        while *written < body.len() {
            let (text, end) = body.after(*written);
            let pieces = [IoSlice::new(text), IoSlice::new(end)];
            match self.stream.write_vectored(&pieces).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => *written += count,
            }
        }
        self.stream.flush().await
    }

    async fn read_answer(&mut self) -> Result<Answer, Fault> {
        loop {
            match self.heard.next()? {
                Some(answer) if answer.code == 421 => return Err(Fault::Answer(answer)),
                Some(answer) => return Ok(answer),
                None => {}
            }
            if self.stream.read_buf(self.heard.room()).await? == 0 {
                let error = io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                );
                return Err(Fault::Lost(error));
            }
        }
    }

    async fn say_hello(&mut self) -> Result<(), Fault> {
        let answer = self.ask(&format!("EHLO {}\r\n", self.hello)).await?;
        if !answer.is_done() {
            return Err(Fault::Answer(answer));
        }
        self.server = answer;
        self.state = State::Ready;
        Ok(())
    }
}

fn done(answer: Answer) -> Result<(), Fault> {
    if answer.is_done() { Ok(()) } else { Err(Fault::Answer(answer)) }
}

fn is(word: &str) -> impl Fn(&str) -> bool {
    move |other| other.eq_ignore_ascii_case(word)
}

/// A machine without a full name says its address, as the standard wants it.
fn own_name(local: SocketAddr) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_full = name.contains('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    match local.ip() {
        _ if is_full => name,
        IpAddr::V4(ip) => format!("[{ip}]"),
        IpAddr::V6(ip) => format!("[IPv6:{ip}]"),
    }
}
