//! What every route that takes a body may answer, so that none has to say it, and what nearly all of them may, said once.
//!
//! Here: the part of the description that follows from `input::Body`, and the answers that routes share. Not here: how a body
//! is read (`input`).

use std::collections::BTreeMap;

use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

const PROBLEMS: [(&str, &str); 3] = [
    ("400", "The body is not JSON"),
    ("413", "The body is too large"),
    ("415", "The body is of another type"),
];

/// The answers that routes share, where they tell of them in the same words.
const SHARED: [(&str, &str); 6] = [
    ("400", "BodyNotJson"),
    ("401", "Unauthorized"),
    ("403", "Forbidden"),
    ("413", "BodyTooLarge"),
    ("415", "BodyOfAnotherType"),
    ("429", "TooMany"),
];

/// Adds the answers that a wrong body gets, where a route does not tell of them in its own words.
pub(super) fn describe(description: &mut OpenApi) {
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        if operation.request_body.is_some() {
            complete(operation);
        }
    }
    share(description);
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let operations =
        [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
    operations.into_iter().flatten()
}

/// Puts each of the shared answers where all routes can point to it: a fifth of the description was these six. Of answers in
/// several words those of the most routes are shared.
fn share(description: &mut OpenApi) {
    let mut told: Vec<(&str, Response, usize)> = Vec::new();
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        for (status, name) in SHARED {
            let Some(RefOr::T(response)) = operation.responses.responses.get(status) else {
                continue;
            };
            match told.iter_mut().find(|(one, same, _)| *one == name && same == response) {
                Some((_, _, count)) => *count += 1,
                None => told.push((name, response.clone(), 1)),
            }
        }
    }
    told.sort_by_key(|(_, _, count)| *count);
    // The last one of a name stays.
    let told = told.into_iter().map(|(name, response, _)| (name, response));
    let shared: BTreeMap<&str, Response> = told.collect();
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        for (status, name) in SHARED {
            let answer = operation.responses.responses.get_mut(status);
            if let Some(answer @ RefOr::T(_)) = answer
                && matches!(answer, RefOr::T(response) if shared.get(name) == Some(response))
            {
                *answer = RefOr::Ref(Ref::from_response_name(name));
            }
        }
    }
    let shared = shared.into_iter().map(|(name, answer)| (name.to_owned(), RefOr::T(answer)));
    description.components.get_or_insert_default().responses.extend(shared);
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
