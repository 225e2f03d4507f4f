//! Base64 as in `!!binary`; decoding is as lenient as Python's `base64.decodebytes`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Padding is checked separately; excess bits in the last character are dropped.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes a `!!binary` scalar. Characters outside the alphabet are skipped; padding is required.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    if !text.is_ascii() {
        return Err("base64 data is not ASCII".to_owned());
    }
    let mut digits = Vec::with_capacity(text.len());
    let mut padding = 0;
    for byte in text.bytes() {
        match byte {
            b'=' if digits.len() % 4 >= 2 => {
                padding += 1;
                if digits.len() % 4 + padding == 4 {
                    // Reference: anything after complete padding is ignored.
                    break;
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                padding = 0;
                digits.push(byte);
            }
            _ => {}
        }
    }
    match digits.len() % 4 {
        1 => Err("base64 data ends one character after a multiple of 4".to_owned()),
        rest if rest > 0 && rest + padding < 4 => Err("base64 data has incorrect padding".to_owned()),
        _ => LENIENT.decode(digits).map_err(|error| error.to_string()),
    }
}

/// Encodes bytes with padding, on one line.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn skips_foreign_characters_and_requires_padding() {
        for (text, bytes) in [
            ("aGk=", b"hi".as_slice()),
            ("a*G k\n=", b"hi"),
            ("aGk=rest", b"hi"),
            ("=", b""),
            ("aH==", b"h"),
            ("aG=k=", b"hi"),
            ("aGk=aGk", b"hi"),
        ] {
            assert_eq!(decode(text).as_deref(), Ok(bytes), "{text}");
        }
        for wrong in ["a", "aG", "aG=", "aGk", "aG=k", "\u{e9}"] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
    }
}
