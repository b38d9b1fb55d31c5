//! A server that follows a script to the letter, one script for each connection that comes, in order.
//!
//! A line of a script is one turn: `> 250 ok` says something, and lines that follow each other go out in one packet;
//! `~ 250 ok` does so byte by byte. `< MAIL` hears a line that begins so, `<.` a message up to its end, and `<|` the end of
//! the connection. `=` finds that nothing more has come, and `!` neither reads nor writes any more. After its script a
//! connection is closed.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The greetings of a server that takes commands in groups.
pub(crate) const IN_GROUPS: &str = "> 220 hi\n< EHLO\n> 250-scripted\n> 250 PIPELINING\n";
/// And of one that does not.
pub(crate) const ONE_BY_ONE: &str = "> 220 hi\n< EHLO\n> 250 scripted\n";
/// One message for one recipient, in a group.
pub(crate) const GROUP: &str =
    "< MAIL\n< RCPT\n< DATA\n=\n> 250 ok\n> 250 ok\n> 354 go\n<.\n=\n> 250 queued as A1B2C3D4\n";
/// And command by command.
pub(crate) const STEPS: &str = "< MAIL\n=\n> 250 ok\n< RCPT\n=\n> 250 ok\n< DATA\n=\n> 354 go\n<.\n=\n> 250 queued as A1B2C3D4\n";

pub(crate) struct Dialogue {
    pub(crate) port: u16,
    task: JoinHandle<()>,
}

impl Dialogue {
    pub(crate) async fn start(scripts: impl IntoIterator<Item = String>) -> Self {
        Self::listen(scripts.into_iter().collect(), None).await
    }

    /// With TLS from the first byte on, and the certificate of the test servers.
    pub(crate) async fn start_tls(scripts: impl IntoIterator<Item = String>, ca: &Path) -> Self {
        let certificate = CertificateDer::from_pem_file(ca.with_file_name("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(ca.with_file_name("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(scripts.into_iter().collect(), Some(acceptor)).await
    }

    async fn listen(scripts: Vec<String>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            for (place, script) in scripts.iter().enumerate() {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                match &tls {
                    Some(tls) => follow(tls.accept(stream).await.unwrap(), script, place).await,
                    None => follow(stream, script, place).await,
                }
            }
        });
        Self { port, task }
    }

    /// Every script was followed to its end.
    pub(crate) async fn finish(mut self) {
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(stream: impl AsyncRead + AsyncWrite + Unpin, script: &str, place: usize) {
    let mut stream = BufReader::new(stream);
    let mut turns = script.lines().peekable();
    while let Some(turn) = turns.next() {
        let at = format!("{turn:?} of connection {place}");
        let (kind, text) = turn.split_at(turn.len().min(2));
        match kind {
            "> " => {
                let mut packet = format!("{text}\r\n");
                while let Some(next) = turns.next_if(|next| next.starts_with("> ")) {
                    packet.push_str(&next[2..]);
                    packet.push_str("\r\n");
                }
                stream.write_all(packet.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            }
            "~ " => {
                for byte in format!("{text}\r\n").bytes() {
                    stream.write_all(&[byte]).await.unwrap();
                    stream.flush().await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
            "< " => {
                let line = hear(&mut stream).await;
                assert!(line.starts_with(text), "{line:?} came at {at}");
            }
            "<." => while hear(&mut stream).await != ".\r\n" {},
            "<|" => {
                let mut line = String::new();
                // A connection that was not closed in good order has ended as well.
                let count = stream.read_line(&mut line).await.unwrap_or(0);
                assert_eq!(count, 0, "{line:?} came at {at}");
            }
            "=" => assert!(stream.buffer().is_empty(), "{:?} came at {at}", stream.buffer()),
            "!" => std::future::pending().await,
            other => panic!("what is {other:?}?"),
        }
    }
}

async fn hear(stream: &mut BufReader<impl AsyncRead + AsyncWrite + Unpin>) -> String {
    let mut line = String::new();
    let count = stream.read_line(&mut line).await.unwrap();
    assert_ne!(count, 0, "the connection has ended");
    line
}
