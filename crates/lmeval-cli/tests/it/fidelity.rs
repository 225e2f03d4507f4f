//! `lm-eval fidelity`: two models on the same documents, and their distributions token by token.

use lmeval_testkit::{Output, ScoringBehavior, ScoringModel, TestContext};
use serde_json::Value;

use crate::hf::{model, prepared};
use crate::long_run::newest;
use crate::scoring_protocols::{self, Served, serve};

const ARGUMENTS: [&str; 10] = [
    "fidelity",
    "--include_path",
    "tasks",
    "--library",
    "none",
    "--output_path",
    "out",
    "--limit",
    "8",
    "--model",
];

/// Compares two models of the backend `hf`.
fn native(context: &TestContext, tasks: &str, base: &str, new: &str, more: &[&str]) -> Output {
    let [base, new] =
        [base, new].map(|more| format!("pretrained={},max_length=600{more}", model().display()));
    let own = ["hf", "--device", "cpu", "--tasks", tasks, "--model_args", &base, "--against_args", &new];
    context.run(&[&ARGUMENTS, &own[..], more].concat())
}

fn report(context: &TestContext) -> Value {
    let path = newest(&context.work().join("out/new"), "fidelity.json");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

/// The lines of the tokens, by task.
fn tokens(context: &TestContext) -> Vec<Value> {
    let path = newest(&context.work().join("out/new"), "fidelity_tokens");
    let lines = fs_err::read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// A copy of the tiny checkpoint with other weights.
fn changed(context: &TestContext) -> String {
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        context.write(format!("changed/{name}"), fs_err::read(model().join(name)).unwrap());
    }
    let mut weights = fs_err::read(model().join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(std::array::from_fn(|index| weights[index])) as usize;
    let parsed: Value = serde_json::from_slice(&weights[8..header]).unwrap();
    let tensor = &parsed["model.layers.0.mlp.down_proj.weight"];
    let [start, end] = [0, 1].map(|index| header + tensor["data_offsets"][index].as_u64().unwrap() as usize);
    // The sign of every fifth number.
    let width = if tensor["dtype"] == "F32" { 4 } else { 2 };
    for sign in (start + width - 1..end).step_by(width * 5) {
        weights[sign] ^= 0x80;
    }
    context.write("changed/model.safetensors", weights);
    context.work().join("changed").display().to_string()
}

#[test]
fn the_same_checkpoint_is_the_same_model() {
    let context = prepared();
    let output = native(&context, "options,wholes,long", "", ",dtype=float32", &[]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("Verdict: same"), "{output}");
    let report = report(&context);
    for task in ["options", "wholes", "long"] {
        let figures = &report["tokens"][task];
        assert!(figures["tokens"].as_u64().unwrap() > 20, "{report}");
        assert!(figures["kl"]["largest"].as_f64().unwrap() < 1e-6, "{report}");
        assert_eq!(figures["agreement"], 1.0);
    }
    assert_eq!(report["findings"].as_array().unwrap().len(), 0, "{report}");
    // The runs are journaled, and the distributions of the reference are kept.
    let again = native(&context, "options,wholes,long", "", ",dtype=float32", &["--json"]);
    assert_eq!(again.status, 0, "{again}");
    assert!(again.stderr.contains("The distributions of the reference were reused"), "{again}");
    let printed: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(printed["tokens"], report["tokens"]);
}

#[test]
fn divergences_are_exact_or_bounded() {
    let context = prepared();
    let other = changed(&context);
    let against = |keep: &str| {
        let base = format!("pretrained={},max_length=600", model().display());
        let new = format!("pretrained={other},max_length=600");
        let own =
            ["hf", "--device", "cpu", "--tasks", "options", "--model_args", &base, "--against_args", &new];
        let output = context.run(&[&ARGUMENTS, &own[..], &["--keep", keep]].concat());
        assert!([0, 3, 4].contains(&output.status), "{output}");
        tokens(&context)
    };
    let exact = against("1");
    let listed = report(&context)["kept"]["listed_per_token"].as_f64().unwrap();
    for keep in ["0.5", "0.999"] {
        for (exact, bounded) in exact.iter().zip(against(keep)) {
            let [low, high] = ["kl", "kl_high"].map(|name| numbers(&bounded[name]));
            for (index, kl) in numbers(&exact["kl"]).into_iter().enumerate() {
                // The reference's distributions are rounded.
                assert!(low[index] <= kl + 1e-5 && low[index] <= high[index], "{keep}: {exact} {bounded}");
                assert!(keep == "0.5" || kl <= low[index] * 1.05, "{keep}: {exact} {bounded}");
            }
        }
        assert!(report(&context)["kept"]["listed_per_token"].as_f64().unwrap() < listed);
    }
    let kl: Vec<f64> = exact.iter().flat_map(|line| numbers(&line["kl"])).collect();
    assert!(kl.iter().all(|kl| *kl > 0.0) && kl.iter().any(|kl| *kl > 1e-4), "{kl:?}");
    // The log-likelihoods of the tokens are those of the runs.
    let report = report(&context);
    assert_eq!(report["findings"].as_array().unwrap().len(), 0, "{report}");
    let worst = &report["worst_tokens"][0];
    assert_eq!(worst["base_likely"].as_array().unwrap().len(), 5);
    assert!(worst["input"].as_array().unwrap().len() > 10, "{worst}");
}

#[test]
fn a_missing_bos_token_is_named() {
    let context = prepared();
    let output = native(&context, "options", ",add_bos_token=True", ",add_bos_token=False", &[]);
    assert!(output.stdout.contains("the reference begins with [1] (\"<s>\") before the"), "{output}");
    assert!(output.stdout.contains("see `add_bos_token`"), "{output}");
    assert_eq!(report(&context)["findings"][0]["kind"], "tokens");
}

#[test]
fn different_tokenizers_refuse_divergences_but_compare_documents() {
    let context = prepared();
    let other = changed(&context);
    context.write("changed/tokenizer.json", crate::hf::SMALL_TOKENIZER);
    let base = format!("pretrained={},max_length=600", model().display());
    let new = format!("pretrained={other},max_length=600");
    let own = ["hf", "--device", "cpu", "--tasks", "options", "--model_args", &base, "--against_args", &new];
    let output = context.run(&[&ARGUMENTS, &own[..]].concat());
    assert!([0, 3, 4].contains(&output.status), "{output}");
    assert!(
        output.stdout.contains("No distributions: The models have different tokenizers")
            && output.stdout.contains("request 0 of document 0 of `options`: at scored token 0"),
        "{output}"
    );
    let report = report(&context);
    assert_eq!(report["scores"][0]["n"], 8);
    assert_eq!(report["tokens"], serde_json::json!({}));
}

#[test]
fn documents_that_differ_most_are_side_by_side_in_the_viewer() {
    let context = prepared();
    let output = native(&context, "options", ",add_bos_token=True", "", &[]);
    assert!([0, 3, 4].contains(&output.status), "{output}");
    let (_running, address) = crate::view::view(&context, &["out"]);
    let runs = crate::view::json(&address, "/api/runs");
    let id = |folder: &str| {
        let is_own = |run: &&Value| run["path"].as_str().unwrap().contains(folder);
        let run = runs["runs"].as_array().unwrap().iter().find(is_own);
        run.unwrap_or_else(|| panic!("{runs}"))["id"].as_str().unwrap().to_owned()
    };
    let (base, new) = (id("base/"), id("new/"));
    let compared = crate::view::json(&address, &format!("/api/compare?base={base}&new={new}"));
    let scores = compared["comparisons"][0]["scores"].as_array().unwrap();
    let score = scores.iter().find(|score| score["metric"] == "KL divergence").unwrap();
    assert_eq!((&score["task"], &score["flips"]), (&Value::from("options"), &Value::from(8)));
    let path = format!("/api/flips?base={base}&new={new}&task=options&filter=none&metric=KL%20divergence");
    let flips = crate::view::json(&address, &path);
    let documents = report(&context)["documents"].clone();
    let rows = flips["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for (row, document) in rows.iter().zip(documents.as_array().unwrap()) {
        assert_eq!((&row["doc_id"], &row["new_value"]), (&document["doc_id"], &document["kl"]), "{row}");
    }
}

#[test]
fn gates_decide_instead_of_the_margin() {
    let context = prepared();
    let failing = native(&context, "options", "", "", &["--documents_only", "--gate", "options:acc >= 0.5"]);
    assert_eq!(failing.status, 3, "{failing}");
    assert!(failing.stdout.contains("FAIL"), "{failing}");
    assert!(report(&context)["kept"].is_null());
}

fn served(context: &TestContext, base: &Served, new: &Served, more: &[&str]) -> Output {
    let [base, new] = [base, new].map(|served| {
        format!(
            "model=m,base_url={},tokenizer_backend=remote,max_retries=2",
            served.server.url("/v1/completions")
        )
    });
    let own = ["local-completions", "--tasks", "pick", "--model_args", &base, "--against_args", &new];
    context.run(&[&ARGUMENTS, &own[..], more].concat())
}

/// The divergence of two known models in the place of each token of a continuation.
fn truth(base: &ScoringModel, new: &ScoringModel, context: &str, continuation: &str) -> Vec<f64> {
    let [base, new] = [base, new].map(|model| model.logprobs(context, continuation));
    let of_token =
        |(base, new): (&Vec<f64>, &Vec<f64>)| base.iter().zip(new).map(|(p, q)| p.exp() * (p - q)).sum();
    base.iter().zip(&new).map(of_token).collect()
}

#[test]
fn servers_give_bounds_by_their_most_likely_tokens() {
    let context = scoring_protocols::prepared(scoring_protocols::MIXED);
    let base = serve(ScoringBehavior::default());
    let new = serve(ScoringBehavior { weights: 2, ..ScoringBehavior::default() });
    let mut errors = Vec::new();
    for (top, documents) in [("5", "3"), ("259", "1")] {
        let output = served(&context, &base, &new, &["--top_logprobs", top, "--limit", documents]);
        assert_eq!(output.status, 0, "{output}");
        // All answers are wrong by both models.
        assert!(output.stdout.contains("No score tells the models apart, but"), "{output}");
        let (mut largest, mut count) = (0.0_f64, 0);
        for line in tokens(&context) {
            let options = ["A", "banana", "C", "date"];
            let continuation = options[line["request"].as_u64().unwrap() as usize];
            let prompt = prompt(&context, line["doc_id"].as_u64().unwrap());
            let exact = truth(&base.model, &new.model, &prompt, continuation);
            for (exact, found) in exact.into_iter().zip(numbers(&line["kl"])) {
                assert!(found <= exact + 1e-4, "{top}: {found} instead of {exact}");
                largest = largest.max(exact - found);
                count += 1;
            }
        }
        assert!(count >= 12, "{count}");
        errors.push(largest);
    }
    assert!(errors[0] > 0.1 && errors[1] < 1e-4, "{errors:?}");
}

/// The prompt of a document of the reference.
fn prompt(context: &TestContext, doc_id: u64) -> String {
    let path = newest(&context.work().join("out/base"), "samples_pick");
    let lines = fs_err::read_to_string(path).unwrap();
    let sample = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let sample = sample.into_iter().find(|sample| sample["doc_id"] == doc_id).unwrap();
    sample["arguments"]["gen_args_0"]["arg_0"].as_str().unwrap().to_owned()
}

#[test]
fn a_back_end_without_probabilities_compares_documents() {
    let context = prepared();
    let own = ["uniform", "--tasks", "options", "--against", "dummy"];
    let output = context.run(&[&ARGUMENTS, &own[..]].concat());
    assert!([0, 3, 4].contains(&output.status), "{output}");
    assert!(
        output.stdout.contains(
            "No distributions: The model does not return the probabilities of tokens. That is the reference"
        ),
        "{output}"
    );
}

#[test]
fn mistakes_are_usage_errors() {
    let context = prepared();
    let without = ["fidelity", "--model", "dummy", "--against", "dummy", "--tasks", "options"];
    let output = context.run(&without);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("need a folder") && output.stderr.contains("--output_path"), "{output}");
    for (wrong, message) in [
        (&["--keep", "2"][..], "`2` is not a share above 0 and up to 1"),
        (&["--margin", "0"], "`0` is not a number above 0"),
        (&["--top_logprobs", "0"], "`0` is not a number of tokens"),
    ] {
        let output = context.run(&[&without[..], wrong].concat());
        assert_eq!(output.status, 2, "{output}");
        assert!(output.stderr.contains(message), "{output}");
    }
    let nothing = context.run(&["fidelity", "--model", "dummy", "--output_path", "out"]);
    assert_eq!(nothing.status, 2, "{nothing}");
    assert!(nothing.stderr.contains("--against_args"), "{nothing}");
}
