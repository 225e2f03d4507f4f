//! The format `cot`: the model reasons step by step and writes a free-form answer.

use super::{Format, generate};

/// The definition of the format.
pub(super) fn format() -> Format {
    Format {
        instruction: Some(
            "Given the following problem, reason step by step to find the final answer.\n".into(),
        ),
        question_prefix: Some("Problem: ".into()),
        choice_labels: None,
        answer_prompt: Some(
            "Your response should end with \"The final answer is [answer]\" where [answer] is the response \
             to the problem."
                .into(),
        ),
        gen_prefix: None,
        ..generate::format()
    }
}
