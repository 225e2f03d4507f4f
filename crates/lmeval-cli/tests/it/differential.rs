//! Library tasks with Python functions produce, with `--compat 0.4`, the reference's requests and scores on generated
//! documents.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_core::{
    Answer, Arguments, Dialect, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity, ModelRequest,
    ModelTraits, Response,
};
use lmeval_data::Settings;
use lmeval_engine::{DataOptions, EvaluateOptions, Events, NoEvents, evaluate};
use lmeval_host::{PythonHost, PythonOptions};
use lmeval_pycompat::{Value, json as python_json};
use lmeval_tasks::{Overrides, TaskDict, TaskManager};
use lmeval_testkit::{reference_library, test_environment};
use serde_json::{Value as Json, json};

/// Tasks with documents to evaluate them on, found by `tests/record/function_tasks.py`.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/differential.jsonl");

/// Tasks whose functions, targets, filters and aggregations return values of every type the reference accepts.
const ODD_TASKS: &str = include_str!("odd_tasks/tasks.txt");
const ODD_FUNCTIONS: &str = include_str!("odd_tasks/utils.py");

/// The minimum number of tasks, and of library folders they come from, for a meaningful comparison.
const FEWEST: (usize, usize) = (100, 40);

/// A model that replays the reference's answers and records its requests.
#[derive(Debug, Default)]
struct Recorded {
    answers: HashMap<(String, String), Json>,
    asked: Mutex<BTreeSet<(String, String)>>,
}

impl Recorded {
    fn new(requests: &Json) -> Self {
        let entry = |request: &Json| ((text(&request[0]), text(&request[1])), request[2].clone());
        Self { answers: requests.as_array().unwrap().iter().map(entry).collect(), asked: Mutex::default() }
    }

    fn answer_one(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let kind = request.request_type().name().to_owned();
        let mut arguments = request.arguments.to_values(false);
        arguments.extend(request.additional_args.clone().map(Value::Dict));
        let key = (kind, dumped(&Value::from(arguments)));
        let answer = self.answers.get(&key).cloned();
        self.asked.lock().unwrap().insert(key.clone());
        let Some(answer) = answer else {
            return Err(ModelError::new(
                ModelErrorKind::Request,
                format!("The reference did not request {key:?}"),
            ));
        };
        let response = match &request.arguments {
            Arguments::Loglikelihood { .. } => Response::Loglikelihood {
                logprob: answer[0].as_f64().unwrap(),
                is_greedy: answer[1].as_bool().unwrap(),
            },
            Arguments::Rolling { .. } => Response::Rolling { logprob: answer.as_f64().unwrap() },
            Arguments::Generate { .. } => Response::Text(answer.as_str().unwrap().into()),
            Arguments::Letters { .. } => return Err(request.unsupported()),
        };
        Ok(Answer::from(response))
    }
}

impl Model for Recorded {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "recorded".to_owned(), facts: Vec::new() }) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits {
            batch_size: 64,
            fill_time: Duration::from_millis(1),
            is_worth_saving: false,
            ..ModelTraits::default()
        }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move { requests.iter().map(|request| self.answer_one(request)).collect() })
    }
}

fn text(value: &Json) -> String {
    value.as_str().unwrap().to_owned()
}

fn dumped(value: &Value) -> String {
    python_json::dumps(value, &python_json::Options::default())
        .unwrap_or_else(|error| panic!("{error}: {value:?}"))
}

/// A value as the reference's script prints it.
fn shown(value: &Value) -> Json {
    fn plain(value: &Value) -> Value {
        match value {
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
                Value::list(items.iter().map(plain))
            }
            Value::Dict(dict) => {
                let named = |(key, value): (&Value, &Value)| (lmeval_pycompat::repr::str(key), plain(value));
                Value::dict(dict.iter().map(named).collect::<Vec<_>>())
            }
            Value::Float(number) if !number.is_finite() => Value::from(format!("{number}")),
            other => other.clone(),
        }
    }
    serde_json::from_str(&dumped(&plain(value))).unwrap()
}

/// Whether two values are equal; integers equal floats of the same value.
fn equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Json::Object(left), Json::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right || number(left).is_some_and(|left| Some(left) == number(right)),
    }
}

fn number(value: &Json) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|flag| f64::from(u8::from(flag))))
}

/// The reference's results for each case.
fn ask_reference(python: &Path, library: &Path, cases: &Path) -> Vec<Json> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/function_tasks.py");
    let mut command = Command::new(python);
    command.args([script.as_ref(), "run".as_ref(), library.as_os_str(), cases.as_os_str()]);
    let output = command.stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The fields of a record that are compared besides the metrics.
const COMPARED: [&str; 6] = ["target", "filtered_resps", "doc", "doc_hash", "prompt_hash", "target_hash"];

struct Comparison {
    manager: TaskManager,
    host: Arc<PythonHost>,
    folder: tempfile::TempDir,
    library: std::path::PathBuf,
}

impl Comparison {
    /// The task of a case, with the documents of the case.
    fn load(&self, index: usize, case: &Json) -> Result<TaskDict, String> {
        let path = self.library.join(text(&case["path"]));
        let specs = self.manager.select(&[path.to_string_lossy()]).map_err(|error| error.to_string())?;
        let mut loaded =
            self.manager.load(&specs, Overrides::default()).map_err(|error| error.to_string())?;
        let (_, task) = loaded.tasks.first_mut().unwrap();
        let mut files = lmeval_pycompat::Dict::new();
        for (split, documents) in case["splits"].as_object().unwrap() {
            let file = self.folder.path().join(format!("{index}-{split}.jsonl"));
            let lines = documents.as_array().unwrap().iter().map(|document| format!("{document}\n"));
            fs_err::write(&file, lines.collect::<String>()).unwrap();
            files.insert(split.as_str(), file.to_string_lossy().into_owned());
        }
        task.config.dataset_path = Some("json".to_owned());
        task.config.dataset_name = None;
        task.config.custom_dataset = None;
        task.config.dataset_kwargs =
            Some(std::iter::once(("data_files".into(), Value::from(files))).collect());
        Ok(loaded)
    }

    /// Compares a task; returns the first difference.
    fn compare(&self, index: usize, case: &Json, expected: &Json) -> Result<(), String> {
        let model = Arc::new(Recorded::new(&expected["requests"]));
        let options = EvaluateOptions {
            dialect: Dialect::V04,
            bootstrap_iters: 0,
            confirm_run_unsafe_code: true,
            max_failures: Some(0),
            data: DataOptions {
                settings: Some(Settings::from_environment()),
                python: Some(Arc::clone(&self.host)),
                ..DataOptions::default()
            },
            ..EvaluateOptions::default()
        };
        let events: Arc<dyn Events> = Arc::new(NoEvents);
        let asked: Arc<dyn Model> = Arc::clone(&model) as Arc<dyn Model>;
        let run = |options: &EvaluateOptions| {
            evaluate(&asked, self.load(index, case)?, options, &events).map_err(|error| chain(&error))
        };
        let evaluation = run(&EvaluateOptions { log_samples: true, ..options.clone() })?;
        let unlogged = run(&EvaluateOptions { log_samples: false, ..options })?;
        let asked = std::mem::take(&mut *model.asked.lock().unwrap());
        let missing = model.answers.keys().find(|key| !asked.contains(key));
        if let Some(missing) = missing {
            return Err(format!("not requested: {missing:?}"));
        }
        let results = evaluation.results.sections().results.values().next().map(shown).unwrap();
        let results_unlogged = unlogged.results.sections().results.values().next().map(shown).unwrap();
        if results != results_unlogged {
            return Err(format!("without a log of samples: {results_unlogged} instead of {results}"));
        }
        for (key, score) in expected["results"].as_object().unwrap() {
            if key.contains(',') && !results.get(key).is_some_and(|ours| equal(ours, score)) {
                return Err(format!("{key}: {:?} instead of {score}", results.get(key)));
            }
        }
        let records = evaluation.results.samples.iter().flat_map(|(_, records)| records.iter());
        let records: BTreeMap<(u64, String), Json> = records
            .map(|record| {
                ((record.doc_id.0 as u64, record.filter.to_string()), shown(&Value::from(record.to_dict())))
            })
            .collect();
        for sample in expected["samples"].as_array().unwrap() {
            let id = (sample["doc_id"].as_u64().unwrap(), text(&sample["filter"]));
            let ours = records.get(&id).ok_or_else(|| format!("no record {id:?}"))?;
            let metrics = sample["metrics"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            for key in COMPARED.into_iter().chain(metrics) {
                if !ours.get(key).is_some_and(|ours| equal(ours, &sample[key])) {
                    return Err(format!("{id:?} {key}: {:?} instead of {}", ours.get(key), sample[key]));
                }
            }
        }
        Ok(())
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Compares the tasks of a library with the reference; returns how many are equal, their folders, and those the reference
/// cannot run.
fn compare_all(python: &Path, library: &Path, cases: &Path) -> (usize, BTreeSet<String>, Vec<String>) {
    let answers = ask_reference(python, library, cases);
    let cases = fs_err::read_to_string(cases).unwrap();
    let cases: Vec<Json> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), cases.len());
    let host = PythonHost::new(PythonOptions {
        python: Some(python.to_owned()),
        workers: 2,
        task_roots: vec![library.to_owned()],
        ..PythonOptions::default()
    });
    let manager = TaskManager::new(&[library.to_owned()]);
    let folder = tempfile::tempdir().unwrap();
    let comparison = Comparison { manager, host, folder, library: library.to_owned() };
    let (mut failures, mut unknown, mut compared) = (Vec::new(), Vec::new(), 0);
    let mut folders = BTreeSet::new();
    for (index, (case, expected)) in cases.iter().zip(&answers).enumerate() {
        let path = text(&case["path"]);
        if let Some(error) = expected.get("error") {
            unknown.push(format!("{path}: {error}"));
            continue;
        }
        match comparison.compare(index, case, expected) {
            Ok(()) => {
                compared += 1;
                folders.insert(path.split('/').next().unwrap().to_owned());
            }
            Err(error) => failures.push(format!("{path}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{compared} are equal, {} differ:\n{}", failures.len(), failures.join("\n"));
    (compared, folders, unknown)
}

#[test]
fn library_functions_match_the_reference() {
    let (Some(python), Some(library)) = (test_environment(), reference_library()) else { return };
    let (compared, folders, unknown) = compare_all(&python, &library, Path::new(CASES));
    // The reference cannot run some of them because a package is missing.
    let enough = compared >= FEWEST.0 && folders.len() >= FEWEST.1;
    assert!(enough, "{compared} tasks of {} folders:\n{}", folders.len(), unknown.join("\n"));
}

#[test]
fn all_value_types_match_the_reference() {
    let Some(python) = test_environment() else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path();
    fs_err::write(library.join("utils.py"), ODD_FUNCTIONS).unwrap();
    let document = |number: usize| {
        let answer = ["yes", "no", "Yes."][number % 3];
        let answers = if number % 2 == 1 { ["yes", "a"] } else { ["no", "maybe"] };
        json!({
            "q": format!("Is {number} yes or a no?"), "answer": answer, "gold": number % 2, "number": number,
            "score": (number % 2) as f64, "flag": number.is_multiple_of(3), "nothing": null, "answers": answers,
        })
    };
    let documents: Vec<Json> = (0..6).map(document).collect();
    let mut cases = String::new();
    for (number, task) in ODD_TASKS.split("---\n").enumerate() {
        let path = format!("{number}.yaml");
        fs_err::write(library.join(&path), task).unwrap();
        cases.push_str(&json!({"path": path, "splits": {"test": documents}}).to_string());
        cases.push('\n');
    }
    fs_err::write(library.join("cases.jsonl"), cases).unwrap();
    let (compared, _, unknown) = compare_all(&python, library, &library.join("cases.jsonl"));
    assert!(compared >= 45 && unknown.is_empty(), "{compared} tasks:\n{}", unknown.join("\n"));
}
