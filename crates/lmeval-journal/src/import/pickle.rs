//! Reads the few pickles that are answers: texts, numbers, and tuples of them, of protocols 2 to 5.
//!
//! Nothing is ever constructed or called: an instruction that would is the end of the reading.

use std::sync::Arc;

use crate::codec::Reader;

/// A value that an answer can be made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pickled {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    Tuple(Vec<Pickled>),
}

impl Pickled {
    /// `float(value)` of a number that is not a `bool`.
    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            Self::Int(number) => Some(*number as f64),
            _ => None,
        }
    }
}

/// Tuples in tuples are no answers, so that nothing grows by repetition.
const MAX_STACK: usize = 16;

/// The value of a pickle, if it is one that an answer can be made of.
pub(super) fn load(bytes: &[u8]) -> Option<Pickled> {
    let mut machine =
        Machine { input: Reader(bytes), stack: Vec::new(), marks: Vec::new(), memo: Vec::new() };
    machine.run()
}

struct Machine<'a> {
    input: Reader<'a>,
    stack: Vec<Pickled>,
    marks: Vec<usize>,
    memo: Vec<(u32, Pickled)>,
}

impl Machine<'_> {
    fn run(&mut self) -> Option<Pickled> {
        loop {
            let value = match self.input.byte()? {
                // PROTO, FRAME: what they announce needs no check here.
                0x80 => {
                    (2..=5).contains(&self.input.byte()?).then_some(())?;
                    continue;
                }
                0x95 => {
                    self.input.array::<8>()?;
                    continue;
                }
                // STOP.
                b'.' => {
                    let value = self.stack.pop()?;
                    let is_alone = self.stack.is_empty() && self.input.0.is_empty();
                    return is_alone.then_some(value);
                }
                // NONE, NEWTRUE, NEWFALSE.
                b'N' => Pickled::None,
                0x88 => Pickled::Bool(true),
                0x89 => Pickled::Bool(false),
                // BINFLOAT.
                b'G' => Pickled::Float(f64::from_bits(u64::from_be_bytes(self.input.array()?))),
                // BININT, BININT1, BININT2, LONG1.
                b'J' => Pickled::Int(i32::from_le_bytes(self.input.array()?).into()),
                b'K' => Pickled::Int(self.input.byte()?.into()),
                b'M' => Pickled::Int(u16::from_le_bytes(self.input.array()?).into()),
                0x8a => self.long()?,
                // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
                0x8c => {
                    let length = self.input.byte()?;
                    self.text(length.into())?
                }
                b'X' => {
                    let length = u32::from_le_bytes(self.input.array()?);
                    self.text(length.into())?
                }
                0x8d => {
                    let length = u64::from_le_bytes(self.input.array()?);
                    self.text(length)?
                }
                // EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3.
                b')' => Pickled::Tuple(Vec::new()),
                size @ 0x85..=0x87 => self.tuple(self.stack.len().checked_sub((size - 0x84).into())?)?,
                // MARK, TUPLE.
                b'(' => {
                    self.marks.push(self.stack.len());
                    (self.marks.len() <= MAX_STACK).then_some(())?;
                    continue;
                }
                b't' => {
                    let mark = self.marks.pop()?;
                    self.tuple(mark)?
                }
                // MEMOIZE, BINPUT, LONG_BINPUT.
                0x94 => {
                    self.remember(self.memo.len() as u32)?;
                    continue;
                }
                b'q' => {
                    let name = self.input.byte()?;
                    self.remember(name.into())?;
                    continue;
                }
                b'r' => {
                    let name = u32::from_le_bytes(self.input.array()?);
                    self.remember(name)?;
                    continue;
                }
                // BINGET, LONG_BINGET.
                b'h' => {
                    let name = self.input.byte()?;
                    self.recall(name.into())?
                }
                b'j' => {
                    let name = u32::from_le_bytes(self.input.array()?);
                    self.recall(name)?
                }
                _ => return None,
            };
            self.stack.push(value);
            (self.stack.len() <= MAX_STACK).then_some(())?;
        }
    }

    /// A whole number in as many bytes as it takes, lowest first, in two's complement.
    fn long(&mut self) -> Option<Pickled> {
        let length = usize::from(self.input.byte()?);
        let (digits, rest) = self.input.0.split_at_checked(length)?;
        self.input.0 = rest;
        let is_negative = digits.last().is_some_and(|last| last & 0x80 != 0);
        let mut bytes = [if is_negative { 0xff } else { 0 }; 8];
        bytes.get_mut(..length)?.copy_from_slice(digits);
        Some(Pickled::Int(i64::from_le_bytes(bytes)))
    }

    fn text(&mut self, length: u64) -> Option<Pickled> {
        let (text, rest) = self.input.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.input.0 = rest;
        Some(Pickled::Text(str::from_utf8(text).ok()?.into()))
    }

    fn tuple(&mut self, start: usize) -> Option<Pickled> {
        (start <= self.stack.len()).then_some(())?;
        let items = self.stack.split_off(start);
        let is_flat = !items.iter().any(|item| matches!(item, Pickled::Tuple(_)));
        is_flat.then_some(Pickled::Tuple(items))
    }

    fn remember(&mut self, name: u32) -> Option<()> {
        (self.memo.len() < MAX_STACK).then_some(())?;
        self.memo.push((name, self.stack.last()?.clone()));
        Some(())
    }

    fn recall(&self, name: u32) -> Option<Pickled> {
        let known = self.memo.iter().rev().find(|(known, _)| *known == name);
        known.map(|(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `pickle.dumps((-1.5, True), 5)`.
    const PAIR: &[u8] = b"\x80\x05\x95\x0d\0\0\0\0\0\0\0G\xbf\xf8\0\0\0\0\0\0\x88\x86\x94.";

    #[test]
    fn answers_are_read() {
        let pair = Pickled::Tuple(vec![Pickled::Float(-1.5), Pickled::Bool(true)]);
        assert_eq!(load(PAIR), Some(pair));
        assert_eq!(load(b"\x80\x02X\x03\0\0\0a\xc3\xa9q\0."), Some(Pickled::Text("aé".into())));
        assert_eq!(load(b"\x80\x04\x8a\x01\xff."), Some(Pickled::Int(-1)));
        assert_eq!(load(b"\x80\x03(K\x01Nt."), Some(Pickled::Tuple(vec![Pickled::Int(1), Pickled::None])));
    }

    #[test]
    fn everything_else_is_refused() {
        for length in 0..PAIR.len() {
            assert_eq!(load(&PAIR[..length]), None, "{length}");
        }
        // A call of `os.system`, a list, a lone surrogate, a protocol that is not known.
        assert_eq!(load(b"\x80\x02cposix\nsystem\nX\x02\0\0\0ls\x85R."), None);
        assert_eq!(load(b"\x80\x02]q\0K\x01a."), None);
        assert_eq!(load(b"\x80\x05\x8c\x03\xed\xa0\x80."), None);
        assert_eq!(load(b"\x80\x09N."), None);
        assert_eq!(load(b"\x80\x02)\x85."), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            load(&bytes);
        }
    }
}
