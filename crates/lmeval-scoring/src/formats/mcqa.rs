//! The format `mcqa`: options are shown with letters, and the model scores the letters.

use super::{ChoiceLabels, Format};
use lmeval_core::OutputType;

/// The definition of the format.
pub(super) fn format() -> Format {
    Format {
        output_type: OutputType::MultipleChoice,
        instruction: None,
        question_prefix: Some("Question: ".into()),
        choice_labels: Some(ChoiceLabels::Letters),
        choice_delimiter: "\n".into(),
        section_separator: "\n".into(),
        answer_instruction: None,
        answer_prompt: Some("Answer:".into()),
        gen_prefix: None,
        target_delimiter: " ".into(),
        fewshot_delimiter: "\n\n".into(),
        scorer: None,
    }
}
