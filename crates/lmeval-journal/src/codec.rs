//! Numbers and texts in records.

/// Appends a number, seven bits to a byte, lowest first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text behind its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What is left of a record. Every method gives `None` where it does not hold what is asked for.
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

    /// The exact bits, whatever number they are.
    pub(crate) fn float(&mut self) -> Option<f64> {
        self.array().map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.size()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }

    /// `value`, if nothing is left.
    pub(crate) fn finish<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
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
    fn a_length_beyond_the_end_is_noticed() {
        let mut bytes = Vec::new();
        put_number(&mut bytes, u64::MAX);
        bytes.push(b'a');
        assert_eq!(Reader(&bytes).text(), None);
    }
}
