//! Parquet files.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::Error;
use crate::file::{DataFile, Reader};
use crate::source::Opened;

use super::{Blocks, ColumnarFile, guarded};

/// Row groups above this size in bytes are decoded in parts.
const LARGE_GROUP: u64 = 32 << 20;

/// How many readers stay open at their positions in large row groups: requests are built, sent and scored at different rows.
const CURSORS: usize = 4;

impl Length for DataFile {
    fn len(&self) -> u64 {
        Self::len(self)
    }
}

impl ChunkReader for DataFile {
    type T = Reader;

    fn get_read(&self, start: u64) -> Result<Reader, ParquetError> {
        let mut reader = self.reader();
        std::io::Seek::seek(&mut reader, std::io::SeekFrom::Start(start))?;
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.read_at(start, length).map_err(|error| ParquetError::External(Box::new(error)))?;
        if bytes.len() == length {
            Ok(bytes)
        } else {
            Err(ParquetError::EOF(format!("expected {length} bytes at {start}, found {}", bytes.len())))
        }
    }
}

#[derive(Debug)]
struct ParquetBlocks {
    file: DataFile,
    metadata: ArrowReaderMetadata,
    parts: Vec<RowSpan>,
    /// The most recently used one last.
    cursors: Mutex<Vec<Cursor>>,
}

/// Rows of a row group that are decoded together.
#[derive(Clone, Copy, Debug)]
struct RowSpan {
    group: usize,
    offset: usize,
    rows: usize,
    /// The number of rows in each part of this group except the last.
    step: usize,
}

/// A reader positioned at a block.
struct Cursor {
    next: usize,
    reader: ParquetRecordBatchReader,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("next", &self.next).finish_non_exhaustive()
    }
}

/// Opens a Parquet file.
pub(crate) fn open(file: DataFile) -> Result<Opened, Error> {
    let metadata = guarded(file.name(), || {
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|error| Error::columnar(file.name(), error))
    })?;
    let mut parts = Vec::new();
    let mut ends = Vec::new();
    let mut end = 0;
    for (group, columns) in metadata.metadata().row_groups().iter().enumerate() {
        let rows = usize::try_from(columns.num_rows()).unwrap_or(0);
        let size = u64::try_from(columns.total_byte_size()).unwrap_or(0);
        let step = rows.div_ceil((size / LARGE_GROUP) as usize + 1).max(1);
        for offset in (0..rows).step_by(step) {
            let part = RowSpan { group, offset, rows: step.min(rows - offset), step };
            end += part.rows as u64;
            parts.push(part);
            ends.push(end);
        }
    }
    let schema = metadata.schema().clone();
    let name = file.name().to_owned();
    let blocks = ParquetBlocks { file, metadata, parts, cursors: Mutex::default() };
    Ok(ColumnarFile::opened(&name, Box::new(blocks), ends, &schema))
}

impl Blocks for ParquetBlocks {
    fn load(&self, block: usize) -> Result<RecordBatch, Error> {
        let fail = |error: ParquetError| Error::columnar(self.file.name(), error);
        let part = self.parts[block];
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let positioned = cursors.iter().position(|cursor| cursor.next == block);
        let mut reader = match positioned.map(|index| cursors.remove(index)) {
            Some(cursor) => cursor.reader,
            None => {
                ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                    .with_row_groups(vec![part.group])
                    .with_offset(part.offset)
                    .with_batch_size(part.step)
                    .build()
                    .map_err(fail)?
            }
        };
        let batch =
            reader.next().ok_or_else(|| Error::columnar(self.file.name(), "a row group ends too early"))?;
        let batch = batch.map_err(|error| Error::columnar(self.file.name(), error))?;
        let next = block + 1;
        if self.parts.get(next).is_some_and(|next| next.group == part.group) {
            if cursors.len() >= CURSORS {
                cursors.remove(0);
            }
            cursors.push(Cursor { next, reader });
        }
        Ok(batch)
    }
}
