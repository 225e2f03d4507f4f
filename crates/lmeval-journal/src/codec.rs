//! Encoding of integers and strings in records.

/// Appends an integer as little-endian base 128 (LEB128).
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends length-prefixed bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length-prefixed string.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// The unread rest of a record. Every method returns `None` if the rest does not start with such a value.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn size(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    /// Bit-exact, NaN payloads included.
    pub(crate) fn float(&mut self) -> Option<f64> {
        self.array().map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.size()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn string(&mut self) -> Option<&'a str> {
        str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `value` if the record has been read to its end.
    pub(crate) fn finish<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_trip() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut reader = Reader(&bytes);
            assert_eq!(reader.number(), Some(number));
            assert_eq!(reader.finish(()), Some(()));
        }
        assert_eq!(Reader(&[0xff; 10]).number(), None);
        assert_eq!(Reader(&[0x80]).number(), None);
    }

    #[test]
    fn rejects_length_past_end() {
        let mut bytes = Vec::new();
        put_number(&mut bytes, u64::MAX);
        bytes.push(b'a');
        assert_eq!(Reader(&bytes).string(), None);
    }
}
