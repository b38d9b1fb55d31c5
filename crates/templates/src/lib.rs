//! Text in, text out: Liquid, MJML, the text part, link rewriting. No IO, and no time but what is passed in.
//!
//! Here: `compile`, which finds every fault of a source before anything is saved; `Compiled::render`, which makes a mail of
//! variables; `track`, which puts links and a pixel into it. Not here: where templates are stored and what the variables of
//! a person are (`delivery::templates`), and how a mail looks on the wire (`mail`).

mod compile;
mod fault;
mod html;
mod liquid;
mod mjml;
mod partials;
#[cfg(test)]
mod tests;
mod text;
mod track;

pub use compile::{Compiled, Lines, MAX_SOURCE, Rendered, Source, Warning, compile, compile_lines};
pub use fault::{Fault, Part};
pub use liquid::RenderError;
pub use partials::partials_named;
pub use track::track;
