//! What an expression comes to: variables, filters and conditions.

use serde_json::{Value, json};

use super::{RenderError, Renderer};
use crate::liquid::expression::{
    Call, Chain, Comparison, Condition, Logic, Operand, Operator, Path, Step,
};
use crate::liquid::filters::Arguments;
use crate::liquid::value::{
    Val, blank, compare, contains, empty, equal, in_words, size, truthy, weight,
};

impl Renderer<'_> {
    pub(super) fn chain(&mut self, chain: &Chain) -> Result<Val, RenderError> {
        let mut val = self.operand(&chain.operand)?;
        for call in &chain.calls {
            val = self.call(val, call)?;
        }
        Ok(val)
    }

    fn call(&mut self, val: Val, call: &Call) -> Result<Val, RenderError> {
        self.step()?;
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            values.push(self.operand(argument)?.value);
        }
        let mut allow_false = false;
        for (_, operand) in &call.named {
            allow_false = truthy(&self.operand(operand)?.value);
        }
        let arguments = Arguments { values, allow_false, html: self.job.html };
        self.charge(weight(&val.value))?;
        let made = (call.filter.run)(val, &arguments).map_err(|_| RenderError::ValueTooBig)?;
        self.charge(weight(&made.value))?;
        Ok(made)
    }

    pub(super) fn operand(&mut self, operand: &Operand) -> Result<Val, RenderError> {
        match operand {
            Operand::Literal(value) => {
                self.charge(weight(value))?;
                Ok(Val::new(value.clone()))
            }
            Operand::Empty | Operand::Blank => Ok(Val::new("")),
            Operand::Range(..) => Ok(Val::new(Value::Array(self.items(operand)?))),
            Operand::Path(path) => self.path(path),
        }
    }

    fn path(&mut self, path: &Path) -> Result<Val, RenderError> {
        // To look a name up takes as long as it is.
        self.charge(path.root.len())?;
        let mut steps = Vec::with_capacity(path.steps.len());
        for step in &path.steps {
            steps.push(match step {
                Step::Name(name) => {
                    self.charge(name.len())?;
                    Value::String(name.clone())
                }
                Step::Index(operand) => self.operand(operand)?.value,
            });
        }
        let local = self.scopes.iter().rev().find_map(|scope| scope.get(&path.root));
        let (root, safe) = match local {
            Some(val) => (Some(&val.value), val.safe && steps.is_empty()),
            None => (self.job.variables.get(&path.root), false),
        };
        let Some(root) = root else { return Ok(Val::nil()) };
        let value = follow(root, &steps);
        self.charge(weight(&value))?;
        Ok(Val { value, safe })
    }

    pub(super) fn holds(&mut self, condition: &Condition) -> Result<bool, RenderError> {
        // From the right, as Liquid has it.
        let all: Vec<&Comparison> = std::iter::once(&condition.first)
            .chain(condition.rest.iter().map(|(_, c)| c))
            .collect();
        let mut result = None;
        for (position, comparison) in all.iter().enumerate().rev() {
            let this = self.comparison(comparison)?;
            result = Some(match (result, condition.rest.get(position).map(|(logic, _)| *logic)) {
                (Some(right), Some(Logic::And)) => this && right,
                (Some(right), Some(Logic::Or)) => this || right,
                _ => this,
            });
        }
        Ok(result.unwrap_or(false) != condition.negated)
    }

    fn comparison(&mut self, comparison: &Comparison) -> Result<bool, RenderError> {
        self.step()?;
        match &comparison.right {
            None => Ok(truthy(&self.operand(&comparison.left)?.value)),
            Some((operator, right)) => match &comparison.left {
                // `empty == x` is `x == empty`.
                Operand::Empty | Operand::Blank => {
                    let value = self.operand(right)?.value;
                    self.compared(&value, *operator, &comparison.left)
                }
                left => {
                    let value = self.operand(left)?.value;
                    self.compared(&value, *operator, right)
                }
            },
        }
    }

    pub(super) fn compared(
        &mut self,
        left: &Value,
        operator: Operator,
        right: &Operand,
    ) -> Result<bool, RenderError> {
        let same = match right {
            Operand::Empty => Some(empty(left)),
            Operand::Blank => Some(blank(left)),
            _ => None,
        };
        if let Some(same) = same {
            return Ok(match operator {
                Operator::Equal => same,
                Operator::Different => !same,
                _ => false,
            });
        }
        let right = self.operand(right)?.value;
        let order = compare(left, &right);
        Ok(match operator {
            Operator::Equal => equal(left, &right),
            Operator::Different => !equal(left, &right),
            Operator::Less => order.is_some_and(|order| order.is_lt()),
            Operator::Greater => order.is_some_and(|order| order.is_gt()),
            Operator::AtMost => order.is_some_and(|order| order.is_le()),
            Operator::AtLeast => order.is_some_and(|order| order.is_ge()),
            Operator::Contains => contains(left, &right),
        })
    }
}

/// What is under a value, or nothing.
fn follow(root: &Value, steps: &[Value]) -> Value {
    let mut here = root;
    for (position, step) in steps.iter().enumerate() {
        let is_last = position + 1 == steps.len();
        let next = match (here, step) {
            (Value::Object(map), step) => map.get(&in_words(step)),
            (Value::Array(items), Value::Number(index)) => index
                .as_i64()
                .map(|i| if i < 0 { i + items.len() as i64 } else { i })
                .and_then(|i| usize::try_from(i).ok())
                .and_then(|i| items.get(i)),
            (Value::Array(items), Value::String(name)) if name == "first" => items.first(),
            (Value::Array(items), Value::String(name)) if name == "last" => items.last(),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None if is_last && *step == json!("size") => return Value::from(size(here)),
            None => return Value::Null,
        }
    }
    here.clone()
}
