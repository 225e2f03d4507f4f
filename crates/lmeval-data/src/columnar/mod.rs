//! Parquet and Arrow files, decoded in blocks of rows on demand.

mod cache;
mod ipc;
mod parquet;
mod value;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema as ArrowSchema};
use lmeval_pycompat::{Dict, Value, json, repr};

use crate::cell::has_media;
use crate::error::{Error, ErrorKind};
use crate::media;
use crate::source::{Opened, Source};
use crate::types::{Fields, Schema, Type};

use cache::FileBlocks;
pub(crate) use ipc::open as open_arrow;
pub(crate) use parquet::open as open_parquet;

/// A file that is decoded block by block.
trait Blocks: Debug + Send + Sync {
    fn load(&self, block: usize) -> Result<RecordBatch, Error>;
}

/// The rows of a Parquet or Arrow file.
#[derive(Debug)]
struct ColumnarFile {
    file: Arc<str>,
    blocks: Box<dyn Blocks>,
    /// The end row of each block (exclusive).
    ends: Vec<u64>,
    schema: Arc<Schema>,
    /// Whether stored values are not yet those of rows: JSON, images and sounds.
    is_encoded: bool,
    kept: FileBlocks,
    /// Held while a block is decoded, so that threads that need the same one decode it once.
    decoding: Mutex<()>,
}

impl ColumnarFile {
    fn opened(file: &str, blocks: Box<dyn Blocks>, ends: Vec<u64>, arrow: &ArrowSchema) -> Opened {
        let schema = Arc::new(schema_of(arrow));
        let is_encoded = schema.columns.iter().any(|(_, kind)| is_encoded(kind));
        let kept = FileBlocks::new(schema.columns.iter().any(|(_, kind)| has_media(kind)));
        let (file, decoding) = (file.into(), Mutex::new(()));
        let source = Self { file, blocks, ends, schema: schema.clone(), is_encoded, kept, decoding };
        Opened { source: Arc::new(source), schemas: vec![schema] }
    }

    /// A decoded block, cached if possible.
    fn block(&self, block: usize) -> Result<RecordBatch, Error> {
        if let Some(batch) = self.kept.get(block) {
            return Ok(batch);
        }
        let _decoding = self.decoding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batch) = self.kept.get(block) {
            return Ok(batch);
        }
        let batch = guarded(&self.file, || self.blocks.load(block))?;
        self.kept.put(block, batch.clone());
        Ok(batch)
    }
}

/// Runs a decoder and turns panics, which some kinds of damage cause, into errors.
fn guarded<T>(file: &str, decode: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // A decoder that has panicked is not used again.
    lmeval_core::guarded(decode).unwrap_or_else(|_| Err(Error::columnar(file, "the file is damaged")))
}

impl Source for ColumnarFile {
    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error> {
        let block = self.ends.partition_point(|end| *end <= index);
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        let batch = self.block(block)?;
        let row_in_block = (index - start) as usize;
        if row_in_block >= batch.num_rows() {
            return Err(Error::columnar(&self.file, "a block has fewer rows than the file declares"));
        }
        let mut row = Dict::with_capacity(batch.num_columns());
        for (position, ((name, _), column)) in self.schema.columns.iter().zip(batch.columns()).enumerate() {
            if target.column(name, position).is_none() {
                continue;
            }
            let value = value::value_at(column.as_ref(), row_in_block)
                .map_err(|message| self.conversion_error(index, name, message))?;
            row.insert(Value::Str(name.clone()), value);
        }
        if !self.is_encoded && *target == *self.schema {
            return Ok(row);
        }
        // The stored values already have their stored type, so only the target matters.
        target.convert(row, target).map_err(|(name, message)| self.conversion_error(index, &name, message))
    }
}

impl ColumnarFile {
    fn conversion_error(&self, row: u64, column: &str, message: String) -> Error {
        ErrorKind::Value { file: self.file.to_string(), row, column: column.into(), message }.into()
    }
}

/// The schema of a file, including the features that the `datasets` library wrote into its metadata.
fn schema_of(arrow: &ArrowSchema) -> Schema {
    let metadata = arrow.metadata.get("huggingface").and_then(|text| json::loads(text).ok());
    let features = metadata
        .as_ref()
        .and_then(|metadata| metadata.as_dict()?.get_str("info")?.as_dict()?.get_str("features")?.as_dict());
    let columns = arrow.fields().iter().map(|field| {
        let feature = features.and_then(|features| features.get_str(field.name()));
        (Arc::from(field.name().as_str()), kind_of(field.data_type(), feature))
    });
    Schema::new(columns.collect())
}

fn kind_of(kind: &DataType, feature: Option<&Value>) -> Type {
    let dict = feature.and_then(Value::as_dict);
    let tag = dict.and_then(|dict| dict.get_str("_type")?.as_str());
    if tag == Some("Json") {
        return Type::Json;
    }
    if let (Some(settings), Some(media)) = (feature, tag.and_then(media::tagged)) {
        return media::column(media, settings);
    }
    match kind {
        DataType::Null => Type::Null,
        DataType::Boolean => Type::Bool,
        kind if kind.is_integer() && tag == Some("ClassLabel") => {
            let names = dict.and_then(|dict| dict.get_str("names")?.as_list()).unwrap_or_default();
            Type::ClassLabel(names.iter().map(|name| Arc::from(repr::str(name))).collect())
        }
        kind if kind.is_integer() => Type::Int,
        DataType::Float32 => Type::Float32,
        DataType::Float64 => Type::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Str,
        DataType::Timestamp(_, None) => Type::Timestamp,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            let inner = match (tag, feature) {
                (Some(_), _) => dict.and_then(|dict| dict.get_str("feature")),
                (None, Some(Value::List(items))) => items.first(),
                _ => None,
            };
            Type::List(Box::new(kind_of(item.data_type(), inner)))
        }
        DataType::Struct(fields) => {
            // Features of media types have fields that the metadata does not list. The old sequence of records
            // lists them one level down, each stored as a list.
            let (inner, is_sequence) = match tag {
                Some("Sequence") => (dict.and_then(|dict| dict.get_str("feature")?.as_dict()), true),
                Some(_) => (None, false),
                None => (dict, false),
            };
            let fields = fields.iter().map(|field| {
                let feature = inner.and_then(|inner| inner.get_str(field.name()));
                let kind = match (field.data_type(), is_sequence) {
                    (DataType::List(item), true) => Type::List(Box::new(kind_of(item.data_type(), feature))),
                    (kind, _) => kind_of(kind, feature),
                };
                (Arc::from(field.name().as_str()), kind)
            });
            Type::Struct(fields.collect::<Fields>())
        }
        DataType::Dictionary(_, kind) => kind_of(kind, None),
        _ => Type::Any,
    }
}

fn is_encoded(kind: &Type) -> bool {
    match kind {
        Type::Json | Type::Media(..) => true,
        Type::List(item) => is_encoded(item),
        Type::Struct(fields) => fields.iter().any(|(_, kind)| is_encoded(kind)),
        _ => false,
    }
}
