//! What every route that takes a body may answer, so that none has to say it.
//!
//! Here: the part of the description that follows from `input::Body`. Not here: how a body is read (`input`).

use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

const PROBLEMS: [(&str, &str); 3] = [
    ("400", "The body is not JSON"),
    ("413", "The body is too large"),
    ("415", "The body is of another type"),
];

/// Adds the answers that a wrong body gets, where a route does not tell of them in its own words.
pub(super) fn describe(description: &mut OpenApi) {
    for item in description.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            if operation.request_body.is_some() {
                complete(operation);
            }
        }
    }
}

fn complete(operation: &mut Operation) {
    for (status, meaning) in PROBLEMS {
        let answers = &mut operation.responses.responses;
        answers.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(meaning)));
    }
}

fn problem(meaning: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(meaning).content("application/problem+json", content).build()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn every_route_with_a_body_tells_what_a_wrong_one_gets() {
        let description: Value = serde_json::from_str(&crate::openapi()).unwrap();
        let paths = description["paths"].as_object().unwrap().iter();
        let mut with_body = 0;
        for (path, item) in paths {
            for (method, operation) in item.as_object().unwrap() {
                let has_body = operation["requestBody"].is_object();
                for status in ["400", "413", "415"] {
                    let told = operation["responses"][status].is_object();
                    assert_eq!(told, has_body, "{method} {path} {status}");
                }
                with_body += usize::from(has_body);
            }
        }
        assert!(with_body > 10, "{with_body}");
    }
}
