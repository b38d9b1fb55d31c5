//! Can mail leave, and is that what is meant?

use tidings_mail::SmtpError;

use super::Finding;
use crate::config::{Config, Provider};
use crate::outlet::{self, is_local};

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = vec![match config.mail.provider {
        Provider::Capture => check_capture(&config.http.public_url),
        Provider::Smtp => check_smtp(config).await,
        Provider::Ses => check_ses(config).await,
    }];
    findings.extend(check_dkim(config));
    findings
}

/// Whoever is on the internet means to write to people.
fn check_capture(public_url: &str) -> Finding {
    if is_local(public_url) {
        return Finding::ok("mail", "mail is captured and not sent; `tidings mail list` shows it");
    }
    Finding::warn(
        "mail",
        format!(
            "NO MAIL IS SENT: mail.provider is \"capture\", and http.public_url is {public_url}"
        ),
        "set mail.provider to \"smtp\" or \"ses\"",
    )
}

async fn check_smtp(config: &Config) -> Finding {
    let smtp = match outlet::smtp(config) {
        Ok(smtp) => smtp,
        Err(failure) => {
            let remedy = failure.advice().unwrap_or("see the message").to_owned();
            return Finding::fail("mail", failure.message(), remedy);
        }
    };
    let settings = &config.mail.smtp;
    let server = format!("{}:{}", settings.host.as_deref().unwrap_or_default(), settings.port);
    match smtp.greet().await {
        Ok(name) => Finding::ok("mail", format!("the mail server {server} ({name}) lets us in")),
        Err(SmtpError::Unreachable(reason)) => Finding::fail(
            "mail",
            format!("the mail server {server} does not let us in: {reason}"),
            "check mail.smtp_host, mail.smtp_port, mail.smtp_tls and the login",
        ),
        Err(error) => Finding::fail("mail", error.to_string(), "check the keys mail.smtp_…"),
    }
}

#[cfg(feature = "aws")]
async fn check_ses(config: &Config) -> Finding {
    match outlet::connect_ses(config).await.check().await {
        Ok(()) => Finding::ok("mail", "SES answers, and lets this account send"),
        Err(reason) => Finding::fail(
            "mail",
            format!("SES cannot be used: {reason}"),
            "check region, credentials and their rights (ses:SendEmail, ses:GetAccount)",
        ),
    }
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature it is async")]
async fn check_ses(_: &Config) -> Finding {
    let failure = crate::store::without_aws();
    let remedy = failure.advice().unwrap_or("see the message").to_owned();
    Finding::fail("mail", failure.message(), remedy)
}

fn check_dkim(config: &Config) -> Vec<Finding> {
    match outlet::dkim(config) {
        Ok(keys) => {
            let records = keys.iter().map(tidings_mail::Dkim::record);
            let told = records.map(|(name, record)| {
                Finding::ok("dkim", format!("DNS must have, as TXT at {name}: {record}"))
            });
            told.collect()
        }
        Err(failure) => {
            let remedy = failure.advice().unwrap_or("see the message").to_owned();
            vec![Finding::fail("dkim", failure.message(), remedy)]
        }
    }
}
