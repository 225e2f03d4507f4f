//! Checksums in results files, with which readers notice that scores or samples are not as the run wrote them.
//!
//! They protect against accidents and careless edits. Whoever changes a file on purpose can compute them again.

use lmeval_pycompat::{Dict, Value, repr};
use sha2::{Digest as _, Sha256};

/// The key of the checksums in a results file.
pub const CHECKSUMS: &str = "checksums";

/// The key, inside of [`CHECKSUMS`], of those of the sections.
const SECTIONS: &str = "sections";

/// The key, inside of [`CHECKSUMS`], of those of the samples files.
const SAMPLES: &str = "samples";

/// Keys that only describe a run: people rename models and remove facts about their machines before they publish results. A receipt has
/// a checksum of its own.
const DESCRIPTIONS: [&str; 9] = [
    CHECKSUMS,
    "receipt",
    "model_name",
    "model_name_sanitized",
    "model_source",
    "git_hash",
    "upper_git_hash",
    "pretty_env_info",
    "total_evaluation_time_seconds",
];

/// Sections with numbers that tables show: one that the run did not write is as wrong as one that was changed.
const SCORES: [&str; 9] = [
    "results",
    "groups",
    "group_subtasks",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "failed_requests",
    "missing_shards",
];

/// The checksums of a results file: of each section, and of the samples files by task.
///
/// `object` has to be as it is read from the file: with lists instead of tuples, for example.
pub fn checksums(object: &Dict, samples: Dict) -> Value {
    let sections =
        object.iter().filter(|(key, _)| key.as_str().is_some_and(|key| !DESCRIPTIONS.contains(&key)));
    let sections: Dict =
        sections.map(|(key, value)| (key.clone(), Value::from(value_checksum(value)))).collect();
    Value::dict([(SECTIONS, Value::from(sections)), (SAMPLES, Value::from(samples))])
}

/// The sections that differ from their checksums. `value_of` returns a section, or `None` if the file does not have it; `is_read`
/// says which sections are checked at all.
pub fn changed_sections(
    checksums: &Value,
    is_read: impl Fn(&str) -> bool,
    value_of: impl Fn(&str) -> Option<Value>,
) -> Vec<String> {
    let Some(sections) = checksums.as_dict().and_then(|checksums| checksums.get_str(SECTIONS)?.as_dict())
    else {
        // Checksums that cannot be read were not written like this.
        return vec![CHECKSUMS.to_owned()];
    };
    let known = sections.keys().filter_map(Value::as_str);
    let added = SCORES.into_iter().filter(|key| !sections.contains_str(key));
    known
        .chain(added)
        .filter(|key| is_read(key))
        .filter(|key| {
            let expected = sections.get_str(key).and_then(Value::as_str);
            value_of(key).map(|value| value_checksum(&value)).as_deref() != expected
        })
        .map(str::to_owned)
        .collect()
}

/// The tasks whose samples files have checksums, with them.
pub fn samples_checksums(checksums: &Value) -> impl Iterator<Item = (&str, LinesChecksum)> {
    let samples = checksums.as_dict().and_then(|checksums| checksums.get_str(SAMPLES)?.as_dict());
    samples
        .into_iter()
        .flat_map(Dict::iter)
        .filter_map(|(task, value)| Some((task.as_str()?, LinesChecksum::from_value(value)?)))
}

/// The checksum of a JSON value. Neither the order of keys nor the spelling of numbers matters, so that a file that a program has
/// read and written again keeps its checksums.
pub fn value_checksum(value: &Value) -> String {
    let mut hasher = Sha256::new();
    add(&mut hasher, value);
    let digest = hasher.finalize();
    format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|index| digest[index])))
}

fn add(hasher: &mut Sha256, value: &Value) {
    let mut text = |kind: &[u8], text: &str| {
        hasher.update(kind);
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    match value {
        Value::Str(string) => text(b"s", string),
        Value::Int(_) | Value::Float(_) => match value.to_f64() {
            Some(number) => {
                hasher.update(b"d");
                // NaN has many bit patterns, and 0 has two.
                let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
                hasher.update(number.to_bits().to_le_bytes());
            }
            None => text(b"o", &repr::repr(value)),
        },
        Value::List(items) | Value::Tuple(items) => {
            hasher.update(b"l");
            hasher.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| add(hasher, item));
        }
        Value::Dict(dict) => {
            let mut entries: Vec<(String, &Value)> =
                dict.iter().map(|(key, value)| (repr::str(key), value)).collect();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            hasher.update(b"m");
            hasher.update((entries.len() as u64).to_le_bytes());
            for (key, value) in entries {
                add(hasher, &Value::from(key));
                add(hasher, value);
            }
        }
        other => text(b"o", &repr::repr(other)),
    }
}

/// The checksum of the lines of a samples file, in any order, without white space around them and without empty lines.
///
/// It is computed from parts that are read in parallel, so it is a sum. CRC-32 is several times as fast as SHA-256, which would slow
/// down every reader of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesChecksum {
    /// The number of lines.
    pub lines: u64,
    sum: u64,
}

impl LinesChecksum {
    /// Adds a line.
    pub fn add(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        // A CRC is linear: without mixing, the same change of two lines could leave the sum as it was.
        let crc = u64::from(crc32fast::hash(line)) | (line.len() as u64) << 32;
        self.sum = self.sum.wrapping_add(mixed(crc));
    }

    /// Adds the lines of another part of the file.
    pub fn append(&mut self, part: Self) {
        self.lines += part.lines;
        self.sum = self.sum.wrapping_add(part.sum);
    }

    /// The value that a results file has.
    pub fn to_value(self) -> Value {
        Value::dict([
            ("lines", Value::Int(self.lines.cast_signed())),
            ("sum", Value::from(format!("{:016x}", self.sum))),
        ])
    }

    /// Reads the value of a results file.
    fn from_value(value: &Value) -> Option<Self> {
        let value = value.as_dict()?;
        let lines = u64::try_from(value.get_str("lines")?.as_i64()?).ok()?;
        let sum = u64::from_str_radix(value.get_str("sum")?.as_str()?, 16).ok()?;
        Some(Self { lines, sum })
    }
}

/// Spreads the bits of a number over all 64, one to one.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn object(text: &str) -> Dict {
        match json::loads(text) {
            Ok(Value::Dict(dict)) => (*dict).clone(),
            other => panic!("{other:?}"),
        }
    }

    fn changed(written: &str, read: &str) -> Vec<String> {
        let checksums = checksums(&object(written), Dict::new());
        let read = object(read);
        changed_sections(&checksums, |_| true, |key| read.get_str(key).cloned())
    }

    #[test]
    fn finds_changed_added_and_removed_sections() {
        let written =
            r#"{"results": {"t": {"acc,none": 0.5, "n": 2}}, "n-samples": {"t": 4}, "model_name": "m"}"#;
        assert!(changed(written, written).is_empty());
        for (read, expected) in [
            // Written again by another program, and renamed.
            (
                r#"{"model_name":"other","n-samples":{"t":4.0},"results":{"t":{"n":2,"acc,none":5e-1}},"mine":1}"#,
                "",
            ),
            (r#"{"results": {"t": {"acc,none": 0.6, "n": 2}}, "n-samples": {"t": 4}}"#, "results"),
            (r#"{"results": {"t": {"acc,none": 0.5, "n": 2}}}"#, "n-samples"),
            (
                r#"{"results": {"t": {"acc,none": 0.5, "n": true}}, "n-samples": {"t": "4"}}"#,
                "results n-samples",
            ),
            (
                r#"{"results": {"t": {"acc,none": 0.5, "n": 2}}, "n-samples": {"t": 4}, "groups": {}}"#,
                "groups",
            ),
        ] {
            assert_eq!(changed(written, read).join(" "), expected, "{read}");
        }
        let nothing = changed_sections(&Value::Int(1), |_| true, |_| None);
        assert_eq!(nothing, [CHECKSUMS]);
    }

    fn of_lines(text: &str) -> LinesChecksum {
        let mut sum = LinesChecksum::default();
        text.split('\n').for_each(|line| sum.add(line.as_bytes()));
        sum
    }

    #[test]
    fn lines_are_summed_in_any_order() {
        let whole = of_lines("a\nb\nc\n");
        assert_eq!(whole, of_lines("c\r\n\n b\na"));
        let mut parts = of_lines("a\n");
        parts.append(of_lines("b\nc"));
        assert_eq!(whole, parts);
        for other in ["a\nb\n", "a\nb\nc\nc", "a\nb\nd\n", "b\nb\nc", "ab\nc\n"] {
            assert_ne!(whole, of_lines(other), "{other:?}");
        }
        let value = whole.to_value();
        assert_eq!(LinesChecksum::from_value(&value), Some(whole));
    }

    #[test]
    fn the_same_change_of_two_lines_is_noticed() {
        // Scores that change places, in lines of which the rest is the same but for an id.
        let lines = |first: u32, ids: [u32; 2]| {
            let second = 1 - first;
            of_lines(&format!(
                "{{\"id\": {}, \"acc\": {first}}}\n{{\"id\": {}, \"acc\": {second}}}",
                ids[0], ids[1]
            ))
        };
        for id in 0..100_000 {
            let ids = [id, 100_000 + (id * 7) % 100_000];
            assert_ne!(lines(0, ids), lines(1, ids), "{id}");
        }
    }
}
