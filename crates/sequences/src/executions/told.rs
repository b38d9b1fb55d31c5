//! What goes on the timeline of whoever walks through a sequence.

use serde_json::json;
use tidings_access::Cx;
use tidings_jobs::happened::{Happened, by_email};
use tidings_kernel::Outgoing;

use super::Execution;

pub(super) const ENTERED: &str = "sequence.entered";
pub(super) const STEP_SENT: &str = "sequence.step_sent";
pub(super) const COMPLETED: &str = "sequence.completed";
pub(super) const EXITED: &str = "sequence.exited";

impl Execution {
    /// In the transaction that makes it true. Each happens once in an execution, and a step is sent once at each time that
    /// he comes to it.
    pub(super) fn happened(
        &self,
        cx: &Cx,
        event_type: &'static str,
        why: Option<&str>,
    ) -> Outgoing {
        let is_step = event_type == STEP_SENT;
        let cause = match is_step {
            true => format!("{}/{}/{}", self.id, self.at, self.since),
            false => self.id.to_string(),
        };
        let payload = json!({
            "sequence": self.sequence,
            "execution": self.id.as_str(),
            "step": is_step.then_some(self.step.as_str()),
            "why": why,
        });
        let happened = Happened {
            event_type,
            cause,
            who: by_email(self.email.as_str()),
            at: cx.now(),
            object_id: Some(self.sequence.clone()),
            payload: payload.as_object().cloned().unwrap_or_default(),
        };
        happened.to_message(cx.workspace(), cx.now())
    }
}
