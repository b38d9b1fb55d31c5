//! Which variables a template names, and which partials it calls.

use std::collections::{BTreeMap, HashMap};

use super::expression::{Chain, Comparison, Condition, Operand, Path, Step};
use super::tree::{Node, Partial};
use crate::compile::MAX_VARIABLES;

/// How many calls are followed. Partials that call each other several times multiply.
pub(crate) const MAX_CALLS: usize = 2000;

/// Variables that come from outside, as dotted paths, and where each is named first; and partials, likewise. Of both no
/// more than one too many.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) variables: BTreeMap<String, usize>,
    pub(crate) calls: Vec<Called>,
    /// What the text assigns, numbered in the order in which it does.
    assigned: HashMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) name: String,
    pub(crate) at: usize,
    /// Whether it sees nothing of what was assigned around it.
    isolated: bool,
    /// How many names were assigned before it.
    assigned: usize,
    /// The loops that it stands in, if it sees them, and its parameters.
    own: Vec<String>,
}

/// The names that mean something of the template's own inside a partial. It borrows: a thousand calls after a thousand
/// assignments must not be a million names.
pub(crate) struct Known<'a> {
    around: Option<&'a Known<'a>>,
    names: &'a Names,
    call: &'a Called,
}

impl<'a> Known<'a> {
    /// At one of the calls in `names`, which was made with `around`.
    pub(crate) fn at(call: &'a Called, names: &'a Names, around: Option<&'a Known<'a>>) -> Self {
        Self { around, names, call }
    }

    fn has(&self, name: &str) -> bool {
        if self.call.own.iter().any(|own| own == name) {
            return true;
        }
        if self.call.isolated {
            return false;
        }
        let assigned = self.names.assigned.get(name);
        assigned.is_some_and(|place| *place < self.call.assigned)
            || self.around.is_some_and(|around| around.has(name))
    }
}

/// `known` are names that the caller has given a meaning.
pub(crate) fn names(nodes: &[Node], known: Option<&Known<'_>>) -> Names {
    let mut walker = Walker { names: Names::default(), loops: Vec::new(), known };
    walker.nodes(nodes);
    walker.names
}

struct Walker<'a> {
    names: Names,
    /// The names of the loops around, the innermost last.
    loops: Vec<String>,
    known: Option<&'a Known<'a>>,
}

impl Walker<'_> {
    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Text(_) | Node::Break | Node::Continue | Node::Count { .. } => {}
            Node::Output(chain) => self.chain(chain),
            Node::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.condition(condition);
                    self.nodes(body);
                }
                self.nodes(otherwise);
            }
            Node::Case { subject, arms, otherwise } => {
                self.operand(subject);
                for (values, body) in arms {
                    values.iter().for_each(|value| self.operand(value));
                    self.nodes(body);
                }
                self.nodes(otherwise);
            }
            Node::For(node) => {
                self.operand(&node.over);
                node.limit.iter().chain(&node.offset).for_each(|operand| self.operand(operand));
                let before = self.loops.len();
                self.loops.extend([node.name.clone(), "forloop".to_owned()]);
                self.nodes(&node.body);
                // What was assigned in the loop stays after it.
                self.loops.truncate(before);
                self.nodes(&node.otherwise);
            }
            Node::Assign { name, chain } => {
                self.chain(chain);
                self.assign(name);
            }
            Node::Capture { name, body } => {
                self.nodes(body);
                self.assign(name);
            }
            Node::Partial(partial) => self.partial(partial),
            Node::Cycle { values, .. } => values.iter().for_each(|value| self.operand(value)),
        }
    }

    fn assign(&mut self, name: &str) {
        let next = self.names.assigned.len();
        if !self.names.assigned.contains_key(name) {
            self.names.assigned.insert(name.to_owned(), next);
        }
    }

    fn partial(&mut self, partial: &Partial) {
        for (_, operand) in &partial.parameters {
            self.operand(operand);
        }
        if let Some((over, _)) = &partial.each {
            self.operand(over);
        }
        if self.names.calls.len() > MAX_CALLS {
            return;
        }
        let mut own = if partial.isolated { Vec::new() } else { self.loops.clone() };
        own.extend(partial.parameters.iter().map(|(name, _)| name.clone()));
        own.extend(partial.each.iter().map(|(_, name)| name.clone()));
        self.names.calls.push(Called {
            name: partial.name.clone(),
            at: partial.at,
            isolated: partial.isolated,
            assigned: self.names.assigned.len(),
            own,
        });
    }

    fn is_known(&self, name: &str) -> bool {
        self.names.assigned.contains_key(name)
            || self.loops.iter().any(|known| known == name)
            || self.known.is_some_and(|known| known.has(name))
    }

    fn chain(&mut self, chain: &Chain) {
        self.operand(&chain.operand);
        for call in &chain.calls {
            call.arguments.iter().for_each(|argument| self.operand(argument));
            call.named.iter().for_each(|(_, operand)| self.operand(operand));
        }
    }

    fn condition(&mut self, condition: &Condition) {
        self.comparison(&condition.first);
        condition.rest.iter().for_each(|(_, comparison)| self.comparison(comparison));
    }

    fn comparison(&mut self, comparison: &Comparison) {
        self.operand(&comparison.left);
        if let Some((_, right)) = &comparison.right {
            self.operand(right);
        }
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Literal(_) | Operand::Empty | Operand::Blank => {}
            Operand::Range(from, to) => {
                self.operand(from);
                self.operand(to);
            }
            Operand::Path(path) => self.path(path),
        }
    }

    fn path(&mut self, path: &Path) {
        for step in &path.steps {
            if let Step::Index(index) = step {
                self.operand(index);
            }
        }
        if self.names.variables.len() > MAX_VARIABLES || self.is_known(&path.root) {
            return;
        }
        let mut name = path.root.clone();
        for step in &path.steps {
            match step {
                Step::Name(step) if !matches!(step.as_str(), "size" | "first" | "last") => {
                    name.push('.');
                    name.push_str(step);
                }
                _ => break,
            }
        }
        self.names.variables.entry(name).or_insert(path.at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse;
    use super::{Known, MAX_CALLS, names};

    #[test]
    fn many_names_times_many_calls_are_not_as_many_names() {
        let assigns: String = (0..5000).map(|n| format!("{{% assign a{n} = 1 %}}")).collect();
        let source = assigns + &"{% include 'p' %}".repeat(4900);
        let found = names(&parse(&source).unwrap(), None);
        assert_eq!(found.assigned.len(), 5000);
        assert_eq!(
            found.calls.len(),
            MAX_CALLS + 1,
            "one more than allowed is enough to refuse it"
        );
        assert!(found.calls.iter().all(|call| call.own.is_empty()), "nothing is copied to a call");
    }

    #[test]
    fn a_partial_knows_what_was_assigned_before_it_and_around_it() {
        let outer = "{% include 'p' %}{% assign a = 1 %}{% for x in xs %}{% include 'p', y: 2 %}{% endfor %}{% render 'p' %}";
        let outer = names(&parse(outer).unwrap(), None);
        let known: Vec<_> = outer.calls.iter().map(|call| Known::at(call, &outer, None)).collect();
        let has = |place: usize| ["a", "x", "y", "b"].map(|name| known[place].has(name));
        assert_eq!([has(0), has(1)], [[false; 4], [true, true, true, false]]);
        assert_eq!(has(2), [false; 4]);
        let inner = "{% assign b = 1 %}{% include 'q' %}{% render 'q' %}";
        let inner = names(&parse(inner).unwrap(), Some(&known[1]));
        let deep = |place: usize| {
            let known = Known::at(&inner.calls[place], &inner, Some(&known[1]));
            ["a", "x", "y", "b"].map(|name| known.has(name))
        };
        assert_eq!([deep(0), deep(1)], [[true; 4], [false; 4]]);
    }
}
