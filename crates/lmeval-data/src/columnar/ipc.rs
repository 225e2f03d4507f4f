//! Arrow files, in the stream format that the `datasets` library writes and in the file format.

use std::io::Cursor;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::ArrowError;

use crate::error::Error;
use crate::file::DataFile;
use crate::source::Opened;

use super::{Blocks, ColumnarFile};

/// The magic bytes of the file format.
const MAGIC: &[u8] = b"ARROW1";

/// The location of a message in the file.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: u64,
    length: usize,
}

#[derive(Debug)]
struct IpcBlocks {
    file: DataFile,
    schema: Span,
    /// Each dictionary with the number of batches before it.
    dictionaries: Vec<(usize, Span)>,
    batches: Vec<Span>,
}

/// Opens an Arrow file. Reads only the headers of its batches.
pub(crate) fn open(file: DataFile) -> Result<Opened, Error> {
    let mut offset = first_message(&file)?;
    let mut schema = None;
    let (mut dictionaries, mut batches, mut ends, mut end) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while let Some(message) = next_message(&file, offset)? {
        let span = Span { offset, length: message.length };
        match message.content {
            Content::Schema => schema = Some(span),
            Content::Dictionary => dictionaries.push((batches.len(), span)),
            Content::Batch(0) | Content::Other => {}
            Content::Batch(rows) => {
                end += rows;
                ends.push(end);
                batches.push(span);
            }
        }
        offset += message.length as u64;
    }
    let schema = schema.ok_or_else(|| Error::columnar(file.name(), "the file has no schema"))?;
    let name = file.name().to_owned();
    let blocks = IpcBlocks { file, schema, dictionaries, batches };
    let arrow = blocks.stream(&[])?.schema();
    Ok(ColumnarFile::opened(&name, Box::new(blocks), ends, &arrow))
}

/// The offset of the first message: after the magic bytes of the file format and their padding.
fn first_message(file: &DataFile) -> Result<u64, Error> {
    let head = file.read_at(0, 128)?;
    let padding = head.strip_prefix(MAGIC).map(|rest| rest.iter().take_while(|byte| **byte == 0).count());
    Ok(padding.map_or(0, |padding| (MAGIC.len() + padding) as u64))
}

struct Message {
    length: usize,
    content: Content,
}

enum Content {
    Schema,
    Dictionary,
    Batch(u64),
    Other,
}

/// The message at an offset; `None` at the end of the messages.
fn next_message(file: &DataFile, offset: u64) -> Result<Option<Message>, Error> {
    let cut = || Error::columnar(file.name(), "the file is truncated or is not an Arrow file");
    let word = |offset| -> Result<Option<u32>, Error> {
        let bytes = file.read_at(offset, 4)?;
        Ok(<[u8; 4]>::try_from(&*bytes).ok().map(u32::from_le_bytes))
    };
    // Old files lack the marker before the length.
    let (prefix, length) = match word(offset)? {
        None if offset == file.len() && offset > 8 => return Ok(None),
        None => return Err(cut()),
        Some(u32::MAX) => (8, word(offset + 4)?.ok_or_else(cut)?),
        Some(length) => (4, length),
    };
    if length == 0 {
        return Ok(None);
    }
    let header = file.read_at(offset + prefix, length as usize)?;
    let message = root_as_message(&header).map_err(|_| cut())?;
    let body = usize::try_from(message.bodyLength()).map_err(|_| cut())?;
    let total = prefix as usize + length as usize + body;
    if header.len() < length as usize || offset + total as u64 > file.len() {
        return Err(cut());
    }
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    if let Some(batch) = message.header_as_record_batch().or(dictionary)
        && !fits(&batch, body as u64)
    {
        return Err(cut());
    }
    let content = match message.header_type() {
        MessageHeader::Schema => Content::Schema,
        MessageHeader::DictionaryBatch => Content::Dictionary,
        MessageHeader::RecordBatch => {
            let rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
            Content::Batch(u64::try_from(rows).map_err(|_| cut())?)
        }
        _ => Content::Other,
    };
    Ok(Some(Message { length: total, content }))
}

/// Whether the buffers of a batch lie inside its body; the decoder does not check.
fn fits(batch: &arrow_ipc::RecordBatch<'_>, body: u64) -> bool {
    let rows = batch.length();
    let buffers = batch.buffers().is_none_or(|buffers| {
        buffers.iter().all(|buffer| {
            let end = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
            end.and_then(|(offset, length)| offset.checked_add(length)).is_some_and(|end| end <= body)
        })
    });
    let nodes = batch
        .nodes()
        .is_none_or(|nodes| nodes.iter().all(|node| node.length() >= 0 && node.null_count() >= 0));
    rows >= 0 && buffers && nodes
}

impl IpcBlocks {
    /// A stream of the schema and the given messages.
    fn stream(&self, messages: &[Span]) -> Result<StreamReader<Cursor<Vec<u8>>>, Error> {
        let mut bytes = Vec::new();
        for span in std::iter::once(&self.schema).chain(messages) {
            bytes.extend_from_slice(&self.file.read_at(span.offset, span.length)?);
        }
        StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| self.failure(error))
    }

    fn failure(&self, error: ArrowError) -> Error {
        Error::columnar(self.file.name(), error)
    }
}

impl Blocks for IpcBlocks {
    fn load(&self, block: usize) -> Result<RecordBatch, Error> {
        let before = self.dictionaries.iter().filter(|(batches, _)| *batches <= block).map(|(_, span)| *span);
        let messages: Vec<Span> = before.chain([self.batches[block]]).collect();
        let batch = self.stream(&messages)?.next();
        batch
            .ok_or_else(|| Error::columnar(self.file.name(), "a batch is missing"))?
            .map_err(|error| self.failure(error))
    }
}
