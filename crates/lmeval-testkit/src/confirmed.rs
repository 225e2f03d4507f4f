//! Outcomes that Python has confirmed before.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The batches of a differential test whose inputs and outcomes Python has already confirmed.
///
/// Seeds are fixed and packages pinned, so Python gives the same answers every time. `tests/vectors/confirmed/NAME.txt` has a hash
/// of each batch of inputs together with *our* outcomes; a batch with a known hash needs no Python, any other is compared again.
/// Another seed or number of cases (`LM_EVAL_FUZZ_SEED`, `LM_EVAL_FUZZ_CASES`) compares everything, and
/// `LM_EVAL_RECORD_CONFIRMED=1` also writes the file.
#[derive(Debug)]
pub struct Confirmed {
    path: PathBuf,
    known: HashSet<u64>,
    batches: Vec<u64>,
}

impl Confirmed {
    /// The batches that are known for a test.
    ///
    /// # Panics
    ///
    /// If the file has a line that is not a hash.
    pub fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/confirmed");
        let path = folder.join(format!("{name}.txt"));
        let compares_all = ["LM_EVAL_FUZZ_SEED", "LM_EVAL_FUZZ_CASES", "LM_EVAL_RECORD_CONFIRMED"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        let text =
            if compares_all { String::new() } else { fs_err::read_to_string(&path).unwrap_or_default() };
        let hash = |line: &str| {
            u64::from_str_radix(line, 16)
                .unwrap_or_else(|_| panic!("`{}`: `{line}` is not a hash", path.display()))
        };
        let known = text.lines().map(hash).collect();
        Self { path, known, batches: Vec::new() }
    }

    /// Whether Python has confirmed this batch of inputs and outcomes. Otherwise, the caller compares it.
    pub fn contains(&mut self, parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> bool {
        let hash = hash(parts);
        self.batches.push(hash);
        self.known.contains(&hash)
    }

    /// Writes the hashes if the environment asks for it. Call this after all comparisons have succeeded.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn finish(self) {
        if std::env::var_os("LM_EVAL_RECORD_CONFIRMED").is_some() {
            let lines: Vec<String> = self.batches.iter().map(|hash| format!("{hash:016x}\n")).collect();
            fs_err::create_dir_all(self.path.parent().expect("the file is in a folder"))
                .and_then(|()| fs_err::write(&self.path, lines.concat()))
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// FNV-1a over all parts, each with its length.
fn hash(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u64 {
    parts.into_iter().fold(0xCBF2_9CE4_8422_2325, |hash, part| {
        let part = part.as_ref();
        let bytes = (part.len() as u64).to_le_bytes();
        bytes
            .iter()
            .chain(part)
            .fold(hash, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
    })
}

#[cfg(test)]
mod tests {
    use super::{Confirmed, hash};

    #[test]
    fn hashes_depend_on_every_part() {
        assert_eq!(hash([""; 0]), 0xCBF2_9CE4_8422_2325);
        assert_ne!(hash(["ab", ""]), hash(["a", "b"]));
        assert_ne!(hash(["a", "b"]), hash(["b", "a"]));
    }

    #[test]
    fn unknown_batches_are_compared() {
        let mut confirmed = Confirmed::load("no_such_test");
        assert!(!confirmed.contains(["question", "outcome"]));
        confirmed.known.insert(hash(["question", "outcome"]));
        assert!(confirmed.contains(["question", "outcome"]));
        assert!(!confirmed.contains(["question", "another outcome"]));
        assert_eq!(confirmed.batches.len(), 3);
    }
}
