//! What stands between the delimiters: values, paths, filters and conditions.

use serde_json::Value;

use super::filters::{self, Filter};
use super::scan::Trouble;

/// How deep `a[b[c]]` may go.
const MAX_NESTING: usize = 8;
/// How many filters, comparisons or steps one expression may have.
const MAX_PARTS: usize = 64;

#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Literal(Value),
    /// `empty`, which equals "", [] and {}.
    Empty,
    /// `blank`, which also equals nil, false and white space.
    Blank,
    Path(Path),
    Range(Box<Operand>, Box<Operand>),
}

#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) at: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Name(String),
    Index(Operand),
}

/// A value and what is done to it.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) operand: Operand,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) filter: &'static Filter,
    pub(crate) arguments: Vec<Operand>,
    /// Only `default` has one: `allow_false: true`.
    pub(crate) named: Vec<(String, Operand)>,
}

/// Comparisons and what is between them. As in Liquid, the last `and` or `or` binds first.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) first: Comparison,
    pub(crate) rest: Vec<(Logic, Comparison)>,
    pub(crate) negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Logic {
    And,
    Or,
}

#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) left: Operand,
    pub(crate) right: Option<(Operator, Operand)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operator {
    Equal,
    Different,
    Less,
    Greater,
    AtMost,
    AtLeast,
    Contains,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Number(Value),
    Mark(&'static str),
}

/// Reads one expression from its start to its end.
pub(crate) struct Reader<'s> {
    tokens: Vec<(Token, usize)>,
    next: usize,
    /// Where the expression ends, for what is missing.
    end: usize,
    source: &'s str,
}

impl<'s> Reader<'s> {
    pub(crate) fn new(source: &'s str, at: usize) -> Result<Self, Trouble> {
        Ok(Self { tokens: tokens(source, at)?, next: 0, end: at + source.len(), source })
    }

    pub(crate) fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, at)| *at)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.next == self.tokens.len()
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), Trouble> {
        if self.is_done() { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn unexpected(&self) -> Trouble {
        let found = match self.tokens.get(self.next) {
            None => return Trouble::new(self.end, "something is missing here"),
            Some((Token::Word(word), _)) => word.clone(),
            Some((Token::Text(text), _)) => format!("{text:?}"),
            Some((Token::Number(number), _)) => number.to_string(),
            Some((Token::Mark(mark), _)) => (*mark).to_owned(),
        };
        Trouble::new(self.at(), format!("{found} is not expected in {:?}", shortened(self.source)))
    }

    pub(crate) fn take_mark(&mut self, mark: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some((Token::Mark(m), _)) if *m == mark);
        self.next += usize::from(found);
        found
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some((Token::Word(w), _)) if w == word);
        self.next += usize::from(found);
        found
    }

    pub(crate) fn word(&mut self) -> Result<String, Trouble> {
        let Some((Token::Word(word), _)) = self.tokens.get(self.next) else {
            return Err(self.unexpected());
        };
        self.next += 1;
        Ok(word.clone())
    }

    pub(crate) fn text(&mut self) -> Result<String, Trouble> {
        let Some((Token::Text(text), _)) = self.tokens.get(self.next) else {
            return Err(self.unexpected());
        };
        self.next += 1;
        Ok(text.clone())
    }

    /// Whether `name:` is next.
    pub(crate) fn name_is_next(&self) -> bool {
        let two = self.tokens.get(self.next..self.next + 2);
        matches!(two, Some([(Token::Word(_), _), (Token::Mark(":"), _)]))
    }

    /// `name: value`
    pub(crate) fn named(&mut self) -> Result<(String, Operand), Trouble> {
        let name = self.word()?;
        if !self.take_mark(":") {
            return Err(self.unexpected());
        }
        Ok((name, self.operand()?))
    }

    pub(crate) fn operand(&mut self) -> Result<Operand, Trouble> {
        self.operand_at_depth(0)
    }

    fn operand_at_depth(&mut self, depth: usize) -> Result<Operand, Trouble> {
        if depth > MAX_NESTING {
            return Err(Trouble::new(self.at(), "brackets are nested too deep"));
        }
        let at = self.at();
        let Some((token, _)) = self.tokens.get(self.next).cloned() else {
            return Err(self.unexpected());
        };
        let operand = match token {
            Token::Text(text) => Operand::Literal(Value::String(text)),
            Token::Number(number) => Operand::Literal(number),
            Token::Mark("(") => {
                self.next += 1;
                return self.range(depth);
            }
            Token::Mark(_) => return Err(self.unexpected()),
            Token::Word(word) => match word.as_str() {
                "true" => Operand::Literal(Value::Bool(true)),
                "false" => Operand::Literal(Value::Bool(false)),
                "nil" | "null" => Operand::Literal(Value::Null),
                "empty" => Operand::Empty,
                "blank" => Operand::Blank,
                _ => {
                    self.next += 1;
                    let steps = self.steps(depth)?;
                    return Ok(Operand::Path(Path { root: word, steps, at }));
                }
            },
        };
        self.next += 1;
        Ok(operand)
    }

    fn range(&mut self, depth: usize) -> Result<Operand, Trouble> {
        let from = self.operand_at_depth(depth + 1)?;
        if !self.take_mark("..") {
            return Err(self.unexpected());
        }
        let to = self.operand_at_depth(depth + 1)?;
        if !self.take_mark(")") {
            return Err(self.unexpected());
        }
        Ok(Operand::Range(Box::new(from), Box::new(to)))
    }

    fn steps(&mut self, depth: usize) -> Result<Vec<Step>, Trouble> {
        let mut steps = Vec::new();
        loop {
            if steps.len() > MAX_PARTS {
                return Err(Trouble::new(self.at(), "a path has too many steps"));
            }
            if self.take_mark(".") {
                steps.push(Step::Name(self.word()?));
            } else if self.take_mark("[") {
                let step = match self.operand_at_depth(depth + 1)? {
                    Operand::Literal(Value::String(name)) => Step::Name(name),
                    index => Step::Index(index),
                };
                if !self.take_mark("]") {
                    return Err(self.unexpected());
                }
                steps.push(step);
            } else {
                return Ok(steps);
            }
        }
    }

    pub(crate) fn chain(&mut self) -> Result<Chain, Trouble> {
        let operand = self.operand()?;
        let mut calls = Vec::new();
        while self.take_mark("|") {
            if calls.len() == MAX_PARTS {
                return Err(Trouble::new(self.at(), "too many filters"));
            }
            calls.push(self.call()?);
        }
        Ok(Chain { operand, calls })
    }

    fn call(&mut self) -> Result<Call, Trouble> {
        let at = self.at();
        let name = self.word()?;
        let filter = filters::find(&name)
            .ok_or_else(|| Trouble::new(at, format!("there is no filter {name}")))?;
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        if self.take_mark(":") {
            loop {
                if self.name_is_next() {
                    named.push(self.named()?);
                } else {
                    arguments.push(self.operand()?);
                }
                if !self.take_mark(",") || arguments.len() > filter.most {
                    break;
                }
            }
        }
        if let Some((unknown, _)) = named.iter().find(|(n, _)| n != "allow_false") {
            return Err(Trouble::new(at, format!("filter {name} has no option {unknown}")));
        }
        if !(filter.least..=filter.most).contains(&arguments.len()) {
            let wanted = match (filter.least, filter.most) {
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            let given = arguments.len();
            let message = format!("filter {name} takes {wanted} arguments, and here are {given}");
            return Err(Trouble::new(at, message));
        }
        Ok(Call { filter, arguments, named })
    }

    pub(crate) fn condition(&mut self) -> Result<Condition, Trouble> {
        let first = self.comparison()?;
        let mut rest = Vec::new();
        while !self.is_done() {
            let logic = if self.take_word("and") {
                Logic::And
            } else if self.take_word("or") {
                Logic::Or
            } else {
                return Err(self.unexpected());
            };
            if rest.len() == MAX_PARTS {
                return Err(Trouble::new(self.at(), "a condition has too many parts"));
            }
            rest.push((logic, self.comparison()?));
        }
        Ok(Condition { first, rest, negated: false })
    }

    fn comparison(&mut self) -> Result<Comparison, Trouble> {
        let left = self.operand()?;
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::Different),
            ("<>", Operator::Different),
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let mut operator = operators.iter().find(|(mark, _)| self.take_mark(mark)).map(|(_, o)| *o);
        if operator.is_none() && self.take_word("contains") {
            operator = Some(Operator::Contains);
        }
        let right = match operator {
            Some(operator) => Some((operator, self.operand()?)),
            None => None,
        };
        Ok(Comparison { left, right })
    }
}

fn tokens(source: &str, base: usize) -> Result<Vec<(Token, usize)>, Trouble> {
    const MARKS: [&str; 19] = [
        "==", "!=", "<>", "<=", ">=", "..", "<", ">", "=", ".", ",", ":", "|", "(", ")", "[", "]",
        "+", "-",
    ];
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        rest = rest.trim_start();
        let at = base + source.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = if first == '"' || first == '\'' {
            let inner = &rest[1..];
            let end = inner
                .find(first)
                .ok_or_else(|| Trouble::new(at, format!("the {first} is not closed")))?;
            (Token::Text(inner[..end].to_owned()), end + 2)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '?');
            let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
            (Token::Word(rest[..length].to_owned()), length)
        } else if let Some((number, length)) = number(rest) {
            (Token::Number(number), length)
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            (Token::Mark(mark), mark.len())
        } else {
            return Err(Trouble::new(at, format!("{first} is not expected here")));
        };
        tokens.push((token, at));
        rest = &rest[length..];
    }
}

fn number(text: &str) -> Option<(Value, usize)> {
    let digits = |from: usize| {
        let rest = &text[from..];
        rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
    };
    let sign = usize::from(text.starts_with(['-', '+']));
    let whole = digits(sign);
    if whole == 0 {
        return None;
    }
    let mut end = sign + whole;
    // `(1..3)` is a range and no fraction.
    if text[end..].starts_with('.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
        return Some((Value::from(text[..end].parse::<f64>().ok()?), end));
    }
    let number = text[..end].parse::<i64>().map_or_else(
        |_| text[..end].parse::<f64>().map(Value::from).ok(),
        |number| Some(Value::from(number)),
    );
    Some((number?, end))
}

fn shortened(source: &str) -> String {
    let source = source.trim();
    match source.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &source[..cut]),
        None => source.to_owned(),
    }
}
