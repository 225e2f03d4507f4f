//! The samples file of a task, from those of all shards.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval_analysis::read::{samples_change, written_samples};
use lmeval_core::Diagnostic;
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};
use lmeval_report::{Layout, SampleOptions, SamplesWriter, WrittenSamples};
use lmeval_scoring::results::LinesChecksum;

use super::shard::{AGAIN, Shard};

/// Merges the records of a task; returns the file, or `None` without any records.
///
/// A samples file has the records of one pipeline after the other, each in the order of documents.
pub(super) fn merge(
    shards: &[Shard],
    task: &str,
    layout: &Layout,
    stamp: &str,
) -> Result<Option<WrittenSamples>> {
    let files = shards.iter().filter_map(|shard| {
        let path = shard.task(task)?.samples.as_deref()?;
        Some(Reader::open(path, written_samples(&shard.results, task)))
    });
    let mut readers: Vec<Reader<'_>> = files.collect::<Result<_>>()?;
    if readers.is_empty() {
        return Ok(None);
    }
    let mut writer = SamplesWriter::new(layout, task, SampleOptions::default())?;
    let merged = (|| {
        while readers.iter().any(|reader| reader.next.is_some()) {
            merge_pipeline(&mut readers, &mut writer)?;
        }
        Ok(())
    })();
    if let Err(error) = merged {
        // Report the first failure, not this one.
        let _ = writer.discard();
        return Err(error);
    }
    Ok(Some(writer.finish(stamp)?))
}

/// Merges the records of one pipeline: those of each file until its documents start over.
fn merge_pipeline(readers: &mut [Reader<'_>], writer: &mut SamplesWriter) -> Result<()> {
    let first = readers
        .iter()
        .enumerate()
        .filter_map(|(index, reader)| Some((reader.next.as_ref()?.document, index)));
    let mut waiting: BinaryHeap<Reverse<(i64, usize)>> = first.map(Reverse).collect();
    while let Some(Reverse((document, index))) = waiting.pop() {
        let reader = &mut readers[index];
        let Some(record) = reader.next.take() else { continue };
        writer.copy(&record.line, record.hashes.each_ref().map(String::as_str))?;
        reader.advance()?;
        if let Some(next) = reader.next.as_ref().filter(|next| next.document > document) {
            waiting.push(Reverse((next.document, index)));
        }
    }
    Ok(())
}

/// A line of a samples file.
struct Record {
    document: i64,
    line: String,
    /// The hashes of document, prompt and target.
    hashes: [String; 3],
}

/// Reads a samples file.
struct Reader<'a> {
    path: &'a Path,
    lines: BufReader<fs::File>,
    decoder: Decoder,
    number: usize,
    next: Option<Record>,
    /// The checksum that the file had when it was written, and that of the lines read so far.
    written: Option<LinesChecksum>,
    read: LinesChecksum,
}

impl<'a> Reader<'a> {
    fn open(path: &'a Path, written: Option<LinesChecksum>) -> Result<Self> {
        let lines = BufReader::with_capacity(1 << 16, fs::File::open(path)?);
        let read = LinesChecksum::default();
        let mut reader = Self { path, lines, decoder: Decoder::new(), number: 0, next: None, written, read };
        reader.advance()?;
        Ok(reader)
    }

    /// Reads the next record.
    fn advance(&mut self) -> Result<()> {
        let mut line = String::new();
        self.number += 1;
        if self.lines.read_line(&mut line)? == 0 {
            self.next = None;
            let file = self.path.display().to_string();
            if let Some(change) = self.written.and_then(|written| samples_change(&file, written, self.read)) {
                bail!(Diagnostic::new(change).hint(AGAIN));
            }
            return Ok(());
        }
        self.read.add(line.as_bytes());
        line.truncate(line.trim_end_matches('\n').len());
        let value = self.decoder.decode(&line).ok();
        let Some((document, hashes)) = value.as_ref().and_then(Value::as_dict).and_then(identity) else {
            let message =
                format!("`{}` is damaged in line {}: not a sample", self.path.display(), self.number);
            bail!(Diagnostic::new(message).hint(AGAIN));
        };
        self.next = Some(Record { document, line, hashes });
        Ok(())
    }
}

fn identity(record: &Dict) -> Option<(i64, [String; 3])> {
    let hash = |key: &str| record.get_str(key).and_then(Value::as_str).map(str::to_owned);
    let document = record.get_str("doc_id")?.as_i64()?;
    Some((document, [hash("doc_hash")?, hash("prompt_hash")?, hash("target_hash")?]))
}
