//! A folder of its own for each test, the binary in it, and servers that are stopped with it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Much longer than anything takes, and short enough to fail before the test runner gives up.
const PATIENCE: Duration = Duration::from_secs(50);

pub(crate) struct World {
    folder: TempDir,
    environment: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The blocks of a page that are in one language, in their order.
pub(crate) fn blocks_of<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let (mut blocks, mut rest) = (Vec::new(), page);
    while let Some((_, block)) = rest.split_once(&format!("```{language}\n")) {
        let (block, after) = block.split_once("```").unwrap();
        blocks.push(block);
        rest = after;
    }
    blocks
}

impl World {
    /// Runs what a page says, from top to bottom, as somebody who follows it would.
    #[track_caller]
    pub(crate) fn follow(&self, blocks: &[&str]) {
        let blocks = blocks.concat();
        let script = format!("set -eu\ntidings() {{ \"$TIDINGS\" \"$@\"; }}\n{blocks}");
        let ran = Command::new("sh")
            .args(["-c", &script])
            .env_clear()
            .env("TIDINGS", env!("CARGO_BIN_EXE_tidings"))
            .env("PATH", "/usr/bin:/bin")
            .current_dir(self.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{told}\n{}", String::from_utf8_lossy(&ran.stdout));
    }

    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), environment: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn set(&mut self, variable: &str, value: &str) {
        self.environment.push((variable.to_owned(), value.to_owned()));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        // The runner's own variables must not reach the binary: it refuses what it does not know.
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.folder.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed, and gives what it prints.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        ran.stdout
    }

    /// Runs a command until what it prints is as it should be. The server is a process of its own with the real time: all that
    /// can be done is to look again.
    #[track_caller]
    pub(crate) fn until(&self, arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
        let mut printed = String::new();
        for _ in 0..300 {
            printed = self.ok(arguments);
            if holds(&printed) {
                return printed;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{arguments:?}: {printed}");
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command whose reader goes away after the first bytes, as `head -1` does.
    pub(crate) fn run_with_impatient_reader(&self, arguments: &[&str]) -> Ran {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0; 16];
        stdout.read_exact(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&first).into_owned(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts a server on a free port and waits until it listens.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        self.start(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat())
    }

    /// Starts any command that serves.
    pub(crate) fn start(&self, arguments: &[&str]) -> Server {
        self.spawn(arguments).listening()
    }

    /// Starts any command that takes its time. It has no address.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Server {
        let mut child = self.command(arguments).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                if send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Server { child, printed, lines, log: Vec::new(), address: ([0, 0, 0, 0], 0).into() }
    }
}

pub(crate) struct Server {
    child: Child,
    printed: BufReader<ChildStdout>,
    lines: Receiver<String>,
    pub(crate) log: Vec<String>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Waits until it listens.
    pub(crate) fn listening(mut self) -> Self {
        if self.address.port() != 0 {
            return self;
        }
        let line = self.wait_for_line("listening on http://");
        let address = line.split("http://").nth(1).unwrap();
        let end = address.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
        self.address = address[..end.unwrap_or(address.len())].parse().unwrap();
        self
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first line of its log that has this part. It may have come before, while another one was waited for.
    pub(crate) fn wait_for_line(&mut self, part: &str) -> String {
        if let Some(line) = self.log.iter().find(|line| line.contains(part)) {
            return line.clone();
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.log.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with {part:?} ({error}): {:#?}", self.log),
            }
        }
    }

    /// Status, headers and body of an answer.
    pub(crate) fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.0\r\nx-request-id: r-1\r\n\r\n"))
    }

    /// The same with an API key.
    pub(crate) fn get_with(&self, key: &str, path: &str) -> String {
        self.send(&format!(
            "GET {path} HTTP/1.0\r\nx-request-id: r-1\r\nauthorization: Bearer {key}\r\n\r\n"
        ))
    }

    pub(crate) fn send(&self, request: &str) -> String {
        ask(self.address, request)
    }

    /// Sends a request and does not wait for its answer. Who drops the connection gives up the request.
    pub(crate) fn begin(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// What it has printed on stdout, which is for data, up to and with the line that has this part.
    pub(crate) fn printed_until(&mut self, part: &str) -> String {
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            let read = self.printed.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "no line with {part:?}: {printed}");
            printed.push_str(&line);
            if line.contains(part) {
                return printed;
            }
        }
    }

    /// Waits for the end of the log, which is the end of the process, and gives the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.log.push(line);
        }
        self.child.wait().unwrap().code()
    }

    /// Ends them at the same moment, in the middle of whatever they do.
    #[track_caller]
    pub(crate) fn kill_9(mut all: Vec<Self>) {
        all.iter().for_each(|server| server.signal(Signal::KILL));
        for server in &mut all {
            assert_eq!(server.wait(), None, "it ended by itself: {:#?}", server.log);
        }
    }

    /// Stops it in order.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0), "{:#?}", self.log);
        // Nobody is named in a log.
        let named: Vec<_> = self.log.iter().filter(|line| line.contains("@example.")).collect();
        assert!(named.is_empty(), "{named:#?}");
    }
}

impl Drop for Server {
    /// A test that fails must not leave its server behind.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The whole answer of a server to a request of HTTP/1.0.
pub(crate) fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    // Some answers are images.
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
