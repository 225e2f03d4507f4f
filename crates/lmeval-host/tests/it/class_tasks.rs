//! Instances of tasks that are Python classes.

use std::sync::Arc;

use lmeval_core::{
    ChatError, ChatMessage, ChatTemplate, Context, DatasetRequest, DocId, DocumentError, MemoryDocuments,
    MemorySplits,
};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::{ClassCall, Host, HostError, HostServices, NamedSplits};

use crate::support::{Folder, document, function, message_and_traceback, write};

const UTILS: &str = r#"
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask, MultipleChoiceTask, PerplexityTask, Task
from .helper import shout

class Pages(ConfigurableTask):
    VERSION = 3
    DATASET_PATH = "org/pages"

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": self.VERSION}, "doc_to_target": "{{a}}!",
                                 "description": config["extra"], "process_docs": config.get("process_docs")})
        self.config.num_fewshot = 1

    def has_validation_docs(self):
        return True

    def validation_docs(self):
        return self.config.process_docs(self.dataset["validation"])

    def doc_to_text(self, doc):
        return shout(doc["q"])

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        if doc["q"] == "nothing":
            return None
        second = (ctx, " " + self.doc_to_target(doc))
        return [Instance(request_type="loglikelihood", doc=doc, arguments=second, idx=1, **kwargs),
                Instance(request_type="generate_until", doc=doc, idx=0, **kwargs,
                         arguments=(ctx, self.config.generation_kwargs))]

    def process_results(self, doc, results):
        return {"length": len(results[0]), "pair": (doc["q"], results[1])}

    def aggregation(self):
        return {"length": mean, "pair": lambda items: len(items), "a/b": max}

    def higher_is_better(self):
        return {"length": True, "pair": False}

class Talk(ConfigurableTask):
    def fewshot_context(self, doc, num_fewshot=0, apply_chat_template=False, chat_template=None, **kwargs):
        text = super().fewshot_context(doc, num_fewshot=num_fewshot, **kwargs)
        return chat_template([{"role": "user", "content": text}]) if apply_chat_template else text + '@'

class Texts(PerplexityTask):
    def has_validation_docs(self): return True
    def has_test_docs(self): return False
    def validation_docs(self): return (f"text {n}" for n in range(2))

class Choices(MultipleChoiceTask):
    def has_training_docs(self): return False
    def has_validation_docs(self): return True
    def has_test_docs(self): return False
    def validation_docs(self): return [{"q": "?", "choices": ["a", "bb"], "gold": 1}]
    def doc_to_text(self, doc): return doc["q"]

class Plain:
    pass

class Broken(ConfigurableTask):
    def __init__(self, config=None):
        raise KeyError("no config")

def keep(dataset):
    return dataset.filter(lambda doc: doc["q"] != "drop")
"#;

/// Has one dataset; renders templates in brackets.
#[derive(Debug)]
struct Services;

impl HostServices for Services {
    fn dataset(&self, request: &DatasetRequest) -> Result<NamedSplits, DocumentError> {
        if request.path != "org/pages" {
            return Err(format!("there is no `{}`", request.path).into());
        }
        let rows = ["why", "drop", "how", "nothing"].map(|q| asked(q, "because"));
        let rows = MemoryDocuments::with_columns(vec!["q".into(), "a".into()], rows.to_vec());
        let splits = MemorySplits::new().with("validation", rows);
        Ok(NamedSplits { names: vec!["validation".to_owned()], splits: Arc::new(splits) })
    }

    fn render(&self, template: &str, document: &Dict) -> Result<String, DocumentError> {
        Ok(format!("<{template}{}>", document.len()))
    }
}

#[derive(Debug)]
struct Template;

impl ChatTemplate for Template {
    fn apply(&self, messages: Vec<ChatMessage>, open: bool) -> Result<Context, ChatError> {
        Ok(Context::from(format!("{}|{open}", messages[0].content).as_str()))
    }
}

fn asked(q: &str, a: &str) -> Arc<Dict> {
    document([("q", Value::str(q)), ("a", Value::str(a))])
}

fn folder() -> Folder {
    // A bare interpreter: everything must work without packages.
    let folder = Folder::with(UTILS, |options| options.python = Some("python3".into()));
    write(folder.folder.path(), "helper.py", "def shout(text):\n    return text.upper()\n");
    folder.host.set_services(Arc::new(Services));
    folder
}

fn describe(folder: &Folder, class: &str, config: &[(&str, Value)]) -> Result<Dict, HostError> {
    let config = config.iter().map(|(key, value)| (Value::str(*key), value.clone())).collect();
    let settings = document([
        ("gen_kwargs", Value::dict([("top_p", Value::Float(0.5))])),
        ("repeats", Value::Int(2)),
        ("fewshot_seed", Value::Int(1234)),
    ]);
    folder.host.describe_class(&folder.function(class), &config, &settings)
}

fn method(described: &Dict, key: &str) -> Arc<Function> {
    match described.get_str(key) {
        Some(Value::Function(function)) => Arc::clone(function),
        other => panic!("{key}: {other:?}"),
    }
}

fn call<'a>(document: &'a Arc<Dict>, context: Option<&'a Value>) -> ClassCall<'a> {
    ClassCall {
        document,
        doc_id: DocId(4),
        context,
        examples: &[],
        system_instruction: None,
        chat_template: None,
        fewshot_as_multiturn: false,
    }
}

#[test]
fn describes_and_calls_an_instance() {
    let folder = folder();
    let keep = Value::Function(function(folder.folder.path(), "utils.keep"));
    let config =
        [("task", Value::str("pages")), ("extra", Value::str("Hi. ")), ("process_docs", keep.clone())];
    let described = describe(&folder, "utils.Pages", &config).unwrap();
    let config = described.get_str("config").and_then(Value::as_dict).unwrap();
    assert_eq!(config.get_str("process_docs"), Some(&keep));
    assert_eq!(config.get_str("num_fewshot"), Some(&Value::Int(1)));
    assert_eq!(config.get_str("generation_kwargs"), None);
    assert_eq!(repr(config.get_str("metadata").unwrap()), "{'version': 3}");
    assert_eq!(described.get_str("dataset_path"), Some(&Value::str("org/pages")));
    for (key, expected) in [("makes_requests", true), ("makes_context", false), ("is_configurable", true)] {
        assert_eq!(described.get_str(key), Some(&Value::Bool(expected)), "{key}");
    }
    // Documents pass through the engine and the functions of the task.
    let documents = folder.host.documents(&method(&described, "eval_docs")).unwrap();
    assert_eq!((documents.len(), documents.columns()), (3, &["q".to_owned(), "a".to_owned()][..]));
    let fields = described.get_str("fields").and_then(Value::as_dict).unwrap();
    assert_eq!(fields.len(), 1);
    let why = documents.get(0).unwrap();
    assert_eq!(folder.host.call(&method(fields, "doc_to_text"), &why).unwrap(), Value::str("WHY"));
    // Requests of several types, in order of their indices, with the settings of the run.
    let context = Value::str("ctx");
    let object = method(&described, "object");
    let made = folder.host.class_requests(&object, &call(&why, Some(&context))).unwrap();
    let settings =
        "{'temperature': 0.0, 'do_sample': False, 'max_gen_toks': 256, 'until': ['\\n\\n'], 'top_p': 0.5}";
    let expected = format!(
        "{{'instances': [{{'request_type': 'generate_until', 'arguments': ['ctx', {settings}], 'idx': 0, 'repeats': 2, \
         'additional_args': None}}, {{'request_type': 'loglikelihood', 'arguments': ['ctx', ' <{{{{a}}}}!2>'], 'idx': 1, \
         'repeats': 2, 'additional_args': None}}], 'target': '<{{{{a}}}}!2>'}}"
    );
    assert_eq!(repr(&made), expected);
    let nothing = documents.get(2).unwrap();
    let made = folder.host.class_requests(&object, &call(&nothing, Some(&context))).unwrap();
    assert_eq!(repr(&made), "{'instances': [], 'target': None}");
    // Scores.
    let code = folder.host.process_results(&method(&described, "process_results")).unwrap();
    let results = [Value::str("abc"), Value::tuple([Value::Float(-1.5), Value::Bool(true)])];
    let calls: Vec<_> = (0..200).map(|_| (Arc::clone(&why), results.to_vec())).collect();
    for values in code.process_many(&calls).unwrap() {
        let values = repr(&Value::from(values.unwrap()));
        assert_eq!(values, "{'length': 3, 'pair': ('why', (-1.5, True))}");
    }
    let aggregations = described.get_str("aggregation").and_then(Value::as_dict).unwrap();
    assert_eq!(aggregations.get_str("length"), Some(&Value::str("mean")));
    for (metric, expected) in [("pair", 2), ("a/b", 7)] {
        let aggregation = folder.host.aggregation(&method(aggregations, metric)).unwrap();
        let values = [Value::Int(7), Value::Int(5)];
        assert_eq!(aggregation.aggregate(&values).unwrap(), Value::Int(expected), "{metric}");
    }
}

#[test]
fn class_can_build_the_context() {
    let folder = folder();
    let config =
        [("task", Value::str("talk")), ("doc_to_text", Value::str("q")), ("doc_to_target", Value::str("a"))];
    let config =
        [&config[..], &[("num_fewshot", Value::Int(1)), ("class", Value::None), ("own", Value::None)]]
            .concat();
    let described = describe(&folder, "utils.Talk", &config).unwrap();
    assert_eq!(described.get_str("makes_context"), Some(&Value::Bool(true)));
    assert_eq!(described.get_str("eval_docs"), Some(&Value::None));
    let why = asked("why", "because");
    let examples = [asked("how", "so")];
    let object = method(&described, "object");
    let context = |made: &Value| {
        let instances = made.as_dict().and_then(|made| made.get_str("instances")).and_then(Value::as_list);
        let first = instances.and_then(|instances| instances[0].as_dict()).unwrap();
        repr(&first.get_str("arguments").and_then(Value::as_list).unwrap()[0])
    };
    let plain = ClassCall { examples: &examples, ..call(&why, None) };
    assert_eq!(context(&folder.host.class_requests(&object, &plain).unwrap()), "'how so\\n\\nwhy@'");
    let chat = ClassCall { chat_template: Some(&Template), ..plain };
    assert_eq!(context(&folder.host.class_requests(&object, &chat).unwrap()), "'how so\\n\\nwhy|true'");
}

#[test]
fn supports_older_classes() {
    let folder = folder();
    let described = describe(&folder, "utils.Texts", &[("task", Value::str("texts"))]).unwrap();
    assert_eq!(described.get_str("output_type"), Some(&Value::str("loglikelihood_rolling")));
    let texts = folder.host.documents(&method(&described, "eval_docs")).unwrap();
    let object = method(&described, "object");
    let made = folder.host.class_requests(&object, &call(&texts.get(1).unwrap(), None)).unwrap();
    let expected = "{'instances': [{'request_type': 'loglikelihood_rolling', 'arguments': ['text 1'], 'idx': 0, \
                    'repeats': 1, 'additional_args': None}], 'target': 'text 1'}";
    assert_eq!(repr(&made), expected);
    let code = folder.host.process_results(&method(&described, "process_results")).unwrap();
    let values = code.process_results(&texts.get(0).unwrap(), &[Value::Float(-2.0)]).unwrap().unwrap();
    assert_eq!(
        repr(&Value::from(values)),
        "{'word_perplexity': (-2.0, 2), 'byte_perplexity': (-2.0, 6), 'bits_per_byte': (-2.0, 6)}"
    );
    let aggregations = repr(described.get_str("aggregation").unwrap());
    assert!(aggregations.contains("'bits_per_byte': 'bits_per_byte'"), "{aggregations}");

    let described = describe(&folder, "utils.Choices", &[("task", Value::str("choices"))]).unwrap();
    let documents = folder.host.documents(&method(&described, "eval_docs")).unwrap();
    let code = folder.host.process_results(&method(&described, "process_results")).unwrap();
    let answer = |likelihood: f64| Value::tuple([Value::Float(likelihood), Value::Bool(false)]);
    let values = code.process_results(&documents.get(0).unwrap(), &[answer(-1.0), answer(-1.5)]).unwrap();
    assert_eq!(repr(&Value::from(values.unwrap())), "{'acc': 0.0, 'acc_norm': 1.0}");
    assert_eq!(repr(described.get_str("aggregation").unwrap()), "{'acc': 'mean', 'acc_norm': 'mean'}");
}

#[test]
fn failures_name_the_class() {
    let folder = folder();
    let (message, _) = message_and_traceback(describe(&folder, "utils.Plain", &[]).unwrap_err());
    assert!(message.contains("`Plain` is not a subclass of `lm_eval.api.task.Task`"), "{message}");
    let error = describe(&folder, "utils.Broken", &[]).unwrap_err();
    assert!(error.to_string().starts_with("The function `utils.Broken` failed: KeyError"), "{error}");
    let described = describe(&folder, "utils.Pages", &[("extra", Value::str(""))]).unwrap();
    let context = Value::Int(1);
    let bad = document([("a", Value::None)]);
    let error = folder.host.class_requests(&method(&described, "object"), &call(&bad, Some(&context)));
    let (message, traceback) = message_and_traceback(error.unwrap_err());
    assert!(message.contains("KeyError: 'q' (document {'a': None})"), "{message}");
    assert!(traceback.contains("construct_requests"), "{traceback}");
}
