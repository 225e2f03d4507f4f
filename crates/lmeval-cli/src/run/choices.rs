//! How the options of multiple-choice tasks were compared in a finished run.

use lmeval_core::OptionScoring;
use lmeval_engine::Abilities;
use lmeval_pycompat::{Dict, Value};

use crate::settings::Choices;

/// The entries of tasks in results.
fn entries(results: &Dict) -> impl Iterator<Item = &Dict> {
    let choices = results.get_str("choices").and_then(Value::as_dict);
    choices.into_iter().flat_map(Dict::values).filter_map(Value::as_dict)
}

fn text<'a>(entry: &'a Dict, key: &str) -> Option<&'a str> {
    entry.get_str(key).and_then(Value::as_str)
}

/// The method of the run; `None` if options were compared by their log-likelihoods.
pub(crate) fn method(results: &Dict) -> Option<Choices> {
    entries(results).find_map(|entry| match text(entry, "method")? {
        "letters" => Some(Choices::Letters),
        "generate" => Some(Choices::Generate),
        _ => None,
    })
}

/// The abilities of the model that answered.
pub(crate) fn abilities(results: &Dict) -> Abilities {
    let scoring = if entries(results).any(|entry| text(entry, "requests") == Some("choice_letters")) {
        OptionScoring::Letters
    } else if entries(results).any(|entry| text(entry, "method") == Some("generate")) {
        OptionScoring::Generations
    } else {
        OptionScoring::Continuations
    };
    let reasons = entries(results).any(|entry| entry.get_str("reasoning").is_some_and(Value::is_truthy));
    Abilities { scoring, reasons }
}
