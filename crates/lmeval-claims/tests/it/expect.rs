//! Files of expectations: their forms, and the decisions about invented runs.

use std::path::{Path, PathBuf};

use lmeval_analysis::gate::Verdict;
use lmeval_analysis::read::Run;
use lmeval_claims::expect::{Against, Expectations};
use lmeval_pycompat::{Dict, Value, json};

/// A file in the form of vLLM's suite, with keys that its files have.
const SUITE: &str = "model_name: \"org/Small-FP8\"\nbackend: \"vllm\"\ntasks:\n- name: \"gsm8k\"\n  metrics:\n  - name: \"exact_match,strict-match\"\n    value: 0.54\n  - name: \"exact_match,flexible-extract\"\n    value: 0.59\nlimit: 1319\nnum_fewshot: 5\n";

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(&path, text).unwrap();
    path
}

fn read(text: &str) -> Result<Expectations, lmeval_claims::Error> {
    let folder = tempfile::tempdir().unwrap();
    Expectations::read(&write(folder.path(), "e.yaml", text))
}

/// A results object with one score of `gsm8k` per filter, and a perplexity.
fn results(strict: f64, flexible: f64, perplexity: f64) -> String {
    let stderr = |value: f64| (value * (1.0 - value) / 1318.0).sqrt();
    serde_json::json!({
        "results": {
            "gsm8k": {"alias": "gsm8k", "exact_match,strict-match": strict, "exact_match_stderr,strict-match": stderr(strict),
                "exact_match,flexible-extract": flexible, "exact_match_stderr,flexible-extract": stderr(flexible)},
            "wikitext": {"word_perplexity,none": perplexity, "word_perplexity_stderr,none": "N/A"},
        },
        "higher_is_better": {"gsm8k": {"exact_match": true}, "wikitext": {"word_perplexity": false}},
        "n-shot": {"gsm8k": 5, "wikitext": 0},
        "n-samples": {"gsm8k": {"original": 1319, "effective": 1319}, "wikitext": {"original": 62, "effective": 62}},
    })
    .to_string()
}

fn run(text: &str) -> Run {
    let Value::Dict(object) = json::loads(text).unwrap() else { panic!("{text}") };
    let results = Some(Dict::clone(&object));
    Run { name: "m".to_owned(), path: PathBuf::new(), results, samples: Vec::new() }
}

fn verdicts(text: &str, run: &Run) -> Vec<Verdict> {
    read(text).unwrap().decide(run).unwrap().iter().map(|outcome| outcome.verdict).collect()
}

#[test]
fn suites_are_read_as_they_are() {
    let file = read(&format!("{SUITE}rtol: 0.05\ntrust_remote_code: \"True\"\nmax_model_len: 8192\nmoe_backend: x\nenv_vars: {{A: \"1\"}}\n")).unwrap();
    assert_eq!(file.checks.len(), 2);
    assert!(matches!(file.checks[0].against, Against::Tolerance { value: 0.54, rtol: 0.05 }));
    assert_eq!(file.checks[1].filter.as_deref(), Some("flexible-extract"));
    let setting = |name: &str| lmeval_pycompat::repr::repr(file.settings.get_str(name).unwrap());
    assert_eq!(setting("tasks"), "['gsm8k']");
    assert_eq!(
        (setting("num_fewshot"), setting("limit"), setting("model")),
        ("5".into(), "1319".into(), "'vllm'".into())
    );
    assert_eq!(
        setting("model_args"),
        "{'pretrained': 'org/Small-FP8', 'add_bos_token': True, 'max_model_len': 8192, 'trust_remote_code': True}"
    );
    assert_eq!(file.notes.len(), 1);
    assert!(file.notes[0].contains("`moe_backend`, `env_vars`"), "{:?}", file.notes);
    // SGLang's files name a model and no engine, and a server is given.
    let sglang = read("model_name: nvidia/X\ntasks:\n- name: gsm8k\n  metrics:\n  - {name: \"exact_match,strict-match\", value: 0.84}\nlimit: null\nnum_fewshot: 5\nrtol: 0.02\n").unwrap();
    assert!(matches!(sglang.checks[0].against, Against::Tolerance { rtol: 0.02, .. }));
    assert!(sglang.settings.get_str("limit").is_none());
}

#[test]
fn a_tolerance_counts_only_where_it_is_all_there_is() {
    let run = run(&results(0.51, 0.58, 11.3));
    // 0.51 is 5.6 % below 0.54.
    assert_eq!(verdicts(&format!("{SUITE}rtol: 0.08\n"), &run), [Verdict::Pass, Verdict::Pass]);
    assert_eq!(verdicts(&format!("{SUITE}rtol: 0.05\n"), &run), [Verdict::Fail, Verdict::Pass]);
    // Without one, the sampling errors of both decide: 3 points are 1.6 standard errors.
    assert_eq!(verdicts(SUITE, &run), [Verdict::Pass, Verdict::Pass]);
    let lower = self::run(&results(0.49, 0.58, 11.3));
    assert_eq!(verdicts(SUITE, &lower), [Verdict::Fail, Verdict::Pass]);
}

#[test]
fn own_files_have_margins_baselines_and_series() {
    let score = |more: &str| {
        format!("expect:\n- {{task: 'gsm8k:5', metric: \"exact_match,strict-match\", {more}}}\n")
    };
    let run = run(&results(0.51, 0.58, 11.3));
    for (more, verdict) in [
        ("value: 0.51, margin: 0.05", Verdict::Pass),
        ("value: 0.51, margin: 0.01", Verdict::Inconclusive),
        ("value: 0.60, margin: 0.01", Verdict::Fail),
        ("value: 0.52, stderr: 0.001, rtol: 0.0001", Verdict::Pass),
        ("value: 0.60, n: 1319, rtol: 0.5", Verdict::Fail),
        ("value: 0.60, rtol: 0.5", Verdict::Pass),
    ] {
        assert_eq!(verdicts(&score(more), &run), [verdict], "{more}");
    }
    let perplexity = |more: &str| format!("expect:\n- {{task: wikitext, metric: word_perplexity, {more}}}\n");
    assert_eq!(verdicts(&perplexity("value: 11.2, rtol: 0.005"), &run), [Verdict::Fail]);
    assert_eq!(verdicts(&perplexity("value: 11.2, rtol: 0.01"), &run), [Verdict::Pass]);
    assert_eq!(verdicts(&perplexity("value: 12, rtol: 0.01"), &run), [Verdict::Pass]);
    assert_eq!(verdicts(&perplexity("value: 11.2, margin: 0.2"), &run), [Verdict::Pass]);
    assert_eq!(verdicts(&perplexity("value: 11.2, margin: 0.05"), &run), [Verdict::Fail]);

    // Five nights between 0.505 and 0.515: the noise is half a point, far below the sampling error.
    let folder = tempfile::tempdir().unwrap();
    for (night, value) in [0.505, 0.51, 0.515, 0.51, 0.51].into_iter().enumerate() {
        let name = format!("nightly/m/results_2026-03-0{}T01-00-00.000000.json", night + 1);
        write(folder.path(), &name, &results(value, 0.6, 11.3));
    }
    let file = write(folder.path(), "e.yaml", &score("series: nightly, last: 5"));
    let decide = |strict: f64| {
        let run = self::run(&results(strict, 0.6, 11.3));
        Expectations::read(&file).unwrap().decide(&run).unwrap().remove(0)
    };
    assert_eq!(decide(0.505).verdict, Verdict::Pass);
    let lost = decide(0.49);
    assert_eq!(lost.verdict, Verdict::Fail);
    assert!(lost.expected.contains("mean of 5 runs"), "{}", lost.expected);
    let file = write(
        folder.path(),
        "e.yaml",
        &score("baseline: nightly/m/results_2026-03-01T01-00-00.000000.json, margin: 0.1"),
    );
    let outcome = Expectations::read(&file).unwrap().decide(&run).unwrap().remove(0);
    assert_eq!(outcome.verdict, Verdict::Pass);
}

#[test]
fn problems_name_the_place() {
    for (text, problem) in [
        ("a: 1\n", "does not say what is expected"),
        ("expect:\n- {task: a, metric: acc}\n", "needs one of `value`, `baseline` and `series`"),
        ("expect:\n- {task: a, metric: acc, value: 1, series: b}\n", "needs one of"),
        ("expect:\n- {task: a, metric: acc, value: 1, rtol: -1}\n", "must not be negative"),
        ("expect:\n- {task: a, metric: acc, valeu: 1}\n", "Unknown key `valeu`"),
        ("gates: ['a:acc >= x']\nbaseline: b\n", "is not a gate"),
        ("gates: ['a:acc >= 0']\n", "no `baseline`"),
        ("tasks:\n- {name: a}\n", "no `metrics`"),
        ("tasks:\n- {name: a, metrics: [{name: acc, value: high}]}\n", "must be a number"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.message.contains(problem), "{text}: {}", error.message);
    }
    let run = run(&results(0.5, 0.5, 11.0));
    for (text, problem) in [
        ("expect:\n- {task: mmlu, metric: acc, value: 1}\n", "no scores of `mmlu`"),
        ("expect:\n- {task: gsm8k, metric: exact_match, value: 1}\n", "has the filters"),
        ("expect:\n- {task: gsm8k, metric: \"exact_match,none\", value: 1}\n", "no `exact_match,none`"),
    ] {
        let error = read(text).unwrap().decide(&run).unwrap_err();
        assert!(error.message.contains(problem), "{text}: {}", error.message);
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.yaml");
    let own = "expect:\n- {task: gsm8k, metric: \"exact_match,strict-match\", value: 0.5, stderr: 0.01, n: 1319, margin: 0.01}\ngates: ['tasks(a:acc, b:acc,none) >= -0.01']\nbaseline: x\nsettings: {limit: 5}\n";
    let lock = "{\"lock\": 1, \"run\": {}, \"model\": {}, \"template\": {}, \"settings\": {\"limit\": \"8\"}, \"tasks\": {\"a\": {\"documents\": 8, \"shots\": 0, \"data\": \"x\", \"prompts\": \"y\", \"definition\": {\"task\": \"z\"}}}, \"versions\": {}}";
    let run = run(&results(0.5, 0.5, 11.0));
    lmeval_testkit::mutate(&[SUITE.as_bytes(), own.as_bytes(), lock.as_bytes()], 600, |bytes| {
        fs_err::write(&path, bytes).unwrap();
        if let Ok(file) = Expectations::read(&path) {
            let _ = file.decide(&run);
        }
        let _ = lmeval_claims::lock::Lock::read(&path);
        let _ = lmeval_claims::claim::Claim::parse(&String::from_utf8_lossy(bytes));
    });
    lmeval_testkit::mutate(&["gsm8k:5=exact_match,strict-match=0.54±0.0137@1319".as_bytes()], 600, |bytes| {
        let _ = lmeval_claims::claim::Claim::parse(&String::from_utf8_lossy(bytes));
    });
}
