//! A UTF-8 state machine.

use std::ops::RangeInclusive;

/// The position within a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Utf8State {
    /// Continuation bytes still expected; 0 between characters.
    missing: u8,
    /// Bounds of the next continuation byte.
    low: u8,
    high: u8,
}

impl Utf8State {
    pub(super) const BOUNDARY: Self = Self { missing: 0, low: 0x80, high: 0xBF };

    pub(super) fn is_boundary(self) -> bool {
        self.missing == 0
    }

    /// Whether a byte may come next.
    pub(super) fn allows(self, byte: u8) -> bool {
        const STARTS: [RangeInclusive<u8>; 2] = [0x00..=0x7F, 0xC2..=0xF4];
        if self.is_boundary() {
            STARTS.iter().any(|range| range.contains(&byte))
        } else {
            (self.low..=self.high).contains(&byte)
        }
    }

    /// The state after an allowed byte.
    pub(super) fn after(self, byte: u8) -> Self {
        if !self.is_boundary() {
            return Self { missing: self.missing - 1, ..Self::BOUNDARY };
        }
        let missing = match byte {
            ..0xC2 => 0,
            0xC2..0xE0 => 1,
            0xE0..0xF0 => 2,
            0xF0.. => 3,
        };
        // Excludes overlong forms, surrogates and anything above U+10FFFF.
        let (low, high) = match byte {
            0xE0 => (0xA0, 0xBF),
            0xED => (0x80, 0x9F),
            0xF0 => (0x90, 0xBF),
            0xF4 => (0x80, 0x8F),
            _ => (0x80, 0xBF),
        };
        Self { missing, low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(bytes: &[u8]) -> bool {
        let mut state = Utf8State::BOUNDARY;
        for &byte in bytes {
            if !state.allows(byte) {
                return false;
            }
            state = state.after(byte);
        }
        state.is_boundary()
    }

    #[test]
    fn accepts_what_the_standard_library_accepts() {
        for first in 0..=255 {
            assert_eq!(accepts(&[first]), str::from_utf8(&[first]).is_ok());
            for second in 0..=255 {
                let two = [first, second];
                assert_eq!(accepts(&two), str::from_utf8(&two).is_ok(), "{two:?}");
                let four = [first, second, 0x80, 0xBF];
                assert_eq!(accepts(&four), str::from_utf8(&four).is_ok(), "{four:?}");
                assert_eq!(accepts(&four[..3]), str::from_utf8(&four[..3]).is_ok(), "{four:?}");
            }
        }
    }
}
