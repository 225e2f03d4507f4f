//! Separates the reasoning of a judge from its answer.

/// The tags around the reasoning of common models.
const BLOCKS: [(&str, &str); 7] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
];

/// The answer after the reasoning; `None` if the reasoning has no end, because such an answer says nothing yet.
///
/// Reasoning may have an end without a start, because some chat templates write the start into the prompt. Only an answer
/// that begins with a start is taken for reasoning: elsewhere the judge may be quoting one.
pub(super) fn after_reasoning(answer: &str) -> Option<&str> {
    let ends = BLOCKS.iter().filter_map(|(_, end)| answer.rfind(end).map(|start| start + end.len()));
    let rest = &answer[ends.max().unwrap_or(0)..];
    let is_open = BLOCKS.iter().any(|(start, _)| rest.trim_start().starts_with(start));
    (!is_open).then_some(rest)
}

/// Where a string has tags that end reasoning. A judge that quotes one would seem to begin its answer there.
pub(super) fn ends_of_reasoning(text: &str) -> Vec<usize> {
    BLOCKS.iter().flat_map(|(_, end)| text.match_indices(end)).map(|(start, _)| start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_not_the_answer() {
        assert_eq!(after_reasoning("Yes."), Some("Yes."));
        assert_eq!(after_reasoning("<think>Hm.</think>Yes."), Some("Yes."));
        assert_eq!(after_reasoning("Hm.</think>Yes."), Some("Yes."));
        assert_eq!(after_reasoning("<think>`</think>`?</think>Yes."), Some("Yes."));
        assert_eq!(after_reasoning("[THINK]Hm.[/THINK]Yes."), Some("Yes."));
        let channels =
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
        assert_eq!(after_reasoning(channels), Some("Yes."));
    }

    #[test]
    fn unfinished_reasoning_has_no_answer() {
        for (start, end) in BLOCKS {
            assert_eq!(after_reasoning(&format!("\n{start}\nGRADE: C\n")), None);
            assert_eq!(after_reasoning(&format!("{start}a{end}\n{start}GRADE: C")), None);
        }
        // A quoted start is part of an answer.
        assert_eq!(after_reasoning("It has a <think> in it."), Some("It has a <think> in it."));
    }
}
