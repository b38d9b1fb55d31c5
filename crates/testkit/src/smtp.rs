//! A mail server of one test's own: Postfix's `smtp-sink`, which takes everything, or fails as it is told to.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Ends with the value, and so does what it kept.
pub struct SmtpSink {
    pub port: u16,
    child: Child,
    folder: PathBuf,
}

impl SmtpSink {
    /// `-f RCPT` refuses recipients for good, `-r DATA` for now, `-q .` hangs up instead of answering a message.
    pub fn start(faults: &[&str]) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the script that starts the servers tells where"
        )]
        let program = std::env::var("TIDINGS_TEST_SMTP_SINK");
        let program = program
            .expect("TIDINGS_TEST_SMTP_SINK is not set: run ./test, which finds the program");
        let name = format!("tidings-sink-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();

        let port = free_port();
        let mut command = Command::new(program);
        // It refuses to run as root.
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.args(["-u", "nobody"]);
        }
        let kept = folder.join("mail.").to_string_lossy().into_owned();
        command.args(["-d", &kept]).args(faults).arg(format!("inet:127.0.0.1:{port}")).arg("100");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let sink = Self { port, child, folder };
        sink.await_start();
        sink
    }

    /// What came, each with lines in front that tell of the envelope, in the order of their files' names.
    pub fn messages(&self) -> Vec<String> {
        let mut files: Vec<_> =
            std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read =
            |file: PathBuf| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
        files.into_iter().map(read).collect()
    }

    /// How many there are, those included that are still coming in.
    pub fn count(&self) -> usize {
        std::fs::read_dir(&self.folder).unwrap().count()
    }

    fn await_start(&self) {
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("smtp-sink does not listen");
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Nobody listens there now.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
