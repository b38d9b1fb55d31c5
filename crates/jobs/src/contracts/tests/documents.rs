//! What is checked in under `docs/contracts` is what the code says.

use std::path::Path;

use super::page::page;
use crate::contracts::{ALL, schema};

#[test]
fn the_documents_are_checked_in() {
    let mut documents = vec![("README.md".to_owned(), page())];
    for shape in ALL {
        documents.push((format!("{}.v{}.json", shape.name, shape.version), schema(shape)));
    }
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contracts"));
    let refresh = std::env::var_os("TIDINGS_TEST_REFRESH").is_some();
    for (name, text) in &documents {
        if refresh {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let checked_in = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            checked_in == *text,
            "docs/contracts/{name} is stale: TIDINGS_TEST_REFRESH=1 cargo test -p tidings-jobs documents"
        );
    }

    let mut expected: Vec<_> = documents.into_iter().map(|(name, _)| name).collect();
    let entries = std::fs::read_dir(folder).unwrap();
    let mut found: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "docs/contracts has files that no contract has");
}
