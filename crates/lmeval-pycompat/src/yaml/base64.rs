//! Base64: reading as lenient as Python's `base64.decodebytes`, and writing.

/// The bytes of a `!!binary` scalar. Characters outside the alphabet are skipped; the padding must be there.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    if !text.is_ascii() {
        return Err("base64 data is not ASCII".to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut quad = 0;
    let mut padding = 0;
    let mut left = 0_u8;
    for character in text.bytes() {
        let sextet = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                if quad >= 2 {
                    padding += 1;
                    if quad + padding >= 4 {
                        // Reference: whatever follows complete padding is ignored.
                        return Ok(bytes);
                    }
                }
                continue;
            }
            _ => continue,
        };
        padding = 0;
        match quad {
            0 => left = sextet,
            1 => {
                bytes.push(left << 2 | sextet >> 4);
                left = sextet & 0x0F;
            }
            2 => {
                bytes.push(left << 4 | sextet >> 2);
                left = sextet & 0x03;
            }
            _ => bytes.push(left << 6 | sextet),
        }
        quad = (quad + 1) % 4;
    }
    match quad {
        0 => Ok(bytes),
        1 => Err("base64 data ends one character after a multiple of 4".to_owned()),
        _ => Err("base64 data has incorrect padding".to_owned()),
    }
}

/// The text of bytes, with padding, on one line.
pub(super) fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            if position <= chunk.len() {
                text.push(char::from(ALPHABET[(word >> (18 - 6 * position)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn lenient_about_characters_strict_about_padding() {
        assert_eq!(decode("aGk=").as_deref(), Ok(b"hi".as_slice()));
        assert_eq!(decode("a*G k\n=").as_deref(), Ok(b"hi".as_slice()));
        assert_eq!(decode("aGk=rest").as_deref(), Ok(b"hi".as_slice()));
        assert_eq!(decode("=").as_deref(), Ok(b"".as_slice()));
        for wrong in ["a", "aG", "aG=", "aGk", "\u{e9}"] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
    }
}
