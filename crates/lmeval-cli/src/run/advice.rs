//! Settings that a model's files recommend, compared with those of a run. They are suggested, and never changed silently.

use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::{ChatMessage, Context, OutputType, Role};
use lmeval_hub::{Kind, Settings};
use lmeval_pycompat::{Dict, Value, json, repr};
use lmeval_tasks::TaskDict;
use lmeval_tokenizers::{TokenizerTemplate, locate};

use crate::settings::RunSettings;

/// The end of reasoning that nearly all models write.
const THINK_END: &str = "</think>";
/// Its beginning.
const THINK: &str = "<think>";
/// The settings of a generation that decide how tokens are drawn.
const SAMPLING: [&str; 5] = ["temperature", "top_p", "top_k", "min_p", "presence_penalty"];

/// What the files of a model say about its use.
#[derive(Debug, Default)]
pub(crate) struct Recommended {
    /// The sampling settings of `generation_config.json`, if it samples.
    sampling: Dict,
    /// Whether the model card advises against greedy decoding.
    warns_of_greedy: bool,
    /// Whether the chat template knows reasoning.
    thinks: bool,
    /// Whether a prompt of the chat template ends within reasoning.
    opens_thinking: bool,
}

impl Recommended {
    /// Reads the files of the model that the arguments name. Nothing is downloaded: a model whose files are elsewhere
    /// recommends nothing.
    pub(crate) fn of_model(args: &Dict) -> Self {
        let named = |key: &str| args.get_str(key).and_then(Value::as_str);
        let names = ["pretrained", "tokenizer", "model"].into_iter().filter_map(named);
        names.filter_map(folder).map(|folder| Self::read(&folder, args)).next().unwrap_or_default()
    }

    fn read(folder: &Path, args: &Dict) -> Self {
        let generation = read_json(&folder.join("generation_config.json")).unwrap_or_default();
        let samples = generation.get_str("do_sample").is_some_and(Value::is_truthy);
        let sampling = SAMPLING.into_iter().filter_map(|name| {
            let value = generation.get_str(name).filter(|value| !value.is_none() && samples)?;
            Some((Value::str(name), value.clone()))
        });
        let card = fs::read_to_string(folder.join("README.md")).unwrap_or_default().to_lowercase();
        let warns_of_greedy =
            ["do not use greedy", "don't use greedy", "avoid greedy", "not use greedy decoding"]
                .iter()
                .any(|advice| card.replace(['*', '_'], "").contains(advice));
        let prompt = template_prompt(folder, args);
        let thinks =
            prompt.as_ref().is_some_and(|(source, _)| source.contains(THINK_END) || source.contains(THINK));
        let opens_thinking = prompt.is_some_and(|(_, prompt)| prompt.trim_end().ends_with(THINK));
        Self { sampling: sampling.collect(), warns_of_greedy, thinks, opens_thinking }
    }

    /// What to change in the settings of a run that generates answers with these settings, and why.
    pub(crate) fn advice(&self, settings: &RunSettings, generations: &[&Dict]) -> Vec<String> {
        let mut advice = Vec::new();
        let given = &settings.prompts.gen_kwargs;
        let is_greedy = |settings: &&Dict| is_greedy(settings, given);
        let greedy = generations.iter().filter(|settings| is_greedy(settings)).count();
        if greedy > 0 && !self.sampling.is_empty() {
            let words: Vec<String> = self
                .sampling
                .iter()
                .map(|(name, value)| format!("{}={}", repr::str(name), repr::str(value)))
                .collect();
            let why = if self.warns_of_greedy { ", and its model card warns of greedy decoding" } else { "" };
            advice.push(format!(
                "The model's `generation_config.json` samples{why}, but answers are generated greedily; \
                 `--gen_kwargs do_sample=true,{}` follows it",
                words.join(",")
            ));
        } else if greedy > 0 && self.warns_of_greedy {
            advice.push(
                "The model card warns of greedy decoding, but answers are generated greedily; set `--gen_kwargs do_sample=true,temperature=…`"
                    .to_owned(),
            );
        }
        let is_chat = settings.prompts.apply_chat_template.is_on();
        let has_end = settings.model.args.get_str("think_end_token").is_some_and(Value::is_truthy);
        if self.thinks && is_chat && !has_end && !generations.is_empty() {
            let why = if self.opens_thinking {
                "The chat template begins answers with reasoning"
            } else {
                "The chat template knows reasoning"
            };
            advice.push(format!(
                "{why}, which filters then take for a part of the answer; `think_end_token={THINK_END}` in `--model_args` removes it, \
                 unless the server returns it apart"
            ));
        }
        advice
    }
}

/// What the files of the model recommend for the generations of these tasks.
pub(crate) fn of_run(settings: &RunSettings, tasks: &TaskDict) -> Vec<String> {
    let generating = tasks.tasks.values().filter(|task| task.config.output_type == OutputType::GenerateUntil);
    let generations: Vec<&Dict> = generating.map(|task| task.config.generation_kwargs.dict()).collect();
    if generations.is_empty() {
        return Vec::new();
    }
    Recommended::of_model(&settings.model.args).advice(settings, &generations)
}

/// Whether a generation takes the most likely token each time.
fn is_greedy(task: &Dict, given: &Dict) -> bool {
    let setting = |name: &str| given.get_str(name).or_else(|| task.get_str(name));
    let temperature = setting("temperature").and_then(Value::to_f64);
    match (setting("do_sample"), temperature) {
        (Some(sample), _) if !sample.is_truthy() => true,
        (_, Some(temperature)) => temperature == 0.0,
        (sample, None) => sample.is_none(),
    }
}

/// The folder of a model that is on this machine.
fn folder(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let mut hub = Settings::from_environment(Kind::Model);
    hub.offline = true;
    locate(&hub, name, "main").ok()
}

/// The source of the default chat template, and a prompt that it renders.
fn template_prompt(folder: &Path, args: &Dict) -> Option<(String, String)> {
    let mut template = TokenizerTemplate::read(folder, None).ok()?;
    let mut variables =
        args.get_str("chat_template_args").and_then(Value::as_dict).cloned().unwrap_or_default();
    if let Some(thinking) = args.get_str("enable_thinking") {
        variables.insert("enable_thinking", thinking.clone());
    }
    template.set_variables(variables);
    let template = template.into_model_template();
    let source = template.source?;
    let question = vec![ChatMessage::new(Role::User, "Hello")];
    match template.template.apply(question, true).ok()? {
        Context::Text(prompt) => Some((source, prompt.to_string())),
        Context::Json(_) | Context::Messages(_) => None,
    }
}

fn read_json(path: &Path) -> Option<Dict> {
    match json::loads(&fs::read_to_string(path).ok()?).ok()? {
        Value::Dict(dict) => Some((*dict).clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_generations_draw_nothing() {
        let dict = |text: &str| json::loads(text).unwrap().as_dict().unwrap().clone();
        for (task, given, expected) in [
            ("{}", "{}", true),
            (r#"{"do_sample": false, "temperature": 0.7}"#, "{}", true),
            (r#"{"temperature": 0.0}"#, "{}", true),
            (r#"{"temperature": 0.7}"#, "{}", false),
            (r#"{"do_sample": true}"#, "{}", false),
            (
                r#"{"do_sample": false, "temperature": 0}"#,
                r#"{"do_sample": true, "temperature": 0.6}"#,
                false,
            ),
        ] {
            assert_eq!(is_greedy(&dict(task), &dict(given)), expected, "{task} {given}");
        }
    }
}
