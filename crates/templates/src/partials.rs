//! The partials that a template calls, and those that they call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compile::MAX_VARIABLES;
use crate::fault::{Fault, Part};
use crate::liquid::{Called, Known, MAX_CALLS, Node, names, parse, position};

/// How deep partials may call partials.
const MAX_DEPTH: usize = 8;
/// How many partials a template may use.
const MAX_PARTIALS: usize = 50;

type Place = (String, Option<usize>, Option<usize>);

pub(crate) struct Partials<'a> {
    sources: &'a BTreeMap<String, String>,
    trees: BTreeMap<String, Arc<Vec<Node>>>,
    variables: BTreeMap<String, Place>,
    /// Those with a fault, which is told once.
    broken: BTreeSet<String>,
    calls: usize,
}

pub(crate) struct Used {
    pub(crate) trees: BTreeMap<String, Arc<Vec<Node>>>,
    /// Bytes of their sources.
    pub(crate) length: usize,
}

impl<'a> Partials<'a> {
    pub(crate) fn new(sources: &'a BTreeMap<String, String>) -> Self {
        Self {
            sources,
            trees: BTreeMap::new(),
            variables: BTreeMap::new(),
            broken: BTreeSet::new(),
            calls: 0,
        }
    }

    pub(crate) fn sources(&self) -> &'a BTreeMap<String, String> {
        self.sources
    }

    /// The variables that were found in partials since this was asked last.
    pub(crate) fn take_variables(&mut self) -> BTreeMap<String, Place> {
        std::mem::take(&mut self.variables)
    }

    pub(crate) fn finish(self, faults: &mut Vec<Fault>) -> Used {
        if self.trees.len() > MAX_PARTIALS {
            let message = format!("it uses more than {MAX_PARTIALS} partials");
            faults.push(Fault::of(Part::Template, message));
        }
        let lengths = self.trees.keys().filter_map(|name| self.sources.get(name)).map(String::len);
        Used { length: lengths.sum(), trees: self.trees }
    }

    /// Follows a call out of a part, inside which `known` has a meaning. `circle` has the partials that are being followed already.
    pub(crate) fn call(
        &mut self,
        (part, source): (&Part, &str),
        called: &Called,
        known: &Known<'_>,
        circle: &mut Vec<String>,
    ) -> Vec<Fault> {
        let fault = |message: String| vec![Fault::at(part.clone(), source, called.at, message)];
        let name = &called.name;
        self.calls += 1;
        if self.calls > MAX_CALLS {
            // Told once: the calls that come after it are as many too many.
            return if self.calls == MAX_CALLS + 1 {
                fault(format!("partials call partials more than {MAX_CALLS} times"))
            } else {
                Vec::new()
            };
        }
        if circle.contains(name) {
            return fault(format!("partial {name} calls itself"));
        }
        if circle.len() == MAX_DEPTH {
            return fault(format!("partials call partials deeper than {MAX_DEPTH}"));
        }
        let sources = self.sources;
        let Some(text) = sources.get(name) else {
            return fault(format!("there is no partial {name}"));
        };
        if self.broken.contains(name) {
            return Vec::new();
        }
        let tree = match self.tree(name, text) {
            Ok(tree) => tree,
            Err(found) => return vec![found],
        };
        let found = names(&tree, Some(known));
        for (path, at) in &found.variables {
            if self.variables.len() > MAX_VARIABLES {
                break;
            }
            self.variables.entry(path.clone()).or_insert_with(|| {
                let (line, column) = position(text, *at);
                (name.clone(), Some(line), Some(column))
            });
        }
        circle.push(name.clone());
        let inside = Part::Partial(name.clone());
        let mut faults = Vec::new();
        for call in &found.calls {
            let known = Known::at(call, &found, Some(known));
            faults.extend(self.call((&inside, text), call, &known, circle));
        }
        circle.pop();
        faults
    }

    fn tree(&mut self, name: &str, text: &str) -> Result<Arc<Vec<Node>>, Fault> {
        if let Some(tree) = self.trees.get(name) {
            return Ok(Arc::clone(tree));
        }
        match parse(text) {
            Ok(nodes) => {
                let tree = Arc::new(nodes);
                self.trees.insert(name.to_owned(), Arc::clone(&tree));
                Ok(tree)
            }
            Err(trouble) => {
                self.broken.insert(name.to_owned());
                Err(Fault::from_trouble(Part::Partial(name.to_owned()), text, trouble))
            }
        }
    }
}

/// The partials that a text calls by itself, whether there are such or not. Where its Liquid is broken there are none.
pub fn partials_named(text: &str) -> BTreeSet<String> {
    let Ok(nodes) = parse(text) else { return BTreeSet::new() };
    names(&nodes, None).calls.into_iter().map(|call| call.name).collect()
}
