//! `lm-eval run --recipe`, `ls recipes` and `show` of recipes.

use lmeval_testkit::{ServerOptions, StandInServer, TestContext, reference_library};
use serde_json::{Value, json};

use crate::context;
use crate::long_run::newest;

fn results(context: &TestContext, folder: &str) -> Value {
    let file = newest(&context.work().join(folder), "results_");
    serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn a_recipe_sets_tasks_and_adds_its_rows() {
    let context = context();
    let run = ["run", "--recipe", "demo", "--model", "ngram", "--output_path", "out", "--log_samples"];
    let output = context.run(&run);
    assert_eq!(output.status, 0, "{output}");
    let run = results(&context, "out");
    assert_eq!(run["n-shot"], json!({"demo_capitals": 2, "demo_facts": 0}));
    assert_eq!(run["group_subtasks"]["demo"], json!(["demo::capitals", "demo::facts"]));
    let score = |task: &str, metric: &str| run["results"][task][metric].as_f64().unwrap();
    let centred = |task: &str| (score(task, "acc,none") - 0.25) / 0.75;
    assert_eq!(score("demo::capitals", "centered,none"), centred("demo_capitals"));
    let mean = f64::midpoint(centred("demo_capitals"), centred("demo_facts"));
    assert_eq!(score("demo", "centered,none"), mean);
    assert!(output.stdout.contains("| - capitals  |"), "{output}");
    assert_eq!(run["recipe"]["name"], "demo");
    // Scored again and merged, the rows are computed again.
    let output = context.run(&["rescore", "out", "--output_path", "again"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(results(&context, "again")["results"], run["results"]);
    for shard in ["1/2", "2/2"] {
        let folder = format!("shards/{}", &shard[..1]);
        let run = ["run", "-R", "demo", "--model", "ngram", "--output_path", &folder, "--shard", shard];
        let output = context.run(&run);
        assert_eq!(output.status, 0, "{output}");
    }
    let output = context.run(&["merge", "shards/1", "shards/2", "--output_path", "merged"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(results(&context, "merged")["results"], run["results"]);
    // A comparison is about documents, which rows have none of.
    let output =
        context.run(&["run", "-R", "demo", "--model", "uniform", "--output_path", "new", "--log_samples"]);
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&["compare", "out", "new"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(
        output.stdout.contains("demo_capitals") && !output.stdout.contains("capitals|centered"),
        "{output}"
    );
}

#[test]
fn flags_win_over_a_recipe_and_select_from_it() {
    let context = context();
    context.write("r.yaml", "recipe: mine\nsettings: {compat: '0.4', limit: 3}\ntasks:\n- demo_capitals:1\n- {task: demo_facts, limit: 5}\n");
    let run = |more: &[&str]| {
        let words = ["run", "-R", "r.yaml", "--model", "ngram", "--output_path", "out"];
        let output = context.run(&[&words[..], more].concat());
        assert_eq!(output.status, 0, "{output}");
        results(&context, "out")
    };
    let plain = run(&[]);
    assert_eq!((&plain["compat"], &plain["config"]["limit"]), (&json!("0.4"), &json!(3)));
    let flags = run(&["--compat", "0.5", "--limit", "10", "--tasks", "demo_f*"]);
    assert_eq!(flags["compat"], "0.5");
    assert_eq!(flags["results"].as_object().unwrap().keys().collect::<Vec<_>>(), ["demo_facts"]);
    // The smaller of the two limits.
    assert_eq!(flags["n-samples"]["demo_facts"]["effective"], 5);
    assert_eq!(flags["task_limits"], json!({"demo_facts": 5}));
    context.write("s.yaml", "recipe: r.yaml\nmodel: ngram\noutput_path: out\ncompat: 0.5\n");
    let output = context.run(&["run", "--config", "s.yaml"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(results(&context, "out")["compat"], "0.5");
    let output = context.run(&["run", "-R", "r.yaml", "--tasks", "demo_facts:3"]);
    assert!(output.status == 1 && output.stderr.contains("has no task `demo_facts:3`"), "{output}");
}

#[test]
fn a_limit_of_one_task_is_kept_when_its_journal_is_scored_again() {
    let context = context();
    let server = StandInServer::start(ServerOptions::default());
    let args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False",
        server.url("/v1/completions")
    );
    let words = [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &args,
        "--tasks",
        "demo_arithmetic:limit=4",
        "--output_path",
        "out",
    ];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&["rescore", "out", "--output_path", "again"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(results(&context, "again")["results"], results(&context, "out")["results"]);
}

#[test]
fn changed_definitions_are_named() {
    let context = context();
    let pinned = context.run(&["show", "recipe:demo"]);
    assert!(pinned.stdout.contains("as pinned"), "{pinned}");
    let data = "{\"country\": \"France\", \"choices\": [\"Paris\", \"Lyon\"], \"answer\": 0}\n".repeat(3);
    context.write("mine/capitals.jsonl", &data);
    context.write(
        "mine/capitals.yaml",
        "task: demo_capitals\ndataset_path: json\ndataset_kwargs: {data_files: {train: capitals.jsonl, test: capitals.jsonl}}\n\
         test_split: test\nfewshot_split: train\noutput_type: multiple_choice\ndoc_to_text: '{{country}}:'\ndoc_to_choice: choices\n\
         doc_to_target: answer\n",
    );
    let output = context.run(&["show", "recipe:demo", "--include_path", "mine"]);
    assert_eq!(output.stdout.matches("as pinned").count(), 1, "{output}");
    let strict = context
        .run(&["show", "recipe:demo", "--yaml"])
        .stdout
        .replace("recipe: demo\n", "recipe: demo2\nstrict: true\n");
    context.write("strict.yaml", &strict);
    context.write("lax.yaml", strict.replace("strict: true", "strict: false"));
    let run = |recipe: &str| {
        context.run(&["run", "-R", recipe, "--model", "uniform", "--limit", "1", "--include_path", "mine"])
    };
    let output = run("strict.yaml");
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stderr.contains("1 task of the recipe `demo2` is not as it pins it: `demo_capitals:2`"),
        "{output}"
    );
    assert!(run("lax.yaml").stderr.contains("not as it pins it: `demo_capitals:2`"));
    let output = context.run(&["run", "-R", "strict.yaml", "--model", "uniform", "--limit", "1"]);
    assert!(output.status == 0 && !output.stderr.contains("pins"), "{output}");
}

#[test]
fn recipes_are_listed_and_shown() {
    let context = context();
    let names = context.run(&["ls", "recipes", "--names"]);
    for name in [
        "pythia",
        "open-llm-leaderboard-v1",
        "open-llm-leaderboard-v2",
        "dclm-core",
        "nanochat-core",
        "fineweb-early-signal",
        "llama-3.1-instruct",
        "vllm-ci",
    ] {
        assert!(names.stdout.lines().any(|line| line == name), "{names}");
        assert_eq!(context.run(&["show", &format!("recipe:{name}")]).status, 0);
    }
    let shown = context.run(&["show", "vllm-ci", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["tasks"][0]["task"], "gsm8k");
    let Some(library) = reference_library() else { return };
    let library = library.to_string_lossy();
    // A group of the library has this name.
    let output = context.run(&["show", "pythia", "--library", &library]);
    assert!(output.stdout.starts_with("# group pythia"), "{output}");
    assert!(output.stderr.contains("lm-eval show recipe:pythia"), "{output}");
    let output = context.run(&["show", "recipe:pythia", "--library", &library]);
    assert!(!output.stdout.contains("not installed") && output.stdout.contains("as pinned"), "{output}");
}
