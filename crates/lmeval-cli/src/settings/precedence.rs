//! Every setting on every layer: flags over the environment over a file over defaults.

use clap::{Arg, ArgAction, Parser};
use lmeval_pycompat::{Dict, Value, json, yaml};

use super::config_file::ConfigFile;
use super::layer::Layer;
use super::options::{Options, VARIABLES};
use super::python_package;
use super::record::RECORDED;
use super::resolve::{RunSettings, layered};

/// The flags of `run`, as the command declares them.
#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

/// One setting: its value in a file and as a flag, and further flags both need.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    /// YAML, without the name.
    file: &'static str,
    /// The words of the flag; empty for a setting that only files have.
    flag: &'static [&'static str],
    beside: &'static [&'static str],
    /// Whether it changes more than the record.
    has_effect: bool,
}

const fn row(name: &'static str, file: &'static str, flag: &'static [&'static str]) -> Row {
    Row { name, file, flag, beside: &[], has_effect: true }
}

const fn beside(row: Row, beside: &'static [&'static str]) -> Row {
    Row { beside, ..row }
}

const fn idle(row: Row) -> Row {
    Row { has_effect: false, ..row }
}

/// Settings whose values have a form of their own, or that need further flags. All others follow from their kind.
const SPECIAL: [Row; 21] = [
    row("recipe", "demo", &["--recipe", "vllm-ci"]),
    row("tasks", "[a, 'b,c']", &["--tasks", "d", "e,f"]),
    row(
        "hf_hub_log_args",
        "{push_results_to_hub: true}",
        &["--hf_hub_log_args", "push_results_to_hub=True,gated=True"],
    ),
    beside(
        row("wandb_config_args", "{a: 1}", &["--wandb_config_args", "b=2"]),
        &["--wandb_args", "project=a"],
    ),
    beside(row("budgets", "[1k, 2048]", &["--budgets", "4k,8k"]), &["--output_path", "out"]),
    row("reductions", "[avg@2, pass@1]", &["--reductions", "maj@3,avg@3"]),
    row("workers", "{listen: 'a:1', token_file: b}", &["--workers", "listen=a:2,token_file=b"]),
    row("samples", "{a: [1]}", &["--samples", "{\"b\": [2]}"]),
    beside(row("shard", "1/3", &["--shard", "2/3"]), &["--output_path", "out"]),
    row("apply_chat_template", "default", &["--apply_chat_template"]),
    beside(
        row("fewshot_as_multiturn", "false", &["--fewshot_as_multiturn", "true"]),
        &["--apply_chat_template"],
    ),
    row("seed", "[1, null, 3, 4]", &["--seed", "5"]),
    row("compat", "0.4", &["--compat", "0.5"]),
    beside(row("predict_only", "false", &["--predict_only"]), &["--output_path", "out"]),
    row("fail_under", "'a:acc=0.5'", &["--fail_under", "b:acc=0.25", "--fail_under", "c:acc=0.5"]),
    row("judge", "{a: 'dummy,x=1'}", &["--judge", "b=dummy", "--judge", "c=hf,pretrained=d"]),
    row("max_failures", "0", &["--max_failures", "5"]),
    beside(row("log_samples", "false", &["--log_samples"]), &["--output_path", "out"]),
    idle(row("cache_requests", "refresh", &["--cache_requests"])),
    row("verbosity", "DEBUG", &["--verbosity", "info"]),
    row("include_defaults", "false", &[]),
];

/// A row for a setting of a common kind.
fn of_kind(option: &Arg) -> Row {
    let name: &'static str = option.get_long().unwrap().to_owned().leak();
    let flag: &'static str = format!("--{name}").leak();
    let choices = option.get_possible_values();
    let (file, words) = match (python_package::kind(option), choices.as_slice()) {
        ("flag", _) => ("false", vec![flag]),
        ("number", _) => ("4", vec![flag, "5"]),
        ("values", _) => ("{a: 1}", vec![flag, "b=2"]),
        (_, [.., given, other]) => {
            let [given, other] = [given, other].map(|choice| choice.get_name().to_owned().leak());
            (&*other, vec![flag, &*given])
        }
        _ if matches!(option.get_action(), ArgAction::Append) => ("a", vec![flag, "b", flag, "c"]),
        _ => ("a", vec![flag, "b"]),
    };
    row(name, file, words.leak())
}

/// Every setting.
fn rows() -> Vec<Row> {
    let run = python_package::run_command();
    let mut rows = SPECIAL.to_vec();
    let settings = Options::names("");
    for option in run.get_arguments() {
        let name = option.get_id().as_str();
        // They name files with settings.
        let is_setting = settings.contains(&name) && !["config", "expect", "locked"].contains(&name);
        if is_setting && !SPECIAL.iter().any(|row| row.name == name) {
            rows.push(of_kind(option));
        }
    }
    rows
}

fn flags(words: &[&[&str]]) -> Options {
    Flags::try_parse_from(["run"].into_iter().chain(words.concat())).unwrap().options
}

/// The resolved settings without records and notes, which depend on the layer.
fn resolved(options: &Options) -> String {
    shown(RunSettings::from_flags(options).unwrap())
}

fn shown(settings: RunSettings) -> String {
    format!(
        "{:?}",
        RunSettings {
            record: Dict::new(),
            given: Dict::new(),
            notes: Vec::new(),
            from_file: false,
            // Its settings and tasks are stored instead.
            recipe: None,
            ..settings
        }
    )
}

/// The value in the record.
fn recorded(options: &Options, name: &str) -> Option<Value> {
    RunSettings::from_flags(options).unwrap().record.get_str(name).cloned()
}

#[test]
fn flags_override_the_file_and_the_file_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.yaml");
    let config = ["--config", path.to_str().unwrap()];
    for Row { name, file, flag, beside, has_effect } in rows() {
        fs_err::write(&path, format!("{name}: {file}\n")).unwrap();
        let of_flag = flags(&[flag, beside]);
        let of_file = flags(&[&config, beside]);
        let of_both = flags(&[&config, flag, beside]);
        if !flag.is_empty() {
            assert_eq!(resolved(&of_both), resolved(&of_flag), "{name}");
            assert_eq!(recorded(&of_both, name), recorded(&of_flag, name), "{name}");
            assert_ne!(recorded(&of_both, name), recorded(&of_file, name), "{name}");
        }
        let is_default = resolved(&of_file) == resolved(&flags(&[beside]));
        // A file that turns off a setting that is off by default has no effect of its own.
        let is_off = file == "false" && !flag.is_empty();
        assert_eq!(is_default, !has_effect || (is_off && name != "fewshot_as_multiturn"), "{name}");
        assert_eq!(resolved(&of_both) != resolved(&of_file), has_effect && !flag.is_empty(), "{name}");
    }
}

#[test]
fn settings_can_be_stored_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.yaml");
    let config = ["--config", path.to_str().unwrap()];
    let check = |options: &Options, name: &str| {
        let settings = RunSettings::from_flags(options).unwrap();
        let stored = json::dumps(&settings.stored().into(), &json::Options::default()).unwrap();
        let stored = json::loads(&stored).unwrap();
        let again = RunSettings::from_stored(stored.as_dict().unwrap(), &Options::default()).unwrap();
        assert_eq!(shown(again), shown(settings), "{name}");
    };
    for Row { name, file, flag, beside, .. } in rows() {
        check(&flags(&[flag, beside]), name);
        fs_err::write(&path, format!("{name}: {file}\n")).unwrap();
        check(&flags(&[&config, beside]), name);
    }
    fs_err::write(&path, "judge: {a: {backend: dummy, model: m, x: 1.0e-07}, b: 'dummy,model=n'}\n").unwrap();
    check(&flags(&[&config]), "judges");
}

#[test]
fn python_callers_can_give_every_setting() {
    let from_python = |given: &Dict| {
        let settings = RunSettings::from_python(given).unwrap();
        assert!(settings.notes.is_empty(), "the caller warns its user itself: {given:?}");
        format!("{settings:?}")
    };
    for Row { name, file, flag, has_effect, .. } in rows() {
        let is_off = file == "false" && !flag.is_empty();
        let value = if is_off { Value::Bool(true) } else { yaml::load_bytes(file.as_bytes()).unwrap().value };
        let given = Dict::from_iter([(Value::str(name), value)]);
        assert_eq!(from_python(&given) != from_python(&Dict::new()), has_effect, "{name}");
    }
}

#[test]
fn null_omits_a_setting_except_bootstrap_iters_and_seeds() {
    for name in Options::names("").into_iter().filter(|name| *name != "tasks") {
        let given = Dict::from_iter([(Value::str(name), Value::None)]);
        let mut values = Dict::new();
        Options::read("", &given).unwrap().put("", &mut values);
        let expected = match name {
            "bootstrap_iters" => Some(Value::Int(0)),
            "seed" => Some(Value::list([Value::None, Value::None, Value::None, Value::None])),
            "include_defaults" => Some(Value::Bool(false)),
            _ => None,
        };
        assert_eq!(values.get_str(name).cloned(), expected, "{name}");
    }
}

#[test]
fn flags_override_the_environment_and_the_environment_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.yaml");
    for (name, variable) in VARIABLES {
        let row = rows().into_iter().find(|row| row.name == name).unwrap();
        fs_err::write(&path, format!("{name}: {}\n", row.file)).unwrap();
        let file = ConfigFile::read(&path).unwrap();
        let of_flag = flags(&[row.flag]);
        let mut by_flag = Dict::new();
        of_flag.put("", &mut by_flag);
        let by_flag = by_flag.get_str(name).cloned();
        let combined = |flags: &Options, text: &str, file: Option<&ConfigFile>| {
            let look_up = |wanted: &str| (wanted == variable).then(|| text.to_owned());
            let layered = layered(flags, file, look_up).unwrap();
            let mut values = Dict::new();
            layered.options.put("", &mut values);
            (values.get_str(name).cloned(), layered.notes.join(" "))
        };
        let none = Options::default();
        let by_variable = by_flag.as_ref().and_then(Value::as_str).unwrap();
        assert_eq!(combined(&of_flag, row.file, None).0, by_flag, "{variable}");
        assert_eq!(combined(&none, row.file, None).0, Some(Value::str(row.file)), "{variable}");
        assert_eq!(combined(&none, "", None).0, None, "{variable}: empty is unset");
        let (value, notes) = combined(&none, by_variable, Some(&file));
        assert_eq!(value, Some(Value::str(by_variable)), "{variable} overrides the file");
        assert!(notes.contains(&format!("`{variable}` overrides `{name}`")), "{notes}");
        assert_eq!(
            combined(&none, "", Some(&file)),
            (Some(Value::str(row.file)), String::new()),
            "{variable}"
        );
        let (value, notes) = combined(&of_flag, row.file, Some(&file));
        assert_eq!((value, notes.contains(variable)), (by_flag, false), "{variable}");
        assert!(layered(&none, None, |_| Some("wrong".to_owned())).is_err(), "{variable}");
    }
}

#[test]
fn rows_cover_all_settings() {
    let mut rows: Vec<&str> =
        rows().iter().map(|row| row.name).chain(["config", "expect", "locked"]).collect();
    let mut names = Options::names("");
    for listed in [&mut rows, &mut names] {
        listed.sort_unstable();
    }
    assert_eq!(rows, names);
    assert!(RECORDED.iter().all(|name| names.contains(name)));
}
