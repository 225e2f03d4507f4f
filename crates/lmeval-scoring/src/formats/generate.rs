//! The format `generate`: options are shown with letters, and the model generates a letter.

use lmeval_pycompat::Value;

use super::{ChoiceLabels, Format};
use lmeval_core::OutputType;

/// The definition of the format.
pub(super) fn format() -> Format {
    Format {
        output_type: OutputType::GenerateUntil,
        instruction: Some(
            "Given the following question and {{ _num_choices }} candidate answers \
             ({{ _choice_list_and }}), choose the best answer.\n"
                .into(),
        ),
        question_prefix: Some("Question: ".into()),
        choice_labels: Some(ChoiceLabels::Letters),
        choice_delimiter: "\n".into(),
        section_separator: "\n".into(),
        answer_instruction: None,
        answer_prompt: Some(
            "Your response should end with \"The best answer is [answer_letter]\" where the \
             [answer_letter] is one of {{ _choice_list_or }}."
                .into(),
        ),
        gen_prefix: Some("The best answer is".into()),
        target_delimiter: "\n".into(),
        fewshot_delimiter: "\n\n".into(),
        scorer: Some(Value::str("first_token")),
    }
}
