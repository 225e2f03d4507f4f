//! `lm-eval ray` up to the start of its driver. `python/tests/test_ray_cluster.py` has clusters.

use lmeval_testkit::{TestContext, python};
use serde_json::Value;

/// A stand-in for an interpreter: stores the script and the data, and prints the other arguments.
fn stub(context: &TestContext) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = context
        .write("stub", "#!/bin/sh\ncat > script.py\nmv \"$5\" data.json\necho \"$1 $2 $3 $4\"\nexit 7\n");
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// The data that the driver gets.
fn given(context: &TestContext) -> Value {
    let read = |name: &str| fs_err::read_to_string(context.work().join(name)).unwrap();
    assert!(read("script.py").ends_with("\n_start(sys.argv.pop())\n"));
    serde_json::from_str(&read("data.json")).unwrap()
}

#[test]
fn driver_gets_the_cluster_and_the_settings_of_the_run() {
    let context = crate::context();
    let python = stub(&context);
    let line = [
        "ray",
        "run",
        "--replicas",
        "4",
        "--gpus-per-replica",
        "0.5",
        "--env",
        "A=b=c",
        "--model",
        "hf",
        "--model_args",
        "pretrained=x,dtype=float32",
        "--python",
        &python,
        "--min_replicas=2",
        "--system_instruction",
        "π\n\"'\\",
        "--quiet",
        "--address",
        "head:6379",
    ];
    let output = context.run(&line);
    // The status is that of the driver.
    assert_eq!(output.status, 7, "{output}");
    assert_eq!(output.stdout, "- lm-eval ray run\n");
    let given = given(&context);
    assert!(given["modules"]["lm_eval/ray/_driver.py"].as_str().unwrap().contains("class Driver"));
    let settings = &given["settings"];
    assert_eq!(settings["replicas"], 4);
    assert_eq!(settings["min_replicas"], 2);
    assert_eq!(settings["gpus"], 0.5);
    assert_eq!(settings["cpus"], 1.0);
    assert_eq!(settings["address"], "head:6379");
    assert_eq!(settings["environment"], serde_json::json!({ "A": "b=c" }));
    let run = serde_json::json!({
        "model": "hf",
        "model_args": { "pretrained": "x", "dtype": "float32" },
        "system_instruction": "π\n\"'\\",
        "quiet": true,
        "python": python,
    });
    assert_eq!(settings["run"], run);
}

#[test]
fn engine_runs_with_the_settings_of_the_driver() {
    let context = crate::context();
    let python = stub(&context);
    context.write("run.yaml", "tasks: demo_capitals\nlimit: 3\nnum_fewshot: 5\n");
    let flags = ["--config", "run.yaml", "--model", "ngram", "--num_fewshot", "1", "--seed", "7"];
    let output = context.run(&[&["ray", "run", "--replicas", "2", "--python", &python], &flags[..]].concat());
    assert_eq!(output.status, 7, "{output}");
    // The settings are printed once: by this command, not by the engine.
    assert!(output.stdout.starts_with("EvaluatorConfig(config='run.yaml', model='ngram',"), "{output}");
    assert!(output.stderr.contains("Flags override the settings file"), "{output}");
    let settings = given(&context)["settings"]["run"].take();
    context.write("stored.json", settings.to_string());
    let engine = context.run(&["ray", "engine", "stored.json"]);
    let alone = context.run(&[&["run"], &flags[..]].concat());
    assert_eq!((engine.status, alone.status), (0, 0), "{engine}{alone}");
    assert_eq!(engine.stdout, alone.stdout.split_once('\n').unwrap().1);
}

#[test]
fn servers_have_a_default_model() {
    let context = crate::context();
    let python = stub(&context);
    let line =
        ["ray", "run", "--serve", "vllm serve m", "--python", &python, "--model_args", "num_concurrent=4"];
    assert_eq!(context.run(&line).status, 7);
    let settings = given(&context)["settings"].take();
    assert_eq!(settings["run"]["model"], "local-completions");
    assert_eq!(settings["run"]["model_args"], serde_json::json!({ "num_concurrent": 4 }));
    assert_eq!(settings["serve"], "vllm serve m");
}

#[test]
fn servers_of_a_model_are_started_on_the_cluster() {
    let context = crate::context();
    let python = stub(&context);
    let model_args = "pretrained=a b,tensor_parallel_size=2,max_model_len=512,add_bos_token=True";
    let line = ["ray", "run", "--model", "vllm", "--model_args", model_args, "--python", &python];
    assert_eq!(context.run(&[&line[..], &["--gpus-per-replica", "2"]].concat()).status, 7);
    let settings = given(&context)["settings"].take();
    assert_eq!(settings["run"]["model"], "vllm");
    assert_eq!(
        settings["serve"],
        "{python} -m vllm.entrypoints.openai.api_server '--model' 'a b' '--tensor-parallel-size' '2' \
         '--max-model-len' '512' '--generation-config' 'vllm' --host {host} --port {port}"
    );
}

#[test]
fn names_the_package_that_installs_ray() {
    let context = crate::context();
    let python = python().display().to_string();
    let output = context.run(&["ray", "run", "--python", &python, "--model", "hf"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("error: Ray is not installed for "), "{output}");
    assert!(output.stderr.contains("pip install 'lm-eval-rs[ray]'"), "{output}");
}

#[test]
fn contradictory_arguments_are_refused() {
    let context = crate::context();
    for (words, message) in [
        ("--workers listen=0.0.0.0:1,token_file=t", "`ray run` sets `--workers` itself"),
        ("--replicas 2 --min-replicas 3", "`--min-replicas` is 3, but `--replicas` is 2"),
        ("--gpus-per-replica 1.5", "must be a whole number above 1, not 1.5"),
        ("--cpus-per-replica 0", "A replica needs CPUs or GPUs"),
        ("--serve x --model_args base_url=http://a", "`base_url` cannot be set"),
        ("--env NO_SUCH_VARIABLE", "this variable is not set"),
        ("--python /no/such/python", "`/no/such/python` was not found"),
    ] {
        let line: Vec<&str> = ["ray", "run"].into_iter().chain(words.split(' ')).collect();
        let output = context.run(&line);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(message), "{output}");
    }
    for words in
        ["--replicas 0", "--cpus-per-replica -1", "--serve x --listen a:1", "--endpoint /v1", "--replica x"]
    {
        let line: Vec<&str> = ["ray", "run"].into_iter().chain(words.split(' ')).collect();
        assert_eq!(context.run(&line).status, 2, "{words}");
    }
}
