//! `tidings config`: what is in force, and where each value came from.

use crate::config::{Settings, as_json, as_text, template};
use crate::failure::Failure;
use crate::output::{Layout, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidings config                                   what is in force, and where it came from
  tidings config --template > tidings.toml         a file to begin with
  tidings config --json | jq '.\"http.listen\".value'
  TIDINGS_HTTP__LISTEN=0.0.0.0:80 tidings config   try a variable

Precedence: tidings.toml, then TIDINGS_* variables, then flags; the later one wins.
Secrets are hidden. A secret can be given as a file instead: postgres.url_file,
or TIDINGS_POSTGRES__URL_FILE=/run/secrets/postgres-url.")]
pub(crate) struct ConfigArgs {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Print a commented tidings.toml with every key and its default
    #[arg(long, conflicts_with = "json")]
    template: bool,
}

impl ConfigArgs {
    /// A template is the answer to a broken configuration, and must not need a right one.
    pub(crate) fn wants_template(&self) -> bool {
        self.template
    }
}

pub(crate) fn print_template() -> Result<(), Failure> {
    let mut out = Output::new(Layout::Lines);
    out.text(&template())?;
    out.finish()
}

pub(crate) fn run(args: &ConfigArgs, settings: &Settings) -> Result<(), Failure> {
    let mut out = Output::new(Layout::Pretty);
    if args.json {
        out.json(&as_json(settings))?;
    } else {
        match &settings.file {
            Some(path) => out.text(&format!("# file: {}\n", path.display()))?,
            None => out.text("# file: none (there is no ./tidings.toml)\n")?,
        }
        out.text(&as_text(settings))?;
    }
    out.finish()
}
