//! Which engine the configuration means, opened.

use std::sync::Arc;

use anyhow::Context as _;
use tidings_kernel::{ItemEngine, ItemStore, SystemClock, Workspace};
use tidings_sql::{Database, PostgresOptions, SqlItems, SqliteOptions, Streams, Tls};

use crate::config::{Config, Engine, Postgres, PostgresTls};
use crate::failure::Failure;

/// Why a store is opened.
#[derive(Clone, Copy)]
enum Purpose {
    Use,
    Look,
}

/// An open engine.
pub(crate) struct Store {
    pub(crate) engine: Arc<dyn ItemEngine>,
    /// Relations, and on SQL everything. On AWS only if postgres.url is set.
    pub(crate) database: Option<Database>,
    #[cfg(feature = "aws")]
    pub(crate) dynamodb: Option<Arc<tidings_aws::DynamoDb>>,
}

impl Store {
    /// What is missing is made.
    pub(crate) async fn open(config: &Config) -> Result<Self, Failure> {
        Self::open_for(config, Purpose::Use).await
    }

    /// A workspace on AWS must have its tables already: a mistyped name must not make any.
    pub(crate) async fn open_to_look(config: &Config) -> Result<Self, Failure> {
        Self::open_for(config, Purpose::Look).await
    }

    async fn open_for(config: &Config, purpose: Purpose) -> Result<Self, Failure> {
        let database = match config.engine {
            Engine::Embedded => open_embedded(config).await?,
            Engine::Postgres => open_postgres(&config.postgres).await?,
            Engine::Aws => return open_aws(config, purpose).await,
        };
        // The one reader of a stream, `inbox::expiry`, asks for what has expired and for nothing else.
        let (clock, streams) = (Arc::new(SystemClock), Streams::Expiries);
        let engine = Arc::new(SqlItems::with_streams(database.clone(), clock, streams));
        Ok(Self {
            engine,
            database: Some(database),
            #[cfg(feature = "aws")]
            dynamodb: None,
        })
    }

    /// Where relations are.
    pub(crate) fn relations(&self) -> Result<&Database, Failure> {
        self.database.as_ref().ok_or_else(|| {
            Failure::usage("relations need PostgreSQL on AWS too, and postgres.url is not set")
                .hint(WHERE_THE_URL_IS_SET)
        })
    }

    pub(crate) async fn workspace(
        &self,
        workspace: &Workspace,
    ) -> Result<Arc<dyn ItemStore>, Failure> {
        let opened = self.engine.open(workspace).await;
        opened.map_err(|error| match self.is_on_aws() {
            false => Failure::from(error),
            true => Failure::from(error).hint(
                "is the workspace right? AWS_REGION, AWS_PROFILE and aws.endpoint_url say which \
                 server is meant, and its user needs the right to make and use tables",
            ),
        })
    }

    #[cfg(feature = "aws")]
    fn is_on_aws(&self) -> bool {
        self.dynamodb.is_some()
    }

    #[cfg(not(feature = "aws"))]
    fn is_on_aws(&self) -> bool {
        false
    }

    /// Finishes what was begun. What comes later is refused.
    pub(crate) async fn close(&self) {
        if let Some(database) = &self.database {
            database.close().await;
        }
    }
}

/// Who looks for something in the wrong folder must not be told that it is gone, by a database that was made
/// for the answer.
pub(crate) fn must_exist(config: &Config) -> Result<(), Failure> {
    let path = &config.embedded.path;
    if config.engine == Engine::Embedded && !path.exists() {
        return Err(Failure::failed(format!("there is no database {}", path.display()))
            .hint("embedded.path says where it is; `tidings config` shows it"));
    }
    Ok(())
}

const WHERE_THE_URL_IS_SET: &str =
    "set it in tidings.toml, or TIDINGS_POSTGRES__URL, or TIDINGS_POSTGRES__URL_FILE";

/// The engine's name, as the configuration spells it.
pub(crate) fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Embedded => "embedded",
        Engine::Postgres => "postgres",
        Engine::Aws => "aws",
    }
}

async fn open_embedded(config: &Config) -> Result<Database, Failure> {
    let path = &config.embedded.path;
    let options = SqliteOptions {
        readers: config.embedded.readers,
        page_cache_bytes: usize::try_from(config.embedded.page_cache_bytes)?,
        ..SqliteOptions::default()
    };
    let opened = Database::sqlite(path, options).await;
    let opened =
        opened.with_context(|| format!("the database {} could not be opened", path.display()));
    opened.map_err(|error| {
        Failure::from(error).hint("embedded.path says where it is; `tidings doctor` finds out more")
    })
}

async fn open_postgres(postgres: &Postgres) -> Result<Database, Failure> {
    let Some(url) = &postgres.url else {
        return Err(Failure::usage("store.engine is \"postgres\", but postgres.url is not set")
            .hint(WHERE_THE_URL_IS_SET));
    };
    let encrypted = match &postgres.tls_ca_file {
        Some(path) => Tls::VerifyFullWith(path.clone()),
        None => Tls::VerifyFull,
    };
    let tls = match postgres.tls {
        PostgresTls::Disable => Tls::Disable,
        PostgresTls::Auto if is_local(url.expose()) => Tls::Disable,
        PostgresTls::Auto | PostgresTls::VerifyFull => encrypted,
    };
    let hint = match tls {
        Tls::Disable => "is the server running, and is postgres.url right?",
        Tls::VerifyFull | Tls::VerifyFullWith(_) => {
            "is postgres.url right, and does the server's certificate name its host? \
             postgres.tls_ca_file trusts a private authority"
        }
    };
    let options = PostgresOptions { connections: postgres.connections, tls };
    let opened = Database::postgres(url.expose(), options).await;
    let opened = opened.context("the PostgreSQL database could not be opened");
    opened.map_err(|error| Failure::from(error).hint(hint))
}

/// Whether every host of the URL is this machine. What is not understood is not local.
fn is_local(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    // A password may hold an unescaped '?', so it goes first.
    let authority = match rest.rsplit_once('@') {
        Some((_, after)) => after,
        None => rest,
    };
    let (authority, query) = authority.split_once('?').unwrap_or((authority, ""));
    // Parameters can name more hosts.
    if query.split('&').any(|parameter| parameter.starts_with("host")) {
        return false;
    }
    let hosts = authority.split('/').next().unwrap_or_default();
    hosts.split(',').all(|host| {
        let name = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        // An escaped slash begins the path of a socket.
        name == "localhost"
            || name.to_ascii_lowercase().starts_with("%2f")
            || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

#[cfg(feature = "aws")]
async fn open_aws(config: &Config, purpose: Purpose) -> Result<Store, Failure> {
    let settings = tidings_aws::Settings {
        endpoint: config.aws.endpoint_url.clone(),
        prefix: config.aws.table_prefix.clone(),
        missing: match purpose {
            Purpose::Use => tidings_aws::Missing::Create,
            Purpose::Look => tidings_aws::Missing::Refuse,
        },
    };
    let engine = Arc::new(tidings_aws::DynamoDb::connect(settings, Arc::new(SystemClock)).await);
    let database = match &config.postgres.url {
        Some(_) => Some(open_postgres(&config.postgres).await?),
        None => None,
    };
    Ok(Store { engine: Arc::clone(&engine) as Arc<_>, database, dynamodb: Some(engine) })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature it is async")]
async fn open_aws(_: &Config, _: Purpose) -> Result<Store, Failure> {
    Err(without_aws())
}

#[cfg(not(feature = "aws"))]
pub(crate) fn without_aws() -> Failure {
    Failure::usage("store.engine is \"aws\", and this tidings was built without it")
        .hint("build it with `cargo build --release --features aws`")
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_this_machine_is_local() {
        for url in [
            "postgres://localhost/t",
            "postgres://ada:p@127.0.0.1:5432/t",
            "postgres://[::1]:5432/t",
            "postgres://%2Fvar%2Frun%2Fpostgresql/t",
            "postgres://localhost:1,127.0.0.1:2/t",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "postgres://db.example.org/t",
            "postgres://10.0.0.1/t",
            "postgres://localhost.example.org/t",
            "postgres://localhost:p?w@db.example.org/t",
            "postgres://localhost,db/t",
            "postgres://localhost@db/t",
            "postgres://localhost/t?hostaddr=10.0.0.1",
            "postgres:///t",
            "localhost",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }
}
