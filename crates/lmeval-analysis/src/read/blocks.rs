//! Blocks of whole lines of a file, parsed on all cores while the next ones are read.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use fs_err as fs;
use lmeval_core::Diagnostic;
use rayon::prelude::*;

use crate::Error;

/// The bytes of a block, without the rest of its last line.
const BLOCK: usize = 1 << 20;

/// The most blocks in memory; twice as many while the next ones are read.
const MOST_BLOCKS: usize = 16;

/// Passes a file to `parse` in blocks of whole lines, each with its offset, and the outcomes to `take` in order.
///
/// Buffers are used again: the pages of fresh ones cost more than reading a cached file.
pub(crate) fn parse_blocks<T: Send>(
    path: &Path,
    parse: impl Fn(&[u8], u64) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let unreadable = |error| unreadable(path, error);
    let mut reader = BufReader::with_capacity(1 << 16, fs::File::open(path).map_err(unreadable)?);
    let count = (8 * rayon::current_num_threads()).clamp(2, MOST_BLOCKS);
    let mut current: Vec<Vec<u8>> = vec![Vec::new(); count];
    let mut next = current.clone();
    read(&mut reader, &mut current).map_err(unreadable)?;
    let mut start = 0;
    while !current[0].is_empty() {
        let mut located: Vec<(u64, &[u8])> = Vec::with_capacity(count);
        for block in current.iter().filter(|block| !block.is_empty()) {
            located.push((start, block));
            start += block.len() as u64;
        }
        let work = || located.into_par_iter().map(|(start, block)| parse(block, start)).collect();
        let (read, parsed): (_, Vec<T>) = rayon::join(|| read(&mut reader, &mut next), work);
        parsed.into_iter().try_for_each(&mut take)?;
        read.map_err(unreadable)?;
        std::mem::swap(&mut current, &mut next);
    }
    Ok(())
}

/// Fills blocks; those after the end of the file are empty.
fn read(reader: &mut BufReader<fs::File>, blocks: &mut [Vec<u8>]) -> std::io::Result<()> {
    for block in blocks {
        block.clear();
        reader.take(BLOCK as u64).read_to_end(block)?;
        if block.last().is_some_and(|last| *last != b'\n') {
            reader.read_until(b'\n', block)?;
        }
    }
    Ok(())
}

/// The lines of a block with their offsets, including empty ones, with line feeds.
pub(crate) fn lines(block: &[u8], start: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let (mut offset, mut rest) = (start, block);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
        let (line, following) = rest.split_at(end);
        let line = (offset, line);
        rest = following;
        offset += end as u64;
        Some(line)
    })
}

pub(crate) fn unreadable(path: &Path, error: std::io::Error) -> Diagnostic {
    Diagnostic::cannot_read(path, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_all_lines_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        // Longer than a block, empty, and without a line feed at the end.
        let mut written: Vec<String> = (0..200_000).map(|line| format!("line {line} of many\n")).collect();
        written.insert(100, format!("{}\n", "x".repeat(3 * BLOCK)));
        written.insert(7, "\n".to_owned());
        written.push("the end".to_owned());
        fs::write(&path, written.concat()).expect("the file is written");
        let (mut found, mut at) = (Vec::new(), 0);
        let parse = |block: &[u8], start| -> Vec<(u64, String)> {
            lines(block, start).map(|(offset, line)| (offset, String::from_utf8_lossy(line).into())).collect()
        };
        let take = |part: Vec<(u64, String)>| {
            for (offset, line) in part {
                assert_eq!(offset, at);
                at += line.len() as u64;
                found.push(line);
            }
            Ok(())
        };
        parse_blocks(&path, parse, take).expect("it is read");
        assert!(found == written);
    }
}
