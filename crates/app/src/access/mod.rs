//! `tidings bootstrap`, `workspaces`, `clients` and `keys`: who may call, for operators.
//!
//! What is asked for is printed as JSON, one thing a line. A new key is printed when it is made, and never again.

mod clients;
mod keys;
mod workspaces;

use clap::Args;
use tidings_access::{Bootstrap, BootstrapError, Slug, bootstrap as begin};
use tidings_kernel::Workspace;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::Open;
use crate::output::{Layout, say};

pub(crate) use clients::{ClientsArgs, run as clients};
pub(crate) use keys::{KeysArgs, run as keys};
pub(crate) use workspaces::{WorkspacesArgs, run as workspaces};

/// Until servers that run have forgotten that a key was good: when the command ends, it is refused everywhere.
async fn until_everybody_knows() {
    tidings_jobs::wait(tidings_access::KNOWN_WITHIN).await;
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings bootstrap
  tidings bootstrap --workspace acme --client shop
  KEY=$(tidings bootstrap) && curl -H \"Authorization: Bearer $KEY\" http://127.0.0.1:8080/v1/me

The key goes to stdout, everything else to stderr. It is done once: when there is a workspace
already, nothing is made, and `tidings keys create` makes further keys.")]
pub(crate) struct BootstrapArgs {
    /// The name of the first workspace
    #[arg(long, value_name = "NAME", default_value = "default")]
    workspace: Workspace,
    /// The application that gets the key
    #[arg(long, value_name = "SLUG", default_value = "app")]
    client: Slug,
}

pub(crate) async fn bootstrap(args: BootstrapArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::make(config, Layout::Lines).await?;
    let BootstrapArgs { workspace, client } = args;
    let made = begin(&open.access, Bootstrap { workspace, client }).await;
    let done = match made {
        Ok(made) => {
            say(&format!(
                "The workspace {} has a client {} with this key, which can do everything. It is shown only now:",
                made.workspace.name, made.client.slug
            ));
            print_key(&open, &made.issued.api_key.expose())
        }
        Err(BootstrapError::Done(first)) => {
            let hint = format!(
                "`tidings keys create --workspace {first}` makes another key; `tidings clients list \
                 --workspace {first}` shows for whom"
            );
            Err(Failure::from(BootstrapError::Done(first)).hint(hint))
        }
        Err(error @ BootstrapError::Store(_)) => Err(error.into()),
    };
    open.close().await;
    done
}

fn print_key(open: &Open, key: &str) -> Result<(), Failure> {
    let mut out = open.out();
    out.text(&format!("{key}\n"))?;
    out.finish()
}
