//! The header of a GGUF file: metadata and tensor locations.
//!
//! Every length is checked against the rest of the file before allocating, so that a damaged file needs at most a few times its
//! size in memory. The sizes of a tensor are positive and fit into the file, so that their product cannot overflow.

use std::io::Read;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::blocks::BlockType;

const MAGIC: &[u8] = b"GGUF";
/// The default alignment of tensors.
const ALIGNMENT: u64 = 32;
/// The maximum nesting of arrays.
const DEPTH: usize = 4;
/// The maximum number of dimensions of a tensor.
const DIMENSIONS: u32 = 4;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Flag(bool),
    Whole(i64),
    Number(f64),
    String(String),
    Flags(Vec<bool>),
    Wholes(Vec<i64>),
    Numbers(Vec<f64>),
    Strings(Vec<String>),
    /// An array of arrays.
    Nested,
}

/// The location and data type of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) dtype: BlockType,
    pub(super) shape: Vec<usize>,
    /// The index of its file.
    pub(super) shard: usize,
    /// The offset from the start of the file.
    pub(super) start: u64,
    pub(super) bytes: usize,
}

impl Stored {
    /// Converts its bytes to numbers.
    pub(super) fn numbers(&self, bytes: &[u8]) -> Vec<f32> {
        /// Blocks that a thread converts at a time.
        const BLOCKS: usize = 4096;
        let (count, size) = self.dtype.block();
        let mut numbers = vec![0.0; bytes.len() / size * count];
        let pieces = bytes.par_chunks(BLOCKS * size).zip(numbers.par_chunks_mut(BLOCKS * count));
        pieces.for_each(|(bytes, into)| self.dtype.read(bytes, into));
        numbers
    }
}

/// The parsed header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) entries: FxHashMap<String, Entry>,
    pub(super) tensors: FxHashMap<String, Stored>,
}

impl Header {
    /// Reads the header of a file of `length` bytes.
    pub(super) fn read(reader: impl Read, length: u64) -> Result<Self, String> {
        let mut bytes = Bytes { reader, left: length, wide: true };
        if bytes.take(4).ok().as_deref() != Some(MAGIC) {
            return Err("it is not a GGUF file".into());
        }
        match bytes.u32()? {
            1 => bytes.wide = false,
            2 | 3 => {}
            version if (1..=3).contains(&version.swap_bytes()) => {
                return Err("it is big-endian; convert the model again".into());
            }
            version => {
                return Err(format!("its format version is {version}; versions 1 to 3 are supported"));
            }
        }
        let (tensor_count, entry_count) = (bytes.length()?, bytes.length()?);
        // The minimum size of an entry and of a tensor description.
        bytes.expect(entry_count, 4 + 4 + 1)?;
        bytes.expect(tensor_count, 4 + 4 + 4 + 8)?;
        let mut entries = FxHashMap::default();
        for _ in 0..entry_count {
            let (key, kind) = (bytes.string()?, bytes.u32()?);
            if entries.contains_key(&key) {
                return Err(format!("it has two metadata entries `{key}`"));
            }
            entries.insert(key, bytes.entry(kind, 0)?);
        }
        let mut found = Vec::new();
        for _ in 0..tensor_count {
            found.push(bytes.tensor()?);
        }
        let alignment = match entries.get("general.alignment") {
            None => ALIGNMENT,
            Some(Entry::Whole(number)) if *number > 0 && number.count_ones() == 1 => *number as u64,
            Some(_) => return Err("its metadata entry `general.alignment` must be a power of two".into()),
        };
        let read = length - bytes.left;
        let data = read
            .checked_next_multiple_of(alignment)
            .ok_or("its metadata entry `general.alignment` is too large")?;
        let mut tensors = FxHashMap::default();
        for (name, mut tensor) in found {
            let start = tensor.start.checked_add(data);
            let end = start.and_then(|start| start.checked_add(tensor.bytes as u64));
            let (Some(start), true) = (start, end.is_some_and(|end| end <= length)) else {
                return Err(format!("the tensor `{name}` is truncated; the file has {length} bytes"));
            };
            tensor.start = start;
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(format!("it has two tensors `{name}`"));
            }
        }
        check_places(&tensors, data, length, alignment)?;
        Ok(Self { entries, tensors })
    }
}

/// Checks that tensors fill the rest of the file one after the other, as every writer puts them. A damaged offset, size or data
/// type would otherwise load numbers of another tensor.
fn check_places(
    tensors: &FxHashMap<String, Stored>,
    data: u64,
    length: u64,
    alignment: u64,
) -> Result<(), String> {
    let mut ordered: Vec<(&String, &Stored)> = tensors.iter().collect();
    ordered.sort_unstable_by_key(|(name, tensor)| (tensor.start, *name));
    let mut expected = data;
    for (name, tensor) in ordered {
        if tensor.start != expected {
            return Err(format!(
                "the tensor `{name}` starts at byte {}, but the one before it ends such that it has to start at byte {expected}; \
                 an offset, a size or a data type is damaged",
                tensor.start
            ));
        }
        // Ends were compared with the length of the file, and an alignment beyond that leaves no room for another tensor.
        expected =
            (tensor.start + tensor.bytes as u64).checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    }
    if expected < length {
        return Err(format!(
            "its tensors end at byte {expected}, but it has {length} bytes; an offset, a size or a data type is damaged"
        ));
    }
    Ok(())
}

/// A bounded reader.
struct Bytes<R> {
    reader: R,
    left: u64,
    /// Whether lengths are 64-bit.
    wide: bool,
}

impl<R: Read> Bytes<R> {
    fn take(&mut self, count: u64) -> Result<Vec<u8>, String> {
        self.expect(count, 1)?;
        let mut taken = vec![0; count as usize];
        self.reader.read_exact(&mut taken).map_err(|error| error.to_string())?;
        self.left -= count;
        Ok(taken)
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], String> {
        self.expect(SIZE as u64, 1)?;
        let mut taken = [0; SIZE];
        self.reader.read_exact(&mut taken).map_err(|error| error.to_string())?;
        self.left -= SIZE as u64;
        Ok(taken)
    }

    /// Fails if the rest of the file is too short for `count` items of at least `size` bytes.
    fn expect(&self, count: u64, size: u64) -> Result<(), String> {
        match count.checked_mul(size) {
            Some(bytes) if bytes <= self.left => Ok(()),
            _ => Err("it is not a GGUF file, or its header is truncated".into()),
        }
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn length(&mut self) -> Result<u64, String> {
        if self.wide { self.u64() } else { self.u32().map(u64::from) }
    }

    fn string(&mut self) -> Result<String, String> {
        let length = self.length()?;
        let bytes = self.take(length)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("a boolean metadata entry is {other}")),
        }
    }

    fn whole(&mut self, kind: u32) -> Result<i64, String> {
        Ok(match kind {
            0 => u8::from_le_bytes(self.array()?).into(),
            1 => i8::from_le_bytes(self.array()?).into(),
            2 => u16::from_le_bytes(self.array()?).into(),
            3 => i16::from_le_bytes(self.array()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.array()?).into(),
            11 => i64::from_le_bytes(self.array()?),
            _ => i64::try_from(self.u64()?).unwrap_or(i64::MAX),
        })
    }

    fn number(&mut self, kind: u32) -> Result<f64, String> {
        match kind {
            6 => Ok(shortest(f32::from_le_bytes(self.array()?))),
            _ => Ok(f64::from_le_bytes(self.array()?)),
        }
    }

    fn entry(&mut self, kind: u32, depth: usize) -> Result<Entry, String> {
        match kind {
            0..=5 | 10 | 11 => self.whole(kind).map(Entry::Whole),
            6 | 12 => self.number(kind).map(Entry::Number),
            7 => self.flag().map(Entry::Flag),
            8 => self.string().map(Entry::String),
            9 if depth < DEPTH => {
                let (kind, count) = (self.u32()?, self.length()?);
                self.expect(count, 1)?;
                self.list(kind, count, depth)
            }
            9 => Err("its metadata has arrays nested too deeply".into()),
            kind => Err(format!("a metadata entry has type {kind}, which is not supported")),
        }
    }

    fn list(&mut self, kind: u32, count: u64, depth: usize) -> Result<Entry, String> {
        Ok(match kind {
            0..=5 | 10 | 11 => Entry::Wholes((0..count).map(|_| self.whole(kind)).collect::<Result<_, _>>()?),
            6 | 12 => Entry::Numbers((0..count).map(|_| self.number(kind)).collect::<Result<_, _>>()?),
            7 => Entry::Flags((0..count).map(|_| self.flag()).collect::<Result<_, _>>()?),
            8 => Entry::Strings((0..count).map(|_| self.string()).collect::<Result<_, _>>()?),
            _ => {
                for _ in 0..count {
                    self.entry(kind, depth + 1)?;
                }
                Entry::Nested
            }
        })
    }

    fn tensor(&mut self) -> Result<(String, Stored), String> {
        let name = self.string()?;
        let count = self.u32()?;
        if count > DIMENSIONS {
            return Err(format!("the tensor `{name}` has {count} dimensions"));
        }
        let sizes: Vec<u64> = (0..count).map(|_| self.length()).collect::<Result<_, _>>()?;
        let kind = self.u32()?;
        let dtype = BlockType::find(kind).ok_or_else(|| {
            format!("the tensor `{name}` has data type number {kind}, which is not supported; use another quantisation of the model")
        })?;
        let start = self.u64()?;
        if sizes.contains(&0) {
            return Err(format!("the tensor `{name}` is empty: its shape is {sizes:?}"));
        }
        let too_large = || format!("the tensor `{name}` is truncated: its shape is {sizes:?}");
        let numbers =
            sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)).ok_or_else(too_large)?;
        let (block, size) = dtype.block();
        let block = block as u64;
        // Rows consist of whole blocks.
        if !sizes.first().copied().unwrap_or(1).is_multiple_of(block) {
            return Err(format!(
                "the rows of the tensor `{name}` are not a multiple of the block size {block}"
            ));
        }
        let bytes = (numbers / block).checked_mul(size as u64);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_large)?;
        let shape: Option<Vec<usize>> = sizes.iter().rev().map(|size| usize::try_from(*size).ok()).collect();
        Ok((name.clone(), Stored { dtype, shape: shape.ok_or_else(too_large)?, shard: 0, start, bytes }))
    }
}

/// Converts a 32-bit float by its shortest decimal: 1e-5 is stored as 9.999999747e-6.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    /// The name, sizes, data type and offset of a tensor.
    type Described<'a> = (&'a str, &'a [u64], u32, u64);

    /// A file with these metadata entries and tensors.
    fn file(entries: &[(&str, u32, &[u8])], tensors: &[Described<'_>]) -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend((tensors.len() as u64).to_le_bytes());
        file.extend((entries.len() as u64).to_le_bytes());
        for (key, kind, value) in entries {
            file.extend(text(key));
            file.extend(kind.to_le_bytes());
            file.extend(*value);
        }
        for (name, sizes, kind, start) in tensors {
            file.extend(text(name));
            file.extend((sizes.len() as u32).to_le_bytes());
            sizes.iter().for_each(|size| file.extend(size.to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend(start.to_le_bytes());
        }
        file
    }

    fn read(file: &[u8]) -> Result<Header, String> {
        Header::read(file, file.len() as u64)
    }

    #[test]
    fn reads_entries_and_tensors() {
        let texts = [&8_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &text("a"), &text("é")].concat();
        let mut content = file(
            &[("n", 4, &7_u32.to_le_bytes()), ("e", 6, &1e-5_f32.to_le_bytes()), ("t", 9, &texts)],
            &[("w", &[4, 2], 0, 0), ("v", &[2], 1, 32)],
        );
        content.resize(content.len().next_multiple_of(32) + 36, 0);
        let header = read(&content).unwrap();
        assert_eq!(header.entries["n"], Entry::Whole(7));
        assert_eq!(header.entries["e"], Entry::Number(1e-5));
        assert_eq!(header.entries["t"], Entry::Strings(vec!["a".into(), "é".into()]));
        let found = &header.tensors["w"];
        assert_eq!((found.shape.as_slice(), found.bytes), ([2, 4].as_slice(), 32));
        assert_eq!(header.tensors["v"].start, found.start + 32);
        for end in 0..content.len() {
            assert!(read(&content[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn refuses_damaged_files() {
        let list = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
        let nested = [list(9, 1), list(9, 1), list(9, 1), list(9, 1), list(9, 1)].concat();
        let wide = file(&[], &[("w", &[1 << 40, 1 << 40], 0, 0)]);
        let cases = [
            (b"GGUF\0\0\0\x03".to_vec(), "big-endian"),
            (b"GGUF\x09\0\0\0".to_vec(), "version is 9"),
            (file(&[("general.alignment", 4, &[0; 4])], &[]), "`general.alignment` must be"),
            (file(&[("general.alignment", 4, &[24, 0, 0, 0])], &[]), "must be a power of two"),
            (file(&[("t", 9, &list(8, u64::MAX))], &[]), "truncated"),
            (file(&[("t", 8, &u64::MAX.to_le_bytes())], &[]), "truncated"),
            (file(&[("t", 9, &nested)], &[]), "nested too deeply"),
            (file(&[("t", 99, &[0; 8])], &[]), "type 99"),
            (file(&[("t", 7, &[3])], &[]), "a boolean metadata entry is 3"),
            (file(&[], &[("w", &[4], 24, 0)]), "`w` has data type number 24"),
            (file(&[], &[("w", &[4], 77, 0)]), "data type number 77"),
            (file(&[], &[("w", &[40], 8, 0)]), "block size 32"),
            (file(&[], &[("w", &[1; 5], 0, 0)]), "5 dimensions"),
            (file(&[], &[("w", &[4], 0, u64::MAX - 8)]), "`w` is truncated"),
            (wide, "`w` is truncated"),
            (file(&[], &[("w", &[1, 0, 1 << 40], 0, 0)]), "`w` is empty"),
            (file(&[("t", 7, &[1]), ("t", 7, &[1])], &[]), "two metadata entries `t`"),
        ];
        for (content, expected) in cases {
            let found = read(&content).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
        // Offsets, sizes, data types and alignments that leave a gap or overlap.
        let mut whole = file(&[], &[("w", &[4, 2], 0, 0), ("v", &[16], 1, 32)]);
        whole.resize(whole.len().next_multiple_of(32) + 64, 0);
        assert!(read(&whole).is_ok());
        let damages: [(&[Described<'_>], &str); 6] = [
            (&[("w", &[4, 2], 0, 0), ("v", &[16], 1, 0)], "starts at byte"),
            (&[("w", &[4, 2], 0, 0), ("v", &[16], 1, 31)], "starts at byte"),
            (&[("w", &[4, 2], 0, 32), ("v", &[16], 1, 32)], "starts at byte"),
            (&[("w", &[4, 2], 0, 0), ("v", &[16], 1, 32)], "its tensors end at byte"),
            (&[("w", &[4, 2], 0, 0), ("v", &[16], 0, 0)], "starts at byte"),
            (&[("w", &[4, 2], 0, 0)], "its tensors end at byte"),
        ];
        for (tensors, expected) in damages {
            let mut content = file(&[], tensors);
            content.resize(content.len().next_multiple_of(32) + 96, 0);
            let found = read(&content).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
        let mut many = b"GGUF\x03\0\0\0".to_vec();
        many.extend([0xff; 16]);
        assert!(read(&many).unwrap_err().contains("truncated"));
    }
}
