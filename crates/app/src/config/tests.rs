//! The configuration as its user meets it: which source wins, what is refused and with which words.

use insta::assert_snapshot;

use super::{
    Config, Engine, Flag, SourceFile, Sources, as_json, as_text, environment, load, mask, template,
};
use crate::config::settings::Settings;

fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let file = SourceFile { path: "tidings.toml".into(), text: file.to_owned() };
    Sources {
        file: Some(file).filter(|file| !file.text.is_empty()),
        environment: environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Ok((*value).to_owned())))
            .collect(),
        flags: flags
            .iter()
            .map(|(key, value)| Flag {
                flag: "--set",
                key: (*key).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
    }
}

fn settings(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Settings {
    load(&sources(file, environment, flags)).unwrap()
}

/// What is told to the user, each fault with its hint.
fn faults(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let error = load(&sources(file, environment, flags)).unwrap_err();
    let lines = error.0.into_iter().map(|fault| match fault.hint {
        Some(hint) => format!("{}\n  hint: {hint}\n", fault.message),
        None => format!("{}\n", fault.message),
    });
    lines.collect()
}

#[test]
fn the_defaults_are_a_whole_configuration() {
    let settings = settings("", &[], &[]);
    let config = Config::from(&settings);
    assert_eq!(config.engine, Engine::Embedded);
    assert_snapshot!(as_text(&settings));
}

#[test]
fn the_environment_wins_over_the_file_and_flags_over_both() {
    let file = "[http]\nlisten = '127.0.0.1:1'\n[log]\nlevel = 'warn'\n[sweep]\nbatch = 7";
    let environment = [("TIDINGS_HTTP__LISTEN", "127.0.0.1:2"), ("TIDINGS_LOG__LEVEL", "debug")];
    let settings = settings(file, &environment, &[("http.listen", "127.0.0.1:3")]);
    let shown = as_text(&settings);
    let changed: Vec<_> = shown.lines().filter(|line| !line.ends_with("# default")).collect();
    assert_snapshot!(changed.join("\n"));
}

#[test]
fn settings_can_be_read_by_programs() {
    let settings = settings(
        "[embedded]\nreaders = 2",
        &[("TIDINGS_POSTGRES__URL", "postgres://ada:secret@db/tidings")],
        &[],
    );
    let json = as_json(&settings);
    assert_snapshot!(json["embedded.readers"], @r#"{"origin":"tidings.toml:2","value":2}"#);
    assert_snapshot!(json["postgres.url"], @r#"{"origin":"environment TIDINGS_POSTGRES__URL","value":"postgres://ada:***@db/tidings"}"#);
    assert_snapshot!(json["aws.endpoint_url"], @r#"{"origin":"default","value":null}"#);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_one() {
    let file =
        "[stoer]\nengine = 'embedded'\n\n[http]\nlisen = '127.0.0.1:1'\nzzz = 1\n\n[sweap]\n";
    let environment = [
        ("TIDINGS_STOER__PATH", "x"),
        ("TIDINGS_HTTP_LISTEN", "127.0.0.1:1"),
        ("TIDINGS_POSTGRES__URLFILE", "x"),
    ];
    assert_snapshot!(faults(file, &environment, &[("log.levle", "info")]));
}

#[test]
fn what_is_no_setting_is_left_alone() {
    let environment = [
        ("TIDINGS_CONFIG", "elsewhere.toml"),
        ("TIDINGS_TEST_POSTGRES", "postgres://127.0.0.1"),
        ("TIDINGS_SERVICE_HOST", "10.0.0.1"),
        ("TIDINGS_SERVICE_PORT_HTTP", "80"),
        ("TIDINGS_PORT", "tcp://10.0.0.1:80"),
        ("TIDINGS_PORT_80_TCP_ADDR", "10.0.0.1"),
    ];
    settings("[log]\n", &environment, &[]);
}

#[test]
fn values_are_checked() {
    let file = r#"
        store.engine = "sqlite"
        embedded.readers = 0
        embedded.page_cache = "64"
        embedded.path = ""
        postgres.url = "host=db password=hunter2"
        postgres.connections = "many"
        postgres.tls = 1.5
        aws.table_prefix = "a/b"
        aws.endpoint_url = "ftp://x"
        http.listen = "localhost"
        http.request_timeout = 30
        http.shutdown_grace = "2h"
        log.format = "xml"
        log.level = "loud"
        sweep.batch = 10001
        sweep = 1
    "#;
    // The last line would be a second definition of `sweep`, which TOML itself refuses.
    assert_snapshot!("not_toml", faults(file, &[], &[]));
    assert_snapshot!("values", faults(&file.replace("        sweep = 1\n", ""), &[], &[]));
}

#[test]
fn durations_and_sizes_have_units() {
    #[track_caller]
    fn check(key: &str, given: &str, shown: &str) {
        let settings = settings("", &[], &[(key, given)]);
        assert_eq!(settings.get(key).unwrap().value.as_ref().unwrap().to_string(), shown);
    }
    check("sweep.interval", "90s", "90s");
    check("sweep.interval", "120s", "2m");
    check("sweep.interval", "1500ms", "1500ms");
    check("sweep.interval", "2 H", "2h");
    check("http.shutdown_grace", "0s", "0s");
    check("embedded.page_cache", "2048kb", "2MB");
    check("embedded.page_cache", "1GB", "1GB");
    check("http.max_body", "1025B", "1025B");
}

#[test]
fn a_secret_can_be_in_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, "postgres://ada:hunter2@db/tidings\n").unwrap();
    let path = path.to_str().unwrap();

    let settings = settings("", &[("TIDINGS_POSTGRES__URL_FILE", path)], &[]);
    let url = Config::from(&settings).postgres.url.unwrap();
    assert_eq!(url.expose(), "postgres://ada:hunter2@db/tidings");
    assert_eq!(format!("{url:?}"), "***");
    let shown = as_text(&settings);
    assert!(shown.contains(r#"postgres.url = "postgres://ada:***@db/tidings""#), "{shown}");
    assert!(shown.contains(&format!("TIDINGS_POSTGRES__URL_FILE, read from {path}")), "{shown}");

    let weaker = "postgres.url = 'postgres://elsewhere'";
    let stronger = self::settings(weaker, &[("TIDINGS_POSTGRES__URL_FILE", path)], &[]);
    let url = Config::from(&stronger).postgres.url.unwrap();
    assert_eq!(url.expose(), "postgres://ada:hunter2@db/tidings");

    let both = "postgres.url = 'postgres://db'\npostgres.url_file = '/run/secrets/url'";
    assert_snapshot!(faults(both, &[], &[]));
    assert_snapshot!(faults("postgres.url_file = '/nowhere/at/all'", &[], &[]));
}

#[test]
fn passwords_are_hidden() {
    #[track_caller]
    fn check(text: &str, shown: &str) {
        assert_eq!(mask::mask(text, false), shown);
    }
    check("postgres://ada:hunter2@db:5432/t", "postgres://ada:***@db:5432/t");
    check("postgres://ada:hun/t@r:2@db/t", "postgres://ada:***@db/t");
    check("postgres://ada:hun?ter2@db/t?a=b", "postgres://ada:***@db/t?a=b");
    check("postgres://db/t?password=x@y", "postgres://***");
    check("postgres://db/t?password=x:y@z", "postgres://***");
    check("postgres://ada@db/t", "postgres://ada@db/t");
    check("postgres://db/t?user=ada&password=x&a=b", "postgres://db/t?user=ada&password=***&a=b");
    check("https://db/", "https://db/");
    check("tidings.db", "tidings.db");
    assert_eq!(mask::mask("hunter2", true), "***");
}

#[test]
fn every_key_has_a_name_in_the_environment() {
    for key in super::all_keys() {
        let variable = environment::variable_of(key.name);
        assert_eq!(environment::key_of(&variable).as_deref(), Some(key.name));
    }
}

#[test]
fn the_template_is_checked_in_and_sets_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.default.toml");
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        checked_in == template(),
        "config.default.toml is stale: tidings config --template > config.default.toml"
    );

    let uncommented: String = template()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let settings = settings(&uncommented, &[], &[]);
    let unset: Vec<_> = settings.iter().filter(|s| s.value.is_none()).collect();
    assert!(unset.is_empty(), "{unset:?}");
}
