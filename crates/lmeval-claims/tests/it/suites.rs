//! The shapes of the files in vLLM's and SGLang's accuracy suites: one row per file, with the keys that files of its kind have.

use std::path::PathBuf;

use lmeval_analysis::gate::Verdict;
use lmeval_analysis::read::Run;
use lmeval_claims::expect::{Against, Expectations};
use lmeval_pycompat::{Dict, Value, json, repr};

/// A file: its model, the rest of its keys, its task, its metrics with their values, and the arguments that its model gets beside those that all get.
struct Shape {
    model: &'static str,
    keys: &'static str,
    task: &'static str,
    metrics: &'static [(&'static str, f64)],
    arguments: &'static str,
    /// Settings of the run, as `key=value`.
    settings: &'static str,
    /// Keys without an effect here.
    without_effect: &'static str,
}

const GSM: &str = "gsm8k";

const fn shape(
    model: &'static str,
    keys: &'static str,
    metrics: &'static [(&'static str, f64)],
    arguments: &'static str,
    settings: &'static str,
) -> Shape {
    Shape { model, keys, task: GSM, metrics, arguments, settings, without_effect: "" }
}

const fn both(strict: f64, flexible: f64) -> [(&'static str, f64); 2] {
    [("exact_match,strict-match", strict), ("exact_match,flexible-extract", flexible)]
}

/// `limit` and `num_fewshot` stand in nearly every file.
const USUAL: &str = "limit: 1000\nnum_fewshot: 5";
const USUALLY: &str = "limit=1000 num_fewshot=5";

#[rustfmt::skip]
const SHAPES: [Shape; 43] = [
    // Two metrics of one task, with a limit and examples.
    shape("Qwen/Qwen2.5-1.5B-Instruct", "limit: 1319\nnum_fewshot: 5", &both(0.54, 0.59), "", "limit=1319 num_fewshot=5"),
    shape("RedHatAI/Llama-3.2-1B-Instruct-FP8", "limit: 1319\nnum_fewshot: 5", &both(0.335, 0.323), "", "limit=1319 num_fewshot=5"),
    shape("neuralmagic/Llama-3.2-1B-Instruct-quantized.w8a8", USUAL, &both(0.356, 0.358), "", USUALLY),
    shape("nm-testing/Qwen2-1.5B-Instruct-FP8W8", USUAL, &both(0.578, 0.585), "", USUALLY),
    shape("neuralmagic/Qwen2-1.5B-Instruct-quantized.w8a8", USUAL, &both(0.593, 0.588), "", USUALLY),
    shape("meta-llama/Meta-Llama-3-8B-Instruct", "limit: 250\nnum_fewshot: 5", &both(0.756, 0.752), "", "limit=250 num_fewshot=5"),
    shape("neuralmagic/Meta-Llama-3-8B-Instruct-FP8", USUAL, &both(0.753, 0.753), "", USUALLY),
    shape("nm-testing/Meta-Llama-3-8B-Instruct-W8A8-FP8-Channelwise", USUAL, &both(0.752, 0.754), "", USUALLY),
    shape("nm-testing/Meta-Llama-3-8B-Instruct-W8-Channel-A8-Dynamic", "limit: 250\nnum_fewshot: 5", &both(0.728, 0.728), "", "limit=250 num_fewshot=5"),
    shape("HandH1998/QQQ-Llama-3-8b-g128", USUAL, &both(0.419, 0.416), "", USUALLY),
    shape("mgoin/Minitron-4B-Base-FP8", USUAL, &both(0.231, 0.22), "", USUALLY),
    shape("mistralai/Mixtral-8x7B-Instruct-v0.1", "limit: 250\nnum_fewshot: 5", &both(0.616, 0.632), "", "limit=250 num_fewshot=5"),
    shape("Qwen/Qwen2-57B-A14B-Instruct", "limit: 250\nnum_fewshot: 5", &both(0.792, 0.824), "", "limit=250 num_fewshot=5"),
    shape("meta-llama/Meta-Llama-3-70B-Instruct", "limit: 250\nnum_fewshot: 5", &both(0.892, 0.892), "", "limit=250 num_fewshot=5"),
    // Values as YAML writes them.
    shape("Qwen/Qwen1.5-MoE-A2.7B-Chat", "limit: 1319\nnum_fewshot: 5", &both(0.3, 0.465), "", "limit=1319 num_fewshot=5"),
    shape("org/Whole-Number", "limit: 0.5\nnum_fewshot: 0", &both(1.0, 1.0), "", "limit=0.5 num_fewshot=0"),
    // The backend is named.
    shape("org/Named-Backend", "backend: \"vllm\"\nlimit: 1000\nnum_fewshot: 5", &both(0.5, 0.5), "", USUALLY),
    // Code of the model, as a truth value and as strings.
    shape("deepseek-ai/DeepSeek-V2-Lite-Chat", "trust_remote_code: True\nlimit: 1000\nnum_fewshot: 5", &both(0.671, 0.664), "trust_remote_code=True", USUALLY),
    shape("org/Quoted-True", "trust_remote_code: \"True\"\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "trust_remote_code=True", USUALLY),
    shape("org/Quoted-False", "trust_remote_code: 'false'\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "trust_remote_code=False", USUALLY),
    // The length of the context.
    shape("org/Long", "max_model_len: 8192\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "max_model_len=8192", USUALLY),
    shape("org/Longer", "max_model_len: 32768\ntrust_remote_code: True\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "max_model_len=32768 trust_remote_code=True", USUALLY),
    // A tolerance of its own.
    shape("org/Loose", "rtol: 0.1\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", USUALLY),
    shape("org/Tight", "rtol: 0.02\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", USUALLY),
    // Chat templates.
    shape("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "apply_chat_template: true\nfewshot_as_multiturn: true\ntrust_remote_code: true\nlimit: 1319\nnum_fewshot: 5", &both(0.695, 0.447), "trust_remote_code=True", "apply_chat_template=True fewshot_as_multiturn=True limit=1319 num_fewshot=5"),
    shape("org/Template-Alone", "apply_chat_template: true\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", "apply_chat_template=True limit=1000 num_fewshot=5"),
    shape("org/No-Template", "apply_chat_template: false\nfewshot_as_multiturn: false\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", "apply_chat_template=False fewshot_as_multiturn=False limit=1000 num_fewshot=5"),
    // Options of generation, as a string and as a mapping.
    shape("org/Options-String", "gen_kwargs: \"temperature=0,top_p=1,max_gen_toks=1024\"\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", "gen_kwargs='temperature=0,top_p=1,max_gen_toks=1024' limit=1000 num_fewshot=5"),
    shape("org/Options-Mapping", "gen_kwargs: {max_gen_toks: 1024}\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", "gen_kwargs={'max_gen_toks':1024} limit=1000 num_fewshot=5"),
    // The engine.
    shape("org/Eager", "enforce_eager: true\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "enforce_eager=True", USUALLY),
    shape("org/Cache", "kv_cache_dtype: \"fp8\"\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "kv_cache_dtype=fp8", USUALLY),
    shape("org/Quantization", "quantization: \"modelopt\"\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "quantization=modelopt", USUALLY),
    shape("org/Type", "dtype: half\nload_format: auto\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "dtype=half load_format=auto", USUALLY),
    shape("org/Parallel", "tensor_parallel_size: 4\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "tensor_parallel_size=4", USUALLY),
    shape("org/Batches", "batch_size: 16\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", "batch_size=16 limit=1000 num_fewshot=5"),
    Shape { without_effect: "`env_vars`", ..shape("org/Environment", "env_vars:\n  VLLM_USE_FLASHINFER_MOE_FP8: \"1\"\n  A: b\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", USUALLY) },
    Shape { without_effect: "`moe_backend`", ..shape("org/Experts", "moe_backend: \"cutlass\"\nlimit: 1000\nnum_fewshot: 5", &both(0.6, 0.6), "", USUALLY) },
    // Other tasks and metrics; a limit of all documents.
    Shape { task: "mmlu_pro", ..shape("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "limit: 250\nnum_fewshot: 5", &[("exact_match,custom-extract", 0.80)], "", "limit=250 num_fewshot=5") },
    Shape { task: "chartqa", ..shape("Qwen/Qwen2.5-VL-7B-Instruct", "backend: \"vllm-vlm\"\nlimit: 2500\nnum_fewshot: 0", &[("relaxed_accuracy,none", 0.855)], "", "model=vllm-vlm apply_chat_template=True limit=2500 num_fewshot=0") },
    Shape { task: "mmmu_val", ..shape("org/Pictures", "backend: vllm-vlm\nmax_model_len: 16384\nlimit: 50\nnum_fewshot: 0", &[("acc,none", 0.5)], "max_model_len=16384", "model=vllm-vlm apply_chat_template=True limit=50 num_fewshot=0") },
    Shape { task: "wikitext", ..shape("org/Perplexity", "limit: null\nnum_fewshot: null", &[("word_perplexity,none", 11.3)], "", "") },
    // SGLang: a model and no engine, tolerances, the template of the server.
    shape("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", "trust_remote_code: true\nrtol: 0.05\nlimit: null\nnum_fewshot: 5", &both(0.847, 0.556), "trust_remote_code=True", "num_fewshot=5"),
    shape("org/SGLang-Template", "apply_chat_template: true\nfewshot_as_multiturn: true\ngen_kwargs: null\nrtol: 0.02\nlimit: 200\nnum_fewshot: 8", &both(0.8, 0.8), "", "apply_chat_template=True fewshot_as_multiturn=True limit=200 num_fewshot=8"),
];

fn text(shape: &Shape) -> String {
    let metrics: Vec<String> = shape
        .metrics
        .iter()
        .map(|(name, value)| format!("  - name: \"{name}\"\n    value: {value}\n"))
        .collect();
    format!(
        "# A comment, as these files have.\nmodel_name: \"{}\"\ntasks:\n- name: \"{}\"\n  metrics:\n{}{}\n",
        shape.model,
        shape.task,
        metrics.concat(),
        shape.keys
    )
}

fn read(shape: &Shape) -> Expectations {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("suite.yaml");
    fs_err::write(&path, text(shape)).unwrap();
    Expectations::read(&path).unwrap_or_else(|error| panic!("{}: {error}", shape.model))
}

/// `key=value` pairs of a dictionary, those without a value left out.
fn pairs(dict: &Dict, without: &[&str]) -> Vec<String> {
    let pair = |(key, value): (&Value, &Value)| {
        let key = repr::str(key);
        let text = match value {
            Value::Str(text) if text.contains('=') => format!("'{text}'"),
            other => repr::str(other).replace(' ', ""),
        };
        (!value.is_none() && !without.contains(&key.as_str())).then(|| format!("{key}={text}"))
    };
    let mut pairs: Vec<String> = dict.iter().filter_map(pair).collect();
    pairs.sort();
    pairs
}

fn sorted(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.sort();
    words
}

#[test]
fn every_shape_sets_the_run() {
    for shape in &SHAPES {
        let file = read(shape);
        let without = ["compat", "model_args", "tasks"];
        let mut settings = sorted(shape.settings);
        if !shape.settings.contains("batch_size") {
            settings.push("batch_size=auto".to_owned());
        }
        if !shape.settings.contains("model=") {
            settings.push("model=vllm".to_owned());
        }
        settings.sort();
        assert_eq!(pairs(&file.settings, &without), settings, "{}", shape.model);
        let mut arguments = sorted(shape.arguments);
        arguments.extend(["add_bos_token=True".to_owned(), format!("pretrained={}", shape.model)]);
        if !shape.arguments.contains("max_model_len") {
            arguments.push("max_model_len=4096".to_owned());
        }
        arguments.sort();
        let given = file.settings.get_str("model_args").and_then(Value::as_dict).unwrap();
        assert_eq!(pairs(given, &[]), arguments, "{}", shape.model);
        let notes = file.notes.concat();
        assert!(
            notes.contains(shape.without_effect) && notes.is_empty() == shape.without_effect.is_empty(),
            "{notes}"
        );
        let names: Vec<String> = file
            .checks
            .iter()
            .map(|check| format!("{},{}", check.metric, check.filter.as_deref().unwrap_or("")))
            .collect();
        let wanted: Vec<&str> = shape.metrics.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, wanted, "{}", shape.model);
        let has_tolerance = |against: &Against| matches!(against, Against::Tolerance { .. });
        let is_tolerated = shape.keys.contains("rtol");
        assert!(
            file.checks.iter().all(|check| has_tolerance(&check.against) == is_tolerated),
            "{}",
            shape.model
        );
    }
}

#[test]
fn every_shape_decides_about_a_run() {
    for shape in &SHAPES {
        let file = read(shape);
        for (share, wanted) in [(1.0, Verdict::Pass), (0.5, Verdict::Fail)] {
            // Of a perplexity, less is better.
            let share = if shape.task == "wikitext" { 1.0 / share } else { share };
            let mut scores = serde_json::Map::new();
            for (name, value) in shape.metrics {
                let (metric, filter) = name.split_once(',').unwrap();
                scores.insert((*name).to_owned(), (value * share).into());
                scores.insert(format!("{metric}_stderr,{filter}"), (0.001 * value).into());
            }
            let object = serde_json::json!({
                "results": {shape.task: scores},
                "higher_is_better": {"wikitext": {"word_perplexity": false}},
                "n-samples": {shape.task: {"original": 1000, "effective": 1000}},
            });
            let Value::Dict(object) = json::loads(&object.to_string()).unwrap() else { unreachable!() };
            let results = Some(Dict::clone(&object));
            let run = Run { name: "m".to_owned(), path: PathBuf::new(), results, samples: Vec::new() };
            let outcomes = file.decide(&run).unwrap();
            assert!(
                outcomes.iter().all(|outcome| outcome.verdict == wanted),
                "{} {share}: {outcomes:?}",
                shape.model
            );
        }
    }
}
