//! The reference reads our files and writes the same ones.

use std::path::Path;

use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_report::{
    Column, Layout, ModelName, SampleOptions, SamplesWriter, file_object, make_table, task_hashes, to_json,
    write_results,
};
use lmeval_tasks::{Overrides, Spec, TaskManager};

use crate::reference::{ask, question, text};
use crate::support::{dict, facts, part, results, small_run};

const STAMP: &str = "2026-11-15T02-46-50.151442";

#[test]
fn the_reference_reads_our_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = small_run();
    let facts = facts(Value::str("model=org/m,api_key=s"));
    let layout = Layout::new(folder.path(), &facts.model_name.sanitized);
    let object = file_object(&run, &dict(r#"{"g::gen": {"task": "gen"}}"#), &task_hashes(&run), &facts);
    write_results(&layout, STAMP, &object).unwrap();
    for (task, records) in &run.samples {
        let mut writer = SamplesWriter::new(&layout, task, SampleOptions::default()).unwrap();
        for record in records {
            writer.write(record).unwrap();
        }
        writer.finish(STAMP).unwrap();
    }
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let Some(answers) = ask(&[
        question("read", [("folder", path(layout.folder()))]),
        question("frame", [("file", path(&layout.samples_file("g::gen", STAMP)))]),
    ]) else {
        return;
    };
    let answer = answers[0].clone().unwrap();
    let read = answer.as_dict().unwrap();
    assert_eq!(read.get_str("same"), Some(&Value::Bool(true)));
    assert_eq!(read.get_str("object"), Some(&Value::from(object.clone())));
    assert_eq!(text(&answer, "table"), make_table(&object, Column::Results, false));
    assert_eq!(text(&answer, "groups"), make_table(&object, Column::Groups, false));
    assert_eq!(read.get_str("tasks"), Some(&Value::list([Value::str("g--gen")])));
    assert_eq!(read.get_str("stamps"), Some(&Value::list([Value::str(STAMP)])));
    assert_eq!(text(&answer, "latest"), format!("samples_g--gen_{STAMP}.jsonl"));
    let lines = part(read, "lines");
    let record = Value::from(run.samples[0].1[0].to_file_dict());
    assert_eq!(lines.get_str("g--gen"), Some(&Value::list([record])));
    let columns = answers[1].clone().unwrap();
    if let Some(columns) = columns.as_list() {
        assert_eq!(columns.len(), 12);
    }
}

/// Tasks of every kind that both can run.
fn write_tasks(folder: &Path) {
    let document = |number: usize| {
        let gold = number % 3;
        format!(
            "{{\"q\": \"Frage {number}?\", \"options\": [\"eins\", \"zwei\", \"drei é\"], \"gold\": {gold}, \
             \"answer\": \"{number}\"}}"
        )
    };
    let documents: Vec<String> = (0..5).map(document).collect();
    fs_err::write(folder.join("documents.jsonl"), documents.join("\n")).unwrap();
    let base = "dataset_path: json\ndataset_kwargs: {data_files: {test: documents.jsonl}, trust_remote_code: true}\n\
                test_split: test\n";
    for (name, rest) in [
        (
            "choice",
            "task: choice\ntask_alias: Wähle\noutput_type: multiple_choice\ndoc_to_text: 'F: {{q}}'\ndoc_to_choice: \
             options\ndoc_to_target: gold\ntag: [some]\nnum_fewshot: 1\nfewshot_split: test\nmetric_list:\n  - {metric: acc, aggregation: mean, \
             higher_is_better: true}\n  - metric: acc_norm\nmetadata: {version: 1.0, note: é}\n",
        ),
        (
            "write",
            "task: write\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{answer}}'\ndescription: 'Antworte.'\n\
             generation_kwargs: {temperature: 1, max_gen_toks: 5}\nfilter_list:\n  - name: first\n    filter:\n      - \
             function: take_first\n  - name: digits\n    filter:\n      - {function: regex, regex_pattern: '(\\d)'}\n      \
             - function: take_first\nmetric_list:\n  - {metric: exact_match, ignore_case: true, regexes_to_ignore: \
             [',']}\n",
        ),
        ("plain", "task: plain\ndoc_to_text: q\ndoc_to_target: answer\nrepeats: 2\nmetadata: {version: 2}\n"),
        (
            "last",
            "task: last\noutput_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: '{{answer}}'\nmetric_list: [{metric: acc}]\n\
             target_delimiter: ''\nmetadata: {version: 0}\n",
        ),
        (
            "roll",
            "task: roll\noutput_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{q}}'\nmetric_list: [{metric: \
             word_perplexity}]\nshould_decontaminate: true\ndoc_to_decontamination_query: '{{q}}'\nmetadata: {version: 3}\n",
        ),
    ] {
        fs_err::write(folder.join(format!("{name}.yaml")), format!("{base}{rest}")).unwrap();
    }
    fs_err::write(
        folder.join("both.yaml"),
        "group: both\ngroup_alias: Beide\ntask: [choice, last]\naggregate_metric_list: [{metric: acc, weight_by_size: \
         true}]\nmetadata: {version: 1}\n",
    )
    .unwrap();
}

#[test]
fn files_match_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let folder = fs_err::canonicalize(folder.path()).unwrap();
    write_tasks(&folder);
    let model_args = Value::dict([("pretrained", Value::str("org/m")), ("dtype", Value::str("é"))]);
    let runs: [(&[&str], Dict); 3] = [
        (&["choice", "write", "roll", "last"], Dict::new()),
        (&["both", "plain"], dict(r#"{"num_fewshot": 2, "system_instruction": "Sei kurz."}"#)),
        (
            &["write", "plain"],
            dict(r#"{"gen_kwargs": {"do_sample": true, "top_p": 0.5}, "predict_only": true}"#),
        ),
    ];
    let metadata = dict(r#"{"pretrained": "org/m"}"#);
    let questions: Vec<Value> = runs
        .iter()
        .map(|(tasks, given)| {
            let mut arguments = dict(r#"{"limit": 3, "bootstrap_iters": 10}"#);
            arguments.insert("model_args", model_args.clone());
            arguments.update(given);
            question(
                "run",
                [
                    ("folder", Value::from(folder.to_string_lossy().into_owned())),
                    ("tasks", Value::list(tasks.iter().map(|task| Value::str(*task)))),
                    ("metadata", Value::from(metadata.clone())),
                    ("arguments", Value::from(arguments)),
                ],
            )
        })
        .collect();
    let Some(answers) = ask(&questions) else { return };
    let manager = TaskManager::new(std::slice::from_ref(&folder)).with_metadata(metadata);
    for ((tasks, arguments), answer) in runs.iter().zip(answers) {
        let answer = answer.unwrap();
        let theirs = answer.as_dict().unwrap();
        let object = part(theirs, "object");
        let mut loaded = manager
            .load(&tasks.iter().map(|task| Spec::from(*task)).collect::<Vec<_>>(), Overrides::default())
            .unwrap();
        let mut configs = Dict::new();
        for task in loaded.tasks.values_mut() {
            if let Some(count) = arguments.get_str("num_fewshot").and_then(Value::as_i64) {
                task.config.set_num_fewshot(count);
            }
            if let Some(settings) = arguments.get_str("gen_kwargs").and_then(Value::as_dict) {
                task.config.merge_generation_kwargs(settings);
            }
            let predict_only = arguments.contains_str("predict_only");
            let config = task.config.to_dict(task.mapping(), &Dialect::V04, predict_only);
            configs.insert(task.config.task.as_str(), config);
        }
        let run = results(&object);
        let mut facts = facts(model_args.clone());
        facts.fewshot_as_multiturn = Some(true);
        facts.gen_kwargs = arguments.get_str("gen_kwargs").cloned().unwrap_or_default();
        facts.system_instruction =
            arguments.get_str("system_instruction").and_then(Value::as_str).map(str::to_owned);
        facts.environment.git_hash = object.get_str("git_hash").and_then(Value::as_str).map(str::to_owned);
        let mut ours = file_object(&run, &configs, &task_hashes(&run), &facts);
        let stamp = text(&answer, "stamp");
        let files = part(theirs, "files");
        let layout = Layout::new(Path::new("out"), &ModelName::new(&model_args, None).sanitized);
        assert_eq!(layout.folder(), Path::new("out").join(text(&answer, "folder")));
        let file = |path: &Path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.get_str(&name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name}")).to_owned()
        };
        let expected = file(&layout.results_file(stamp));
        // The expected differences: time, location, version, and our own keys.
        let saved = dict(&expected);
        for key in [
            "date",
            "pretty_env_info",
            "transformers_version",
            "lm_eval_version",
            "upper_git_hash",
            "total_evaluation_time_seconds",
        ] {
            ours.insert(key, saved.get_str(key).unwrap().clone());
        }
        assert!(ours.remove_str("audit").is_some() && ours.remove_str("compat").is_some());
        assert_same_lines(&to_json(&ours).unwrap(), &expected);
        let output = tempfile::tempdir().unwrap();
        let layout = Layout::new(output.path(), "m");
        for (task, records) in &run.samples {
            let mut writer = SamplesWriter::new(&layout, task, SampleOptions::default()).unwrap();
            for record in records {
                writer.write(record).unwrap();
            }
            let path = writer.finish(stamp).unwrap().path;
            assert_same_lines(&fs_err::read_to_string(&path).unwrap(), &file(&path));
        }
        assert_eq!(files.len(), 1 + run.samples.len());
    }
}

fn assert_same_lines(ours: &str, theirs: &str) {
    for (number, (our_line, their_line)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our_line, their_line, "line {number}");
    }
    assert_eq!(ours, theirs);
}

#[test]
fn model_names_match_the_reference() {
    let arguments = [
        r#""pretrained=org/My-Model:v1,dtype=float""#,
        r#""base_model=inside,x=1""#,
        r#""model=amodel=b""#,
        r#""engine=e?[1],path=p""#,
        r#""peft=,pretrained=x""#,
        r#""nothing""#,
        r#"{"path": "p", "model": 7, "peft": null}"#,
        r#"{"model": "a//b\\c\"d"}"#,
        "{}",
        "null",
    ];
    let arguments: Vec<Value> = arguments.iter().map(|text| json::loads(text).unwrap()).collect();
    let questions: Vec<Value> =
        arguments.iter().map(|arguments| question("name", [("model_args", arguments.clone())])).collect();
    let Some(answers) = ask(&questions) else { return };
    for (arguments, answer) in arguments.iter().zip(answers) {
        let answer = answer.unwrap();
        let ours = ModelName::new(arguments, Some(0));
        match answer
            .as_dict()
            .unwrap()
            .get_str("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
        {
            Some(name) => {
                assert_eq!(ours.name, name);
                assert_eq!(ours.sanitized, text(&answer, "sanitized"));
            }
            None => assert_eq!(ours.name, "41pjso2k", "{arguments:?}"),
        }
    }
}
