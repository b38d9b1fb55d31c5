//! The tree of a template: which blocks hold which.

use super::expression::{Chain, Condition, Operand, Reader};
use super::scan::{Kind, Piece, Trouble, scan};

/// How deep blocks may be nested.
const MAX_DEPTH: usize = 32;

#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Output(Chain),
    If {
        arms: Vec<(Condition, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    Case {
        subject: Operand,
        arms: Vec<(Vec<Operand>, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    For(For),
    Assign {
        name: String,
        chain: Chain,
    },
    Capture {
        name: String,
        body: Vec<Node>,
    },
    Partial(Partial),
    Cycle {
        group: String,
        values: Vec<Operand>,
    },
    /// `increment` and `decrement`, which print a counter.
    Count {
        name: String,
        step: i64,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) name: String,
    pub(crate) over: Operand,
    pub(crate) limit: Option<Operand>,
    pub(crate) offset: Option<Operand>,
    pub(crate) reversed: bool,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) name: String,
    pub(crate) at: usize,
    /// `render` sees nothing of what was assigned around it, `include` does.
    pub(crate) isolated: bool,
    pub(crate) parameters: Vec<(String, Operand)>,
    /// `render 'x' for list as name`
    pub(crate) each: Option<(Operand, String)>,
}

pub(crate) fn parse(source: &str) -> Result<Vec<Node>, Trouble> {
    let pieces = scan(source)?;
    let mut parser = Parser { pieces: &pieces, next: 0, depth: 0, loops: 0 };
    let (nodes, end) = parser.nodes(&[])?;
    debug_assert!(end.is_none(), "only a wanted tag ends a body");
    Ok(nodes)
}

/// The tag that ended a body.
struct End<'s> {
    name: &'s str,
    inner: &'s str,
    at: usize,
}

struct Parser<'p, 's> {
    pieces: &'p [Piece<'s>],
    next: usize,
    depth: usize,
    loops: usize,
}

impl<'s> Parser<'_, 's> {
    /// Everything up to one of these tags, or to the end if there are none.
    fn nodes(&mut self, ends: &[&str]) -> Result<(Vec<Node>, Option<End<'s>>), Trouble> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.next) {
            self.next += 1;
            match piece.kind {
                Kind::Text(text) => nodes.push(Node::Text(text.to_owned())),
                Kind::Output { inner, at } => nodes.push(output(inner, at)?),
                Kind::Tag { name, inner, at } if ends.contains(&name) => {
                    return Ok((nodes, Some(End { name, inner, at })));
                }
                Kind::Tag { name, inner, at } => {
                    nodes.push(self.tag(name, Reader::new(inner, at)?, piece.start)?);
                }
            }
        }
        Ok((nodes, None))
    }

    fn tag(&mut self, name: &str, reader: Reader<'_>, start: usize) -> Result<Node, Trouble> {
        match name {
            "if" | "unless" | "case" | "for" | "capture" => self.block(name, reader, start),
            "assign" => assign(reader),
            "echo" => chain(reader).map(Node::Output),
            "include" | "render" => partial(reader, name == "render"),
            "cycle" => cycle(reader),
            "increment" | "decrement" => count(reader, name),
            "break" | "continue" if self.loops == 0 => {
                Err(Trouble::new(start, format!("{{% {name} %}} is outside a loop")))
            }
            "break" => reader.finish().map(|()| Node::Break),
            "continue" => reader.finish().map(|()| Node::Continue),
            "else" | "elsif" | "when" => {
                Err(Trouble::new(start, format!("{{% {name} %}} belongs to no block here")))
            }
            name if name.starts_with("end") => {
                Err(Trouble::new(start, format!("{{% {name} %}} closes nothing here")))
            }
            "" => Err(Trouble::new(start, "a tag has no name")),
            name => Err(Trouble::new(start, format!("there is no tag {name}"))),
        }
    }

    fn block(&mut self, name: &str, reader: Reader<'_>, start: usize) -> Result<Node, Trouble> {
        if self.depth == MAX_DEPTH {
            return Err(Trouble::new(start, format!("blocks are nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let node = match name {
            "if" => self.conditional(reader, start, "endif"),
            "unless" => self.conditional(reader, start, "endunless"),
            "case" => self.case(reader, start),
            "for" => {
                self.loops += 1;
                let node = self.repeat(reader, start);
                self.loops -= 1;
                node
            }
            _ => self.capture(reader, start),
        };
        self.depth -= 1;
        node
    }

    /// A body that must end with one of these tags.
    fn body(&mut self, ends: &[&str], start: usize) -> Result<(Vec<Node>, End<'s>), Trouble> {
        let (nodes, end) = self.nodes(ends)?;
        let closing = ends.last().copied().unwrap_or_default();
        let missing = || Trouble::new(start, format!("this is not closed with {{% {closing} %}}"));
        Ok((nodes, end.ok_or_else(missing)?))
    }

    fn conditional(
        &mut self,
        mut reader: Reader<'_>,
        start: usize,
        closing: &'static str,
    ) -> Result<Node, Trouble> {
        let mut condition = reader.condition()?;
        condition.negated = closing == "endunless";
        let mut arms = Vec::new();
        loop {
            let (body, end) = self.body(&["elsif", "else", closing], start)?;
            arms.push((condition, body));
            match end.name {
                "elsif" => condition = Reader::new(end.inner, end.at)?.condition()?,
                "else" => {
                    let (otherwise, _) = self.body(&[closing], start)?;
                    return Ok(Node::If { arms, otherwise });
                }
                _ => return Ok(Node::If { arms, otherwise: Vec::new() }),
            }
        }
    }

    fn case(&mut self, mut reader: Reader<'_>, start: usize) -> Result<Node, Trouble> {
        let subject = reader.operand()?;
        reader.finish()?;
        // What stands before the first `when` belongs to no case.
        let (_, mut end) = self.body(&["when", "else", "endcase"], start)?;
        let mut arms = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            match end.name {
                "when" => {
                    let values = alternatives(Reader::new(end.inner, end.at)?)?;
                    let (body, next) = self.body(&["when", "else", "endcase"], start)?;
                    arms.push((values, body));
                    end = next;
                }
                "else" => (otherwise, end) = self.body(&["endcase"], start)?,
                _ => return Ok(Node::Case { subject, arms, otherwise }),
            }
        }
    }

    fn repeat(&mut self, mut reader: Reader<'_>, start: usize) -> Result<Node, Trouble> {
        let name = reader.word()?;
        if !reader.take_word("in") {
            return Err(reader.unexpected());
        }
        let over = reader.operand()?;
        let (mut limit, mut offset, mut reversed) = (None, None, false);
        while !reader.is_done() {
            reader.take_mark(",");
            if reader.take_word("reversed") {
                reversed = true;
                continue;
            }
            let at = reader.at();
            match reader.named()? {
                (name, value) if name == "limit" => limit = Some(value),
                (name, value) if name == "offset" => offset = Some(value),
                (name, _) => {
                    return Err(Trouble::new(at, format!("a loop has no option {name}")));
                }
            }
        }
        let (body, end) = self.body(&["else", "endfor"], start)?;
        let otherwise = match end.name {
            "else" => self.body(&["endfor"], start)?.0,
            _ => Vec::new(),
        };
        Ok(Node::For(For { name, over, limit, offset, reversed, body, otherwise }))
    }

    fn capture(&mut self, mut reader: Reader<'_>, start: usize) -> Result<Node, Trouble> {
        let name = reader.word()?;
        reader.finish()?;
        let (body, _) = self.body(&["endcapture"], start)?;
        Ok(Node::Capture { name, body })
    }
}

fn output(inner: &str, at: usize) -> Result<Node, Trouble> {
    chain(Reader::new(inner, at)?).map(Node::Output)
}

fn chain(mut reader: Reader<'_>) -> Result<Chain, Trouble> {
    let chain = reader.chain()?;
    reader.finish()?;
    Ok(chain)
}

fn assign(mut reader: Reader<'_>) -> Result<Node, Trouble> {
    let name = reader.word()?;
    if !reader.take_mark("=") {
        return Err(reader.unexpected());
    }
    Ok(Node::Assign { name, chain: chain(reader)? })
}

fn alternatives(mut reader: Reader<'_>) -> Result<Vec<Operand>, Trouble> {
    let mut values = vec![reader.operand()?];
    while reader.take_mark(",") || reader.take_word("or") {
        values.push(reader.operand()?);
    }
    reader.finish()?;
    Ok(values)
}

fn partial(mut reader: Reader<'_>, isolated: bool) -> Result<Node, Trouble> {
    let at = reader.at();
    // A name out of a variable could not be checked when the template is saved.
    let name =
        reader.text().map_err(|_| Trouble::new(at, "the name of a partial must be in quotes"))?;
    let mut parameters = Vec::new();
    let mut each = None;
    if reader.take_word("with") {
        let value = reader.operand()?;
        let name = if reader.take_word("as") { reader.word()? } else { name.clone() };
        parameters.push((name, value));
    } else if isolated && reader.take_word("for") {
        let over = reader.operand()?;
        let name = if reader.take_word("as") { reader.word()? } else { name.clone() };
        each = Some((over, name));
    }
    while !reader.is_done() {
        reader.take_mark(",");
        if !reader.is_done() {
            parameters.push(reader.named()?);
        }
    }
    Ok(Node::Partial(Partial { name, at, isolated, parameters, each }))
}

fn cycle(mut reader: Reader<'_>) -> Result<Node, Trouble> {
    let mut group = None;
    let mut values = Vec::new();
    let first = reader.operand()?;
    if reader.take_mark(":") {
        group = Some(format!("{first:?}"));
    } else {
        values.push(first);
        reader.take_mark(",");
    }
    while !reader.is_done() {
        values.push(reader.operand()?);
        if !reader.take_mark(",") {
            break;
        }
    }
    if values.is_empty() {
        return Err(reader.unexpected());
    }
    reader.finish()?;
    let group = group.unwrap_or_else(|| format!("{values:?}"));
    Ok(Node::Cycle { group, values })
}

fn count(mut reader: Reader<'_>, tag: &str) -> Result<Node, Trouble> {
    let name = reader.word()?;
    reader.finish()?;
    Ok(Node::Count { name, step: if tag == "increment" { 1 } else { -1 } })
}
