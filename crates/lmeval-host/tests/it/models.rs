//! Models written in Python.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use lmeval_core::{
    Answer, Arguments, ChatMessage, Context, Diagnose, DocId, Model, ModelError, ModelErrorKind,
    ModelRequest, Response, Role,
};
use lmeval_host::{PythonModel, PythonModelSettings, PythonOptions, RegisteredModels};
use lmeval_pycompat::Value;
use tempfile::TempDir;

use crate::support::{python, write};

const PLUGIN: &str = r#"
import os, time
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

@register_model("echo")
class Echo(LM):
    tokenizer_name = "echo-tokenizer"
    batch_sizes = {0: 4, 1: 2}

    def __init__(self, scale=1.0, batch_size=1, **kwargs):
        super().__init__()
        self.scale, self.batch_size, self.kwargs = scale, batch_size, kwargs

    def loglikelihood(self, requests):
        return [(-self.scale * len(c) - len(x), len(c) == 1) for x, c in (r.args for r in requests)]

    def loglikelihood_rolling(self, requests):
        return [float(-len(r.args[-1]) - 100 * len(r.args)) for r in requests]

    def generate_until(self, requests):
        return [f"{r.args[0]}|{sorted(r.args[1])}|{r.task_name}|{r.doc_id}|{self.batch_size}|{self.kwargs}"
                for r in requests]

    def chat_template(self, chat_template=False):
        return f"template {chat_template}"

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return "".join(f"<{m['role']}>{m['content']}" for m in chat_history) + ">" * add_generation_prompt

    def get_model_info(self):
        return {"model_dtype": "none", "odd": object}

class Base(LM):
    def loglikelihood(self, requests):
        raise NotImplementedError
    loglikelihood_rolling = loglikelihood
    def generate_until(self, requests):
        return self.answers(requests)

def model(answers):
    register_model(answers.__name__)(type(answers.__name__, (Base,), {"answers": answers}))

@model
def partial(self, requests):
    for request in reversed(requests[1:]):
        self.cache_hook.add_partial("generate_until", request.args, request.args[0].upper())
        self.cache_hook.add_partial("loglikelihood", request.args, (1.0, True))
    while not os.path.exists(requests[0].args[0]):
        time.sleep(0.01)
    return [request.args[0].upper() for request in requests]

@model
def raises(self, requests):
    for request in requests[:2]:
        self.cache_hook.add_partial("generate_until", request.args, "kept")
    raise ValueError("no more")

@model
def changed(self, requests):
    for request in requests:
        kwargs = request.args[1]
        until = kwargs.pop("until")
        self.cache_hook.add_partial("generate_until", (request.args[0], {**kwargs, "stop": until}), "early")
    return ["late" if requests[0].args[0] != "a" or index else "early" for index in range(len(requests))]

@model
def generates(self, requests):
    for request in requests:
        yield request.args[0]
        time.sleep(0.02)

@model
def short(self, requests):
    return ["x"] * (len(requests) - 1)

@model
def nothing(self, requests):
    pass

@model
def mixed(self, requests):
    return ["good", None, "\ud83d\ude00\ud800", 3]

@model
def leaves(self, requests):
    self.cache_hook.add_partial("generate_until", requests[1].args, "kept")
    print("last words", flush=True)
    os._exit(3)

@model
def killed(self, requests):
    os.kill(os.getpid(), 9)

@model
def deaf(self, requests):
    self.cache_hook.add_partial("generate_until", requests[0].args, "kept")
    while True:
        try:
            time.sleep(100)
        except KeyboardInterrupt:
            pass

@model
def slow(self, requests):
    self.cache_hook.add_partial("generate_until", requests[0].args, "kept")
    time.sleep(100)
"#;

type Made = (TempDir, Arc<PythonModel>);

fn options(folder: &TempDir) -> PythonOptions {
    let plugin = folder.path().join("plugin.py").to_str().unwrap().to_owned();
    PythonOptions { python: Some(python()), plugins: vec![plugin], ..PythonOptions::default() }
}

fn made_with(name: &str, settings: &PythonModelSettings) -> Result<Made, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plugin.py", PLUGIN);
    let registered = RegisteredModels::start(&options(&folder))?;
    Ok((folder, registered.create(name, settings)?))
}

fn made(name: &str) -> Made {
    made_with(name, &PythonModelSettings::default()).unwrap()
}

fn request(doc_id: usize, arguments: Arguments) -> ModelRequest {
    ModelRequest {
        task_name: "t".into(),
        doc_id: DocId(doc_id),
        idx: 0,
        repeat: 0,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    }
}

fn generate(texts: &[&str]) -> Vec<ModelRequest> {
    let kwargs =
        Arc::new(Value::dict([("until", Value::list([Value::str("\n")]))]).as_dict().unwrap().clone());
    let made = texts.iter().enumerate().map(|(index, text)| {
        request(index, Arguments::Generate { context: (*text).into(), kwargs: Arc::clone(&kwargs) })
    });
    made.collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The answers in order of arrival.
fn each(model: &PythonModel, requests: Vec<ModelRequest>) -> Vec<(usize, Result<Answer, ModelError>)> {
    let (sender, receiver) = mpsc::channel();
    block_on(
        model.answer_each(requests, Box::new(move |index, answer| sender.send((index, answer)).unwrap())),
    );
    receiver.iter().collect()
}

fn text(answer: &Result<Answer, ModelError>) -> String {
    match answer {
        Ok(Answer { response: Response::Text(text), .. }) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_follow_the_contract() {
    let mut settings = PythonModelSettings {
        batch_size: Some(Value::Int(7)),
        device: Some("cpu".to_owned()),
        rolling_context: true,
        ..PythonModelSettings::default()
    };
    settings.args.insert("scale", 2.0);
    let (_folder, model) = made_with("echo", &settings).unwrap();
    let requests = vec![
        request(0, Arguments::Loglikelihood { context: "ab".into(), continuation: " c".into() }),
        request(1, Arguments::Rolling { text: "hello".into() }),
        request(2, Arguments::Loglikelihood { context: "".into(), continuation: "é".into() }),
        generate(&["Q"]).remove(0),
    ];
    let answers = block_on(model.answer(requests));
    let answers: Vec<Response> = answers.into_iter().map(|answer| answer.unwrap().response).collect();
    assert_eq!(answers[0], Response::Loglikelihood { logprob: -6.0, is_greedy: false });
    assert_eq!(answers[1], Response::Rolling { logprob: -205.0 });
    assert_eq!(answers[2], Response::Loglikelihood { logprob: -2.0, is_greedy: true });
    assert_eq!(answers[3], Response::Text("Q|['until']|t|0|7|{'device': 'cpu'}".into()));
    let identity = block_on(model.identity()).unwrap().to_string();
    assert!(identity.starts_with("python, class Echo, module plugin.py, code plugin.py "), "{identity}");
    assert!(identity.contains("args {'scale': 2.0}"), "{identity}");
    let facts = model.facts();
    assert_eq!(facts.batch_sizes, [4, 2]);
    assert_eq!(facts.config.get_str("model_dtype"), Some(&Value::str("none")));
}

#[test]
fn rolling_requests_have_one_part_in_main_line() {
    let (_folder, model) = made("echo");
    let answers = block_on(model.answer(vec![request(1, Arguments::Rolling { text: "hello".into() })]));
    assert_eq!(answers[0].as_ref().unwrap().response, Response::Rolling { logprob: -105.0 });
}

#[test]
fn applies_chat_template_of_model() {
    let (_folder, model) = made("echo");
    let named = model.chat_template(Some("short")).unwrap();
    assert_eq!(named.source.as_deref(), Some("template short"));
    let messages = || vec![ChatMessage::new(Role::User, "Hi"), ChatMessage::new(Role::Assistant, "Ho")];
    assert_eq!(named.template.apply(messages(), true).unwrap(), Context::from("<user>Hi<assistant>Ho>"));
    assert_eq!(named.template.apply(messages(), false).unwrap(), Context::from("<user>Hi<assistant>Ho"));
    assert_eq!(model.chat_template(None).unwrap().source.as_deref(), Some("template True"));
    let (_folder, without) = made("short");
    let error = without.chat_template(None).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Unsupported);
    assert!(error.to_string().contains("has no method `apply_chat_template`"), "{error}");
}

#[test]
fn delivers_answers_before_call_ends() {
    let (folder, model) = made("partial");
    let first = folder.path().join("go").to_str().unwrap().to_owned();
    let came = Arc::new(Mutex::new(Vec::new()));
    let requests = generate(&[&first, "a", "b", "b"]);
    let (counter, go) = (Arc::clone(&came), folder.path().join("go"));
    let sink = Box::new(move |index: usize, answer: Result<Answer, ModelError>| {
        let mut came = counter.lock().unwrap();
        came.push((index, text(&answer)));
        if came.len() == 3 {
            // The model waits for this, so three answers must have arrived before its end.
            fs_err::write(&go, "").unwrap();
        }
    });
    block_on(model.answer_each(requests, sink));
    let came = came.lock().unwrap();
    let indices: Vec<usize> = came.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [2, 3, 1, 0]);
    assert_eq!(came[0].1, "B");
    assert_eq!(came[3].1, first.to_uppercase());
}

#[test]
fn matches_requests_with_changed_settings() {
    let (_folder, model) = made("changed");
    let answers = each(&model, generate(&["a", "b", "b"]));
    // The context alone does not tell apart two equal requests.
    let texts: Vec<_> = answers.iter().map(|(index, answer)| (*index, text(answer))).collect();
    assert_eq!(texts, [(0, "early".to_owned()), (1, "late".to_owned()), (2, "late".to_owned())]);
}

#[test]
fn differing_answers_end_the_run() {
    let (_folder, model) = made("changed");
    let answers = each(&model, generate(&["x", "y"]));
    // The last answer was held back, so that a request is left that can fail.
    let (index, error) = (answers[1].0, answers[1].1.as_ref().unwrap_err());
    assert_eq!(
        (answers.len(), text(&answers[0].1), index, error.is_fatal()),
        (2, "early".to_owned(), 1, true)
    );
    let told = "`changed.generate_until` returned `('late',)` for request 0 of 2, after it had given `('early',)` to \
                `cache_hook.add_partial`";
    assert!(error.to_string().ends_with(told), "{error}");
    assert!(error.hints()[0].starts_with("Pass `cache_hook` the answers"), "{:?}", error.hints());
}

#[test]
fn accepts_generators() {
    let (_folder, model) = made("generates");
    let answers = each(&model, generate(&["a", "b"]));
    assert_eq!(
        answers.iter().map(|(index, answer)| (*index, text(answer))).collect::<Vec<_>>(),
        [(0, "a".to_owned()), (1, "b".to_owned())]
    );
}

#[test]
fn keeps_answers_before_exception() {
    let (_folder, model) = made("raises");
    let answers = each(&model, generate(&["a", "b", "c", "d"]));
    assert_eq!(answers.len(), 3);
    assert_eq!((text(&answers[0].1), text(&answers[1].1)), ("kept".to_owned(), "kept".to_owned()));
    let (index, error) = (answers[2].0, answers[2].1.as_ref().unwrap_err());
    assert_eq!((index, error.is_fatal()), (2, true));
    assert_eq!(error.to_string(), "The model `raises` failed in `generate_until`: ValueError: no more");
    let traceback = error.traceback().unwrap();
    assert!(
        traceback.contains("raise ValueError(\"no more\")") && !traceback.contains("_models.py"),
        "{traceback}"
    );
    // The process is still alive.
    assert!(each(&model, generate(&["a"])).last().unwrap().1.is_err());
}

#[test]
fn reports_wrong_answers() {
    let error = |name: &str| {
        let (_folder, model) = made(name);
        let answers = each(&model, generate(&["a", "b", "c", "d"]));
        answers.last().unwrap().1.as_ref().unwrap_err().to_string()
    };
    assert!(
        error("short").ends_with("`short.generate_until` returned 3 answers to 4 requests"),
        "{}",
        error("short")
    );
    assert!(error("nothing").contains("returned a value of type `NoneType`"), "{}", error("nothing"));
    let (_folder, model) = made("mixed");
    let answers = each(&model, generate(&["a", "b", "c", "d"]));
    assert_eq!(text(&answers[0].1), "good");
    assert_eq!(text(&answers[2].1), "😀\u{fffd}");
    for index in [1, 3] {
        let error = answers[index].1.as_ref().unwrap_err();
        assert_eq!((error.kind(), answers[index].0), (ModelErrorKind::Answer, index));
        assert!(error.to_string().contains("expected a string, found a value of type"), "{error}");
    }
}

#[test]
fn keeps_answers_before_exit() {
    let (_folder, model) = made("leaves");
    let answers = each(&model, generate(&["a", "b"]));
    assert_eq!((answers[0].0, text(&answers[0].1)), (1, "kept".to_owned()));
    let error = answers[1].1.as_ref().unwrap_err();
    assert!(error.to_string().ends_with("its Python process ended with status 3"), "{error}");
    assert!(error.traceback().unwrap().contains("last words"));
    assert!(error.is_fatal());
    let again = each(&model, generate(&["a"]));
    assert!(again[0].1.as_ref().unwrap_err().to_string().contains("had already ended"));
    let (_folder, model) = made("killed");
    let answers = each(&model, generate(&["a"]));
    assert!(answers[0].1.as_ref().unwrap_err().to_string().contains("possibly out of memory"));
}

#[test]
fn cancel_interrupts_model() {
    for name in ["slow", "deaf"] {
        let (_folder, model) = made(name);
        let start = Instant::now();
        let ending = Arc::clone(&model);
        let (sender, receiver) = mpsc::channel();
        let sink = Box::new(move |index, answer: Result<Answer, ModelError>| {
            sender.send((index, answer)).unwrap();
            ending.wind_down();
        });
        block_on(model.answer_each(generate(&["a", "b"]), sink));
        let answers: Vec<_> = receiver.iter().collect();
        assert_eq!(text(&answers[0].1), "kept");
        assert!(!answers[1].1.as_ref().unwrap_err().is_fatal());
        // The models themselves would take a hundred seconds.
        assert!(start.elapsed() < Duration::from_secs(50), "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn unknown_arguments_fail_and_unknown_settings_do_not() {
    let mut settings =
        PythonModelSettings { batch_size: Some(Value::Int(7)), ..PythonModelSettings::default() };
    let (_folder, model) = made_with("short", &settings).unwrap();
    assert_eq!(model.ignored_settings(), ["batch_size"]);
    settings.args.insert("unknown", 1);
    let error = made_with("short", &settings).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Configuration);
    assert!(error.to_string().starts_with("Cannot create the model `short`: TypeError"), "{error}");
}

#[test]
fn names_failing_plug_in() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plugin.py", "import nowhere_to_be_found");
    let error = RegisteredModels::start(&options(&folder)).unwrap_err();
    assert!(
        error.to_string().contains("plugin.py") && error.to_string().contains("nowhere_to_be_found"),
        "{error}"
    );
}

#[test]
fn runs_models_of_original_package() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let options = PythonOptions { python: Some(python), ..PythonOptions::default() };
    let settings = PythonModelSettings {
        batch_size: Some(Value::Int(1)),
        seeds: [Some(0), Some(1234), Some(1234)],
        // The package decides.
        rolling_context: true,
        ..PythonModelSettings::default()
    };
    let model = PythonModel::original("dummy", &options, &settings).unwrap();
    let mut requests = generate(&["a", "b"]);
    requests.push(request(0, Arguments::Rolling { text: "hello".into() }));
    requests.push(request(0, Arguments::Loglikelihood { context: "ab".into(), continuation: " c".into() }));
    let answers = block_on(model.answer(requests));
    assert_eq!(text(&answers[0]), "lol");
    assert!(
        matches!(answers[2], Ok(Answer { response: Response::Rolling { logprob }, .. }) if logprob < 0.0)
    );
    let Ok(Answer { response: Response::Loglikelihood { .. }, .. }) = answers[3] else {
        panic!("{answers:?}")
    };
    let identity = block_on(model.identity()).unwrap().to_string();
    assert!(
        identity.contains("lm_eval, class DummyLM, module lm_eval.models.dummy, code lm_eval 0.4"),
        "{identity}"
    );
    let unknown = PythonModel::original("no_such_model", &options, &settings).unwrap_err();
    assert!(unknown.to_string().contains("no_such_model"), "{unknown}");
    // A plug-in of the original package.
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plugin.py", PLUGIN);
    let plugin = folder.path().join("plugin.py").to_str().unwrap().to_owned();
    let options = PythonOptions { plugins: vec![plugin], ..options };
    let model = PythonModel::original("echo", &options, &settings).unwrap();
    let answers = block_on(model.answer(vec![request(1, Arguments::Rolling { text: "hello".into() })]));
    assert_eq!(answers[0].as_ref().unwrap().response, Response::Rolling { logprob: -105.0 });
}

#[test]
fn missing_original_package_has_hint() {
    let folder = tempfile::tempdir().unwrap();
    // An interpreter that does not see its packages.
    let hidden = folder.path().join("python");
    write(folder.path(), "python", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
    std::process::Command::new("chmod").arg("+x").arg(&hidden).status().unwrap();
    let options = PythonOptions { python: Some(hidden), ..PythonOptions::default() };
    let error = PythonModel::original("hf", &options, &PythonModelSettings::default()).unwrap_err();
    assert!(error.to_string().contains("the package `lm_eval` is not installed for"), "{error}");
    assert!(error.hints()[0].contains("pip install lm_eval"), "{:?}", error.hints());
}
