//! `stand-in-judge`: fixed rules in place of a judge, for trying `--judge` without a model.
//!
//! It understands only the built-in prompts of the scorer `judge`, and compares words. Its grades say nothing about quality.

use std::collections::BTreeSet;
use std::sync::Arc;

use lmeval_core::{
    Arguments, Context, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelIdentity,
    ModelRequest, ModelSettings, ModelTemplate, ModelTraits, RemoteTemplate, RequestType, Response,
};

/// Grades by counting words.
#[derive(Debug)]
pub(crate) struct StandInJudge;

/// Creates the judge. It takes no arguments.
pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    if let Some(argument) = settings.args.keys().find_map(|key| key.as_str()) {
        let message = format!("`stand-in-judge` takes no argument `{argument}`");
        return Err(ModelError::new(ModelErrorKind::Configuration, message));
    }
    Ok(Arc::new(InProcess::new(StandInJudge)))
}

impl LocalModel for StandInJudge {
    fn traits(&self) -> ModelTraits {
        ModelTraits { is_worth_saving: false, ..ModelTraits::local() }
    }

    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "stand-in-judge".to_owned(), facts: vec![("rules", "2".to_owned())] }
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        if kind == RequestType::GenerateUntil {
            return Ok(());
        }
        let message = "`stand-in-judge` only judges; it has no log-likelihoods";
        Err(ModelError::new(ModelErrorKind::Unsupported, message))
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Ok(ModelTemplate { template: Arc::new(RemoteTemplate), source: None })
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        let Arguments::Generate { context, .. } = &request.arguments else {
            return Err(ModelError::new(ModelErrorKind::Unsupported, "`stand-in-judge` only judges"));
        };
        let prompt = match context {
            Context::Text(text) | Context::Json(text) => Arc::clone(text),
            Context::Messages(messages) => {
                messages.last().map(|last| Arc::clone(&last.content)).unwrap_or_default()
            }
        };
        Ok(Response::Text(judge(&prompt).into()))
    }
}

/// Judges a built-in prompt.
fn judge(prompt: &str) -> String {
    let Some((reason, verdict)) = verdict(prompt) else {
        return "This stand-in understands only the built-in prompts.".to_owned();
    };
    // The prompt ends with the form of the line: marker and word.
    let asked = prompt.rfind(FORM).and_then(|start| between(&prompt[start..], FORM, " and "));
    format!("{reason}\n{} {verdict}", asked.unwrap_or_default())
}

/// The words before the form of the verdict's line in a built-in prompt.
const FORM: &str = "end with one line: ";

/// The reason and the verdict.
fn verdict(prompt: &str) -> Option<(String, String)> {
    if let (Some(first), Some(second)) =
        (between(prompt, "<<<ANSWER_A\n", "\nANSWER_A>>>"), between(prompt, "<<<ANSWER_B\n", "\nANSWER_B>>>"))
    {
        let (one, other) = (words(first).len(), words(second).len());
        let verdict = match one.cmp(&other) {
            std::cmp::Ordering::Greater => "A",
            std::cmp::Ordering::Less => "B",
            std::cmp::Ordering::Equal => "TIE",
        };
        let reason = format!("Answer A has {one} different words, answer B has {other}.");
        return Some((reason, verdict.to_owned()));
    }
    let found = words(between(prompt, "<<<ANSWER\n", "\nANSWER>>>")?);
    Some(match between(prompt, "Reference answer:\n", "\n\nAnswer to be graded:") {
        Some(reference) => {
            let wanted = words(reference);
            let shared = wanted.intersection(&found).count();
            let grade = match shared {
                0 => "I",
                all if all == wanted.len() => "C",
                _ => "P",
            };
            let reason = format!("The answer has {shared} of the {} words of the reference.", wanted.len());
            (reason, grade.to_owned())
        }
        None => {
            let count = found.len();
            (format!("The answer has {count} different words."), count.clamp(1, 10).to_string())
        }
    })
}

/// The string between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let end = text[start..].find(after)?;
    Some(&text[start..start + end])
}

/// The different words of a string, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_by_shared_words() {
        let end = |word: &str| format!("Then end with one line: k7m2 {word}: and the rest.");
        let prompt = |answer: &str| {
            format!(
                "Reference answer:\nThe red house\n\nAnswer to be graded:\n<<<ANSWER\n{answer}\nANSWER>>>\n\n{}",
                end("GRADE")
            )
        };
        assert!(judge(&prompt("the RED house!")).ends_with("\nk7m2 GRADE: C"));
        assert!(judge(&prompt("a red car")).ends_with("1 of the 3 words of the reference.\nk7m2 GRADE: P"));
        assert!(judge(&prompt("end with one line: x GRADE: C and")).ends_with("\nk7m2 GRADE: I"));
        let rubric = format!("<<<ANSWER\na b c\nANSWER>>> {}", end("SCORE"));
        assert!(judge(&rubric).ends_with("\nk7m2 SCORE: 3"));
        let pair = format!("<<<ANSWER_A\na b\nANSWER_A>>> <<<ANSWER_B\na a\nANSWER_B>>> {}", end("VERDICT"));
        assert!(judge(&pair).ends_with("\nk7m2 VERDICT: A"));
        assert!(!judge("Is this good?").contains("GRADE"));
    }
}
