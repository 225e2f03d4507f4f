//! JSON files: lines, concatenated objects, arrays, and arrays inside an object.
//!
//! A first pass finds the offset of every row and infers the column types. Rows are parsed again when they are
//! read, so memory use is twelve bytes per row.

mod infer;
mod scan;

use std::cell::RefCell;
use std::sync::Arc;

use lmeval_pycompat::json::{self, Decoder};
use lmeval_pycompat::{Dict, Value};
use rayon::prelude::*;

use crate::error::{Error, ErrorKind};
use crate::file::DataFile;
use crate::source::{Opened, Source};
use crate::types::Schema;
use crate::ujson;

use infer::{Dates, Inference, Rules, has_json};
use scan::Scanner;

thread_local! {
    /// Decodes rows: their keys share memory.
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// The number of bytes whose types the reference infers together.
const BATCH: u64 = 10 << 20;

/// The number of bytes whose rows are decoded together, on all cores.
const TOGETHER: usize = 1 << 20;

/// The rows of a JSON file.
#[derive(Debug)]
struct JsonFile {
    file: DataFile,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    batches: Vec<Batch>,
    form: RowForm,
}

/// Rows whose types were inferred together.
#[derive(Debug)]
struct Batch {
    end: usize,
    schema: Arc<Schema>,
    floats: Floats,
}

/// The precision of the floats of a batch, see [`ujson`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floats {
    Exact,
    /// Parsed with the codec.
    Loaded,
    /// Parsed and written with the codec, then parsed exactly.
    Rewritten,
    /// Parsed, written and parsed again with the codec.
    Decoded,
}

/// How values become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowForm {
    /// An object is a row.
    Object,
    /// Any value, as the column `text`.
    Text,
    /// An array, whose items are the columns `0`, `1`, …
    Positions,
}

/// Opens a JSON file. `first` marks the first file of the dataset, and `field` is the key of the rows in the top-level
/// object.
pub(crate) fn open(file: &DataFile, field: Option<&str>, first: bool) -> Result<Opened, Error> {
    if let Some(field) = field {
        return open_field(file, field);
    }
    let mut scanner = Scanner::new(file)?;
    scanner.skip_whitespace()?;
    let is_array = scanner.peek()? == Some(b'[');
    let mut pass =
        Pass::new(file, if is_array { Floats::Rewritten } else { Floats::Exact }, Dates::Everywhere);
    pass.keep_ragged_objects = first;
    if is_array {
        pass.array(&mut scanner)?;
        scanner.skip_whitespace()?;
        if scanner.peek()?.is_some() {
            return Err(pass.syntax(scanner.offset(), "unexpected characters after the array"));
        }
    } else {
        pass.lines()?;
    }
    Ok(pass.finish(file.clone()))
}

fn open_field(file: &DataFile, field: &str) -> Result<Opened, Error> {
    let mut scanner = Scanner::new(file)?;
    let mut pass = Pass::new(file, Floats::Decoded, Dates::ByName);
    scanner.skip_whitespace()?;
    if scanner.peek()? != Some(b'{') {
        return Err(pass.syntax(scanner.offset(), format!("expected an object with the key `{field}`")));
    }
    scanner.skip();
    loop {
        scanner.skip_whitespace()?;
        let (offset, key) = scanner.value()?;
        let key = std::str::from_utf8(key).ok().and_then(|key| json::loads(key).ok());
        scanner.skip_whitespace()?;
        if scanner.peek()? != Some(b':') {
            return Err(pass.syntax(offset, format!("the object has no key `{field}`")));
        }
        scanner.skip();
        scanner.skip_whitespace()?;
        if key.as_ref().and_then(Value::as_str) == Some(field) {
            break;
        }
        scanner.value()?;
        scanner.skip_whitespace()?;
        if scanner.peek()? != Some(b',') {
            return Err(pass.syntax(offset, format!("the object has no key `{field}`")));
        }
        scanner.skip();
    }
    match scanner.peek()? {
        Some(b'[') => {
            pass.array(&mut scanner)?;
            Ok(pass.finish(file.clone()))
        }
        Some(b'{') => {
            let (offset, columns) = scanner.value()?;
            let columns = columns.to_vec();
            let rows = transpose(&pass.parse(offset, &columns)?)
                .ok_or_else(|| pass.syntax(offset, "expected an array, or an object of columns"))?;
            let turned = DataFile::from_memory(file.name(), rows.into_bytes());
            let mut pass = Pass::new(&turned, Floats::Decoded, Dates::ByName);
            pass.array(&mut Scanner::new(&turned)?)?;
            Ok(pass.finish(turned.clone()))
        }
        _ => Err(pass.syntax(scanner.offset(), format!("expected an array under the key `{field}`"))),
    }
}

/// Converts columns, each a list or an object of cells, to a JSON array of rows.
fn transpose(columns: &Value) -> Option<String> {
    let mut rows: Vec<Dict> = Vec::new();
    for (name, cells) in columns.as_dict()?.iter() {
        let cells: Vec<&Value> = match cells {
            Value::List(cells) => cells.iter().collect(),
            Value::Dict(cells) => cells.values().collect(),
            _ => return None,
        };
        rows.resize_with(rows.len().max(cells.len()), Dict::new);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.insert(name.clone(), cell.clone());
        }
    }
    json::dumps(&Value::list(rows.into_iter().map(Value::from)), &json::Options::default()).ok()
}

/// The first pass over a file.
struct Pass<'f> {
    file: &'f DataFile,
    decoder: Decoder,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    batches: Vec<Batch>,
    inference: Inference,
    /// The rows of the batch that are empty objects.
    empty_rows: Vec<usize>,
    /// Rows that are not decoded yet: their offsets and lengths, and their bytes one after the other.
    found: Vec<(u64, usize)>,
    found_bytes: Vec<u8>,
    batch_start: u64,
    keep_ragged_objects: bool,
    floats: Floats,
    dates: Dates,
    form: RowForm,
}

impl<'f> Pass<'f> {
    fn new(file: &'f DataFile, floats: Floats, dates: Dates) -> Self {
        Self {
            file,
            decoder: Decoder::new(),
            offsets: Vec::new(),
            lengths: Vec::new(),
            batches: Vec::new(),
            inference: Inference::default(),
            empty_rows: Vec::new(),
            found: Vec::new(),
            found_bytes: Vec::new(),
            batch_start: 0,
            keep_ragged_objects: false,
            floats,
            dates,
            form: RowForm::Object,
        }
    }

    fn syntax(&self, offset: u64, message: impl Into<String>) -> Error {
        match self.file.line_of(offset) {
            Ok(line) => Error::syntax(self.file.name(), line, message),
            Err(error) => error,
        }
    }

    /// Reads objects, usually one per line.
    fn lines(&mut self) -> Result<(), Error> {
        let mut scanner = Scanner::new(self.file)?;
        let mut gap = scanner.skip_whitespace()?;
        // The reference checks for ragged objects only if every line of the first batch is a value.
        let mut one_a_line = gap.lines == 0;
        while scanner.peek()?.is_some() {
            let (offset, bytes) = scanner.value()?;
            let is_first = self.offsets.is_empty() && self.found.is_empty();
            one_a_line &= !bytes.contains(&b'\n') && (gap.lines == 1 || is_first);
            let ends_batch = offset > self.batch_start + BATCH && !is_first;
            if ends_batch || self.found_bytes.len() >= TOGETHER {
                self.add_found()?;
            }
            if ends_batch {
                self.keep_ragged_objects &= one_a_line;
                self.end_batch();
                self.keep_ragged_objects = false;
                self.batch_start = offset;
            }
            self.found.push((offset, bytes.len()));
            self.found_bytes.extend_from_slice(bytes);
            gap = scanner.skip_whitespace()?;
        }
        self.add_found()?;
        self.keep_ragged_objects &= one_a_line && gap.lines <= 1;
        Ok(())
    }

    /// Reads the elements of the array that starts here.
    fn array(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Error> {
        scanner.skip();
        scanner.skip_whitespace()?;
        self.form = match (scanner.peek()?, self.dates) {
            (Some(b'{'), _) => RowForm::Object,
            (Some(b'['), Dates::ByName) => RowForm::Positions,
            _ => RowForm::Text,
        };
        if scanner.peek()? == Some(b']') {
            scanner.skip();
            return Ok(());
        }
        loop {
            scanner.skip_whitespace()?;
            let (offset, bytes) = scanner.value()?;
            self.add(offset, bytes)?;
            scanner.skip_whitespace()?;
            let end = scanner.offset();
            match scanner.peek()? {
                Some(b',') => scanner.skip(),
                Some(b']') => {
                    scanner.skip();
                    return Ok(());
                }
                _ => return Err(self.syntax(end, "expected `,` or `]` in the array")),
            }
        }
    }

    fn parse(&mut self, offset: u64, bytes: &[u8]) -> Result<Value, Error> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                return Err(self.syntax(offset + error.valid_up_to() as u64, "invalid UTF-8"));
            }
        };
        // If the file ends inside a value, report the line of the value, not the empty line after it.
        let text = text.trim_end();
        let decoded = self.decoder.decode(text);
        // An unclosed row swallows the rows after it; report the row itself instead of a later error.
        let decoded = match (decoded, text.find("\n{")) {
            (Err(_), Some(next)) => match self.decoder.decode(text[..next].trim_end()) {
                Err(error) => Err(error),
                Ok(_) => self.decoder.decode(text),
            },
            (decoded, _) => decoded,
        };
        decoded.map_err(|error| {
            let line = self.file.line_of(offset).map_or(0, |line| line + error.line as u64 - 1);
            Error::syntax(
                self.file.name(),
                line,
                format!("{}, at column {} of the value", error.message, error.column),
            )
        })
    }

    /// Decodes the rows that were found, and adds them.
    fn add_found(&mut self) -> Result<(), Error> {
        let (found, bytes) = (std::mem::take(&mut self.found), std::mem::take(&mut self.found_bytes));
        let mut rest = &bytes[..];
        let rows: Vec<(u64, &[u8])> = found
            .into_iter()
            .map(|(offset, length)| {
                let (row, following) = rest.split_at(length);
                rest = following;
                (offset, row)
            })
            .collect();
        let decode = |(_, bytes): &(u64, &[u8])| {
            let text = std::str::from_utf8(bytes).ok()?;
            DECODER.with_borrow_mut(|decoder| decoder.decode(text)).ok()
        };
        let decoded: Vec<Option<Value>> = rows.par_iter().with_min_len(64).map(decode).collect();
        for ((offset, bytes), decoded) in rows.into_iter().zip(decoded) {
            // Decoding it again says what is wrong with it.
            let value = decoded.map_or_else(|| self.parse(offset, bytes), Ok)?;
            self.add_value(offset, bytes.len(), value)?;
        }
        self.found_bytes = bytes;
        self.found_bytes.clear();
        Ok(())
    }

    fn add(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let value = self.parse(offset, bytes)?;
        self.add_value(offset, bytes.len(), value)
    }

    fn add_value(&mut self, offset: u64, length: usize, value: Value) -> Result<(), Error> {
        let row = wrapped(value, self.form)
            .ok_or_else(|| self.syntax(offset, "expected an object: each row is a JSON object"))?;
        self.inference.row(&row);
        if row.is_empty() {
            self.empty_rows.push(self.offsets.len());
        }
        self.offsets.push(offset);
        self.lengths.push(u32::try_from(length).map_err(|_| self.syntax(offset, "the row is too long"))?);
        Ok(())
    }

    fn end_batch(&mut self) {
        let inference = std::mem::take(&mut self.inference);
        let mut rules = Rules { keep_ragged_objects: self.keep_ragged_objects, dates: self.dates };
        let plain = self.dates == Dates::Everywhere && inference.needs_plain_reader(rules);
        if plain {
            rules.dates = Dates::Never;
        }
        let schema = inference.schema(rules);
        let rewritten = self.floats != Floats::Exact || has_json(&schema.columns);
        let floats = match (self.floats, rewritten, plain) {
            (Floats::Decoded, ..) | (_, true, true) => Floats::Decoded,
            (_, true, false) => Floats::Rewritten,
            (_, false, true) => Floats::Loaded,
            (_, false, false) => Floats::Exact,
        };
        let empty_rows = std::mem::take(&mut self.empty_rows);
        if plain && !has_json(&schema.columns) {
            // Reference: the fallback reader drops rows without columns.
            for row in empty_rows.into_iter().rev() {
                self.offsets.remove(row);
                self.lengths.remove(row);
            }
        }
        self.batches.push(Batch { end: self.offsets.len(), schema: Arc::new(schema), floats });
    }

    fn finish(mut self, file: DataFile) -> Opened {
        self.end_batch();
        let schemas = self.batches.iter().map(|batch| batch.schema.clone()).collect();
        let Self { offsets, lengths, batches, form, .. } = self;
        Opened { schemas, source: Arc::new(JsonFile { file, offsets, lengths, batches, form }) }
    }
}

/// Converts a value to a row.
fn wrapped(value: Value, form: RowForm) -> Option<Dict> {
    match (form, value) {
        (RowForm::Object, Value::Dict(dict)) => Some(Arc::unwrap_or_clone(dict)),
        (RowForm::Object, _) => None,
        (RowForm::Text, value) => Some([(Value::str("text"), value)].into_iter().collect()),
        (RowForm::Positions, Value::List(items)) => Some(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| (Value::from(index.to_string()), item.clone()))
                .collect(),
        ),
        (RowForm::Positions, _) => None,
    }
}

impl Source for JsonFile {
    fn len(&self) -> u64 {
        // Reference: without any columns there are no rows.
        let has_columns = self.batches.iter().any(|batch| !batch.schema.columns.is_empty());
        if has_columns { self.offsets.len() as u64 } else { 0 }
    }

    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error> {
        let position = index as usize;
        let bytes = self.file.read_row(self.offsets[position], self.lengths[position] as usize)?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let changed = || {
            let line = self.file.line_of(self.offsets[position]).unwrap_or(0);
            Error::syntax(self.file.name(), line, "the file changed while it was read")
        };
        let decoded = DECODER.with_borrow_mut(|decoder| decoder.decode(text));
        let mut row = wrapped(decoded.map_err(|_| changed())?, self.form).ok_or_else(changed)?;
        let batch = &self.batches[self.batches.partition_point(|batch| batch.end <= position)];
        match batch.floats {
            Floats::Exact => {}
            Floats::Loaded => row = each(row, ujson::loaded),
            Floats::Rewritten => row = each(row, ujson::reencode),
            Floats::Decoded => row = each(row, ujson::decoded),
        }
        target.convert(row, &batch.schema).map_err(|(column, message)| {
            ErrorKind::Value {
                file: self.file.name().into(),
                row: index,
                column: column.to_string(),
                message,
            }
            .into()
        })
    }
}

fn each(row: Dict, change: fn(Value) -> Value) -> Dict {
    row.into_entries().map(|(key, value)| (key, change(value))).collect()
}
