//! Bytes as text.

const DIGITS: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// Two digits for each byte, in lower case. Every request with a key asks for some, and formatting would be its dearest part.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 9, 0xab, 255]), "0009abff");
        assert_eq!(hex(&[]), "");
    }
}
