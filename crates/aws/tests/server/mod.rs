//! A throw-away DynamoDB for one test: the `dynamodb-server` of `tests/`, which ends with the test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use tidings_aws::{DynamoDb, Settings};
use tidings_kernel::Clock;

use crate::credentials::config;

pub(crate) struct Server {
    process: Child,
    endpoint: String,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Server {
    pub(crate) fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "./test says here what it has built")]
        let program = std::env::var("TIDINGS_TEST_DYNAMODB_SERVER")
            .expect("run ./test, which builds the test servers");
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the test server can be started");
        let commands = process.stdin.take().expect("stdin is piped");
        let mut answers = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let endpoint = line(&mut answers);
        Self { process, endpoint, pipes: Mutex::new((commands, answers)) }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sets the clock by which the server expires items.
    pub(crate) fn set_now(&self, second: i64) {
        assert_eq!(self.ask(&format!("now {second}")), "ok");
    }

    /// Deletes what is past its TTL, and tells how many. As in DynamoDB, an item is past it only in the second
    /// after the one it names; reads leave it out from that second on.
    pub(crate) fn sweep(&self) -> usize {
        self.ask("sweep").parse().expect("a sweep is answered with a number")
    }

    fn ask(&self, command: &str) -> String {
        let mut pipes = self.pipes.lock().expect("nobody panicked while asking");
        writeln!(pipes.0, "{command}").expect("the test server takes commands");
        line(&mut pipes.1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing left to do about it then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("the test server answers in text");
    assert!(!line.is_empty(), "the test server ended");
    line.trim_end().to_owned()
}

/// An engine on a server that takes any credentials.
pub(crate) fn connect(endpoint: &str, clock: Arc<dyn Clock>) -> DynamoDb {
    let settings = Settings { endpoint: Some(endpoint.to_owned()), ..Settings::default() };
    DynamoDb::new(&config(), settings, clock)
}
