//! A PostgreSQL of the benchmark's own, durable like a real one, gone when it is dropped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

pub(crate) struct PostgresServer {
    folder: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

impl PostgresServer {
    /// `None` if PostgreSQL is not installed.
    pub(crate) fn start() -> anyhow::Result<Option<Self>> {
        let Some(programs) = find_programs() else { return Ok(None) };
        // Not in /tmp, which may be memory; but where its user can enter.
        let folder = tempfile::tempdir_in("/var/tmp")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Self { folder, programs, port };
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(server.folder.path()))?;
        }
        let data = server.data();
        run(server
            .command("initdb")
            .args(["-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data))?;
        let socket = server.folder.path().display();
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={socket} \
             -c shared_buffers=512MB -c max_wal_size=4GB"
        );
        run(server
            .command("pg_ctl")
            .args(["-w", "-o", &options, "-l"])
            .arg(server.log())
            .arg("-D")
            .arg(&data)
            .arg("start"))
        .with_context(|| std::fs::read_to_string(server.log()).unwrap_or_default())?;
        Ok(Some(server))
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Makes an empty database, and tells its URL.
    pub(crate) fn new_database(&self, name: &str) -> anyhow::Result<String> {
        let port = self.port.to_string();
        run(self
            .command("createdb")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port])
            .arg(name))?;
        Ok(format!("postgres://postgres@127.0.0.1:{port}/{name}"))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// PostgreSQL refuses to run as root.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let stopped = run(self
            .command("pg_ctl")
            .args(["-w", "-m", "immediate", "-D"])
            .arg(self.data())
            .arg("stop"));
        if let Err(error) = stopped {
            println!("PostgreSQL on port {} did not stop: {error:#}", self.port);
        }
    }
}

fn find_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<_> =
        versions.flatten().map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.into_iter().rev().find(|folder| folder.join("initdb").exists())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !output.success() {
        bail!("{command:?} ended with {output}");
    }
    Ok(())
}
