//! Our own Message-ID: `t.<workspace>.<kind><row>.<key>.<MAC>`, then `@` and a domain.
//!
//! Only lower case and digits: it travels through programs that fold case, and comes back in In-Reply-To.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tidings_access::signing::{Keyring, Refused, unhex};
use tidings_kernel::hex;

use super::Source;

const MAC: usize = 16;
/// RFC 5322 allows a line of 998; ours have below 120 before the domain.
const MAX_BYTES: usize = 500;

pub(super) fn sign(keys: &Keyring, workspace: i64, source: Source) -> String {
    let (key, mac) = keys.signing();
    let said = said(workspace, source, key);
    let mac = feed(mac, &said);
    format!("{said}.{}", hex(&mac.finalize().into_bytes()[..MAC]))
}

pub(super) fn read(keys: &Keyring, text: &str) -> Result<(i64, Source), Refused> {
    let text = text.trim();
    if text.len() > MAX_BYTES {
        return Err(Refused::Invalid);
    }
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let (local, _) = text.split_once('@').ok_or(Refused::Invalid)?;
    let local = local.to_ascii_lowercase();
    let [first, workspace, source, key, mac] =
        local.split('.').collect::<Vec<_>>().try_into().map_err(|_| Refused::Invalid)?;
    let kind = match source.get(..1) {
        Some("m") => 1,
        Some("r") => 2,
        _ => return Err(Refused::Invalid),
    };
    let source = Source::from_parts(kind, number(&source[1..])?).ok_or(Refused::Invalid)?;
    let (workspace, key) = (number(workspace)?, number(key)?);
    if first != "t" {
        return Err(Refused::Invalid);
    }
    let mac: [u8; MAC] = unhex(mac).ok_or(Refused::Invalid)?;
    let ours = keys.mac(key).ok_or(Refused::UnknownKey)?;
    // What was said is written again, so that no two spellings name the same row.
    let ours = feed(ours, &said(workspace, source, key));
    ours.verify_truncated_left(&mac).map_err(|_| Refused::Invalid)?;
    Ok((workspace, source))
}

fn said(workspace: i64, source: Source, key: i64) -> String {
    let (kind, row) = match source {
        Source::Transactional(id) => ('m', id),
        Source::Recipient(id) => ('r', id),
    };
    format!("t.{workspace}.{kind}{row}.{key}")
}

fn feed(mut mac: Hmac<Sha256>, said: &str) -> Hmac<Sha256> {
    mac.update(b"tidings message id\0");
    mac.update(said.as_bytes());
    mac
}

fn number(text: &str) -> Result<i64, Refused> {
    text.parse().ok().filter(|id| *id > 0).ok_or(Refused::Invalid)
}
