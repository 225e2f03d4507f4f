//! `stand-in-judge`: fixed rules in place of a judge, for trying `--judge` without a model.
//!
//! It understands only the built-in prompts of the scorer `judge`, and compares words. Its grades say nothing about quality.

use std::collections::BTreeSet;
use std::sync::Arc;

use lmeval_core::{
    Arguments, Context, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelIdentity,
    ModelRequest, ModelSettings, ModelTemplate, RemoteTemplate, RequestType, Response,
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
    fn is_instant(&self) -> bool {
        true
    }

    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "stand-in-judge".to_owned(), facts: vec![("rules", "1".to_owned())] }
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
    if let (Some(first), Some(second)) =
        (between(prompt, "<<<ANSWER_A\n", "\nANSWER_A>>>"), between(prompt, "<<<ANSWER_B\n", "\nANSWER_B>>>"))
    {
        let (one, other) = (words(first).len(), words(second).len());
        let verdict = match one.cmp(&other) {
            std::cmp::Ordering::Greater => "A",
            std::cmp::Ordering::Less => "B",
            std::cmp::Ordering::Equal => "TIE",
        };
        return format!("Answer A has {one} different words, answer B has {other}.\nVERDICT: {verdict}");
    }
    let Some(answer) = between(prompt, "<<<ANSWER\n", "\nANSWER>>>") else {
        return "This stand-in understands only the built-in prompts.".to_owned();
    };
    let found = words(answer);
    match between(prompt, "Reference answer:\n", "\n\nAnswer to be graded:") {
        Some(reference) => {
            let wanted = words(reference);
            let shared = wanted.intersection(&found).count();
            let grade = match shared {
                0 => "I",
                all if all == wanted.len() => "C",
                _ => "P",
            };
            format!("The answer has {shared} of the {} words of the reference.\nGRADE: {grade}", wanted.len())
        }
        None => {
            let count = found.len();
            format!("The answer has {count} different words.\nSCORE: {}", count.clamp(1, 10))
        }
    }
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
        let prompt = |answer: &str| {
            format!(
                "Reference answer:\nThe red house\n\nAnswer to be graded:\n<<<ANSWER\n{answer}\nANSWER>>>\n\nGrades"
            )
        };
        assert!(judge(&prompt("the RED house!")).ends_with("GRADE: C"));
        assert!(judge(&prompt("a red car")).ends_with("1 of the 3 words of the reference.\nGRADE: P"));
        assert!(judge(&prompt("")).ends_with("GRADE: I"));
        assert!(judge("<<<ANSWER\na b c\nANSWER>>>").ends_with("SCORE: 3"));
        let pair = "<<<ANSWER_A\na b\nANSWER_A>>> <<<ANSWER_B\na a\nANSWER_B>>>";
        assert!(judge(pair).ends_with("VERDICT: A"));
        assert!(!judge("Is this good?").contains("GRADE"));
    }
}
