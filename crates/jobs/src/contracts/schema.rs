//! The JSON Schema of a contract (draft 2020-12), for those who write senders in other languages.
//!
//! Two of our rules cannot be said in it: 7.0 is an integer to JSON Schema and none to us, and a body has a most of bytes.

use serde::{Serialize, Serializer};

use super::{Field, Kind, Presence, Shape};

/// As a pretty document that ends with a newline; the same text each time.
pub fn schema(shape: &Shape) -> String {
    let contract = Node::Object(vec![("const", text(shape.name))]);
    let version = Node::Object(vec![("const", Node::Number(shape.version))]);
    let mut document = vec![
        ("$schema", text("https://json-schema.org/draft/2020-12/schema")),
        ("title", text(&format!("{} v{}", shape.name, shape.version))),
        ("description", text(shape.doc)),
    ];
    document.extend(object(&[("contract", contract), ("version", version)], shape.fields));
    let document = serde_json::to_string_pretty(&Node::Object(document));
    document.expect("a schema has only what JSON can say") + "\n"
}

/// JSON that keeps its order.
#[derive(Clone, Serialize)]
#[serde(untagged)]
enum Node {
    Null,
    Number(u64),
    Text(String),
    Array(Vec<Node>),
    #[serde(serialize_with = "in_order")]
    Object(Vec<(&'static str, Node)>),
}

fn in_order<S: Serializer>(
    members: &Vec<(&'static str, Node)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(members.iter().map(|(name, node)| (name, node)))
}

/// An object with the members that every one has, and the fields. Others may be there too.
fn object(every: &[(&'static str, Node)], fields: &[Field]) -> Vec<(&'static str, Node)> {
    let mut properties = every.to_vec();
    properties.extend(fields.iter().map(|field| (field.name, property(field))));
    let required = fields.iter().filter(|field| field.presence == Presence::Required);
    let required = every.iter().map(|(name, _)| *name).chain(required.map(|field| field.name));
    vec![
        ("type", text("object")),
        ("properties", Node::Object(properties)),
        ("required", Node::Array(required.map(text).collect())),
    ]
}

fn property(field: &Field) -> Node {
    let mut keywords = vec![("description", text(field.doc))];
    keywords.extend(kind(field.kind));
    if field.presence == Presence::Optional {
        admit_null(&mut keywords);
    }
    Node::Object(keywords)
}

fn kind(kind: Kind) -> Vec<(&'static str, Node)> {
    let count = |count: usize| Node::Number(count as u64);
    match kind {
        Kind::PositiveInteger => vec![
            ("type", text("integer")),
            ("minimum", Node::Number(1)),
            ("maximum", Node::Number(i64::MAX as u64)),
        ],
        Kind::Text { max } => vec![
            ("type", text("string")),
            ("minLength", count(1)),
            ("maxLength", count(max)),
            ("pattern", text(r"\S")),
        ],
        Kind::Timestamp => vec![
            ("type", text("string")),
            ("format", text("date-time")),
            ("pattern", text(TIMESTAMP)),
        ],
        Kind::OneOf(names) => vec![
            ("type", text("string")),
            ("enum", Node::Array(names.iter().map(|name| text(name)).collect())),
        ],
        Kind::Workspace => {
            vec![("type", text("string")), ("pattern", text("^[a-z0-9][a-z0-9-]{0,39}$"))]
        }
        Kind::Object([]) => vec![("type", text("object"))],
        Kind::Object(fields) => object(&[], fields),
        Kind::Array { of, max } => vec![
            ("type", text("array")),
            ("minItems", count(1)),
            ("maxItems", count(max)),
            ("items", Node::Object(self::kind(*of))),
        ],
    }
}

/// `format` is only a remark to most validators, so the form is told as a pattern too.
const TIMESTAMP: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$";

/// `null` is the same as missing. Keywords other than these two let it pass anyway.
fn admit_null(keywords: &mut Vec<(&'static str, Node)>) {
    for (keyword, node) in keywords {
        match (*keyword, node) {
            ("type", node) => *node = Node::Array(vec![node.clone(), text("null")]),
            ("enum", Node::Array(names)) => names.push(Node::Null),
            _ => {}
        }
    }
}

fn text(text: &str) -> Node {
    Node::Text(text.to_owned())
}
