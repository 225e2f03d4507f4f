//! Decides how multiple-choice tasks are asked of a model that cannot score the complete text of an option.

use std::fmt::Write as _;
use std::sync::Arc;

use lmeval_core::{Model, ModelError, ModelErrorKind, OptionScoring, OutputType, RequestType};
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::{ChoiceMethod, ChoiceTask, NEEDS_CONTINUATIONS, Task};

use crate::error::EngineError;
use crate::options::{Abilities, EvaluateOptions};

/// The token limit of a written answer.
const ANSWER_TOKENS: i64 = 512;

/// The token limit of a written answer of a model that reasons first.
const REASONING_TOKENS: i64 = 8192;

/// Settings that limit the number of generated tokens.
const LIMITS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

/// How the options of a task are compared, for the results.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    method: ChoiceMethod,
    /// The kind of requests that are sent.
    pub(crate) requests: RequestType,
    /// Whether the user named the method.
    is_chosen: bool,
    format: Option<Arc<str>>,
    refused: Vec<String>,
    /// The token limit of a written answer, and whether it is that of a model that reasons first.
    limit: Option<(i64, bool)>,
}

impl Choices {
    /// The entry of the results.
    pub(crate) fn to_value(&self) -> Value {
        let mut entry = Dict::new();
        entry.insert("method", self.method.name());
        entry.insert("requests", self.requests.name());
        entry.insert("chosen_by", if self.is_chosen { "user" } else { "default" });
        entry.insert("format", self.format.clone().map_or(Value::None, Value::Str));
        if !self.refused.is_empty() {
            let names = self.refused.iter().map(|name| Value::str(name.as_str()));
            entry.insert("refused_metrics", Value::list(names));
        }
        if let Some((limit, reasons)) = self.limit {
            entry.insert("max_gen_toks", limit);
            entry.insert("reasoning", reasons);
        }
        Value::from(entry)
    }

    /// The method in words, for whoever follows the run.
    pub(crate) fn describe(&self) -> String {
        let mut text = match (self.method, self.requests) {
            (ChoiceMethod::Letters, RequestType::ChoiceLetters) => {
                "letters by log-probability of the first token".to_owned()
            }
            (ChoiceMethod::Letters, _) => "letters by log-likelihood".to_owned(),
            (ChoiceMethod::Generate, _) => "generated answers, from which the letter is extracted".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = match &self.format {
            Some(format) => write!(text, "; options are shown in the format `{format}`"),
            None => write!(text, "; the task shows the letters itself"),
        };
        if let Some((limit, reasons)) = self.limit {
            let why = if reasons { ", for a model that reasons first" } else { "" };
            let _ = write!(text, "; at most {limit} tokens{why}");
        }
        if !self.is_chosen {
            let other = match self.method {
                ChoiceMethod::Letters => ChoiceMethod::Generate,
                ChoiceMethod::Generate => ChoiceMethod::Letters,
            };
            let _ = write!(
                text,
                " (the default for this backend; the alternative is `--choices {}`)",
                other.name()
            );
        }
        if !self.refused.is_empty() {
            let names = self.refused.join("`, `");
            let reason = match self.method {
                ChoiceMethod::Letters => NEEDS_CONTINUATIONS,
                ChoiceMethod::Generate => "They need log-likelihoods, and a written answer has none",
            };
            let _ = write!(text, "\nNot computed: `{names}`. {reason}");
        }
        text
    }
}

/// The task as it is asked of the model, and how; unchanged if the model can score complete options.
pub(crate) fn choose(
    model: Option<&dyn Model>,
    task: Task,
    options: &EvaluateOptions,
) -> Result<(Task, Option<Choices>), EngineError> {
    let Abilities { scoring, reasons } = model.map_or(options.answered_by, Abilities::of);
    let makes_requests = task.class_task().is_some_and(|class| class.makes_requests());
    // Reference: 0.4 refuses log-likelihoods on chat APIs.
    if !options.dialect.choices_on_chat || makes_requests {
        return Ok((task, None));
    }
    let is_explicit_format = task.config.output_type == OutputType::GenerateUntil
        && task.config.format.as_deref() == Some("generate")
        && task.config.formats_selection.as_deref().or_else(|| selection(&task)) == Some("generate");
    if task.config.output_type != OutputType::MultipleChoice
        && !(is_explicit_format && scoring != OptionScoring::Continuations)
    {
        return Ok((task, None));
    }
    let is_chosen = options.choices.is_some() || is_explicit_format;
    let method = match (is_explicit_format, options.choices, scoring) {
        (true, ..) => ChoiceMethod::Generate,
        (_, Some(method), _) => method,
        (_, None, OptionScoring::Continuations) => return Ok((task, None)),
        (_, None, OptionScoring::Letters) => ChoiceMethod::Letters,
        (_, None, OptionScoring::Generations) => ChoiceMethod::Generate,
    };
    let (made, requests, limit) = match method {
        ChoiceMethod::Letters => {
            let requests = match scoring {
                OptionScoring::Continuations => RequestType::Loglikelihood,
                OptionScoring::Letters => RequestType::ChoiceLetters,
                OptionScoring::Generations => return Err(no_letters(model, &task)),
            };
            (task.with_letters(requests == RequestType::Loglikelihood)?, requests, None)
        }
        ChoiceMethod::Generate => {
            let limit = token_limit(reasons, options);
            (task.with_generated_letter(limit)?, RequestType::GenerateUntil, Some((limit, reasons)))
        }
    };
    let ChoiceTask { task, format, refused } = made;
    Ok((task, Some(Choices { method, requests, is_chosen, format, refused, limit })))
}

/// The format in a task's name.
fn selection(task: &Task) -> Option<&str> {
    task.config.task.rsplit_once('@').map(|(_, format)| format)
}

/// The token limit of written answers.
fn token_limit(reasons: bool, options: &EvaluateOptions) -> i64 {
    let given = options.gen_kwargs.as_ref().and_then(|settings| {
        LIMITS.into_iter().find_map(|name| settings.get_str(name).and_then(Value::as_i64))
    });
    given.unwrap_or(if reasons { REASONING_TOKENS } else { ANSWER_TOKENS })
}

fn no_letters(model: Option<&dyn Model>, task: &Task) -> EngineError {
    let refused = model.and_then(|model| model.supports(RequestType::ChoiceLetters).err());
    let source = refused.unwrap_or_else(|| {
        let message = "The model cannot compare the letters of options";
        ModelError::new(ModelErrorKind::Unsupported, message)
    });
    let source = source.hint("Use `--choices generate`");
    EngineError::Unsupported { task: task.name().to_owned(), source }
}
