//! What authors and recipients would notice.

mod bounds;
mod escaping;
mod language;
mod mail;
mod mjml;
mod never;
mod tracking;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{Compiled, Fault, Rendered, Source, compile};

fn variables(json: Value) -> Map<String, Value> {
    let Value::Object(map) = json else { panic!("variables are an object") };
    map
}

fn html(source: &str) -> Source {
    Source { subject: "s".to_owned(), html: Some(source.to_owned()), ..Source::default() }
}

fn text(source: &str) -> Source {
    Source { subject: "s".to_owned(), text: Some(source.to_owned()), ..Source::default() }
}

fn compiled(source: &Source) -> Compiled {
    compile(source, &BTreeMap::new()).unwrap_or_else(|faults| panic!("{}", told(&faults)))
}

fn rendered(source: &Source, json: Value) -> Rendered {
    compiled(source).render(&variables(json)).unwrap()
}

fn faults(source: &Source) -> String {
    told(&compile(source, &BTreeMap::new()).unwrap_err())
}

fn told(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn partials(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}
