//! Can mail leave, and is that what is meant?

use tidings_mail::SmtpError;

use super::Finding;
use crate::config::{Config, Provider};
use crate::outlet::{self, is_local};

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = match config.mail.provider {
        Provider::Capture => vec![check_capture(&config.http.public_url)],
        Provider::Smtp => vec![check_smtp(config).await],
        Provider::Ses => check_ses(config).await,
    };
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
async fn check_ses(config: &Config) -> Vec<Finding> {
    match outlet::connect_ses(config).await.account().await {
        Ok(account) => judge_ses(account, config.mail.rate_per_second),
        Err(reason) => vec![Finding::fail(
            "mail",
            format!("SES cannot be used: {reason}"),
            "check region, credentials and their rights (ses:SendEmail, ses:GetAccount)",
        )],
    }
}

/// Of an account that is paused nothing else matters.
#[cfg(feature = "aws")]
pub(super) fn judge_ses(account: tidings_aws::SesAccount, rate: u32) -> Vec<Finding> {
    if !account.sends {
        return vec![Finding::fail(
            "mail",
            "SES answers, and has paused the sending of this account",
            "see in the console of SES why; mail waits meanwhile",
        )];
    }
    let mut findings = Vec::new();
    if account.is_in_sandbox {
        findings.push(Finding::warn(
            "mail",
            "the account is in the sandbox of SES: only verified addresses get mail",
            "ask AWS for production access, in the console of SES",
        ));
    }
    if let Some(allowed) = account.per_second.filter(|allowed| *allowed < f64::from(rate)) {
        findings.push(Finding::warn(
            "mail",
            format!("mail.rate_per_second is {rate}, and SES takes {allowed} a second"),
            format!(
                "set mail.rate_per_second to {}, or ask AWS for more",
                allowed.max(1.0).floor()
            ),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("mail", "SES answers, and lets this account send"));
    }
    findings
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature it is async")]
async fn check_ses(_: &Config) -> Vec<Finding> {
    let failure = crate::store::without_aws();
    let remedy = failure.advice().unwrap_or("see the message").to_owned();
    vec![Finding::fail("mail", failure.message(), remedy)]
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
