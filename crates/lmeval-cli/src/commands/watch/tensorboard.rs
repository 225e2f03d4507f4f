//! Scores as event files of TensorBoard, one per step: a file that exists is not written again.

use std::path::Path;

use anyhow::Result;
use fs_err as fs;
use lmeval_analysis::curve::Curve;
use lmeval_report::{Moment, write_atomically};

/// The polynomial of CRC-32C, reflected.
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// Writes the scores of the steps that have no file yet.
pub(super) fn write(curve: &Curve, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let entries = fs::read_dir(folder)?.flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for (index, step) in curve.steps.iter().enumerate() {
        let ending = format!(".step{}", step.step);
        if names.iter().any(|name| name.ends_with(&ending)) {
            continue;
        }
        let scores = curve.scores.iter().filter_map(|score| {
            let value = score.points.get(index)?.as_ref()?.value;
            Some((format!("{}/{}", score.task, score.label()), value as f32))
        });
        let now = Moment::now().unix_seconds();
        let mut content = record(&event(now, None, Body::Version("brain.Event:2")));
        content.extend(record(&event(now, Some(step.step), Body::Scores(scores.collect()))));
        // TensorBoard reads the files of a folder in the order of their names, each to its end.
        write_atomically(&folder.join(format!("events.out.tfevents.{now:.6}{ending}")), &content)?;
    }
    Ok(())
}

enum Body<'a> {
    Version(&'a str),
    Scores(Vec<(String, f32)>),
}

/// An `Event` in the encoding of protocol buffers: the time is field 1, the step field 2, the version field 3, a summary field 5.
fn event(time: f64, step: Option<u64>, body: Body<'_>) -> Vec<u8> {
    let mut event = vec![0x09];
    event.extend(time.to_le_bytes());
    if let Some(step) = step {
        event.push(0x10);
        varint(&mut event, step);
    }
    match body {
        Body::Version(version) => field(&mut event, 0x1a, version.as_bytes()),
        Body::Scores(scores) => {
            let mut summary = Vec::new();
            for (tag, value) in scores {
                // A `Summary.Value` has its tag as field 1, and a number as field 2.
                let mut entry = Vec::new();
                field(&mut entry, 0x0a, tag.as_bytes());
                entry.push(0x15);
                entry.extend(value.to_le_bytes());
                field(&mut summary, 0x0a, &entry);
            }
            field(&mut event, 0x2a, &summary);
        }
    }
    event
}

fn field(out: &mut Vec<u8>, key: u8, content: &[u8]) {
    out.push(key);
    varint(out, content.len() as u64);
    out.extend(content);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A record of a TFRecord file: length, its checksum, content, its checksum.
fn record(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked(&length).to_le_bytes());
    record.extend(content);
    record.extend(masked(content).to_le_bytes());
    record
}

/// The checksum as the format rotates and shifts it.
fn masked(content: &[u8]) -> u32 {
    let checksum = !content.iter().fold(u32::MAX, |checksum, byte| {
        (0..8).fold(checksum ^ u32::from(*byte), |checksum, _| {
            if checksum & 1 == 1 { checksum >> 1 ^ CASTAGNOLI } else { checksum >> 1 }
        })
    });
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_format() {
        // CRC-32C of "123456789" is e3069283.
        assert_eq!(masked(b"123456789"), 0xe306_9283u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn large_numbers_take_several_bytes() {
        let mut out = Vec::new();
        varint(&mut out, 143_000);
        assert_eq!(out, [0x98, 0xdd, 0x08]);
    }
}
