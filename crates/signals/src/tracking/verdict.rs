//! Whether a person did it: decided from facts alone, so that it can be decided again when we know better.
//!
//! A machine that looks at a mail before its reader does opens it and clicks every link in it. Nobody can tell for
//! certain; each verdict says what it stands on, and the facts are kept beside it.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// Quicker than this after the hand-off nobody reads.
const TOO_SOON_MS: i64 = 2_000;
/// Clocks of providers and ours differ by about this much.
const SKEW_MS: i64 = 1_000;

/// What is known of an open or a click.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub action: Action,
    /// `HEAD` and not `GET`.
    pub head: bool,
    pub user_agent: Option<String>,
    /// The request said of itself that nobody asked for it yet.
    pub prefetch: bool,
    /// The reader asks not to be tracked across sites.
    pub gpc: bool,
    /// Who asked, without saying who: a keyed hash of the address.
    pub ip_hash: Option<String>,
    /// How long after the message was handed to the provider.
    pub since_handoff_ms: Option<i64>,
    /// How long after the server of the recipient took it; below zero it had not yet.
    pub since_delivery_ms: Option<i64>,
    /// How many other links of the same message were clicked within a second, and within two.
    pub other_links_1s: u32,
    pub other_links_2s: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    #[default]
    Open,
    Click,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Human,
    Machine,
    Unknown,
}

/// Who it was, and why we think so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub who: Who,
    pub reasons: Vec<&'static str>,
}

impl Who {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Machine => "machine",
            Self::Unknown => "unknown",
        }
    }
}

impl Verdict {
    /// As it is kept beside the event: `human` is there only if it is known.
    pub fn json(&self, facts: &Facts) -> Json {
        let mut json = json!({ "who": self.who.as_str(), "reasons": self.reasons, "facts": facts });
        match self.who {
            Who::Human => json["human"] = true.into(),
            Who::Machine => json["human"] = false.into(),
            Who::Unknown => {}
        }
        json
    }
}

/// What somebody who calls himself so does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Looks at mails and links before or instead of a person.
    Scans,
    /// Loads images for its users when they look, and hides who they are.
    LoadsOnDisplay,
}

/// Parts of user agents, in lower case.
const KNOWN: &[(&str, Habit)] = &[
    ("googleimageproxy", Habit::LoadsOnDisplay),
    ("yahoomailproxy", Habit::LoadsOnDisplay),
    ("barracuda", Habit::Scans),
    ("bingpreview", Habit::Scans),
    ("crawler", Habit::Scans),
    ("curl/", Habit::Scans),
    ("discordbot", Habit::Scans),
    ("facebookexternalhit", Habit::Scans),
    ("fireeye", Habit::Scans),
    ("forcepoint", Habit::Scans),
    ("go-http-client", Habit::Scans),
    ("googlebot", Habit::Scans),
    ("headlesschrome", Habit::Scans),
    ("ironport", Habit::Scans),
    ("java/", Habit::Scans),
    ("libwww-perl", Habit::Scans),
    ("linkedinbot", Habit::Scans),
    ("messagelabs", Habit::Scans),
    ("microsoft preview", Habit::Scans),
    ("mimecast", Habit::Scans),
    ("phantomjs", Habit::Scans),
    ("proofpoint", Habit::Scans),
    ("python-", Habit::Scans),
    ("safelinks", Habit::Scans),
    ("skypeuripreview", Habit::Scans),
    ("slackbot", Habit::Scans),
    ("slack-imgproxy", Habit::Scans),
    ("sophos", Habit::Scans),
    ("spider", Habit::Scans),
    ("symantec", Habit::Scans),
    ("telegrambot", Habit::Scans),
    ("trendmicro", Habit::Scans),
    ("twitterbot", Habit::Scans),
    ("wget/", Habit::Scans),
    ("whatsapp", Habit::Scans),
];

/// Apple loads every image of a mail when it arrives, whether anybody reads it or not, and says no more than this.
const APPLE_PRIVACY: &str = "mozilla/5.0";

/// Decides. What speaks for a machine outweighs everything.
pub fn decide(facts: &Facts) -> Verdict {
    let mut reasons = Vec::new();
    if facts.head {
        reasons.push("head_request");
    }
    if facts.prefetch {
        reasons.push("prefetch");
    }
    let agent = facts.user_agent.as_deref().map(|agent| agent.trim().to_lowercase());
    let agent = agent.filter(|agent| !agent.is_empty());
    let habit = agent.as_deref().and_then(habit);
    match habit {
        Some(Habit::Scans) => reasons.push("known_scanner"),
        // It loads images. A link is opened by the browser, never by a proxy for images.
        Some(Habit::LoadsOnDisplay) if facts.action == Action::Click => {
            reasons.push("image_proxy_clicked")
        }
        Some(Habit::LoadsOnDisplay) | None => {}
    }
    if agent.as_deref() == Some(APPLE_PRIVACY) {
        reasons.push("privacy_proxy");
    }
    if facts.since_handoff_ms.is_some_and(|since| since < TOO_SOON_MS) {
        reasons.push("too_soon_after_handoff");
    }
    match facts.since_delivery_ms {
        Some(since) if since < -SKEW_MS => reasons.push("before_delivery"),
        Some(since) if (0..TOO_SOON_MS).contains(&since) => reasons.push("too_soon_after_delivery"),
        Some(_) | None => {}
    }
    if facts.other_links_1s >= 1 || facts.other_links_2s >= 2 {
        reasons.push("many_links_at_once");
    }
    if !reasons.is_empty() {
        return Verdict { who: Who::Machine, reasons };
    }
    match (agent, habit) {
        (None, _) => Verdict { who: Who::Unknown, reasons: vec!["no_user_agent"] },
        (Some(_), Some(_)) => Verdict { who: Who::Human, reasons: vec!["image_proxy_on_display"] },
        (Some(_), None) => Verdict { who: Who::Human, reasons: vec!["nothing_unusual"] },
    }
}

fn habit(agent: &str) -> Option<Habit> {
    let known = KNOWN.iter().find(|(part, _)| agent.contains(part)).map(|(_, habit)| *habit);
    // Most of those who are honest call themselves so: `SomethingBot/1.0`.
    let says_bot = agent.contains("bot/") || agent.contains("bot;") || agent.ends_with("bot");
    known.or(says_bot.then_some(Habit::Scans))
}

#[cfg(test)]
mod tests {
    use super::{Action, Facts, decide};

    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    const GMAIL: &str =
        "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)";

    fn seen(action: Action, agent: &str) -> Facts {
        Facts {
            action,
            user_agent: Some(agent.to_owned()),
            since_handoff_ms: Some(3_600_000),
            since_delivery_ms: Some(3_590_000),
            ..Facts::default()
        }
    }

    #[track_caller]
    fn check(facts: &Facts, expected: &str) {
        let verdict = decide(facts);
        let said = format!("{}: {}", verdict.who.as_str(), verdict.reasons.join(", "));
        assert_eq!(said, expected, "{facts:?}");
    }

    #[test]
    fn who_did_it_is_told_by_his_name() {
        check(&seen(Action::Open, FIREFOX), "human: nothing_unusual");
        check(&seen(Action::Click, FIREFOX), "human: nothing_unusual");
        check(&seen(Action::Open, GMAIL), "human: image_proxy_on_display");
        check(&seen(Action::Click, GMAIL), "machine: image_proxy_clicked");
        check(&seen(Action::Open, "Mozilla/5.0"), "machine: privacy_proxy");
        for scanner in [
            "BarracudaCentral",
            "Mozilla/5.0 (compatible; Mimecast)",
            "Mozilla/5.0 Proofpoint URL Defense",
            "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
            "TelegramBot (like TwitterBot)",
            "Mozilla/5.0 (Windows NT 6.1) SkypeUriPreview Preview/0.5",
            "Mozilla/5.0 … Microsoft Preview …",
            "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://example.org)",
            "python-requests/2.32",
            "curl/8.9",
        ] {
            check(&seen(Action::Click, scanner), "machine: known_scanner");
        }
        check(&seen(Action::Open, "  "), "unknown: no_user_agent");
        check(&Facts::default(), "unknown: no_user_agent");
    }

    #[test]
    fn who_did_it_is_told_by_how_and_when() {
        let fox = || seen(Action::Click, FIREFOX);
        check(&Facts { head: true, ..fox() }, "machine: head_request");
        check(&Facts { prefetch: true, ..fox() }, "machine: prefetch");
        check(&Facts { gpc: true, ..fox() }, "human: nothing_unusual");
        let at = |handoff, delivery| Facts {
            since_handoff_ms: handoff,
            since_delivery_ms: delivery,
            ..fox()
        };
        check(&at(Some(1_999), None), "machine: too_soon_after_handoff");
        check(&at(Some(2_000), None), "human: nothing_unusual");
        check(&at(Some(-1), None), "machine: too_soon_after_handoff");
        check(&at(Some(60_000), Some(1_999)), "machine: too_soon_after_delivery");
        check(&at(Some(60_000), Some(2_000)), "human: nothing_unusual");
        check(&at(Some(60_000), Some(-1_001)), "machine: before_delivery");
        // A clock may be a little off.
        check(&at(Some(60_000), Some(-1_000)), "human: nothing_unusual");
        check(&at(None, None), "human: nothing_unusual");
        let links = |one, two| Facts { other_links_1s: one, other_links_2s: two, ..fox() };
        check(&links(0, 1), "human: nothing_unusual");
        check(&links(0, 2), "machine: many_links_at_once");
        check(&links(1, 1), "machine: many_links_at_once");
        let all = Facts { head: true, prefetch: true, ..links(3, 3) };
        check(&all, "machine: head_request, prefetch, many_links_at_once");
    }

    #[test]
    fn facts_that_were_stored_by_another_version_are_read() {
        let facts: Facts = serde_json::from_str(r#"{"action":"click","later":1}"#).unwrap();
        assert_eq!(facts, Facts { action: Action::Click, ..Facts::default() });
        let json = decide(&facts).json(&facts);
        assert_eq!(serde_json::from_value::<Facts>(json["facts"].clone()).unwrap(), facts);
        assert!(json.get("human").is_none());
    }
}
