//! CSV and TSV files, with the column types that pandas would infer.
//!
//! A first pass finds the offset of every record and infers column types per ten thousand rows, as the reference
//! does. Records are split again when a row is read.

mod number;
mod options;
mod records;

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::error::{Error, ErrorKind};
use crate::file::DataFile;
use crate::source::{Opened, Source};
use crate::types::{Schema, Type};

use number::Integer;
pub(crate) use options::{CsvOptions, is_utf8};
use records::{Dialect, Records, cells};

/// The number of rows whose types are inferred together.
const CHUNK: usize = 10_000;

/// The rows of a CSV file.
#[derive(Debug)]
struct CsvFile {
    file: DataFile,
    options: Arc<CsvOptions>,
    columns: Vec<Column>,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    chunks: Vec<Chunk>,
}

/// A column: its name and its index in the record.
#[derive(Debug)]
struct Column {
    name: Arc<str>,
    index: usize,
}

#[derive(Debug)]
struct Chunk {
    end: usize,
    kinds: Vec<Kind>,
    schema: Arc<Schema>,
}

/// How the cells of a column are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
    Bool,
    Text,
    /// A string column in which missing cells are not replaced.
    RawText,
}

/// Opens a CSV file.
pub(crate) fn open(file: DataFile, options: &Arc<CsvOptions>) -> Result<Opened, Error> {
    let mut records = Records::new(&file, options.dialect)?;
    for _ in 0..options.skip_rows {
        records.next()?;
    }
    let (columns, width, mut pending) = header(&file, options, &mut records)?;
    let (mut offsets, mut lengths, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = vec![Seen::default(); columns.len()];
    loop {
        let record = match pending.take() {
            Some(first) => Some(first),
            None => records.next()?.map(|record| (record.offset, record.line, record.bytes.to_vec())),
        };
        let Some((offset, line, bytes)) = record else {
            break;
        };
        let text = text_of(&file, line, &bytes)?;
        let cells = cells(text, options.dialect);
        if cells.len() > width {
            let message = format!("expected {width} cells, found {}", cells.len());
            return Err(Error::syntax(file.name(), line, message));
        }
        for (column, seen) in columns.iter().zip(&mut seen) {
            seen.add(cells.get(column.index).map_or("", |cell| cell), options);
        }
        offsets.push(offset);
        lengths.push(
            u32::try_from(bytes.len())
                .map_err(|_| Error::syntax(file.name(), line, "the row is too long"))?,
        );
        if offsets.len() % CHUNK == 0 {
            chunks.push(Chunk::new(offsets.len(), &columns, &mut seen));
        }
    }
    if offsets.len() % CHUNK != 0 || offsets.is_empty() {
        chunks.push(Chunk::new(offsets.len(), &columns, &mut seen));
    }
    let schemas = chunks.iter().map(|chunk| chunk.schema.clone()).collect();
    let options = options.clone();
    Ok(Opened { schemas, source: Arc::new(CsvFile { file, options, columns, offsets, lengths, chunks }) })
}

fn text_of<'b>(file: &DataFile, line: u64, bytes: &'b [u8]) -> Result<&'b str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::syntax(file.name(), line, "invalid UTF-8"))
}

/// A record read ahead: offset, line, content.
type Pending = Option<(u64, u64, Vec<u8>)>;

/// The columns, the number of cells per record, and the first record if there is no header line.
fn header(
    file: &DataFile,
    options: &CsvOptions,
    records: &mut Records<'_>,
) -> Result<(Vec<Column>, usize, Pending), Error> {
    for _ in 0..options.header.unwrap_or(0) {
        records.next()?;
    }
    let Some(first) = records.next()? else {
        return Err(Error::syntax(file.name(), 1, "the file has no columns"));
    };
    let (offset, line, bytes) = (first.offset, first.line, first.bytes.to_vec());
    let cells = cells(text_of(file, line, &bytes)?, options.dialect);
    let names: Vec<String> = match &options.names {
        Some(names) => names.clone(),
        None if options.header.is_none() => (0..cells.len()).map(|index| index.to_string()).collect(),
        None => distinct_names(&cells),
    };
    let width = names.len();
    let columns = names.into_iter().enumerate().filter(|(index, name)| options.uses(*index, name));
    let columns = columns.map(|(index, name)| Column { name: name.into(), index }).collect();
    let pending = options.header.is_none().then_some((offset, line, bytes));
    Ok((columns, width, pending))
}

/// Turns header cells into column names: empty ones are numbered, duplicates get a suffix.
fn distinct_names(cells: &[std::borrow::Cow<'_, str>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(cells.len());
    for (index, cell) in cells.iter().enumerate() {
        let name = if cell.is_empty() { format!("Unnamed: {index}") } else { cell.to_string() };
        let mut candidate = name.clone();
        let mut copy = 0;
        while names.contains(&candidate) || (copy > 0 && cells.iter().any(|other| **other == candidate)) {
            copy += 1;
            candidate = format!("{name}.{copy}");
        }
        names.push(candidate);
    }
    names
}

/// The kinds of cells seen in a column so far.
#[derive(Clone, Debug)]
struct Seen {
    missing: bool,
    values: bool,
    negative: bool,
    unsigned: bool,
    too_long: bool,
    /// Whether a positive integer over 64 bits occurred before any cell that is not an integer.
    overflow: bool,
    integers: bool,
    floats: bool,
    booleans: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            missing: false,
            values: false,
            negative: false,
            unsigned: false,
            too_long: false,
            overflow: false,
            integers: true,
            floats: true,
            booleans: true,
        }
    }
}

impl Seen {
    fn add(&mut self, cell: &str, options: &CsvOptions) {
        if options.is_missing(cell) {
            self.missing = true;
            return;
        }
        self.values = true;
        match self.integers.then(|| number::integer(cell)).flatten() {
            Some(Integer::Signed(number)) => self.negative |= number < 0,
            Some(Integer::Unsigned(_)) => self.unsigned = true,
            Some(Integer::TooLong) => {
                self.too_long = true;
                self.negative |= cell.contains('-');
                self.overflow |= !cell.contains('-');
            }
            None => self.integers = false,
        }
        self.floats = self.floats && (self.integers || number::float(cell).is_some());
        self.booleans = self.booleans && number::boolean(cell).is_some();
    }

    fn kind(&self) -> Kind {
        if !self.values {
            Kind::Float
        } else if self.overflow
            || (self.integers && (self.too_long || (self.unsigned && (self.negative || self.missing))))
        {
            // Reference: a column that fits neither signed nor unsigned integers stays a string.
            Kind::RawText
        } else if self.integers && !self.missing {
            Kind::Integer
        } else if self.floats {
            Kind::Float
        } else if self.booleans {
            Kind::Bool
        } else {
            Kind::Text
        }
    }
}

impl Chunk {
    fn new(end: usize, columns: &[Column], seen: &mut [Seen]) -> Self {
        let kinds: Vec<Kind> = seen.iter_mut().map(|seen| std::mem::take(seen).kind()).collect();
        let fields = columns.iter().zip(&kinds).map(|(column, kind)| {
            let kind = match kind {
                Kind::Integer => Type::Int,
                Kind::Float => Type::Float,
                Kind::Bool => Type::Bool,
                Kind::Text | Kind::RawText => Type::Str,
            };
            (column.name.clone(), kind)
        });
        Self { end, schema: Arc::new(Schema::new(fields.collect())), kinds }
    }
}

impl Source for CsvFile {
    fn len(&self) -> u64 {
        self.offsets.len() as u64
    }

    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error> {
        let position = index as usize;
        let bytes = self.file.read_at(self.offsets[position], self.lengths[position] as usize)?;
        let cells = cells(std::str::from_utf8(&bytes).unwrap_or_default(), self.options.dialect);
        let chunk = &self.chunks[self.chunks.partition_point(|chunk| chunk.end <= position)];
        let mut row = Dict::with_capacity(self.columns.len());
        for (column, kind) in self.columns.iter().zip(&chunk.kinds) {
            let cell = cells.get(column.index).map_or("", |cell| cell);
            let value = match kind {
                Kind::RawText => Value::str(cell),
                _ if self.options.is_missing(cell) => Value::None,
                Kind::Integer => match number::integer(cell) {
                    Some(Integer::Signed(number)) => Value::Int(number),
                    Some(Integer::Unsigned(number)) => Value::from_bigint(number.into()),
                    _ => Value::None,
                },
                Kind::Float => number::float(cell).into(),
                Kind::Bool => number::boolean(cell).into(),
                Kind::Text => Value::str(cell),
            };
            row.insert(Value::Str(column.name.clone()), value);
        }
        target.convert(row, &chunk.schema).map_err(|(column, message)| {
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
