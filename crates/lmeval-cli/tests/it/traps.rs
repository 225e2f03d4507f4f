//! `lm-eval doctor --tasks` finds forms of prompts that lose points, and only those.

use std::path::PathBuf;
use std::sync::OnceLock;

use lmeval_testkit::{Dice, Scripted, ServerOptions, StandInServer, TestContext};
use lmeval_tokenizers::HuggingFaceTokenizer;
use serde_json::{Value, json};

use crate::context;
use crate::judge::number_after;

const DOCUMENTS: usize = 80;

/// A folder with a tokenizer whose chat template writes the BOS token itself.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../lmeval-tokenizers/tests/data/tokenizer"))
}

fn tokenizer() -> &'static HuggingFaceTokenizer {
    static TOKENIZER: OnceLock<HuggingFaceTokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| HuggingFaceTokenizer::from_folder(&folder()).unwrap())
}

/// A model that is named by a seed, the percentage of documents that any change of a prompt redraws, and the points that a doubled
/// BOS token costs: `7-20-0`.
fn model(body: &Value, _: usize) -> Scripted {
    if body["echo"] == true || body["prompt"].is_string() || body["prompt"][0].is_string() {
        return Scripted::Unscripted;
    }
    let name = body["model"].as_str().unwrap();
    let numbers: Vec<u64> = name.split('-').map(|number| number.parse().unwrap()).collect();
    let prompts = body["prompt"].as_array().unwrap();
    let rows = if prompts[0].is_array() { prompts.as_slice() } else { std::slice::from_ref(&body["prompt"]) };
    let choices: Vec<Value> = rows
        .iter()
        .enumerate()
        .map(|(index, ids)| {
            let ids: Vec<u32> =
                ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
            json!({"index": index, "text": answer(&ids, &numbers), "finish_reason": "stop"})
        })
        .collect();
    Scripted::Body(200, json!({"choices": choices}))
}

fn answer(ids: &[u32], numbers: &[u64]) -> &'static str {
    let &[seed, noise, trap] = numbers else { panic!("{numbers:?} are not three numbers") };
    let prompt = tokenizer().decode(ids).unwrap();
    let question = number_after(
        prompt.rsplit("Question ").next().map(|rest| format!("Question {rest}")).unwrap().as_str(),
        "Question ",
    );
    let of_prompt = ids.iter().fold(seed, |hash, id| hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(*id));
    // The knowledge of this model, and the chance that decides about this prompt.
    let mut dice = Dice::new(seed * 1000 + question as u64);
    let knows = dice.percent(70);
    let mut chance = Dice::new(of_prompt);
    let is_right = if chance.percent(noise as usize) { chance.percent(70) } else { knows };
    let is_doubled = ids.iter().take_while(|id| **id == 0).count() > 1;
    let is_lost = is_doubled && (question as u64 * 100 / 5) % 100 < trap;
    if is_right && !is_lost { "right" } else { "wrong" }
}

pub(crate) fn write_task(context: &TestContext, documents: usize) {
    let rows = (1..=documents).map(|number| json!({"q": format!("Question {number}")}).to_string());
    context.write("rows.jsonl", rows.collect::<Vec<_>>().join("\n"));
    context.write(
        "tasks/quiz.yaml",
        "task: quiz\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: \"{{q}}?\"\ndoc_to_target: right\n\
         generation_kwargs: {until: [\"\\n\"], max_gen_toks: 4}\nmetric_list: [{metric: exact_match}]\n",
    );
}

fn doctor(
    context: &TestContext,
    server: &StandInServer,
    model: &str,
    more: &str,
    flags: &[&str],
) -> (i32, Vec<Value>) {
    let tokenizer = folder();
    let args = format!(
        "model={model},base_url={},tokenizer_backend=huggingface,tokenizer={},num_concurrent=8{more}",
        server.url("/v1/completions"),
        tokenizer.display()
    );
    let mut words = vec![
        "doctor",
        "--model",
        "local-completions",
        "--model_args",
        &args,
        "--tasks",
        "quiz",
        "--include_path",
        "tasks",
        "--json",
    ];
    words.extend(flags);
    let output = context.run(&words);
    assert!(output.stderr.is_empty() || output.status <= 1, "{output}");
    let lines = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    (output.status, lines.filter(|line: &Value| line["prompt"].is_string()).collect())
}

pub(crate) fn start() -> StandInServer {
    StandInServer::start(ServerOptions { completions: Some(model), ..ServerOptions::default() })
}

#[test]
fn doubled_bos_is_found_with_twenty_documents() {
    let context = context();
    write_task(&context, DOCUMENTS);
    let server = start();
    // The template writes one BOS token, the model argument another.
    let (status, findings) =
        doctor(&context, &server, "1-0-20", ",add_bos_token=True", &["--apply_chat_template"]);
    assert_eq!(status, 1, "{findings:#?}");
    let gains = findings.iter().filter(|finding| finding["finding"] == "gains points");
    // Without the template there is one token, too.
    let expected = [("without the chat template", 1), ("without an added BOS token", 1)];
    let found: Vec<_> = gains
        .map(|finding| (finding["prompt"].as_str().unwrap(), finding["bos_tokens"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected, "{findings:#?}");
    assert_eq!(findings[0]["bos_tokens"], 2, "{findings:#?}");
}

/// Models (200 in the weekly job) whose answers move with every change of a prompt, from not at all to nearly always, and which no form favours.
#[test]
fn models_without_a_trap_raise_no_alarm() {
    let context = context();
    write_task(&context, DOCUMENTS);
    let server = start();
    let each = lmeval_testkit::simulated(8, 40);
    let alarms: Vec<String> = std::thread::scope(|scope| {
        let (context, server) = (&context, &server);
        let workers: Vec<_> = [0, 5, 15, 30, 60]
            .map(|noise| {
                scope.spawn(move || {
                    let models = (0..each).map(|seed| format!("{}-{noise}-0", 1000 + seed));
                    models.filter(|model| doctor(context, server, model, "", &[]).0 != 0).collect::<Vec<_>>()
                })
            })
            .into_iter()
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(alarms.is_empty(), "{alarms:?}");
}
