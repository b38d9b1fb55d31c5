//! A source becomes something that can be rendered, or a list of everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::fault::{Fault, MAX_FAULTS, Part};
use crate::liquid::{Job, Known, MAX_OUTPUT, Names, Node, RenderError, names, parse, render};
use crate::partials::Partials;
use crate::{html, mjml, text};

/// How long all parts and partials of a template may be together.
pub const MAX_SOURCE: usize = 512 * 1024;
/// Subject and preheader.
const MAX_LINE: usize = 2000;
/// How many variables a template may name.
pub(crate) const MAX_VARIABLES: usize = 500;
/// Gmail shows no more of a mail than this.
const CLIPPED_FROM: usize = 102 * 1024;

/// What an author writes. Either `html` or `mjml`, or `text` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    pub subject: String,
    pub html: Option<String>,
    pub mjml: Option<String>,
    /// Made from the HTML where there is none.
    pub text: Option<String>,
    /// What an inbox shows beside the subject.
    pub preheader: Option<String>,
}

/// A template without faults.
pub struct Compiled {
    subject: Vec<Node>,
    preheader: Option<Vec<Node>>,
    html: Option<Vec<Node>>,
    text: Option<Vec<Node>>,
    partials: BTreeMap<String, Arc<Vec<Node>>>,
    html_source: Option<String>,
    variables: BTreeMap<String, Place>,
}

/// A subject and a preheader that stand in the place of a template's own.
#[derive(Debug, Default)]
pub struct Lines {
    subject: Option<Vec<Node>>,
    preheader: Option<Vec<Node>>,
    variables: BTreeSet<String>,
}

/// Where a variable is named first.
#[derive(Debug, Clone)]
struct Place {
    part: Part,
    line: Option<usize>,
    column: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub subject: String,
    pub html: Option<String>,
    pub text: String,
}

/// What works, but not as one may wish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    #[error("the HTML has {0} bytes, and Gmail hides what is beyond 102 KB")]
    Clipped(usize),
}

/// Checks all of a source and makes it ready. `partials` are by the names that `include` and `render` use.
pub fn compile(
    source: &Source,
    partials: &BTreeMap<String, String>,
) -> Result<Compiled, Vec<Fault>> {
    let mut compiler = Compiler {
        faults: bounds(source),
        variables: BTreeMap::new(),
        partials: Partials::new(partials),
    };
    if !compiler.faults.is_empty() {
        return Err(compiler.faults);
    }
    let subject = compiler.part(Part::Subject, &source.subject);
    let preheader = source.preheader.as_deref().map(|text| compiler.part(Part::Preheader, text));
    let text = source.text.as_deref().map(|text| compiler.part(Part::Text, text));
    let (html_source, html) = match (&source.html, &source.mjml) {
        (Some(html), _) => (Some(html.clone()), Some(compiler.part(Part::Html, html))),
        (None, Some(mjml)) => compiler.mjml(mjml).unzip(),
        (None, None) => (None, None),
    };
    let Compiler { mut faults, variables, partials } = compiler;
    let partials = partials.finish(&mut faults);
    let length: usize = [&source.html, &source.mjml, &source.text]
        .into_iter()
        .flatten()
        .map(String::len)
        .chain([partials.length])
        .sum();
    if length > MAX_SOURCE {
        faults.push(too_long(length));
    }
    if variables.len() > MAX_VARIABLES {
        let message = format!("it names more than {MAX_VARIABLES} variables");
        faults.push(Fault::of(Part::Template, message));
    }
    if !faults.is_empty() {
        faults.truncate(MAX_FAULTS);
        return Err(faults);
    }
    Ok(Compiled {
        subject,
        preheader,
        html,
        text,
        partials: partials.trees,
        html_source,
        variables,
    })
}

/// Checks lines and makes them ready. They can call no partials.
pub fn compile_lines(subject: Option<&str>, preheader: Option<&str>) -> Result<Lines, Vec<Fault>> {
    let source = Source {
        subject: subject.unwrap_or("-").to_owned(),
        preheader: preheader.map(ToOwned::to_owned),
        text: Some("-".to_owned()),
        ..Source::default()
    };
    let compiled = compile(&source, &BTreeMap::new())?;
    Ok(Lines {
        variables: compiled.variables(),
        subject: subject.map(|_| compiled.subject),
        preheader: compiled.preheader,
    })
}

impl Lines {
    /// What the variables that they name begin with.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|path| root(path))
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Compiled {
    /// The variables that it names, as dotted paths. Those of its partials are among them.
    pub fn variables(&self) -> BTreeSet<String> {
        self.variables.keys().cloned().collect()
    }

    /// What the variables that it names begin with.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(|path| root(path))
    }

    /// A fault for each variable that is not known. `is_known` is asked with the whole path.
    pub fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Vec<Fault> {
        let unknown = self.variables.iter().filter(|(path, _)| !is_known(path));
        unknown
            .map(|(path, place)| Fault {
                part: place.part.clone(),
                line: place.line,
                column: place.column,
                message: format!("nobody gives a variable {path}"),
            })
            .collect()
    }

    /// The HTML with its Liquid: as it was written, or as MJML made it.
    pub fn html_source(&self) -> Option<&str> {
        self.html_source.as_deref()
    }

    /// The partials that it calls while it is rendered.
    pub fn partials(&self) -> impl Iterator<Item = &str> {
        self.partials.keys().map(String::as_str)
    }

    /// A mail. What is absent from the variables is empty in it.
    pub fn render(&self, variables: &Map<String, Value>) -> Result<Rendered, RenderError> {
        self.render_with(&Lines::default(), variables)
    }

    /// The same with other lines in the place of its own.
    pub fn render_with(
        &self,
        lines: &Lines,
        variables: &Map<String, Value>,
    ) -> Result<Rendered, RenderError> {
        let job = |html: bool| Job { variables, partials: &self.partials, html };
        let subject = lines.subject.as_ref().unwrap_or(&self.subject);
        let subject = one_line(&render(subject, &job(false))?);
        let body = self.html.as_ref().map(|nodes| render(nodes, &job(true))).transpose()?;
        let text = match (&self.text, &body) {
            (Some(nodes), _) => render(nodes, &job(false))?,
            (None, Some(body)) => text::of_html(body),
            (None, None) => String::new(),
        };
        let preheader = lines.preheader.as_ref().or(self.preheader.as_ref());
        let preheader = preheader.map(|nodes| render(nodes, &job(true))).transpose()?;
        let html = match (body, preheader) {
            (Some(body), Some(preheader)) if !preheader.trim().is_empty() => {
                Some(html::with_preheader(&body, preheader.trim()))
            }
            (body, _) => body,
        };
        if html.as_ref().is_some_and(|html| html.len() > MAX_OUTPUT) {
            return Err(RenderError::OutputTooLong);
        }
        Ok(Rendered { subject, html, text })
    }
}

impl Rendered {
    pub fn warnings(&self) -> Vec<Warning> {
        let length = self.html.as_ref().map_or(0, String::len);
        if length > CLIPPED_FROM { vec![Warning::Clipped(length)] } else { Vec::new() }
    }
}

fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// A subject is one line, whatever stands in its variables: a line break in it would begin another header.
fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

fn too_long(length: usize) -> Fault {
    let most = MAX_SOURCE / 1024;
    Fault::of(
        Part::Template,
        format!("it has {length} bytes with its partials; use at most {most} KB"),
    )
}

fn bounds(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    if source.subject.trim().is_empty() {
        faults.push(Fault::of(Part::Subject, "a subject is needed"));
    }
    for (part, line) in
        [(Part::Subject, Some(&source.subject)), (Part::Preheader, source.preheader.as_ref())]
    {
        if line.is_some_and(|line| line.len() > MAX_LINE) {
            faults.push(Fault::of(part, format!("use at most {MAX_LINE} bytes")));
        }
    }
    match (&source.html, &source.mjml, &source.text) {
        (Some(_), Some(_), _) => {
            faults.push(Fault::of(Part::Template, "use either html or mjml, not both"));
        }
        (None, None, None) => {
            faults.push(Fault::of(Part::Template, "use html, mjml or text: there is no body"));
        }
        _ => {}
    }
    let bodies =
        [(Part::Html, &source.html), (Part::Mjml, &source.mjml), (Part::Text, &source.text)];
    for (part, body) in bodies {
        let Some(body) = body else { continue };
        if body.trim().is_empty() {
            faults.push(Fault::of(part, "it is empty; leave it out instead"));
        } else if body.len() > MAX_SOURCE {
            faults.push(Fault::of(part, format!("use at most {} KB", MAX_SOURCE / 1024)));
        }
    }
    faults
}

struct Compiler<'a> {
    faults: Vec<Fault>,
    variables: BTreeMap<String, Place>,
    partials: Partials<'a>,
}

impl Compiler<'_> {
    /// The tree of a part; empty if it has a fault.
    fn part(&mut self, part: Part, source: &str) -> Vec<Node> {
        match parse(source) {
            Ok(nodes) => {
                let found = names(&nodes, None);
                self.note(&part, source, &found);
                let circle = &mut Vec::new();
                for call in &found.calls {
                    let known = Known::at(call, &found, None);
                    let faults = self.partials.call((&part, source), call, &known, circle);
                    self.faults.extend(faults);
                }
                for (path, (partial, line, column)) in self.partials.take_variables() {
                    let place = Place { part: Part::Partial(partial), line, column };
                    self.variables.entry(path).or_insert(place);
                }
                nodes
            }
            Err(trouble) => {
                self.faults.push(Fault::from_trouble(part, source, trouble));
                Vec::new()
            }
        }
    }

    fn note(&mut self, part: &Part, source: &str, found: &Names) {
        // One more than allowed is enough to refuse it; to find the place of each takes as long as the source is.
        for (path, at) in found.variables.iter().take(MAX_VARIABLES + 1) {
            let (line, column) = crate::liquid::position(source, *at);
            let place = Place { part: part.clone(), line: Some(line), column: Some(column) };
            self.variables.entry(path.clone()).or_insert(place);
        }
    }

    /// The source is checked as it is written, so that places are the author's, and then what MJML makes of it.
    fn mjml(&mut self, source: &str) -> Option<(String, Vec<Node>)> {
        let before = self.faults.len();
        self.part(Part::Mjml, source);
        if self.faults.len() > before {
            return None;
        }
        let made = match mjml::to_html(source, self.partials.sources()) {
            Ok(made) => made,
            Err(faults) => {
                self.faults.extend(faults);
                return None;
            }
        };
        match parse(&made) {
            Ok(nodes) => Some((made, nodes)),
            Err(trouble) => {
                let message =
                    format!("MJML moved a Liquid tag ({}); put it into <mj-raw>", trouble.message);
                self.faults.push(Fault::of(Part::Mjml, message));
                None
            }
        }
    }
}
