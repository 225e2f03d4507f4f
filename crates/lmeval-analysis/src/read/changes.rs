//! Whether the files of a run are still as the run wrote them.

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::results::{CHECKSUMS, LinesChecksum, changed_sections, samples_checksums};

use super::run::{Run, SamplesFile, results_beside};

/// Advice about scores that may be wrong.
const ADVICE: &str = "Its scores may be wrong; `lm-eval rescore` computes them again from the stored answers";

/// The changed sections of a results file, as a sentence about the file; `None` if they are as the run wrote them, or nothing is known
/// because another program or an older version wrote the file.
///
/// `is_read` says which sections are checked, and `value_of` returns them.
pub fn results_change(
    file: &str,
    is_read: impl Fn(&str) -> bool,
    value_of: impl Fn(&str) -> Option<Value>,
) -> Option<String> {
    let changed = changed_sections(&value_of(CHECKSUMS)?, is_read, value_of);
    let names: Vec<String> = changed.iter().map(|section| format!("`{section}`")).collect();
    let is_one = names.len() == 1;
    let differ = if is_one { "is not" } else { "are not" };
    (!names.is_empty()).then(|| {
        format!(
            "`{file}` was changed after the run wrote it: {} {differ} as it was. {ADVICE}",
            names.join(", ")
        )
    })
}

/// How the lines of a samples file differ from those that the run wrote, as a sentence about the file.
pub fn samples_change(file: &str, written: LinesChecksum, found: LinesChecksum) -> Option<String> {
    let what = match (written.lines, found.lines) {
        _ if written == found => return None,
        (written, found) if written == found => "its samples do not belong to the run".to_owned(),
        (written, found) => format!("it has {found} samples instead of {written}"),
    };
    Some(format!("`{file}` was changed after the run wrote it: {what}. Scores of its documents may be wrong"))
}

impl Run {
    /// Changes of the results file since the run wrote it, as a sentence; `None` also for files without checksums, such as
    /// those of the Python harness.
    pub fn results_change(&self) -> Option<String> {
        let results = self.results.as_ref()?;
        results_change(&self.path.display().to_string(), |_| true, |key| results.get_str(key).cloned())
    }

    /// The checksum that the samples file of a task had when the run wrote it.
    pub fn written_samples(&self, task: &str) -> Option<LinesChecksum> {
        let read;
        let results = match &self.results {
            Some(results) => results,
            None => {
                read = results_beside(&self.path)?;
                &read
            }
        };
        written_samples(results, task)
    }

    /// Changes of a samples file since the run wrote it, as a sentence; `found` is its checksum now.
    pub fn samples_change(&self, file: &SamplesFile, found: LinesChecksum) -> Option<String> {
        samples_change(&file.path.display().to_string(), self.written_samples(&file.task)?, found)
    }

    /// The tasks whose samples the run wrote, and which are not there any more.
    pub fn lost_samples(&self) -> Vec<String> {
        let checksums = self.results.as_ref().and_then(|results| results.get_str(CHECKSUMS));
        let written = checksums.into_iter().flat_map(samples_checksums).map(|(task, _)| task);
        written.filter(|task| self.samples_of(task).is_none()).map(str::to_owned).collect()
    }
}

/// The checksum of a task's samples file in a results file.
pub fn written_samples(results: &Dict, task: &str) -> Option<LinesChecksum> {
    samples_checksums(results.get_str(CHECKSUMS)?)
        .find(|(known, _)| *known == task)
        .map(|(_, written)| written)
}
