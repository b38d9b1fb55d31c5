//! The name of each operation in the description, which becomes a function in a generated client.
//!
//! Here: names that follow from method and path, so that no two operations share one, as OpenAPI demands. Not here: what the
//! operations are (their handlers).

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};

/// Names every operation, whatever its handler is called.
pub(super) fn describe(description: &mut OpenApi) {
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in by_method(item) {
            operation.operation_id = Some(name(method, path));
        }
    }
}

fn by_method(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let operations = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ];
    operations.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// `get_campaigns_by_campaign_results` of `GET /v1/campaigns/{campaign}/results`.
fn name(method: &str, path: &str) -> String {
    let mut name = method.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != "v1") {
        name.push('_');
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(variable) => {
                name.push_str("by_");
                name.push_str(variable);
            }
            None => {
                name.extend(part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }))
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::name;

    #[test]
    fn a_name_follows_from_method_and_path() {
        let check = |method: &str, path: &str, expected: &str| {
            assert_eq!(name(method, path), expected);
        };
        check("get", "/v1/campaigns", "get_campaigns");
        check("get", "/v1/campaigns/{campaign}/results", "get_campaigns_by_campaign_results");
        check(
            "post",
            "/v1/campaigns/{campaign}/retry-failed",
            "post_campaigns_by_campaign_retry_failed",
        );
        check(
            "get",
            "/v1/campaigns/{campaign}/recipients.csv",
            "get_campaigns_by_campaign_recipients_csv",
        );
        check("get", "/inbox/v1/{inbox}/counts", "get_inbox_by_inbox_counts");
    }

    #[test]
    fn no_two_operations_have_the_same_name() {
        let description: Value = serde_json::from_str(&crate::openapi()).unwrap();
        let items = description["paths"].as_object().unwrap().values();
        let mut names = BTreeSet::new();
        for operation in items.flat_map(|item| item.as_object().unwrap().values()) {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{name} is there twice");
        }
        assert!(names.len() > 200, "{}", names.len());
    }
}
