//! Overrides that the caller of a run applies to a task.

use std::sync::Arc;

use lmeval_core::OutputType;
use lmeval_pycompat::Dict;

use super::task::TaskConfig;

impl TaskConfig {
    /// Sets the number of few-shot examples, unless the task sets exactly 0. Returns whether it was set.
    pub fn set_num_fewshot(&mut self, num_fewshot: i64) -> bool {
        if self.num_fewshot == Some(0) {
            return false;
        }
        self.num_fewshot = Some(num_fewshot);
        true
    }

    /// The number of few-shot examples in each prompt.
    pub fn fewshot_count(&self) -> usize {
        usize::try_from(self.num_fewshot.unwrap_or(0)).unwrap_or(0)
    }

    /// Sets the number of answers per document of a generation task; other tasks stay unchanged. Returns whether it was
    /// set.
    pub fn set_repeats(&mut self, repeats: usize) -> bool {
        if self.output_type != OutputType::GenerateUntil {
            return false;
        }
        self.repeats = repeats;
        true
    }

    /// Sets how the answers to each document become one value, in a generation task; other tasks stay unchanged.
    /// Returns whether it was set.
    pub fn set_reductions(&mut self, reductions: &[Arc<str>]) -> bool {
        if self.output_type != OutputType::GenerateUntil {
            return false;
        }
        self.reductions = reductions.to_vec();
        true
    }

    /// Overlays the caller's generation settings on those of a generation task. Returns whether they were merged.
    pub fn merge_generation_kwargs(&mut self, settings: &Dict) -> bool {
        if self.output_type != OutputType::GenerateUntil {
            return false;
        }
        self.generation_kwargs.merge(settings);
        true
    }
}
