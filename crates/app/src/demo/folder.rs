//! The folder of the demo: made, known again by a mark, and held while the demo runs.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{contacts, examples};
use crate::config::Config;
use crate::failure::Failure;

pub(super) const DATABASE: &str = "tidings.db";
/// Says that the folder is ours, and is locked by whoever works in it.
const MARK: &str = ".tidings-demo";
const MAIL: [(&str, &str); 6] = [
    ("topics.toml", include_str!("mail/topics.toml")),
    ("audiences.toml", include_str!("mail/audiences.toml")),
    ("templates/partials/footer.html", include_str!("mail/templates/partials/footer.html")),
    ("templates/welcome.mjml", include_str!("mail/templates/welcome.mjml")),
    ("templates/news/launch.mjml", include_str!("mail/templates/news/launch.mjml")),
    ("templates/receipt.html", include_str!("mail/templates/receipt.html")),
];

/// Held until it is dropped.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    keep: bool,
    _mark: File,
}

impl Folder {
    /// A new folder, or one that a demo has made. Unless it is kept, its database goes; other files are not touched.
    pub(super) fn take(path: &Path, keep: bool) -> Result<Self, Failure> {
        let named = path.display();
        let mark = path.join(MARK);
        let is_ours = mark.exists();
        if path.exists() && !is_ours && !is_empty_folder(path) {
            let message = format!("{named} is there already, and `tidings demo` has not made it");
            return Err(Failure::failed(message).hint("choose another folder with --folder"));
        }
        fs::create_dir_all(path).with_context(|| format!("{named} cannot be made"))?;
        let made = File::options().create(true).append(true).open(&mark);
        let mark = made.with_context(|| format!("{named} cannot be written to"))?;
        match mark.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("a demo is running in {named}");
                return Err(Failure::failed(message)
                    .hint("stop it first, or choose another folder with --folder"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(anyhow::Error::new(error)
                    .context(format!("{named} cannot be locked"))
                    .into());
            }
        }
        if !keep {
            for end in ["", "-wal", "-shm"] {
                remove(&path.join(format!("{DATABASE}{end}")))?;
            }
        }
        Ok(Self { path: path.to_owned(), keep, _mark: mark })
    }

    /// What `tidings apply` takes.
    pub(super) fn mail(&self) -> PathBuf {
        self.path.join("mail")
    }

    pub(super) fn contacts(&self) -> PathBuf {
        self.path.join("contacts.csv")
    }

    /// Writes what the demo is made from, and a configuration for commands beside the server.
    pub(super) fn write(&self, config: &Config) -> Result<(), Failure> {
        for (name, text) in MAIL {
            self.file(&self.mail().join(name), text)?;
        }
        let (there, here) = examples::SCHEMA;
        for (name, text) in examples::FILES {
            self.file(&self.mail().join(name), &text.replace(there, here))?;
        }
        let schema = serde_json::to_string_pretty(&tidings_sequences::definition::schema())?;
        self.file(&self.mail().join("sequence.schema.json"), &schema)?;
        self.file(&self.contacts(), &contacts::csv())?;
        let database = std::path::absolute(self.path.join(DATABASE))?;
        let database = serde_json::to_string(&database.to_string_lossy())?;
        let url = &config.http.public_url;
        let settings = format!(
            "# Made by `tidings demo`.\n\n[embedded]\npath = {database}\n\n[http]\npublic_url = \"{url}\"\n"
        );
        write(&self.path.join("tidings.toml"), &settings)
    }

    /// What somebody has changed stays, if the folder is kept.
    fn file(&self, path: &Path, text: &str) -> Result<(), Failure> {
        if self.keep && path.exists() { Ok(()) } else { write(path, text) }
    }
}

fn is_empty_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .with_context(|| format!("{} cannot be made", parent.display()))?;
    }
    Ok(fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(anyhow::Error::new(error)
                .context(format!("{} cannot be removed", path.display()))
                .into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{DATABASE, Folder};

    #[test]
    fn only_a_folder_of_its_own_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo");
        drop(Folder::take(&path, false).unwrap_or_else(|error| panic!("{}", error.message())));
        std::fs::write(path.join(DATABASE), "old").unwrap();
        std::fs::write(path.join("mine"), "mine").unwrap();
        drop(Folder::take(&path, true).unwrap_or_else(|error| panic!("{}", error.message())));
        assert!(path.join(DATABASE).exists());
        let held = Folder::take(&path, false).unwrap_or_else(|error| panic!("{}", error.message()));
        assert!(!path.join(DATABASE).exists());
        assert!(path.join("mine").exists());
        let second = Folder::take(&path, false).err().unwrap().message();
        assert!(second.contains("is running"), "{second}");
        drop(held);

        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(DATABASE), "precious").unwrap();
        let refused = Folder::take(&other, false).err().unwrap().message();
        assert!(refused.contains("has not made it"), "{refused}");
        assert!(other.join(DATABASE).exists());
    }
}
