//! Files: names, contents and errors.

use std::path::Path;
use std::time::{Duration, SystemTime};

use lmeval_core::Diagnose as _;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_report::{
    Layout, Moment, SampleOptions, SamplesWriter, TimeZone, WrittenSamples, file_object, parse_hash_media,
    result_object, task_hashes, write_results,
};
use lmeval_scoring::results::hash_text;

use crate::support::{dict, facts, part, small_run};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Makes a file look untouched for two days.
fn make_old(path: &Path) {
    let file = fs_err::OpenOptions::new().write(true).open(path).unwrap();
    file.file().set_modified(SystemTime::now() - Duration::from_hours(48)).unwrap();
}

#[test]
fn results_files_have_keys_in_order() {
    let run = small_run();
    let configs = dict(
        r#"{"g::mc": {"task": "mc", "metadata": {"version": 1, "api_key": "s"}}, "g::gen": {"task": "gen"}}"#,
    );
    let mut facts = facts(Value::dict([("pretrained", Value::str("org/é")), ("token", Value::str("hf_1"))]));
    facts.system_instruction = Some("Sei kurz.".into());
    facts.failed_requests = 2;
    facts.model_facts.config = dict(r#"{"model_dtype": "f32"}"#);
    facts.model_facts.tokenizer = dict(r#"{"max_length": 2048}"#);
    let object = file_object(&run, &configs, &task_hashes(&run), &facts);
    let keys: Vec<&str> = object.keys().filter_map(Value::as_str).collect();
    assert_eq!(
        keys.join(" "),
        "results groups group_subtasks configs versions n-shot higher_is_better n-samples config git_hash date \
         pretty_env_info transformers_version lm_eval_version upper_git_hash max_length task_hashes model_source \
         model_name model_name_sanitized system_instruction system_instruction_sha fewshot_as_multiturn chat_template \
         chat_template_sha total_evaluation_time_seconds audit compat failed_requests"
    );
    let keys: Vec<String> =
        part(&object, "config").keys().filter_map(Value::as_str).map(str::to_owned).collect();
    assert_eq!(
        keys.join(" "),
        "model model_args model_dtype batch_size batch_sizes device use_cache limit bootstrap_iters gen_kwargs \
         random_seed numpy_seed torch_seed fewshot_seed"
    );
    let configs: Vec<Value> = part(&object, "configs").keys().cloned().collect();
    assert_eq!(configs, [Value::str("g::gen"), Value::str("g::mc")]);
    assert_eq!(part(&object, "task_hashes").get_str("g::gen"), Some(&Value::from(hash_text("dpt"))));

    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path(), &facts.model_name.sanitized);
    let path = write_results(&layout, "2026-11-15T02-46-50.151442", &object).unwrap();
    assert_eq!(path, folder.path().join("org__é/results_2026-11-15T02-46-50.151442.json"));
    let text = fs_err::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\n  \"results\": {\n    \"g::gen\": {\n") && text.ends_with("\n}"), "{text}");
    assert!(text.contains("\"pretrained\": \"org/é\"") && text.contains("\"Sei kurz.\""), "{text}");
    assert!(text.contains("\"total_evaluation_time_seconds\": \"12.5\""), "{text}");
    assert!(!text.contains("hf_1") && !text.contains("\"s\""), "{text}");
    assert_eq!(names(path.parent().unwrap()).len(), 1);
}

#[test]
fn result_objects_have_samples_but_no_file_keys() {
    let run = small_run();
    let object = result_object(&run, &Dict::new(), &facts(Value::None));
    assert!(object.contains_str("samples") && object.contains_str("audit"));
    assert!(!object.contains_str("task_hashes") && !object.contains_str("model_name"));
    let position = |key: &str| object.keys().position(|known| known.as_str() == Some(key)).unwrap();
    assert_eq!(position("samples"), position("config") - 1);
}

#[test]
fn samples_are_written_during_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(&folder.path().join("mine.json"), "unused");
    let part = folder.path().join(".samples_g--gen.jsonl.part");
    fs_err::write(&part, "left over from a killed run, and longer than the new contents".repeat(40)).unwrap();
    make_old(&part);
    let run = small_run();
    let (task, records) = &run.samples[0];
    let mut writer = SamplesWriter::new(&layout, task, SampleOptions::default()).unwrap();
    writer.write(&records[0]).unwrap();
    writer.flush().unwrap();
    let line = "{\"doc_id\": 0, \"doc\": {\"q\": \"Wie spät?\\n\", \"n\": 1e-05}, \"target\": \"['a', \\\"it's\\\"]\", \
                \"arguments\": {\"gen_args_0\": {\"arg_0\": \"Q: Wie spät?\", \"arg_1\": {\"until\": [\"\\n\"]}}}, \
                \"resps\": [[\"vier\", \"4\"]], \"filtered_resps\": [[\"vier\"]], \"filter\": \"strict\", \
                \"metrics\": [\"exact_match\"], \"doc_hash\": \"d\", \"prompt_hash\": \"p\", \"target_hash\": \"t\", \
                \"exact_match\": 0.5}\n";
    assert_eq!(fs_err::read_to_string(&part).unwrap(), line);
    writer.write(&records[0]).unwrap();
    let WrittenSamples { path, hash, checksum } = writer.finish("S").unwrap();
    assert_eq!(checksum.lines, 2);
    assert_eq!(path, folder.path().join("samples_g--gen_S.jsonl"));
    assert_eq!(fs_err::read_to_string(&path).unwrap(), line.repeat(2));
    assert_eq!(hash, hash_text("dptdpt"));
    assert_eq!(names(folder.path()), ["samples_g--gen_S.jsonl"]);
}

#[test]
fn two_runs_in_one_folder_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path(), "m");
    let run = small_run();
    let record = &run.samples[0].1[0];
    let open = || SamplesWriter::new(&layout, "a/../b", SampleOptions::default()).unwrap();
    let (mut first, mut second) = (open(), open());
    first.write(record).unwrap();
    second.write(record).unwrap();
    second.write(record).unwrap();
    let one = first.finish("1").unwrap().path;
    let third = open();
    let two = second.finish("2").unwrap().path;
    third.discard().unwrap();
    let lines = |path: &Path| fs_err::read_to_string(path).unwrap().lines().count();
    assert_eq!((lines(&one), lines(&two)), (1, 2));
    assert_eq!(names(layout.folder()), ["samples_a_.._b_1.jsonl", "samples_a_.._b_2.jsonl"]);
}

#[test]
fn rejects_tasks_with_the_same_file_name() {
    let layout = Layout::new(Path::new("out"), "m");
    layout.check_tasks(["a::b", "a", "b", "a::c"]).unwrap();
    for (one, other) in [("a::b", "a--b"), ("a/b", "a_b"), ("a:b", "a-b")] {
        let error = layout.check_tasks([one, "c", other]).unwrap_err();
        assert!(error.to_string().contains(&format!("`{one}` and `{other}`")), "{error}");
        assert!(!error.hints().is_empty());
    }
}

#[test]
fn hashes_bytes_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path(), "m");
    let mut record = small_run().samples[0].1[0].clone();
    let image = Value::Bytes(b"\x89P".as_slice().into());
    record.doc = std::sync::Arc::new([(Value::str("image"), Value::list([image]))].into_iter().collect());
    let document = |hash_media: bool| {
        let mut writer = SamplesWriter::new(&layout, "t", SampleOptions { hash_media }).unwrap();
        writer.write(&record).unwrap();
        let path = writer.finish(if hash_media { "1" } else { "0" }).unwrap().path;
        let line = json::loads(fs_err::read_to_string(path).unwrap().trim()).unwrap();
        part(line.as_dict().unwrap(), "doc").get_str("image").unwrap().as_list().unwrap()[0].clone()
    };
    assert_eq!(document(true), Value::from(hash_text("b'\\x89P'")));
    assert_eq!(document(false), Value::str("b'\\x89P'"));
    assert_eq!(parse_hash_media(Some("Off")), Some(false));
    assert_eq!(parse_hash_media(Some("maybe")), None);
}

#[test]
fn write_errors_have_hints() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs_err::write(&file, "").unwrap();
    let layout = Layout::new(&file, "m");
    let error = layout.prepare().unwrap_err();
    assert!(error.to_string().starts_with("Cannot create the folder `"), "{error}");
    assert!(error.hints().iter().any(|hint| hint.contains("--output_path")), "{:?}", error.hints());
    assert!(write_results(&layout, "S", &Dict::new()).is_err());
    assert!(SamplesWriter::new(&layout, "t", SampleOptions::default()).is_err());
    let layout = Layout::new(&folder.path().join("a/b"), "m");
    layout.prepare().unwrap();
    assert!(names(layout.folder()).is_empty());
}

#[test]
fn removes_files_of_killed_runs_only() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path(), "m");
    layout.prepare().unwrap();
    let inside = |name: &str| layout.folder().join(name);
    for left in [".samples_t.jsonl.part", ".samples_t.2.jsonl.part", ".results_S.json.4711.part"] {
        fs_err::write(inside(left), "half").unwrap();
        make_old(&inside(left));
    }
    let kept = [".hidden", "answers.journal", "notes.part", ".notes.json.part", "samples_t_S.jsonl"];
    for other in kept {
        fs_err::write(inside(other), "whole").unwrap();
    }
    let writer = SamplesWriter::new(&layout, "live", SampleOptions::default()).unwrap();
    // A locked file is in use, however old.
    make_old(&inside(".samples_live.jsonl.part"));
    Layout::new(folder.path(), "m").prepare().unwrap();
    let mut expected: Vec<String> = kept.iter().map(|name| (*name).to_owned()).collect();
    expected.push(".samples_live.jsonl.part".to_owned());
    expected.sort();
    assert_eq!(names(layout.folder()), expected);
    writer.finish("S").unwrap();
    assert!(inside("samples_live_S.jsonl").is_file());
}

#[test]
fn no_two_runs_get_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path(), "m");
    layout.prepare().unwrap();
    let moment = Moment::from_micros(1_794_710_809_999_999);
    let mut stamps = Vec::new();
    // As if the clock stood still.
    for _ in 0..3 {
        let stamp = layout.free_stamp(moment, &TimeZone::utc());
        write_results(&layout, &stamp, &Dict::new()).unwrap();
        stamps.push(stamp);
    }
    assert_eq!(stamps, ["2026-11-15T02-46-49.999999", "2026-11-15T02-46-50", "2026-11-15T02-46-50.000001"]);
}
