//! The prompts of a run.

use anyhow::{Result, bail};
use lmeval_core::{Diagnostic, Dialect};
use lmeval_engine::{ChatTemplateChoice, EvaluateOptions};
use lmeval_pycompat::Dict;

use super::kinds::Budget;
use super::options::Choices;
use super::resolve::{Resolver, count};
use super::{dict_option, seed};

/// The names of the limit of an answer in generation settings.
const LIMITS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

/// How prompts are built, and answers generated.
#[derive(Clone, Debug)]
pub(crate) struct PromptGroup {
    pub num_fewshot: Option<i64>,
    pub system_instruction: Option<String>,
    pub apply_chat_template: ChatTemplateChoice,
    pub fewshot_as_multiturn: Option<bool>,
    /// How multiple-choice options are compared, if it was set.
    pub choices: Option<Choices>,
    pub seeds: seed::Seeds,
    pub gen_kwargs: Dict,
}

impl PromptGroup {
    pub(super) fn resolve(resolver: &mut Resolver, dialect: Dialect) -> Result<Self> {
        let apply_chat_template = chat_template(resolver);
        let fewshot_as_multiturn = multiturn(resolver, apply_chat_template.is_on())?;
        let seeds = seeds(resolver);
        let mut gen_kwargs = resolver.dict("gen_kwargs");
        let largest = resolver.options.budgets.iter().flatten().max();
        if let Some(Budget(tokens)) = largest.copied()
            && !LIMITS.iter().any(|name| gen_kwargs.contains_str(name))
        {
            gen_kwargs.insert("max_gen_toks", tokens as i64);
        }
        if !gen_kwargs.is_empty() {
            resolver.notes.push(format!(
                "`--gen_kwargs` overrides generation settings of the tasks: {}",
                dict_option::shown(&gen_kwargs)
            ));
        }
        let options = &resolver.options;
        if options.choices.is_some() && !dialect.choices_on_chat {
            let diagnostic = Diagnostic::new(
                "`--choices` does not exist in the 0.4 line, which refuses these tasks on chat APIs",
            );
            bail!(diagnostic.hint("Drop `--compat 0.4`, or drop `--choices`"));
        }
        let num_fewshot = count("num_fewshot", options.num_fewshot)?;
        Ok(Self {
            num_fewshot: num_fewshot.and_then(|count| i64::try_from(count).ok()),
            system_instruction: options.system_instruction.clone(),
            apply_chat_template,
            fewshot_as_multiturn,
            choices: options.choices,
            seeds,
            gen_kwargs,
        })
    }

    pub(super) fn apply(&self, options: &mut EvaluateOptions) {
        options.num_fewshot = self.num_fewshot;
        options.system_instruction.clone_from(&self.system_instruction);
        options.apply_chat_template = self.apply_chat_template.clone();
        options.fewshot_as_multiturn = self.fewshot_as_multiturn == Some(true);
        options.choices = self.choices.map(Choices::method);
        options.fewshot_seed = self.seeds[3];
        options.gen_kwargs = Some(self.gen_kwargs.clone()).filter(|kwargs| !kwargs.is_empty());
    }
}

fn chat_template(resolver: &mut Resolver) -> ChatTemplateChoice {
    let is_word = |name: &str, word: &str| resolver.is_command() && name.eq_ignore_ascii_case(word);
    match &resolver.options.apply_chat_template {
        None => ChatTemplateChoice::Off,
        Some(None) => ChatTemplateChoice::Default,
        Some(Some(name)) if name.is_empty() => ChatTemplateChoice::Off,
        Some(Some(name)) if is_word(name, "true") => ChatTemplateChoice::Default,
        Some(Some(name)) if is_word(name, "false") => {
            resolver.notes.push(format!(
                "`--apply_chat_template {name}` turns the chat template on, as in other releases; omit the flag to turn it off"
            ));
            ChatTemplateChoice::Default
        }
        Some(Some(name)) => ChatTemplateChoice::Named(name.clone()),
    }
}

/// Whether few-shot examples are turns; only applies to chat prompts.
fn multiturn(resolver: &Resolver, chat: bool) -> Result<Option<bool>> {
    let given = resolver.options.fewshot_as_multiturn;
    if !resolver.is_command() {
        return Ok(Some(given.unwrap_or_default()));
    }
    if given == Some(true) && !chat {
        bail!("`--fewshot_as_multiturn` needs `--apply_chat_template`");
    }
    Ok(given.or(chat.then_some(true)))
}

fn seeds(resolver: &mut Resolver) -> seed::Seeds {
    let Some(given) = resolver.options.seed else {
        return if resolver.is_command() { seed::DEFAULT } else { [None; 4] };
    };
    if given.filled {
        resolver.notes.push("`--seed` has three values; the few-shot seed stays 1234".to_owned());
    }
    given.seeds
}
