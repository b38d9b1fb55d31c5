//! What SES found out about a mail that it received: whether it may be believed, or must not be let in at all.

use serde_json::Value;

use crate::replies::{Ignored, Trust};

/// By the `receipt` of the notification. Without one, or where SES could not tell, a mail is like any other.
///
/// SPF and DKIM say nothing by themselves: mail that is passed on fails the one, and a mailing list breaks the other. DMARC
/// fails if neither proves who `From` says it is. The policy of that domain is not asked: it says what its owner wants to be
/// done to forged mail, not whether it is forged.
pub(super) fn trust(receipt: Option<&Value>) -> Trust {
    let fails = |name: &str| {
        let status = receipt.and_then(|receipt| receipt.get(name)?.get("status")?.as_str());
        status.is_some_and(|status| status.eq_ignore_ascii_case("FAIL"))
    };
    if fails("virusVerdict") {
        Trust::Refused(Ignored::Virus)
    } else if fails("spamVerdict") {
        Trust::Refused(Ignored::Spam)
    } else if fails("dmarcVerdict") {
        Trust::Unproven
    } else {
        Trust::Ordinary
    }
}
