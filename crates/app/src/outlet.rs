//! The way out for mail: which provider the configuration means, and how fast it is used.

use std::path::Path;
use std::sync::Arc;

use tidings_delivery::capture::Capture;
use tidings_delivery::pace::{Pace, Paced};
use tidings_kernel::{Clock, ProviderSuppressions, Sender};
use tidings_mail::{Dkim, DkimKeys, Franked, Smtp, SmtpSettings, Tls};
use tidings_sql::Database;

use crate::config::{Config, Provider, SmtpTls};
use crate::failure::Failure;

/// What all workers of this process hand mail to.
#[derive(Clone)]
pub(crate) struct Outlet {
    pub(crate) sender: Arc<dyn Sender>,
    /// Asked before each message.
    pub(crate) pace: Arc<Pace>,
    /// The provider's own list, if it has one.
    pub(crate) suppressions: Option<Arc<dyn ProviderSuppressions>>,
}

impl Outlet {
    pub(crate) async fn open(
        database: &Database,
        clock: &Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Self, Failure> {
        let provider: Arc<dyn Sender> = match config.mail.provider {
            Provider::Capture => Arc::new(Capture::new(database.clone(), Arc::clone(clock))),
            Provider::Smtp => Arc::new(smtp(config)?),
            Provider::Ses => ses(config).await?,
        };
        let name = provider.name();
        let franked = Franked {
            sender: provider,
            return_path: config.mail.return_path.clone(),
            // SES signs by itself, and what is captured goes nowhere.
            dkim: match config.mail.provider {
                Provider::Smtp => dkim(config)?,
                Provider::Capture | Provider::Ses => DkimKeys::default(),
            },
        };
        let store = (database.clone(), name);
        let pace = Pace::over_all_nodes(config.mail.rate_per_second, clock.now(), store);
        let pace = Arc::new(pace);
        let sender = Paced::new(Arc::new(franked), Arc::clone(&pace), Arc::clone(clock));
        Ok(Self { sender: Arc::new(sender), pace, suppressions: suppressions(config).await? })
    }
}

pub(crate) fn smtp(config: &Config) -> Result<Smtp, Failure> {
    let smtp = &config.mail.smtp;
    let host = smtp.host.clone().ok_or_else(|| {
        Failure::usage("mail.provider is \"smtp\", and mail.smtp_host is not set")
            .hint("set mail.smtp_host to the name of your mail server")
    })?;
    let credentials = match (&smtp.username, &smtp.password) {
        (Some(name), Some(password)) => Some((name.clone(), password.expose().to_owned())),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let message = "of mail.smtp_username and mail.smtp_password only one is set";
            return Err(
                Failure::usage(message).hint("set both, or none for a server without a login")
            );
        }
    };
    let roots =
        smtp.tls_ca_file.as_deref().map(|path| read(path, "mail.smtp_tls_ca_file")).transpose()?;
    let settings = SmtpSettings {
        host,
        port: smtp.port,
        tls: match smtp.tls {
            SmtpTls::Starttls => Tls::Starttls,
            SmtpTls::Implicit => Tls::Implicit,
            SmtpTls::None => Tls::None,
        },
        credentials,
        connections: smtp.connections,
        hello_name: smtp.hello_name.clone(),
        timeout: smtp.timeout,
        roots,
    };
    Smtp::new(settings).map_err(|error| {
        Failure::usage(format!("mail cannot be sent over SMTP: {error}")).hint("see mail.smtp_tls")
    })
}

/// Nothing is signed unless a domain is set.
pub(crate) fn dkim(config: &Config) -> Result<DkimKeys, Failure> {
    let dkim = &config.mail.dkim;
    let default = match (&dkim.domain, dkim.key_file.as_deref()) {
        (None, _) => None,
        (Some(domain), Some(path)) => {
            Some(dkim_key((domain, &dkim.selector), path, "mail.dkim_key_file")?)
        }
        (Some(_), None) => {
            let message = "mail.dkim_domain is set, and mail.dkim_key_file is not";
            return Err(Failure::usage(message).hint(
                "make a key with `openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out dkim.pem`",
            ));
        }
    };
    let others = dkim.others.iter().map(|text| {
        let (name, path) = text.split_once('=').unwrap_or((text, ""));
        let (domain, selector) = name.split_once(':').unwrap_or((name, &dkim.selector));
        if path.is_empty() {
            let message = format!("mail.dkim_keys: {text:?} names no file");
            return Err(Failure::usage(message)
                .hint("write domain=file, or domain:selector=file, with commas between"));
        }
        dkim_key((domain, selector), Path::new(path), "mail.dkim_keys")
    });
    let others: Vec<Dkim> = others.collect::<Result<_, _>>()?;
    DkimKeys::new(default, others).map_err(|error| Failure::usage(error.to_string()))
}

fn dkim_key((domain, selector): (&str, &str), path: &Path, key: &str) -> Result<Dkim, Failure> {
    let made = Dkim::new(domain, selector, &read(path, key)?);
    made.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn read(path: &Path, key: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{key}: {} cannot be read: {error}", path.display()))
    })
}

/// Whether only this machine reaches the URL.
pub(crate) fn is_local(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', '?']).next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(name, "localhost" | "::1") || name.starts_with("127.") || name.ends_with(".localhost")
}

/// The list of addresses that the provider does not write to by itself.
pub(crate) async fn suppressions(
    config: &Config,
) -> Result<Option<Arc<dyn ProviderSuppressions>>, Failure> {
    match config.mail.provider {
        Provider::Ses => Ok(Some(ses_suppressions(config).await?)),
        Provider::Capture | Provider::Smtp => Ok(None),
    }
}

#[cfg(feature = "aws")]
async fn ses_suppressions(config: &Config) -> Result<Arc<dyn ProviderSuppressions>, Failure> {
    Ok(Arc::new(connect_ses(config).await))
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature it is async")]
async fn ses_suppressions(_: &Config) -> Result<Arc<dyn ProviderSuppressions>, Failure> {
    Err(crate::store::without_aws())
}

#[cfg(feature = "aws")]
async fn ses(config: &Config) -> Result<Arc<dyn Sender>, Failure> {
    Ok(Arc::new(connect_ses(config).await))
}

#[cfg(feature = "aws")]
pub(crate) async fn connect_ses(config: &Config) -> tidings_aws::Ses {
    tidings_aws::Ses::connect(tidings_aws::SesSettings {
        endpoint: config.aws.mail_endpoint_url.clone(),
        configuration_set: config.mail.ses_configuration_set.clone(),
    })
    .await
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature it is async")]
async fn ses(_: &Config) -> Result<Arc<dyn Sender>, Failure> {
    Err(crate::store::without_aws())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn this_machine_is_told_from_the_internet() {
        for url in [
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://[::1]:80/x",
            "http://app.localhost:1",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in
            ["https://mail.example.org", "http://10.0.0.1", "http://localhost.example.org/127."]
        {
            assert!(!is_local(url), "{url}");
        }
    }
}
