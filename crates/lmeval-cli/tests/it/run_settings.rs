//! Flags and settings files.

use serde_json::Value;

use crate::context;

const BASE: [&str; 6] = ["run", "--model", "uniform", "--tasks", "demo_capitals", "-q"];

#[test]
fn usage_errors_exit_with_two() {
    for words in [
        &["--nothing"][..],
        &["--limit", "x"],
        &["--num_fewshot", "1.5"],
        &["--seed", "1,2"],
        &["--seed", "x"],
        &["--samples", "{demo"],
        &["--cache_requests", "True"],
        &["--max_failures", "-1"],
        &["--mod", "x"],
        &["--progress", "loud"],
        &["word"],
    ] {
        let output = context().run(&[&["run", "--model", "uniform"], words].concat());
        assert_eq!(output.status, 2, "{words:?}: {output}");
    }
}

#[test]
fn flags_accept_dashes() {
    let context = context();
    let help = context.run(&["run", "--help"]).stdout;
    let flags: Vec<&str> = help
        .split(|character: char| !(character.is_ascii_lowercase() || character == '_' || character == '-'))
        .filter(|word| word.starts_with("--") && word.contains('_'))
        .collect();
    assert!(flags.len() > 25, "{flags:?}");
    for flag in flags {
        let dashed = flag.replace('_', "-");
        let output = context.run(&["run", &dashed, "--no-such-flag"]);
        assert_eq!(output.status, 2);
        assert!(!output.stderr.contains(&format!("'{dashed}'")), "{dashed}: {output}");
    }
}

#[test]
fn invalid_settings_exit_with_one() {
    for (words, message) in [
        (&["--tasks", ""][..], "No tasks"),
        (&["--tasks", "demo_capitls"], "demo_capitals"),
        (&["--tasks", "nothing.yaml"], "nothing.yaml"),
        (&["--model", "vllm"], "pretrained=<folder or name on the hub>"),
        (&["--model", "unifrom"], "uniform"),
        (&["--model_args", "foo"], "key=value"),
        (&["--model_args", "a={'x':1}"], "JSON"),
        (&["--gen_kwargs", "temperature=0,max_gen_toks"], "key=value"),
        (&["--log_samples"], "--output_path"),
        (&["--fewshot_as_multiturn"], "--apply_chat_template"),
        (&["--limit", "2", "--samples", "{\"demo_capitals\": [0]}"], "mutually exclusive"),
        (&["--limit", "0"], "greater than 0"),
        (&["--limit", "-3"], "greater than 0"),
        (&["--samples", "no/such/file"], "path of a JSON file"),
        (&["--samples", "[1]"], "each task to a list"),
        (&["--samples", "{\"demo_capitls\": [0]}"], "demo_capitals"),
        (&["--samples", "{\"demo_capitals\": [99]}"], "99"),
        (&["--metadata", "5"], "key=value"),
        (&["--check_integrity"], "self-tests"),
        (&["--compat", "0.3"], "0.4"),
        (&["--repeats", "-1"], "non-negative"),
        (&["--num_fewshot", "-1"], "`num_fewshot` must be a non-negative integer, not -1"),
        (&["--batch_size", "2", "--model_args", "batch_size=4"], "set twice"),
        (&["--hf_hub_log_args", "nonsense=1"], "push_results_to_hub"),
        (&["--config", "missing.yaml"], "missing.yaml"),
        (&["--num_fewshot", "99"], "99"),
    ] {
        // Repeated options add up.
        let base = if words[0] == "--tasks" { &BASE[..3] } else { &BASE[..] };
        let output = context().run(&[base, words].concat());
        assert_eq!(output.status, 1, "{words:?}: {output}");
        assert!(output.stderr.contains(message), "{words:?}: {message} is not in {output}");
        assert!(output.stderr.contains("error"), "{output}");
    }
}

#[test]
fn ignored_settings_are_noted() {
    let words = [
        "run",
        "--model",
        "uniform",
        "--tasks",
        "demo_capitals",
        "--limit",
        "2",
        "--hf_hub_log_args",
        "hub_results_org=x",
        "--cache_requests",
        "refresh",
        "--verbosity",
        "info",
        "--trust_remote_code",
        "--model_args",
        "pretrained=x-Instruct",
        "--gen_kwargs",
        "temperature=0.5",
    ];
    let output = context().run(&words);
    assert_eq!(output.status, 0, "{output}");
    for message in [
        "`--hf_hub_log_args` pushes nothing",
        "`--cache_requests` has no effect",
        "`--verbosity INFO` has no effect",
        "look like those of a chat model",
        "`--gen_kwargs` overrides generation settings of the tasks",
        "Scores on a subset are not comparable",
    ] {
        assert!(output.stderr.contains(message), "{message} is not in {output}");
    }
    assert!(
        output
            .stdout
            .starts_with("uniform ({'pretrained': 'x-Instruct'}), gen_kwargs: ({'temperature': 0.5})")
    );
}

#[test]
fn flags_override_a_settings_file() {
    let context = context();
    context.write(
        "run.yaml",
        "model: uniform\nmodel_args: a=1\ntasks: [demo_capitals, ' demo_facts']\nlimit: 4\nseed: 42\ncache_requests: true\n",
    );
    let words = ["run", "--config", "run.yaml", "--limit", "2", "--model_args", "model=x"];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    let (line, rest) = output.stdout.split_once('\n').unwrap();
    assert_eq!(
        line,
        "EvaluatorConfig(config='run.yaml', model='uniform', model_args={'model': 'x'}, \
         tasks=['demo_capitals', 'demo_facts'], num_fewshot=None, repeats=None, batch_size=1, max_batch_size=None, \
         device=None, limit=2.0, samples=None, use_cache=None, cache_requests={'cache_requests': True, \
         'rewrite_requests_cache': False, 'delete_requests_cache': False}, check_integrity=False, write_out=False, \
         log_samples=False, output_path=None, predict_only=False, system_instruction=None, apply_chat_template=False, \
         fewshot_as_multiturn=None, show_config=False, include_path=None, include_defaults=True, gen_kwargs={}, \
         verbosity=None, wandb_args={}, wandb_config_args={}, hf_hub_log_args={}, seed=[42, 42, 42, 42], \
         trust_remote_code=False, confirm_run_unsafe_code=False, metadata={'model': 'x'})"
    );
    assert!(rest.starts_with("uniform ({'model': 'x'}), gen_kwargs: ({}), limit: 2.0,"), "{output}");
    assert!(
        output.stderr.contains("Flags override the settings file: `config`")
            || output.stderr.contains("`limit`"),
        "{output}"
    );
    context.write("run.yaml", "model: uniform\ntasks: demo_capitals\nlimit: 4\nquiet: true\nformat: json\n");
    let output = context.run(&["run", "-C", "run.yaml"]);
    let object: Value = serde_json::from_str(output.stdout.split_once('\n').unwrap().1).unwrap();
    assert_eq!(object["config"]["limit"], 4);
    assert_eq!(output.stderr, "");
}

#[test]
fn mistakes_in_a_file_show_their_location() {
    let context = context();
    for (text, message) in [
        ("modle: uniform\n", "Did you mean `model`"),
        ("zzz: 1\n", "long flags"),
        ("", "is empty"),
        ("- a\n", "is not a mapping"),
        ("a: [\n", "not valid YAML"),
        ("tasks: null\n", "`tasks` must be a list of names"),
        ("limit: [1]\n", "`limit` must be a number"),
        ("model_args: [1]\n", "`model_args` must be a mapping"),
        ("seed: [1, 2]\n", "got 2"),
        ("log_samples: maybe\n", "`log_samples` must be true or false"),
        ("cache_requests: maybe\n", "`refresh`"),
        ("progress: loud\n", "`plain`"),
        ("tasks: !function a.b\n", "not valid YAML"),
    ] {
        context.write("run.yaml", text);
        let output = context.run(&["run", "--config", "run.yaml"]);
        assert_eq!(output.status, 1, "{text}: {output}");
        assert!(output.stderr.contains(message), "{text}: {message} is not in {output}");
        assert!(output.stderr.contains("run.yaml"), "{text}: {output}");
    }
}

#[test]
fn chooses_library_and_compat() {
    let context = context();
    context.write("run.yaml", "model: uniform\ntasks: demo_capitals\ninclude_defaults: false\n");
    assert_eq!(context.run(&["run", "--config", "run.yaml"]).status, 1);
    let output = context.run(&[&BASE[..], &["--compat", "0.4", "-L", "2", "--format", "json"]].concat());
    let object: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(object["compat"], "0.4", "{output}");
}

#[test]
fn compat_precedence_is_flag_variable_file() {
    let context = context();
    let words = ["run", "--model", "uniform", "--tasks", "demo", "-L", "2", "--format", "json", "-q"];
    let compat = |variable: Option<&str>, more: &[&str]| {
        let mut command = context.command(&[&words[..], more].concat());
        if let Some(value) = variable {
            command = command.env("LM_EVAL_COMPAT", value);
        }
        command.run()
    };
    // The release lines differ in the keys of tasks in groups.
    let new = compat(None, &[]).stdout;
    let old = compat(None, &["--compat", "0.4"]).stdout;
    let keys = |text: &str| -> Vec<String> {
        let object: Value = serde_json::from_str(text).unwrap();
        object["results"].as_object().unwrap().keys().cloned().collect()
    };
    assert_ne!(keys(&new), keys(&old));
    assert_eq!(keys(&compat(Some("0.4"), &[]).stdout), keys(&old));
    assert_eq!(keys(&compat(Some(""), &[]).stdout), keys(&new));
    assert_eq!(keys(&compat(Some("0.4"), &["--compat", "0.5"]).stdout), keys(&new));
    context.write("run.yaml", "compat: 0.4\n");
    let with_file = |variable: Option<&str>| {
        let output = compat(variable, &["--config", "run.yaml"]).stdout;
        // The effective settings are printed before the results.
        let object = output.split_once("\n{").map_or(output.clone(), |(_, object)| format!("{{{object}"));
        keys(&object)
    };
    assert_eq!(with_file(None), keys(&old));
    assert_eq!(with_file(Some("0.5")), keys(&new));
    let output = compat(Some("0.3"), &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("LM_EVAL_COMPAT") && output.stderr.contains("0.3"), "{output}");
    let output = context.command(&["preview", "demo_capitals"]).env("LM_EVAL_COMPAT", "x").run();
    assert!(output.stderr.contains("LM_EVAL_COMPAT"), "{output}");
}
