//! The messages of a SentencePiece model, as far as encoding needs them, in the wire format of Protocol Buffers.

use rustc_hash::FxHashSet;

/// A SentencePiece model.
#[derive(Debug)]
pub(crate) struct Proto {
    /// The pieces by id.
    pub(crate) pieces: Vec<Piece>,
    /// How text is split into pieces.
    pub(crate) kind: ModelKind,
    /// Whether characters without a piece become bytes.
    pub(crate) has_byte_fallback: bool,
    pub(crate) unknown: Special,
    pub(crate) begin: Special,
    pub(crate) end: Special,
    /// The compiled table of characters that normalisation replaces. It may be empty.
    pub(crate) table: Vec<u8>,
}

/// A piece of text with its log-probability.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) score: f32,
    pub(crate) kind: PieceKind,
}

/// The type of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Found in text by the model.
    #[default]
    Normal,
    /// Never found in text, such as the end of a sequence.
    Control,
    /// Always a piece of its own.
    UserDefined,
    /// The unknown piece, an unused id or a byte.
    Other,
}

/// The model that splits text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelKind {
    /// The likeliest pieces.
    Unigram,
    /// Merged pairs.
    Merges,
    /// Whole words or single letters.
    Other,
}

/// A special piece. Models without it have a negative id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Special {
    pub(crate) id: i32,
    pub(crate) text: String,
}

impl Special {
    fn new(id: i32, text: &str) -> Self {
        Self { id, text: text.to_owned() }
    }
}

/// A field's value.
enum Value<'f> {
    Number(u64),
    Fixed([u8; 4]),
    Bytes(&'f [u8]),
}

impl Proto {
    /// Reads a model, skipping fields that do not matter.
    pub(crate) fn read(file: &[u8]) -> Result<Self, String> {
        let mut model = Self {
            pieces: Vec::new(),
            kind: ModelKind::Unigram,
            has_byte_fallback: false,
            unknown: Special::new(0, "<unk>"),
            begin: Special::new(1, "<s>"),
            end: Special::new(2, "</s>"),
            table: Vec::new(),
        };
        for_fields(file, |field, value| {
            match (field, value) {
                (1, Value::Bytes(piece)) => model.pieces.push(read_piece(piece)?),
                (2, Value::Bytes(settings)) => model.read_training(settings)?,
                (3, Value::Bytes(rules)) => for_fields(rules, |field, value| {
                    if let (2, Value::Bytes(table)) = (field, value) {
                        model.table = table.to_vec();
                    }
                    Ok(())
                })?,
                (1..=3, _) => return Err(wrong_type(field)),
                _ => {}
            }
            Ok(())
        })?;
        Ok(model)
    }

    /// Refuses models that SentencePiece cannot have written.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = self.pieces.len();
        if count == 0 {
            return Err("it has no pieces".to_owned());
        }
        let mut known: FxHashSet<&str> = FxHashSet::default();
        for piece in &self.pieces {
            if !piece.score.is_finite() {
                return Err(format!("the score of the piece `{}` is {}", piece.text, piece.score));
            }
            if !known.insert(&piece.text) {
                return Err(format!("it has the piece `{}` twice", piece.text));
            }
        }
        let unknown = self.unknown.id;
        if usize::try_from(unknown).is_ok_and(|id| id >= count) {
            return Err(format!("its unknown piece has the id {unknown}, but it has {count} pieces"));
        }
        let mut bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
        match bytes.find(|byte| self.has_byte_fallback && !known.contains(byte.as_str())) {
            Some(byte) => {
                Err(format!("the piece `{byte}` is missing, though unknown characters become bytes"))
            }
            None => Ok(()),
        }
    }

    fn read_training(&mut self, settings: &[u8]) -> Result<(), String> {
        for_fields(settings, |field, value| {
            match (field, value) {
                (3, Value::Number(kind)) => {
                    self.kind = match kind {
                        1 => ModelKind::Unigram,
                        2 => ModelKind::Merges,
                        _ => ModelKind::Other,
                    };
                }
                (35, Value::Number(flag)) => self.has_byte_fallback = flag != 0,
                (40, Value::Number(id)) => self.unknown.id = id as i32,
                (41, Value::Number(id)) => self.begin.id = id as i32,
                (42, Value::Number(id)) => self.end.id = id as i32,
                (45, Value::Bytes(piece)) => self.unknown.text = text(piece)?,
                (46, Value::Bytes(piece)) => self.begin.text = text(piece)?,
                (47, Value::Bytes(piece)) => self.end.text = text(piece)?,
                (3 | 35 | 40..=42 | 45..=47, _) => return Err(wrong_type(field)),
                _ => {}
            }
            Ok(())
        })
    }
}

fn read_piece(message: &[u8]) -> Result<Piece, String> {
    let mut piece = Piece::default();
    for_fields(message, |field, value| {
        match (field, value) {
            (1, Value::Bytes(bytes)) => piece.text = text(bytes)?,
            (2, Value::Fixed(score)) => piece.score = f32::from_le_bytes(score),
            (3, Value::Number(kind)) => {
                piece.kind = match kind {
                    1 => PieceKind::Normal,
                    3 => PieceKind::Control,
                    4 => PieceKind::UserDefined,
                    _ => PieceKind::Other,
                };
            }
            (1..=3, _) => return Err(wrong_type(field)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(piece)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a piece is not valid UTF-8".to_owned())?;
    Ok(text.to_owned())
}

fn wrong_type(field: u64) -> String {
    format!("its field {field} has an unexpected type")
}

/// Calls `each` with the number and value of every field of a message.
fn for_fields<'f>(
    mut message: &'f [u8],
    mut each: impl FnMut(u64, Value<'f>) -> Result<(), String>,
) -> Result<(), String> {
    while !message.is_empty() {
        let key = number(&mut message)?;
        let value = match key & 7 {
            0 => Value::Number(number(&mut message)?),
            1 => Value::Bytes(take(&mut message, 8)?),
            2 => {
                let length = number(&mut message)?;
                Value::Bytes(take(&mut message, length)?)
            }
            5 => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(take(&mut message, 4)?);
                Value::Fixed(bytes)
            }
            other => return Err(format!("it has a field of the unknown type {other}")),
        };
        each(key >> 3, value)?;
    }
    Ok(())
}

/// Reads a number in groups of seven bits, the lowest first.
fn number(message: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first().ok_or_else(cut_off)?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("it has a number of more than 64 bits".to_owned())
}

fn take<'f>(message: &mut &'f [u8], length: u64) -> Result<&'f [u8], String> {
    let length = usize::try_from(length).map_err(|_| cut_off())?;
    let (taken, rest) = message.split_at_checked(length).ok_or_else(cut_off)?;
    *message = rest;
    Ok(taken)
}

fn cut_off() -> String {
    "it ends in the middle of a field".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_and_skips_others() {
        // A piece `ab` of score -1.5 that is user-defined, and an unknown field of eight bytes.
        let mut file = vec![0x0a, 11, 0x0a, 2, b'a', b'b', 0x15, 0, 0, 0xc0, 0xbf, 0x18, 4];
        file.extend([0x51, 1, 2, 3, 4, 5, 6, 7, 8]);
        // Settings: merges with byte fallback and no end of a sequence.
        let none = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let settings = [&[0x18, 2, 0x98, 0x02, 1, 0xd0, 0x02][..], &none].concat();
        file.extend([0x12, settings.len() as u8]);
        file.extend(settings);
        file.extend([0x1a, 3, 0x12, 1, 9]);
        let read = Proto::read(&file).unwrap();
        let piece = Piece { text: "ab".into(), score: -1.5, kind: PieceKind::UserDefined };
        assert_eq!(read.pieces, [piece]);
        assert_eq!((read.kind, read.has_byte_fallback), (ModelKind::Merges, true));
        assert_eq!(read.end, Special::new(-1, "</s>"));
        assert_eq!(read.begin, Special::new(1, "<s>"));
        assert_eq!(read.table, [9]);
    }

    #[test]
    fn refuses_damaged_messages() {
        let problem = |file: &[u8]| Proto::read(file).unwrap_err();
        assert!(problem(&[0x0a, 5, 0x0a]).contains("ends in the middle"));
        assert!(problem(&[0x0a]).contains("ends in the middle"));
        assert!(problem(&[0x0b]).contains("unknown type 3"));
        assert!(problem(&[0x08, 1]).contains("field 1 has an unexpected type"));
        assert!(problem(&[0x0a, 3, 0x0a, 1, 0xff]).contains("not valid UTF-8"));
        assert!(problem(&[0xff; 11]).contains("more than 64 bits"));
    }
}
