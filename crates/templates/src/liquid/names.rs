//! Which variables a template names, and which partials it calls.

use std::collections::BTreeMap;

use super::expression::{Chain, Comparison, Condition, Operand, Path, Step};
use super::tree::{Node, Partial};

/// Variables that come from outside, as dotted paths, and where each is named first; and partials, likewise.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) variables: BTreeMap<String, usize>,
    /// With the parameters that each call gives, and what is known at the call.
    pub(crate) calls: Vec<Called>,
}

#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) name: String,
    pub(crate) at: usize,
    /// Names that mean something of the template's own inside the partial.
    pub(crate) locals: Vec<String>,
}

/// `known` are names that the caller has given a meaning.
pub(crate) fn names(nodes: &[Node], known: &[String]) -> Names {
    let mut walker = Walker { names: Names::default(), locals: known.to_vec() };
    walker.nodes(nodes);
    walker.names
}

struct Walker {
    names: Names,
    locals: Vec<String>,
}

impl Walker {
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
                let before = self.locals.len();
                self.locals.extend([node.name.clone(), "forloop".to_owned()]);
                self.nodes(&node.body);
                // What was assigned in the loop stays after it.
                self.locals.drain(before..before + 2);
                self.nodes(&node.otherwise);
            }
            Node::Assign { name, chain } => {
                self.chain(chain);
                self.locals.push(name.clone());
            }
            Node::Capture { name, body } => {
                self.nodes(body);
                self.locals.push(name.clone());
            }
            Node::Partial(partial) => self.partial(partial),
            Node::Cycle { values, .. } => values.iter().for_each(|value| self.operand(value)),
        }
    }

    fn partial(&mut self, partial: &Partial) {
        let mut locals = if partial.isolated { Vec::new() } else { self.locals.clone() };
        for (name, operand) in &partial.parameters {
            self.operand(operand);
            locals.push(name.clone());
        }
        if let Some((over, name)) = &partial.each {
            self.operand(over);
            locals.push(name.clone());
        }
        self.names.calls.push(Called { name: partial.name.clone(), at: partial.at, locals });
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
        if self.locals.contains(&path.root) {
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
