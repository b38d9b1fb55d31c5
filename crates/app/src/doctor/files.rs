//! Files: room on the disk, and who may read what.

use std::path::{Path, PathBuf};

use super::Finding;
use crate::config::{Origin, Settings};

const GIB: u64 = 1024 * 1024 * 1024;
const LITTLE_ROOM: u64 = GIB;

/// Files that hold secrets must not be readable by everybody.
pub(super) fn check_config(settings: &Settings) -> Vec<Finding> {
    let mut secret_files: Vec<PathBuf> = Vec::new();
    for setting in settings.iter().filter(|setting| setting.key.secret) {
        match (&setting.read_from, &setting.origin) {
            (Some(path), _) => secret_files.push(path.clone()),
            (None, Origin::File { path, .. }) => secret_files.push(path.clone()),
            (None, Origin::Default | Origin::Environment { .. } | Origin::Flag { .. }) => {}
        }
    }
    let open: Vec<_> =
        secret_files.iter().filter_map(|path| world_readable("config", path)).collect();
    if !open.is_empty() {
        return open;
    }
    let message = match (&settings.file, secret_files.is_empty()) {
        (Some(path), true) => format!("{} is right, and holds no secret", path.display()),
        (Some(path), false) => format!("{} is right, and its secrets are private", path.display()),
        (None, _) => "no configuration file; environment, flags and defaults are right".to_owned(),
    };
    vec![Finding::ok("config", message)]
}

/// The embedded database's file and the disk it is on.
pub(super) fn check_database(path: &Path) -> Vec<Finding> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut findings = Vec::new();
    match disk::of(folder) {
        Ok(disk) => findings.push(room(folder, &disk)),
        Err(error) => {
            let message = format!("the folder {} cannot be used: {error}", folder.display());
            let remedy = format!("make it: mkdir -p {}", folder.display());
            return vec![Finding::fail("disk", message, remedy)];
        }
    }
    if let Err(error) = disk::writable(folder) {
        findings.push(Finding::fail(
            "permissions",
            format!("{} cannot be written by this user: {error}", folder.display()),
            "give the folder to the user that runs tidings (chown); SQLite keeps its log there",
        ));
    } else if path.exists() {
        findings.push(world_readable("permissions", path).unwrap_or_else(|| {
            Finding::ok("permissions", format!("{} is private", path.display()))
        }));
    } else {
        let message = format!("{} can be written", folder.display());
        findings.push(Finding::ok("permissions", message));
    }
    findings
}

fn room(folder: &Path, disk: &disk::Disk) -> Finding {
    if let Some(kind) = disk.network {
        return Finding::fail(
            "disk",
            format!("{} is on a network file system ({kind})", folder.display()),
            "move the database to a local disk: locks and fsync do not hold over a network",
        );
    }
    let free = format!("{:.1} GiB free", disk.free_bytes as f64 / GIB as f64);
    if disk.free_bytes < LITTLE_ROOM {
        return Finding::warn(
            "disk",
            format!("only {free} in {}", folder.display()),
            "make room, or move embedded.path to a larger disk",
        );
    }
    Finding::ok("disk", format!("{free} in {}", folder.display()))
}

#[cfg(unix)]
fn world_readable(check: &'static str, path: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o004 != 0).then(|| {
        Finding::warn(
            check,
            format!("everybody on this machine can read {}", path.display()),
            format!("chmod 600 {}", path.display()),
        )
    })
}

#[cfg(not(unix))]
fn world_readable(_: &'static str, _: &Path) -> Option<Finding> {
    None
}

mod disk {
    //! What the operating system tells about a folder.

    use std::io;
    use std::path::Path;

    pub(super) struct Disk {
        pub(super) free_bytes: u64,
        /// The kind of network file system, if it is one.
        pub(super) network: Option<&'static str>,
    }

    #[cfg(unix)]
    pub(super) fn of(folder: &Path) -> io::Result<Disk> {
        let told = rustix::fs::statvfs(folder)?;
        // What an ordinary user may still fill.
        let free_bytes = told.f_bavail.saturating_mul(told.f_frsize);
        Ok(Disk { free_bytes, network: network(folder)? })
    }

    #[cfg(target_os = "linux")]
    fn network(folder: &Path) -> io::Result<Option<&'static str>> {
        // From statfs(2). FUSE is left out: it is as often a local disk as not.
        Ok(match rustix::fs::statfs(folder)?.f_type as u32 {
            0x6969 => Some("NFS"),
            0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
            0x00c3_6400 => Some("Ceph"),
            0x0102_1997 => Some("9p"),
            0x5346_414f | 0x6b41_4653 => Some("AFS"),
            _ => None,
        })
    }

    #[cfg(all(unix, not(target_os = "linux")))]
    fn network(_: &Path) -> io::Result<Option<&'static str>> {
        Ok(None)
    }

    #[cfg(unix)]
    pub(super) fn writable(folder: &Path) -> io::Result<()> {
        Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?)
    }

    #[cfg(not(unix))]
    pub(super) fn of(folder: &Path) -> io::Result<Disk> {
        std::fs::read_dir(folder)?;
        Ok(Disk { free_bytes: u64::MAX, network: None })
    }

    #[cfg(not(unix))]
    pub(super) fn writable(_: &Path) -> io::Result<()> {
        Ok(())
    }
}
