//! One request: what it takes, what it answers, and how to make it.

use maud::{Markup, html};
use serde_json::Value;

use super::{anchor, example, inline, prose, schema, text};

pub(super) struct Operation<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) described: &'a Value,
}

impl<'a> Operation<'a> {
    pub(super) fn tag(&self) -> &'a str {
        self.described["tags"][0].as_str().unwrap_or("Other")
    }

    pub(super) fn summary(&self) -> &'a str {
        match text(self.described, "summary") {
            "" => self.path,
            summary => summary,
        }
    }

    pub(super) fn anchor(&self) -> String {
        anchor(&format!("{} {}", self.method, self.path))
    }

    /// Looking comes before changing.
    pub(super) fn order(&self) -> usize {
        let methods = ["get", "post", "put", "patch", "delete"];
        methods.iter().position(|method| *method == self.method).unwrap_or(methods.len())
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        self.described["parameters"].as_array().into_iter().flatten()
    }

    /// What kind of body it takes, and its schema.
    pub(super) fn body(&self) -> Option<(&'a str, &'a Value)> {
        let content = self.described["requestBody"]["content"].as_object()?;
        let (kind, described) = content.iter().next()?;
        Some((kind, &described["schema"]))
    }

    pub(super) fn show(&self, document: &Value) -> Markup {
        html! {
            article id=(self.anchor()) {
                h3 { (self.summary()) }
                p.request { span class=(format!("method {}", self.method)) { (self.method.to_uppercase()) } " " code { (self.path) } }
                (prose(text(self.described, "description")))
                (self.show_parameters())
                (self.show_body(document))
                (self.show_responses(document))
                pre { (example::curl(self, document)) }
            }
        }
    }

    fn show_parameters(&self) -> Markup {
        let rows: Vec<&Value> = self.parameters().collect();
        html! {
            @if !rows.is_empty() {
                h4 { "Parameters" }
                div.wide { table {
                    @for row in rows {
                        tr {
                            th { code { (text(row, "name")) } @if row["required"] == true { span.required { " required" } } }
                            td { (text(row, "in")) ", " (schema::kind(&row["schema"])) }
                            td { (inline(text(row, "description"))) (schema::bounds(&row["schema"])) }
                        }
                    }
                } }
            }
        }
    }

    fn show_body(&self, document: &Value) -> Markup {
        html! {
            @if let Some((kind, body)) = self.body() {
                h4 { "Body " span.quiet { (kind) } }
                (schema::fields(schema::resolved(document, body)))
            }
        }
    }

    fn show_responses(&self, document: &Value) -> Markup {
        html! {
            h4 { "Answers" }
            div.wide { table.answers {
                @for (status, response) in self.described["responses"].as_object().into_iter().flatten() {
                    @let response = schema::resolved_response(document, response);
                    tr {
                        th { code { (status) } }
                        td { (inline(text(response, "description"))) }
                        td {
                            @for (kind, content) in response["content"].as_object().into_iter().flatten() {
                                @if content["schema"].is_object() && kind.ends_with("json") {
                                    (schema::kind(&content["schema"]))
                                } @else {
                                    (kind)
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}
