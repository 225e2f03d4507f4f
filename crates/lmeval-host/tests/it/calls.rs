//! Every kind of call.

use std::sync::{Arc, Mutex};

use lmeval_core::{DocId, MemoryDocuments, Splits};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;
use lmeval_scoring::filters::FilterDocs;

use crate::support::{Folder, document, message_and_traceback};

const UTILS: &str = r#"
import functools
def text(doc):
    print("asked", doc["q"])
    return doc["q"].upper()
def add(amount, doc):
    return doc["n"] + amount
globals().update({f"add_{n}": functools.partial(add, n) for n in range(3)})
def process_results(doc, results):
    if doc["n"] == 99:
        return None
    return {"sum": doc["n"] + len(results), "pair": (doc["q"], results[0])}
def metric(predictions, references, ignore_case=False):
    return {"hit": [float(p == references[0]) for p in predictions], "options": ignore_case}
def positional(a, b, **kwargs):
    return [a, b, sorted(kwargs)]
def pair(items):
    return items
def flat_mean(items):
    flat = [x for item in items for x in item]
    return sum(flat) / len(flat)
def best(reference, values):
    return {"best": max(values), "reference": reference}
def prepend(resps, docs):
    return [[doc["q"] + r for r in resp] for resp, doc in zip(resps, docs)]
class Upper:
    def __init__(self, suffix=""):
        self.suffix = suffix
    def apply(self, resps, docs):
        return map(lambda resp: [r.upper() + self.suffix for r in resp], resps)
def samples():
    return [{"q": "one"}, {"q": "two"}]
def data(size, **metadata):
    return {"test": ({"n": n, "version": metadata["version"]} for n in range(size)), "train": [{"n": -1}]}
value = 3
"#;

fn asked(number: i64) -> Arc<Dict> {
    document([("q", Value::str("why")), ("n", Value::Int(number))])
}

#[test]
fn calls_functions_of_a_document() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let folder = Folder::with(UTILS, |options| {
        options.log = Some(Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned())));
    });
    assert_eq!(folder.host.call(&folder.function("utils.text"), &asked(1)).unwrap(), Value::str("WHY"));
    assert_eq!(folder.host.call(&folder.function("utils.add_2"), &asked(1)).unwrap(), Value::Int(3));
    let Folder { folder: _folder, host } = folder;
    drop(host);
    for _ in 0..100 {
        if !lines.lock().unwrap().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(*lines.lock().unwrap(), ["asked why"]);
}

#[test]
fn calls_scoring_functions() {
    let folder = Folder::new(UTILS);
    let host = &folder.host;
    let code = host.process_results(&folder.function("utils.process_results")).unwrap();
    let calls: Vec<(Arc<Dict>, Vec<Value>)> = (0..1000)
        .map(|number| (asked(number), vec![Value::tuple([Value::Float(-1.5), Value::Bool(true)])]))
        .collect();
    for (number, values) in code.process_many(&calls).unwrap().into_iter().enumerate() {
        if number == 99 {
            assert!(values.is_none());
            continue;
        }
        let expected = format!("{{'sum': {}, 'pair': ('why', (-1.5, True))}}", number + 1);
        assert_eq!(repr(&Value::from(values.unwrap())), expected);
    }
    let compute = |name: &str, kwargs: &[(&str, Value)]| {
        let kwargs = kwargs.iter().map(|(name, value)| (Value::str(*name), value.clone())).collect();
        let metric = host.metric(&folder.function(name)).unwrap();
        let one = |text| Value::list([Value::str(text)]);
        repr(&metric.compute(&one("a"), &one("b"), &kwargs).unwrap())
    };
    let extra = [("ignore_case", Value::Bool(true)), ("unknown", Value::Int(1))];
    assert_eq!(compute("utils.metric", &extra), "{'hit': [0.0], 'options': True}");
    assert_eq!(compute("utils.positional", &extra), "[['a'], ['b'], ['ignore_case', 'unknown']]");
    assert_eq!(compute("utils.pair", &[]), "['a', 'b']");
    let aggregation = host.aggregation(&folder.function("utils.flat_mean")).unwrap();
    let flags = |flags: [i64; 2]| Value::list(flags.map(Value::Int));
    assert_eq!(repr(&aggregation.aggregate(&[flags([1, 0]), flags([1, 1])]).unwrap()), "0.75");
    let reduction = host.reduction(&folder.function("utils.best")).unwrap();
    let reduced = reduction.reduce(&Value::str("gold"), &[Value::Int(1), Value::Int(3)]).unwrap();
    assert_eq!(repr(&reduced), "{'best': 3, 'reference': 'gold'}");
    assert!(
        message_and_traceback(host.metric(&folder.function("utils.value")).unwrap_err())
            .0
            .contains("not a function")
    );
}

#[test]
fn filters_are_functions_or_classes() {
    let folder = Folder::new(UTILS);
    let documents = MemoryDocuments::with_columns(vec!["q".into()], vec![asked(0), asked(1)]);
    let ids = [DocId(0), DocId(0), DocId(1)];
    let docs = FilterDocs::new(&documents, &ids);
    let answers = || ["a", "b", "c"].map(|text| vec![Value::str(text)]).to_vec();
    let bare = answers().into_iter().map(Value::from).collect();
    let filtered = folder.host.call_filter(&folder.function("utils.prepend"), bare, &docs).unwrap();
    assert_eq!(repr(&Value::from(filtered)), "[['whya'], ['whyb'], ['whyc']]");
    let kwargs: Dict = [(Value::str("suffix"), Value::str("!"))].into_iter().collect();
    let filter = folder.host.filter_of_class(&folder.function("utils.Upper"), &kwargs).unwrap();
    let filtered = filter.apply(answers(), &docs).unwrap();
    assert_eq!(filtered.responses, ["A!", "B!", "C!"].map(|text| vec![Value::str(text)]));
    let wrong: Dict = [(Value::str("other"), Value::None)].into_iter().collect();
    assert!(folder.host.filter_of_class(&folder.function("utils.Upper"), &wrong).is_err());
    assert!(folder.host.check_filter(&folder.function("utils.prepend")).is_ok());
    assert!(folder.host.check_filter(&folder.function("utils.absent")).is_err());
}

#[test]
fn loads_documents_from_functions() {
    let folder = Folder::new(UTILS);
    let samples = folder.host.documents(&folder.function("utils.samples")).unwrap();
    assert_eq!((samples.len(), samples.columns()), (2, &["q".to_owned()][..]));
    let kwargs = document([("size", Value::Int(3)), ("version", Value::Float(1.0))]);
    let splits = folder.host.custom_dataset(&folder.function("utils.data"), &kwargs).unwrap();
    let test = Splits::split(&*splits, "test").unwrap();
    assert_eq!(repr(&Value::Dict(test.get(2).unwrap())), "{'n': 2, 'version': 1.0}");
    assert_eq!(splits.split("train").unwrap().len(), 1);
    assert!(splits.split("other").is_err());
}
