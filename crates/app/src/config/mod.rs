//! Configuration: `tidings.toml`, then `TIDINGS_*` in the environment, then flags; the later one wins.
//!
//! Every key is declared once, in `keys`. Reading, names in the environment, suggestions, masking, what
//! `tidings config` prints and `config.default.toml` all follow from that table; `typed` gives the rest of the
//! program its values. Nothing else in the program reads a setting from anywhere.

mod environment;
mod file;
mod keys;
mod mask;
mod settings;
mod show;
mod suggest;
#[cfg(test)]
mod tests;
mod typed;
mod value;

pub use keys::{Key, Preset, all_keys};
pub use settings::{ConfigError, Fault, Origin, Setting, Settings};
pub use show::{as_json, as_text, template};
pub use typed::{
    Aws, Config, DkimKey, Embedded, Engine, Http, Log, LogFormat, Mail, Postgres, PostgresTls,
    Provider, Secret, Smtp, SmtpTls, Sweep,
};
pub use value::{Kind, Value};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where settings come from, before anything is made of them.
#[derive(Debug, Default)]
pub struct Sources {
    pub file: Option<SourceFile>,
    /// All that begins with `TIDINGS_`. `Err` holds what is not Unicode.
    pub environment: BTreeMap<String, Result<String, ()>>,
    pub flags: Vec<Flag>,
}

#[derive(Debug)]
pub struct SourceFile {
    pub path: PathBuf,
    pub text: String,
}

/// A setting given on the command line, and the flag that gave it.
#[derive(Debug, Clone)]
pub struct Flag {
    pub flag: &'static str,
    pub key: String,
    pub value: String,
}

impl Sources {
    /// Reads the file that was asked for, or `./tidings.toml` if there is one, and the environment.
    pub fn gather(asked: Option<&Path>, flags: Vec<Flag>) -> Result<Self, ConfigError> {
        let environment = environment::of_the_process();
        let from_environment = environment.get(environment::FILE_VARIABLE);
        let asked = match (asked, from_environment) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(Ok(path))) => Some(PathBuf::from(path)),
            // `settings` refuses a value that is not Unicode, with its name.
            (None, Some(Err(()))) | (None, None) => None,
        };
        Ok(Self { file: file::read(asked.as_deref())?, environment, flags })
    }
}

/// The effective value of every key, and where it came from. All that is wrong is told at once.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    Settings::load(sources)
}
