//! A tree and variables become text, within bounds.
//!
//! An absent variable is nothing, and so is everything below it: what a template names is checked when it is saved, not
//! when a mail goes out.

mod evaluate;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::expression::{Operand, Operator};
use super::tree::{For, Node, Partial};
use super::value::{Val, escaped, in_words, number, weight};

/// How long the output may be.
pub(crate) const MAX_OUTPUT: usize = 1024 * 1024;
/// How many nodes and loop turns are worked on.
const MAX_STEPS: usize = 100_000;
/// How many bytes may be copied on the way.
const MAX_WORK: usize = 32 * 1024 * 1024;
/// How deep partials may call partials. A circle is found at compilation; this is for the stack.
const MAX_PARTIALS: usize = 8;

/// Why a template could not be rendered with these variables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("the output is longer than {} KB", MAX_OUTPUT / 1024)]
    OutputTooLong,
    #[error("it takes more than {MAX_STEPS} steps")]
    TooManySteps,
    #[error("a value becomes too big")]
    ValueTooBig,
    #[error("partials call each other too deep")]
    TooDeep,
}

pub(crate) struct Job<'a> {
    pub(crate) variables: &'a Map<String, Value>,
    pub(crate) partials: &'a BTreeMap<String, Arc<Vec<Node>>>,
    /// Whether outputs are escaped.
    pub(crate) html: bool,
}

pub(crate) fn render(nodes: &[Node], job: &Job<'_>) -> Result<String, RenderError> {
    let mut renderer = Renderer {
        job,
        scopes: vec![HashMap::new()],
        out: String::new(),
        counters: HashMap::new(),
        cycles: HashMap::new(),
        steps: 0,
        work: 0,
        depth: 0,
    };
    renderer.nodes(nodes)?;
    Ok(renderer.out)
}

/// What a body ended with.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Flow {
    On,
    Break,
    Continue,
}

struct Renderer<'a> {
    job: &'a Job<'a>,
    /// The innermost last. What is assigned goes to the first.
    scopes: Vec<HashMap<String, Val>>,
    out: String,
    counters: HashMap<String, i64>,
    cycles: HashMap<String, usize>,
    steps: usize,
    work: usize,
    depth: usize,
}

impl Renderer<'_> {
    fn nodes(&mut self, nodes: &[Node]) -> Result<Flow, RenderError> {
        for node in nodes {
            self.step()?;
            let flow = self.node(node)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn step(&mut self) -> Result<(), RenderError> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(RenderError::TooManySteps) } else { Ok(()) }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), RenderError> {
        self.work = self.work.saturating_add(bytes);
        if self.work > MAX_WORK { Err(RenderError::ValueTooBig) } else { Ok(()) }
    }

    fn push(&mut self, text: &str) -> Result<(), RenderError> {
        if self.out.len() + text.len() > MAX_OUTPUT {
            return Err(RenderError::OutputTooLong);
        }
        self.out.push_str(text);
        Ok(())
    }

    fn print(&mut self, val: &Val) -> Result<(), RenderError> {
        let text = in_words(&val.value);
        if self.job.html && !val.safe { self.push(&escaped(&text)) } else { self.push(&text) }
    }

    fn node(&mut self, node: &Node) -> Result<Flow, RenderError> {
        match node {
            Node::Text(text) => self.push(text)?,
            Node::Output(chain) => {
                let val = self.chain(chain)?;
                self.print(&val)?;
            }
            Node::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.holds(condition)? {
                        return self.nodes(body);
                    }
                }
                return self.nodes(otherwise);
            }
            Node::Case { subject, arms, otherwise } => return self.case(subject, arms, otherwise),
            Node::For(node) => self.repeat(node)?,
            Node::Assign { name, chain } => {
                let val = self.chain(chain)?;
                self.assign(name, val)?;
            }
            Node::Capture { name, body } => return self.capture(name, body),
            Node::Partial(node) => self.partial(node)?,
            Node::Cycle { group, values } => {
                self.charge(group.len())?;
                let turn = self.cycles.entry(group.clone()).or_default();
                let position = *turn % values.len();
                *turn = position + 1;
                let val = self.operand(&values[position])?;
                self.print(&val)?;
            }
            Node::Count { name, step } => self.count(name, *step)?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn assign(&mut self, name: &str, val: Val) -> Result<(), RenderError> {
        self.charge(name.len())?;
        self.scopes[0].insert(name.to_owned(), val);
        Ok(())
    }

    fn count(&mut self, name: &str, step: i64) -> Result<(), RenderError> {
        self.charge(name.len())?;
        let counter = self.counters.entry(name.to_owned()).or_default();
        let shown = if step > 0 { *counter } else { *counter - 1 };
        *counter += step;
        self.push(&shown.to_string())
    }

    fn case(
        &mut self,
        subject: &Operand,
        arms: &[(Vec<Operand>, Vec<Node>)],
        otherwise: &[Node],
    ) -> Result<Flow, RenderError> {
        let subject = self.operand(subject)?;
        for (values, body) in arms {
            for value in values {
                self.step()?;
                if self.compared(&subject.value, Operator::Equal, value)? {
                    return self.nodes(body);
                }
            }
        }
        self.nodes(otherwise)
    }

    fn capture(&mut self, name: &str, body: &[Node]) -> Result<Flow, RenderError> {
        let around = std::mem::take(&mut self.out);
        let flow = self.nodes(body);
        let captured = std::mem::replace(&mut self.out, around);
        self.charge(captured.len())?;
        // What was captured is escaped where it needs to be.
        self.assign(name, Val { value: Value::String(captured), safe: self.job.html })?;
        flow
    }

    fn repeat(&mut self, node: &For) -> Result<(), RenderError> {
        let items = self.items(&node.over)?;
        let offset = self.amount(node.offset.as_ref())?.unwrap_or(0);
        let limit = self.amount(node.limit.as_ref())?.unwrap_or(usize::MAX);
        let mut items: Vec<Value> = items.into_iter().skip(offset).take(limit).collect();
        if node.reversed {
            items.reverse();
        }
        if items.is_empty() {
            self.nodes(&node.otherwise)?;
            return Ok(());
        }
        let length = items.len();
        for (index, item) in items.into_iter().enumerate() {
            self.step()?;
            self.charge(node.name.len())?;
            let scope = HashMap::from([
                (node.name.clone(), Val::new(item)),
                ("forloop".to_owned(), Val::new(forloop(index, length))),
            ]);
            self.scopes.push(scope);
            let flow = self.nodes(&node.body);
            self.scopes.pop();
            if flow? == Flow::Break {
                break;
            }
        }
        Ok(())
    }

    /// What a loop goes over.
    fn items(&mut self, over: &Operand) -> Result<Vec<Value>, RenderError> {
        if let Operand::Range(from, to) = over {
            let (from, to) = (self.integer(from)?, self.integer(to)?);
            let count = to.saturating_sub(from).saturating_add(1).max(0);
            if usize::try_from(count).map_or(true, |count| count > MAX_STEPS) {
                return Err(RenderError::TooManySteps);
            }
            self.charge(16 * count.unsigned_abs() as usize)?;
            return Ok((from..=to).map(Value::from).collect());
        }
        Ok(match self.operand(over)?.value {
            Value::Array(items) => items,
            Value::Object(map) => {
                map.into_iter().map(|(name, value)| json!([name, value])).collect()
            }
            Value::String(text) if !text.is_empty() => vec![Value::String(text)],
            _ => Vec::new(),
        })
    }

    fn integer(&mut self, operand: &Operand) -> Result<i64, RenderError> {
        let number = number(&self.operand(operand)?.value);
        Ok(number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64))
    }

    fn amount(&mut self, operand: Option<&Operand>) -> Result<Option<usize>, RenderError> {
        let Some(operand) = operand else { return Ok(None) };
        Ok(Some(usize::try_from(self.integer(operand)?).unwrap_or(0)))
    }

    fn partial(&mut self, node: &Partial) -> Result<(), RenderError> {
        let job = self.job;
        // Compilation has refused a partial that is not there.
        let Some(nodes) = job.partials.get(&node.name) else { return Ok(()) };
        if self.depth == MAX_PARTIALS {
            return Err(RenderError::TooDeep);
        }
        let mut scope = HashMap::new();
        let mut heavy = 0;
        for (name, operand) in &node.parameters {
            let val = self.operand(operand)?;
            heavy += name.len() + weight(&val.value);
            scope.insert(name.clone(), val);
        }
        let turns = match &node.each {
            None => vec![None],
            Some((over, name)) => self.items(over)?.into_iter().map(|i| Some((name, i))).collect(),
        };
        let around = node.isolated.then(|| std::mem::take(&mut self.scopes));
        self.depth += 1;
        let done = turns.into_iter().try_for_each(|turn| {
            self.step()?;
            self.charge(heavy)?;
            let mut scope = scope.clone();
            if let Some((name, item)) = turn {
                scope.insert(name.clone(), Val::new(item));
            }
            if self.scopes.is_empty() {
                self.scopes.push(HashMap::new());
            }
            self.scopes.push(scope);
            let flow = self.nodes(nodes);
            self.scopes.pop();
            flow.map(|_| ())
        });
        self.depth -= 1;
        if let Some(around) = around {
            self.scopes = around;
        }
        done
    }
}

fn forloop(index: usize, length: usize) -> Value {
    json!({
        "index": index + 1,
        "index0": index,
        "rindex": length - index,
        "rindex0": length - index - 1,
        "first": index == 0,
        "last": index + 1 == length,
        "length": length,
    })
}
