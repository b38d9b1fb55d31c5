//! `probe`: an operator tries whether messages come through the queues, and how fast.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub run: String,
    pub number: i64,
    pub sent_at: Timestamp,
}

impl Contract for Probe {
    const SHAPE: &'static Shape = &Shape {
        name: "probe",
        version: 1,
        doc: "Show that a message comes through, once, and how long it takes.",
        queues: &["probe"],
        fields: &[
            Field::required("run", Kind::TEXT, "Which trial the message belongs to."),
            Field::required("number", Kind::PositiveInteger, "Which message of the trial it is."),
            Field::required("sent_at", Kind::Timestamp, "When it was sent."),
        ],
    };
}
