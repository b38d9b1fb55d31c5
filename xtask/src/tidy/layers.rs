//! The rule that looks at the crates together: who may use whom, as `layers.toml` has it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

/// Of each crate, the crates that it may use.
type Edges = BTreeMap<String, BTreeSet<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Layers {
    uses: Edges,
    /// Besides `uses`, as dev-dependencies.
    tests_use: Edges,
}

/// One of our crates, with those of our crates that it uses.
#[derive(Debug, PartialEq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) uses: Vec<String>,
    pub(super) tests_use: Vec<String>,
}

/// Reads our crates out of what `cargo metadata --no-deps` prints.
pub(super) fn packages(metadata: &Value) -> anyhow::Result<Vec<Package>> {
    let listed = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    listed.iter().map(package).collect()
}

fn package(listed: &Value) -> anyhow::Result<Package> {
    let name = listed["name"].as_str().context("a package without a name")?.to_owned();
    let dependencies =
        listed["dependencies"].as_array().context("a package without dependencies")?;
    let mut package = Package { name, uses: Vec::new(), tests_use: Vec::new() };
    // Only our own crates are known by a path.
    for dependency in dependencies.iter().filter(|dependency| dependency["path"].is_string()) {
        let used = dependency["name"].as_str().context("a dependency without a name")?.to_owned();
        match dependency["kind"].as_str() {
            Some("dev") => package.tests_use.push(used),
            _ => package.uses.push(used),
        }
    }
    Ok(package)
}

/// The edges that `layers.toml` does not have, and the crates that it does not know.
pub(super) fn check(packages: &[Package], layers: &Layers) -> Vec<String> {
    let mut findings = Vec::new();
    for Package { name, uses, tests_use } in packages {
        let Some(allowed) = layers.uses.get(name) else {
            findings.push(format!("layers.toml: does not tell which crates {name} may use"));
            continue;
        };
        let allowed_in_tests = layers.tests_use.get(name);
        for used in uses.iter().filter(|used| !allowed.contains(*used)) {
            findings.push(format!("layers.toml: {name} must not use {used}"));
        }
        for used in tests_use.iter().filter(|used| !allowed.contains(*used)) {
            if !allowed_in_tests.is_some_and(|allowed| allowed.contains(used)) {
                findings.push(format!("layers.toml: the tests of {name} must not use {used}"));
            }
        }
    }
    findings
}
