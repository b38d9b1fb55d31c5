//! Liquid: our own reading of the language that the authors of templates know.
//!
//! Here: parsing, the names that a template uses, rendering within bounds. Not here: which parts a mail has (`compile`).
//! It is our own because the public crate refuses absent variables even under `default`, escapes nothing, and has no bounds.

mod dates;
mod expression;
mod filters;
mod names;
mod render;
mod scan;
mod tree;
mod value;

pub(crate) use names::{Called, Known, MAX_CALLS, Names, names};
pub use render::RenderError;
pub(crate) use render::{Job, MAX_OUTPUT, render};
pub(crate) use scan::{Kind, Trouble, position, scan};
pub(crate) use tree::{Node, parse};
