//! The effective settings: which source won for each key, and everything that is wrong, told at once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::keys::{self, Key, Preset};
use super::value::Value;
use super::{Sources, environment, file, suggest};

/// Every key with its effective value.
#[derive(Debug)]
pub struct Settings {
    settings: Vec<Setting>,
    /// The file that was read, if there was one.
    pub file: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Setting {
    pub key: &'static Key,
    pub value: Option<Value>,
    pub origin: Origin,
    /// The file that a secret's value was read from.
    pub read_from: Option<PathBuf>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment { variable: String },
    Flag { flag: &'static str },
}

impl Origin {
    /// A higher one wins.
    fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::Environment { .. } => 2,
            Origin::Flag { .. } => 3,
        }
    }

    pub(super) fn line(&self) -> Option<usize> {
        if let Origin::File { line, .. } = self { Some(*line) } else { None }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment { variable } => write!(f, "environment {variable}"),
            Origin::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// Something that one source says, before it is known to make sense.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// All that is wrong with the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}", list(.0))]
pub struct ConfigError(pub Vec<Fault>);

impl ConfigError {
    pub(super) fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

/// One thing that is wrong, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

fn list(faults: &[Fault]) -> String {
    faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ")
}

impl Settings {
    pub(super) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let (assignments, mut faults) = collect(sources);
        let mut winners: BTreeMap<String, Assignment> = BTreeMap::new();
        for assignment in assignments {
            match check_name(&assignment) {
                Ok(()) => drop(winners.insert(assignment.name.clone(), assignment)),
                Err(fault) => faults.push(fault),
            }
        }
        let mut settings = Vec::new();
        for key in keys::all_keys() {
            match effective(key, &winners) {
                Ok(setting) => settings.push(setting),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            Ok(Self { settings, file: sources.file.as_ref().map(|file| file.path.clone()) })
        } else {
            Err(ConfigError(faults))
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key.name == name)
    }
}

/// What all sources say, the strongest last.
fn collect(sources: &Sources) -> (Vec<Assignment>, Vec<Fault>) {
    let (mut assignments, mut faults) =
        sources.file.as_ref().map(file::assignments).unwrap_or_default();
    for (variable, value) in &sources.environment {
        let origin = Origin::Environment { variable: variable.clone() };
        match (environment::key_of(variable), value) {
            (Some(name), Ok(text)) => {
                assignments.push(Assignment { name, text: text.clone(), origin });
            }
            (Some(_), Err(())) => faults.push(Fault::new(format!("{origin}: is not Unicode"))),
            (None, _) => {}
        }
    }
    for flag in &sources.flags {
        assignments.push(Assignment {
            name: flag.key.clone(),
            text: flag.value.clone(),
            origin: Origin::Flag { flag: flag.flag },
        });
    }
    (assignments, faults)
}

fn check_name(assignment: &Assignment) -> Result<(), Fault> {
    let Assignment { name, origin, .. } = assignment;
    if keys::find(name).is_some() || keys::find_secret_file(name).is_some() {
        return Ok(());
    }
    let is_variable = matches!(origin, Origin::Environment { .. });
    let fault = if is_variable {
        Fault::new(format!("{origin}: there is no such setting"))
    } else {
        Fault::new(format!("{origin}: unknown key {name:?}"))
    };
    Err(match suggest::nearest(name, &keys::names()) {
        Some(nearest) if is_variable => {
            fault.hint(format!("did you mean {}?", environment::variable_of(nearest)))
        }
        Some(nearest) => fault.hint(format!("did you mean {nearest:?}?")),
        None => fault.hint("`tidings config --template` lists every key"),
    })
}

fn effective(key: &'static Key, winners: &BTreeMap<String, Assignment>) -> Result<Setting, Fault> {
    let by_file = if key.secret { winners.get(&format!("{}_file", key.name)) } else { None };
    match (winners.get(key.name), by_file) {
        // The stronger source wins, as for every key; only one and the same cannot want both.
        (Some(direct), Some(by_file)) if direct.origin.rank() > by_file.origin.rank() => {
            from_text(key, direct)
        }
        (Some(direct), Some(by_file)) if direct.origin.rank() < by_file.origin.rank() => {
            from_file(key, by_file)
        }
        (Some(direct), Some(by_file)) => Err(Fault::new(format!(
            "{} is set ({}), and so is {} ({})",
            key.name, direct.origin, by_file.name, by_file.origin
        ))
        .hint("give one of the two")),
        (Some(direct), None) => from_text(key, direct),
        (None, Some(by_file)) => from_file(key, by_file),
        (None, None) => Ok(Setting {
            key,
            value: match key.preset {
                Preset::Default(text) => Some(parse(key, text, &Origin::Default)?),
                Preset::Unset { .. } => None,
            },
            origin: Origin::Default,
            read_from: None,
        }),
    }
}

fn from_text(key: &'static Key, direct: &Assignment) -> Result<Setting, Fault> {
    let value = Some(parse(key, &direct.text, &direct.origin)?);
    Ok(Setting { key, value, origin: direct.origin.clone(), read_from: None })
}

fn from_file(key: &'static Key, by_file: &Assignment) -> Result<Setting, Fault> {
    let Assignment { name, text: path, origin } = by_file;
    let content = std::fs::read_to_string(path)
        .map_err(|error| Fault::new(format!("{origin}: {name}: {path} cannot be read: {error}")))?;
    // Editors and `echo` end a file with a newline that is no part of the secret.
    let content = content.trim_end_matches(['\r', '\n']);
    let value = key
        .kind
        .parse(content)
        .map_err(|why| Fault::new(format!("{origin}: the content of {path} {why}")))?;
    Ok(Setting {
        key,
        value: Some(value),
        origin: origin.clone(),
        read_from: Some(PathBuf::from(path)),
    })
}

fn parse(key: &Key, text: &str, origin: &Origin) -> Result<Value, Fault> {
    key.kind.parse(text).map_err(|why| Fault::new(format!("{origin}: {} {why}", key.name)))
}
