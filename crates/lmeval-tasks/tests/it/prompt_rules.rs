//! Contexts, examples and requests, rule by rule.

use std::sync::Arc;

use lmeval_core::{
    ChatError, ChatMessage, ChatTemplate, Context, Dialect, Documents, Instance, MemoryDocuments,
    MemorySplits, RemoteTemplate,
};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::registry::{Registry, SamplerEntry};
use lmeval_scoring::sampler::{Draw, Sampler, SamplerError};
use lmeval_scoring::{Host, HostError};
use lmeval_tasks::prompt::{
    ErrorDocument, Part, PromptError, PromptErrorKind, RequestBuilder, RequestOptions, RequestSources, Shard,
    Skipped,
};

use crate::prompt_support::{Tags, build, splits, task};

/// The evaluated document is `Q0`, the examples in order `Q3` and `Q0`.
const DATA: &str = r"
test: [{q: 'Q0:', a: x, l: 0, opts: [x, y]}]
train: [{q: 'Q3:', a: x, l: 0, opts: [x, y]}, {q: 'Q0:', a: x, l: 0, opts: [x, y]}]
";

const QUESTION: &str =
    "task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {until: [z]}\n";
const OPTIONS: &str = "task: t\ntest_split: test\ndoc_to_text: q\noutput_type: multiple_choice\n";

fn plain() -> RequestOptions {
    RequestOptions::default()
}

fn chat(multiturn: bool) -> RequestOptions {
    RequestOptions { chat_template: Some(Arc::new(Tags)), fewshot_as_multiturn: multiturn, ..plain() }
}

fn with_system(options: RequestOptions, text: &str) -> RequestOptions {
    RequestOptions { system_instruction: Some(text.to_owned()), ..options }
}

/// The first context of a task.
fn context(more: &str, options: &RequestOptions) -> String {
    let args = build(&task(&format!("{QUESTION}{more}")), splits(DATA), options).unwrap();
    let first = lmeval_pycompat::json::loads(&args[0]).unwrap();
    first.as_list().unwrap()[0].as_str().unwrap().to_owned()
}

fn instances(definition: &str, data: &str, options: &RequestOptions) -> Result<Vec<Instance>, PromptError> {
    let sources = RequestSources::new(Arc::new(splits(data)));
    let built = RequestBuilder::new(&task(definition), &sources, options)?.build_all()?;
    Ok(built.into_iter().flat_map(|document| document.instances).collect())
}

fn failure(definition: &str, data: &str) -> PromptError {
    instances(definition, data, &plain()).unwrap_err()
}

const TWO: &str = "num_fewshot: 2\nfewshot_split: train\nfewshot_config: {sampler: first_n}\n";

#[test]
fn builds_contexts_in_all_forms() {
    assert_eq!(context(TWO, &plain()), "Q3: x\n\nQ0: x\n\nQ0:");
    let turns = "<system>S</system><user>Q3:</user><assistant>x</assistant><user>Q0:</user><assistant>x</assistant>\
                 <user>Q0:</user><assistant>";
    assert_eq!(context(TWO, &with_system(chat(true), "S")), turns);
    let single = "<system>S</system><user>Q3: x\n\nQ0: x\n\nQ0:</user><assistant>";
    assert_eq!(context(TWO, &with_system(chat(false), "S")), single);
    let prefixed = format!("{TWO}gen_prefix: GP\n");
    let started = "<user>Q3: GP x\n\nQ0: GP x\n\nQ0:</user><assistant>GP</assistant>";
    assert_eq!(context(&prefixed, &chat(false)), started);
    assert_eq!(context(&prefixed, &plain()), "Q3: GP x\n\nQ0: GP x\n\nQ0: GP");
}

#[test]
fn builds_the_system_prompt() {
    assert_eq!(context("description: Desc\n", &plain()), "DescQ0:");
    assert_eq!(context("", &with_system(plain(), "SYS")), "SYSQ0:");
    assert_eq!(context("description: Desc\n", &with_system(plain(), "SYS")), "SYS\n\nDescQ0:");
    assert_eq!(context("description: Desc\n", &with_system(plain(), "SYS ")), "SYS DescQ0:");
    assert_eq!(context("description: q\n", &plain()), "Q0:Q0:");
    assert_eq!(context("description: null\n", &with_system(plain(), "")), "Q0:");
}

#[test]
fn examples_may_have_their_own_fields() {
    let more = "num_fewshot: 1\nfewshot_split: train\nfewshot_config: {sampler: first_n, doc_to_text: 'T {{q}}', \
                doc_to_target: '{{a}}!', target_delimiter: '=>', fewshot_delimiter: '|', gen_prefix: P}\n";
    assert_eq!(context(more, &plain()), "T Q3:=>P x!|Q0:");
    let choice = format!(
        "{OPTIONS}doc_to_choice: opts\ndoc_to_target: l\nnum_fewshot: 1\nfewshot_split: train\n\
         fewshot_config: {{sampler: first_n, doc_to_choice: [one, two]}}\n"
    );
    assert_eq!(build(&task(&choice), splits(DATA), &plain()).unwrap()[0], r#"["Q3: one\n\nQ0:", " x"]"#);
    let null =
        "num_fewshot: 1\nfewshot_split: train\nfewshot_config: {sampler: first_n, doc_to_text: null}\n";
    assert_eq!(context(null, &plain()), "Q3: x\n\nQ0:");
}

/// Documents whose questions are numbers.
fn numbered(from: i64, to: i64) -> String {
    let documents: Vec<String> = (from..to).map(|number| format!("{{q: '{number}', a: x}}")).collect();
    documents.join(", ")
}

#[test]
fn draws_examples_from_one_stream() {
    let data = format!("test: [{}]\ntrain: [{}]", numbered(100, 103), numbered(0, 10));
    let drawn = |more: &str, options: &RequestOptions| -> Vec<String> {
        let definition =
            format!("{QUESTION}num_fewshot: 3\nfewshot_delimiter: ' '\ntarget_delimiter: '='\n{more}");
        let args = build(&task(&definition), splits(&data), options).unwrap();
        args.iter().map(|args| args.split("=x ").take(3).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(drawn("fewshot_split: train\n", &plain()), ["[\"7 1 0", "[\"1 0 9", "[\"1 5 3"]);
    // Without `fewshot_split`, the training split is the pool.
    assert_eq!(drawn("training_split: train\n", &plain())[1], "[\"1 0 9");
    let second = RequestOptions { shard: Shard { rank: 1, world_size: 2 }, ..plain() };
    assert_eq!(drawn("fewshot_split: train\n", &second), ["[\"7 1 0"]);
    let chosen = RequestOptions { samples: Some(vec![2]), ..plain() };
    assert_eq!(drawn("fewshot_split: train\n", &chosen), ["[\"7 1 0"]);
}

#[test]
fn parts_have_the_prompts_of_a_whole_run() {
    // More documents than are read at a time, so that a chunk ends inside a part.
    let data = format!("test: [{}]\ntrain: [{}]", numbered(1000, 1700), numbered(0, 30));
    let plain_task = QUESTION.to_owned();
    let with_examples = format!("{QUESTION}num_fewshot: 3\nfewshot_split: train\n");
    let own_examples = format!("{QUESTION}num_fewshot: 2\nfewshot_split: test\n");
    for definition in [plain_task, with_examples, own_examples] {
        for options in [plain(), RequestOptions { limit: Some(601.0), ..plain() }] {
            let whole = build(&task(&definition), splits(&data), &options).unwrap();
            for count in [1, 2, 7, 5000] {
                let mut parts = vec![Vec::new(); count];
                for (index, part) in parts.iter_mut().enumerate().take(9) {
                    let options = RequestOptions { part: Part::new(index, count), ..options.clone() };
                    *part = build(&task(&definition), splits(&data), &options).unwrap();
                }
                for (position, args) in whole.iter().enumerate().filter(|(position, _)| position % count < 9)
                {
                    assert_eq!(&parts[position % count][position / count], args);
                }
                let found: usize = parts.iter().map(Vec::len).sum();
                assert_eq!(found, whole.len().min(if count > 9 { 9 } else { whole.len() }));
            }
        }
    }
}

#[test]
fn two_unset_splits_compare_equal() {
    // Evaluating the validation split with examples from training draws one more, so the stream differs.
    let data = format!("test: [{{q: a, a: x}}, {{q: b, a: x}}]\ntrain: [{}]", numbered(0, 10));
    let definition = QUESTION.replace("test_split", "validation_split")
        + "num_fewshot: 3\ntraining_split: train\nfewshot_delimiter: ' '\ntarget_delimiter: '='\n";
    let args = build(&task(&definition), splits(&data), &plain()).unwrap();
    assert!(args[0].starts_with("[\"7=x 1=x 0=x a\""), "{}", args[0]);
    assert!(args[1].starts_with("[\"9=x 0=x 1=x b\""), "{}", args[1]);
}

#[test]
fn builds_several_inputs() {
    let data = "test: [{t: [one Q0, two Q0], c: cont, g: 1}]";
    let definition = "task: t\ntest_split: test\noutput_type: multiple_choice\nmultiple_inputs: true\n\
                      doc_to_text: t\ndoc_to_choice: ['{{c}}']\ndoc_to_target: g\ngen_prefix: GP\n";
    let built = instances(definition, data, &plain()).unwrap();
    let args: Vec<String> = built.iter().map(|one| repr(&Value::from(one.args(&Dialect::V05)))).collect();
    assert_eq!(args, ["['one Q0GP', ' cont']", "['two Q0GP', ' cont']"]);
    assert_eq!(built[0].target, Value::Int(1));
    let two = definition.replace("['{{c}}']", "[a, b]");
    assert_eq!(failure(&two, data).kind(), PromptErrorKind::Type);
    let empty = "test: [{t: [one, two], c: '', g: 1}]";
    let built = instances(&definition.replace("gen_prefix: GP\n", ""), empty, &plain()).unwrap();
    let args: Vec<String> = built.iter().map(|one| repr(&Value::from(one.args(&Dialect::V05)))).collect();
    assert_eq!(args, ["['', 'one']", "['', 'two']"]);
}

#[test]
fn resolves_targets_and_gold_indices() {
    let gold = |fields: &str, data: &str| -> Vec<String> {
        let built = instances(&format!("{OPTIONS}{fields}"), data, &plain()).unwrap();
        built.iter().filter(|one| one.idx == 0).map(|one| repr(&one.gold)).collect()
    };
    let data = "test: [{q: Q0, a: [y, z], t: y}, {q: Q1, a: [x], t: w}, {q: Q2, a: [w], t: '1'}]";
    let choice = "doc_to_choice: [x, y]\n";
    assert_eq!(gold(&format!("{choice}doc_to_target: t\n"), data), ["1", "None", "1"]);
    assert_eq!(gold(&format!("{choice}doc_to_target: a\n"), data), ["[1]", "[0]", "None"]);
    assert_eq!(gold(&format!("{choice}doc_to_target: '{{{{a}}}}'\n"), data), ["[1]", "[0]", "None"]);
    assert_eq!(gold(&format!("{choice}doc_to_target: -1\n"), data), ["-1", "-1", "-1"]);
    let generated = instances(
        "task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: '{{t}}'\n",
        "test: [{q: Q, t: '17'}]",
        &plain(),
    )
    .unwrap();
    assert_eq!(repr(&generated[0].target), "'17'");
    assert_eq!(repr(&Value::from(generated[0].metadata.to_dict())), "{}");
    let several =
        instances("task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n", data, &plain()).unwrap();
    assert_eq!(repr(&several[0].target), "['y', 'z']");
    assert_eq!(
        repr(&Value::from(several[0].metadata.to_dict())),
        "{'metric_kwargs': {'multiple_targets': True}}"
    );
}

#[test]
fn skips_documents_without_options_or_target() {
    let data = "test: [{q: Q0, o: [], t: 0}, {q: Q1, o: [x], t: null}, {q: Q2, o: [1], t: 0}, {q: Q3, o: [x], t: 0}]";
    let definition = task(&format!("{OPTIONS}doc_to_choice: o\ndoc_to_target: t\n"));
    let sources = RequestSources::new(Arc::new(splits(data)));
    let built = RequestBuilder::new(&definition, &sources, &plain()).unwrap().build_all().unwrap();
    let skipped: Vec<Option<Skipped>> = built.iter().map(|document| document.skipped).collect();
    let (no_options, no_target) = (Some(Skipped::NoOptions), Some(Skipped::NoTarget));
    assert_eq!(skipped, [no_options, no_target, no_options, None]);
    assert_eq!(built[3].instances.len(), 1);
    assert_eq!(built[3].choices.as_deref(), Some(&vec![Value::str("x")]));
    let none = failure(&format!("{OPTIONS}doc_to_choice: [0, 1]\ndoc_to_target: t\n"), data);
    assert_eq!(none.to_string(), "Task `t`: No document yields a request");
    let later = failure(&format!("{OPTIONS}doc_to_choice: [x, 1]\ndoc_to_target: t\n"), data);
    assert_eq!(later.kind(), PromptErrorKind::Type);
}

#[test]
fn options_after_a_chat_template() {
    let first = |more: &str, options: &RequestOptions| {
        let definition = format!("{OPTIONS}doc_to_choice: opts\ndoc_to_target: l\n{more}");
        build(&task(&definition), splits(DATA), options).unwrap().swap_remove(0)
    };
    assert_eq!(first("", &chat(true)), r#"["<user>Q0:</user><assistant>", "x"]"#);
    assert_eq!(
        first("gen_prefix: GP\n", &chat(true)),
        r#"["<user>Q0:</user><assistant>GP</assistant>", " x"]"#
    );
    assert_eq!(
        first("gen_prefix: 'GP '\n", &chat(true)),
        r#"["<user>Q0:</user><assistant>GP </assistant>", "x"]"#
    );
    // The name of the column decides, not its value.
    assert_eq!(
        first("gen_prefix: a\n", &chat(true)),
        r#"["<user>Q0:</user><assistant>x</assistant>", " x"]"#
    );
    let remote = RequestOptions { chat_template: Some(Arc::new(RemoteTemplate)), ..plain() };
    let conversation =
        r#"[[{"role": "user", "content": "Q0:"}, {"role": "assistant", "content": "GP"}], " x"]"#;
    assert_eq!(first("gen_prefix: GP\n", &remote), conversation);
}

/// A chat template that renders JSON.
#[derive(Debug)]
struct Json;

impl ChatTemplate for Json {
    fn apply(&self, messages: Vec<ChatMessage>, _: bool) -> Result<Context, ChatError> {
        Ok(Context::Json(format!("[{}]", messages.len()).into()))
    }
}

#[test]
fn json_conversations_cannot_have_options() {
    let options = RequestOptions { chat_template: Some(Arc::new(Json)), ..plain() };
    let definition = format!("{OPTIONS}doc_to_choice: opts\ndoc_to_target: l\n");
    assert_eq!(
        build(&task(&definition), splits(DATA), &options).unwrap_err().to_string(),
        "Task `t`: No document yields a request"
    );
    let generated = instances(QUESTION, DATA, &options).unwrap();
    let lmeval_core::Arguments::Generate { context, .. } = &generated[0].arguments else { panic!() };
    assert_eq!(context.hash_text(), "JsonChatStr(prompt='[1]')");
    let scored = QUESTION.to_owned() + "output_type: loglikelihood\n";
    assert_eq!(instances(&scored, DATA, &options).unwrap_err().kind(), PromptErrorKind::Type);
}

#[test]
fn requests_carry_repeats() {
    let generation = format!("{QUESTION}repeats: 3\n");
    let options = format!("{OPTIONS}doc_to_choice: opts\ndoc_to_target: l\nrepeats: 3\n");
    let old = RequestOptions { dialect: Dialect::V04, ..plain() };
    for (definition, options, repeats) in
        [(&generation, plain(), 3), (&options, plain(), 1), (&generation, old.clone(), 3), (&options, old, 3)]
    {
        assert_eq!(instances(definition, DATA, &options).unwrap()[0].repeats, repeats);
    }
}

/// The column `n` of a document, plus one.
fn counted(document: &Dict) -> Value {
    Value::Int(document.get_str("n").and_then(Value::as_i64).unwrap_or_default() + 1)
}

/// Functions that need no Python. When watched, they increment a counter in their documents.
#[derive(Debug)]
struct Functions;

impl Host for Functions {
    fn call(&self, function: &Function, document: &Arc<Dict>) -> Result<Value, HostError> {
        match function.reference.as_str() {
            "utils.letter" => Ok(Value::str("F")),
            "utils.counted" => Ok(Value::Str(repr(&counted(document)).into())),
            "utils.question" => Ok(document.get_str("q").cloned().unwrap_or_default()),
            other => Err(HostError::Failed {
                function: other.to_owned(),
                message: "boom".to_owned(),
                traceback: None,
                hint: None,
            }),
        }
    }

    fn call_watched(
        &self,
        function: &Function,
        document: &Arc<Dict>,
    ) -> Result<(Value, Option<Dict>), HostError> {
        let mut changed = Dict::clone(document);
        changed.insert("n", counted(document));
        Ok((self.call(function, document)?, Some(changed)))
    }

    fn process_documents(
        &self,
        _: &Function,
        documents: Arc<dyn Documents>,
    ) -> Result<Arc<dyn Documents>, HostError> {
        let processed = (0..documents.len()).map(|index| {
            let mut document = Dict::clone(&documents.get(index).unwrap());
            document.insert("q", format!("P{index}"));
            document
        });
        Ok(Arc::new(MemoryDocuments::new(processed.collect())))
    }

    fn documents(&self, _: &Function) -> Result<Arc<dyn Documents>, HostError> {
        Ok(Arc::new(MemoryDocuments::new(vec![
            [(Value::str("q"), Value::str("S")), (Value::str("a"), Value::str("s"))].into_iter().collect(),
        ])))
    }
}

#[test]
fn example_does_not_change_the_evaluated_document() {
    let document: Dict =
        [(Value::str("q"), Value::str("Q:")), (Value::str("n"), Value::Int(0))].into_iter().collect();
    // The same object is evaluated and shown as an example.
    let same = MemoryDocuments::with_columns(vec!["q".into(), "n".into()], vec![Arc::new(document)]);
    let splits = MemorySplits::new().with("test", same.clone()).with("train", same);
    let sources = RequestSources::new(Arc::new(splits)).with_host(Arc::new(Functions));
    let definition = "task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: !function utils.counted\n\
        generation_kwargs: {until: [z]}\nnum_fewshot: 1\nfewshot_split: train\n\
        fewshot_config: {sampler: first_n}\n";
    let old = RequestOptions { dialect: Dialect::V04, ..plain() };
    let built = RequestBuilder::new(&task(definition), &sources, &old).unwrap().build_all().unwrap();
    let args = built[0].instances[0].args(&Dialect::V04);
    assert_eq!(args[0].as_str(), Some("Q: 1\n\nQ:"));
    assert_eq!(built[0].document.get_str("n"), Some(&Value::Int(1)));
}

#[test]
fn calls_functions_through_the_host() {
    let with_host = |more: &str| {
        let sources = RequestSources::new(Arc::new(splits(DATA))).with_host(Arc::new(Functions));
        let built =
            RequestBuilder::new(&task(&format!("{QUESTION}{more}")), &sources, &plain())?.build_all()?;
        let args = built[0].instances[0].args(&Dialect::V05);
        Ok::<String, PromptError>(args[0].as_str().unwrap().to_owned())
    };
    assert_eq!(with_host("gen_prefix: !function utils.letter\n").unwrap(), "Q0: F");
    assert_eq!(with_host("description: !function utils.question\n").unwrap(), "Q0:Q0:");
    assert_eq!(with_host("process_docs: !function utils.process\n").unwrap(), "P0");
    let samples = "num_fewshot: 1\nfewshot_config: {sampler: first_n, samples: !function utils.samples}\n";
    assert_eq!(with_host(samples).unwrap(), "S s\n\nQ0:");
    let error = with_host("description: !function utils.broken\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Task `t`, document 0, `description`: The function `utils.broken` failed: boom"
    );
    let alone = failure(&format!("{QUESTION}description: !function utils.letter\n"), DATA);
    assert_eq!(alone.kind(), PromptErrorKind::NeedsPython);
    assert_eq!(
        alone.to_string(),
        "Task `t`, document 0, `description`: The function `utils.letter` needs Python"
    );
    let processed = failure(&format!("{QUESTION}process_docs: !function utils.process\n"), DATA);
    assert_eq!(processed.to_string(), "Task `t`, `process_docs`: The function `utils.process` needs Python");
}

/// A sampler that takes the last documents in reverse order.
#[derive(Debug)]
struct Backwards;

impl Sampler for Backwards {
    fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError> {
        Ok((0..draw.pool.len()).rev().take(draw.count).collect())
    }
}

#[test]
fn uses_registered_samplers() {
    let mut registry = Registry::default();
    registry.register(SamplerEntry::new("backwards", || Box::new(Backwards))).unwrap();
    let sources = RequestSources::new(Arc::new(splits(DATA))).with_registry(Arc::new(registry));
    let definition =
        format!("{QUESTION}num_fewshot: 2\nfewshot_split: train\nfewshot_config: {{sampler: backwards}}\n");
    let built = RequestBuilder::new(&task(&definition), &sources, &plain()).unwrap().build_all().unwrap();
    assert_eq!(built[0].instances[0].args(&Dialect::V05)[0], Value::str("Q0: x\n\nQ3: x\n\nQ0:"));
    let unknown = failure(&definition, DATA);
    assert_eq!(unknown.to_string(), "Task `t`, `fewshot_config.sampler`: `backwards` is not a known sampler");
}

#[test]
fn errors_name_document_and_field() {
    let error = failure(&QUESTION.replace("doc_to_text: q", "doc_to_text: '{{qq}}'"), DATA);
    assert_eq!(
        error.to_string(),
        "Task `t`, document 0, `doc_to_text`: The variable `qq` is not defined (template `{{qq}}`)"
    );
    assert_eq!((error.task(), error.field()), (Some("t"), Some("doc_to_text")));
    assert!(error.hints().iter().any(|hint| hint.contains("`q`, `a`")), "{:?}", error.hints());
    let example =
        failure(&format!("{QUESTION}{TWO}").replace("first_n", "first_n, doc_to_text: '{{z}}'"), DATA);
    assert_eq!(example.document(), Some(ErrorDocument::Example(0)));
    assert_eq!(example.field(), Some("fewshot_config.doc_to_text"));
    let few = failure(&format!("{QUESTION}num_fewshot: 3\nfewshot_split: train\n"), DATA);
    let message = "Task `t`, document 0: Cannot draw 3 few-shot examples from 2 documents";
    assert_eq!(few.to_string(), message);
    let number = failure(&format!("{QUESTION}output_type: loglikelihood\n").replace(": a", ": l"), DATA);
    assert!(number.hints()[0].contains("doc_to_target"), "{number}");
    let split = failure(&QUESTION.replace("test_split: test", "test_split: tset"), DATA);
    assert_eq!(
        split.to_string(),
        "Task `t`: Cannot get the split `tset`: There is no split `tset`; available splits: `test`, `train`"
    );
    let none = failure("task: t\ndoc_to_text: q\n", DATA);
    assert_eq!(none.to_string(), "Task `t`: There are no documents to evaluate");
}

#[test]
fn iteration_ends_after_the_first_failure() {
    let data = "test: [{q: Q0, a: x}, {q: 1, a: x}, {q: Q2, a: x}]";
    let sources = RequestSources::new(Arc::new(splits(data)));
    let builder = RequestBuilder::new(&task(QUESTION), &sources, &plain()).unwrap();
    assert_eq!((builder.remaining(), builder.document_count()), (3, 3));
    fn assert_send(_: &impl Send) {}
    assert_send(&builder);
    let built: Vec<bool> = builder.map(|document| document.is_ok()).collect();
    assert_eq!(built, [true, false]);
}
