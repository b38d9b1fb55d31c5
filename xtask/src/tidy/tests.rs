//! Each rule shown to hold and to fail, and the project held against all of them.

use serde_json::json;

use super::layers::{self, Package};
use super::{File, findings, rules};

#[test]
fn the_project_is_tidy() {
    let findings = findings().unwrap();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

fn check(rule: fn(&File) -> Vec<String>, path: &str, text: impl Into<Vec<u8>>, expected: &[&str]) {
    let file = File { path: path.to_owned(), bytes: text.into() };
    assert_eq!(rule(&file), expected, "{path}");
}

#[test]
fn a_source_file_says_what_lives_in_it() {
    let finding = |path| format!("{path}:1: opens without a //! line that says what lives here");
    let rule = rules::says_what_lives_here;
    check(rule, "crates/sql/src/lib.rs", "//! Here: SQL.\n", &[]);
    check(rule, "crates/sql/src/lib.rs", "use std::fs;\n", &[&finding("crates/sql/src/lib.rs")]);
    check(rule, "src/a/b.rs", "/// Not about the file.\n", &[&finding("src/a/b.rs")]);
    check(rule, "crates/sql/tests/crash.rs", "use std::fs;\n", &[]);
    check(rule, "crates/sql/src/schema.sql", "SELECT 1", &[]);
}

#[test]
fn a_source_file_has_at_most_800_lines() {
    let finding = "a.rs: has 801 lines, and 800 are the most";
    check(rules::is_short, "a.rs", "x\n".repeat(800), &[]);
    check(rules::is_short, "a.rs", "x\n".repeat(801), &[finding]);
    check(rules::is_short, "Cargo.lock", "x\n".repeat(801), &[]);
}

#[test]
fn a_file_has_at_most_500_kilobytes() {
    let finding = "a.png: has 500001 bytes, and 500000 are the most";
    check(rules::is_small, "a.png", vec![0xff; 500_000], &[]);
    check(rules::is_small, "a.png", vec![0xff; 500_001], &[finding]);
}

#[test]
fn nothing_has_a_name_that_says_nothing() {
    let finding =
        |place: &str, name: &str| format!("{place}: {name:?} says nothing of what is inside");
    let rule = rules::is_named;
    check(rule, "a/commons.rs", "mod command;\nmod utilities;\nlet x = a_mod utils;", &[]);
    check(rule, "a/utils.rs", "", &[&finding("a/utils.rs", "utils")]);
    check(rule, "tests/common/mod.rs", "", &[&finding("tests/common/mod.rs", "common")]);
    check(rule, "a.rs", "\nmod helpers;", &[&finding("a.rs:2", "helpers")]);
    check(rule, "a.rs", "pub(crate) mod manager {", &[&finding("a.rs:1", "manager")]);
    check(rule, "a.md", "mod helpers;", &[]);
}

#[test]
fn what_is_left_to_do_has_an_issue() {
    let todo = concat!("TO", "DO");
    let fixme = concat!("FIX", "ME");
    let finding =
        |line: usize, mark: &str| format!("a:{line}: {mark} without an issue, as in {mark}(#12)");
    let rule = rules::numbers_its_marks;
    check(rule, "a", format!("// {todo}(#12): faster\n// {fixme}(#3)"), &[]);
    check(rule, "a", format!("MY_{todo}S {todo}S"), &[]);
    check(rule, "a", format!("\n# {todo}: faster"), &[&finding(2, todo)]);
    check(rule, "a", format!("{fixme}(#) {todo}(#x) "), &[&finding(1, todo), &finding(1, fixme)]);
}

#[test]
fn no_file_names_a_folder_of_somebodys_machine() {
    let work = concat!("/wo", "rk/");
    let root = concat!("/ro", "ot/");
    let finding = |folder| format!("a:1: {folder} is a folder of somebody's machine");
    let rule = rules::is_of_no_machine;
    check(rule, "a", format!("https://example.org{work} crates{root}"), &[]);
    check(rule, "a", format!("cd {work}main"), &[&finding(work)]);
    check(rule, "a", format!("PATH={root}bin"), &[&finding(root)]);
    check(rule, "a", [&[0xff], work.as_bytes()].concat(), &[]);
}

#[test]
fn every_file_is_held_against_every_rule() {
    let lines = "\n".repeat(500_000);
    let text = format!("mod utils; // {}{}{lines}", concat!("TO", "DO "), concat!("/ro", "ot/"));
    let file = File { path: "src/utils.rs".to_owned(), bytes: text.into_bytes() };
    assert_eq!(rules::check(&file).len(), 7, "{:#?}", rules::check(&file));
}

#[test]
fn the_crates_are_read_from_cargos_metadata() {
    let metadata = json!({ "packages": [{ "name": "a", "dependencies": [
        { "name": "b", "kind": null, "path": "/p/b" },
        { "name": "c", "kind": "dev", "path": "/p/c" },
        { "name": "d", "kind": "build", "path": "/p/d" },
        { "name": "serde", "kind": null },
    ]}]});
    assert_eq!(layers::packages(&metadata).unwrap(), [package("a", &["b", "d"], &["c"])]);
}

#[test]
fn crates_use_only_what_the_layers_allow() {
    check_layers(&package("app", &["sql"], &["sql", "testkit"]), &[]);
    check_layers(&package("sql", &["app"], &[]), &["layers.toml: sql must not use app"]);
    check_layers(&package("app", &["testkit"], &[]), &["layers.toml: app must not use testkit"]);
    let in_tests = "layers.toml: the tests of sql must not use testkit";
    check_layers(&package("sql", &[], &["testkit"]), &[in_tests]);
    let unknown = "layers.toml: does not tell which crates new may use";
    check_layers(&package("new", &["sql"], &[]), &[unknown]);
}

fn check_layers(package: &Package, expected: &[&str]) {
    let layers = "uses = { app = ['sql'], sql = [] }\ntests-use = { app = ['testkit'] }";
    let layers = toml::from_str(layers).unwrap();
    assert_eq!(layers::check(std::slice::from_ref(package), &layers), expected);
}

fn package(name: &str, uses: &[&str], tests_use: &[&str]) -> Package {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Package { name: name.to_owned(), uses: owned(uses), tests_use: owned(tests_use) }
}
