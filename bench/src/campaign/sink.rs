//! Postfix's `smtp-sink`, which takes everything and keeps nothing, and `smtp-source`, which sends as fast as it can.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Ends with the value.
pub(super) struct Sink {
    pub(super) port: u16,
    child: Child,
}

impl Sink {
    /// `None` if Postfix is not installed. With a folder, each message is kept there.
    pub(super) fn start(keep: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let Some(program) = find("smtp-sink") else { return Ok(None) };
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(program);
        // It refuses to run as root.
        command.args(["-u", "nobody"]);
        if let Some(folder) = keep {
            command.arg("-d").arg(folder.join("mail."));
        }
        command.arg(format!("inet:127.0.0.1:{port}")).arg("1000");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let sink = Self { port, child };
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(Some(sink));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        anyhow::bail!("smtp-sink does not listen");
    }

    /// Messages a second of this size that `smtp-source` gets rid of, over so many connections that are kept.
    pub(super) fn limit(
        &self,
        bytes: usize,
        connections: usize,
        count: usize,
    ) -> anyhow::Result<f64> {
        let program = find("smtp-source").context("there is a sink and no source")?;
        let began = Instant::now();
        let status = Command::new(program)
            .args(["-d", "-s", &connections.to_string(), "-m", &count.to_string()])
            .args(["-l", &bytes.to_string(), "-f", "a@example.org", "-t", "b@example.org"])
            .arg(format!("inet:127.0.0.1:{}", self.port))
            .status()?;
        ensure!(status.success(), "smtp-source failed");
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
    places.iter().map(|place| Path::new(place).join(program)).find(|path| path.exists())
}
