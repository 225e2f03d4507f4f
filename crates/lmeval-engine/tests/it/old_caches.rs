//! Import of caches written by Python.

use std::path::Path;
use std::process::Command;

use lmeval_core::{Diagnose as _, Finish, ModelIdentity, RequestType, Response};
use lmeval_engine::EngineError;
use lmeval_host::{PythonHost, PythonOptions};
use lmeval_journal::{Fingerprint, Imported, Journal, Key, export, list, old_caches, request_hash};
use lmeval_pycompat::{Dict, Value};
use lmeval_testkit::{Dice, fuzz_seed};

fn identity(name: &str) -> ModelIdentity {
    ModelIdentity { backend: "test".into(), facts: vec![("model", name.into())] }
}

/// Imports a cache with the Python interpreter of the tests.
fn import(journal: &Journal, path: &Path, model: Fingerprint) -> Result<Imported, EngineError> {
    let python = Some(lmeval_testkit::python());
    let host = PythonHost::new(PythonOptions { python, ..PythonOptions::default() });
    journal.import(host.old_cache(path)?.map(|row| row.map_err(EngineError::from)), model)
}

fn run(python: &Path, script: &str, folder: &Path) {
    let output = Command::new(python).args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run_python(script: &str, folder: &Path) {
    run(&lmeval_testkit::python(), script, folder);
}

fn get(
    journal: &Journal,
    model: Fingerprint,
    method: &str,
    args: &[Value],
    kind: RequestType,
) -> Option<Response> {
    let key = Key::new(model, &request_hash(method, args).unwrap(), 0, None);
    journal.get(&key, kind).unwrap().map(|answer| {
        assert_eq!(answer.finish, Finish::Complete);
        answer.response
    })
}

/// Rows of many sizes, and a function that writes databases.
const ROWS: &str = r#"
import hashlib, json, pickle, sqlite3
def key(*request): return hashlib.sha256(json.dumps(list(request)).encode()).hexdigest()
def make(name, page_size, rows, protocol, wal=False, encoding="UTF-8"):
    connection = sqlite3.connect(name)
    connection.execute(f"PRAGMA encoding = '{encoding}'")
    connection.execute(f"PRAGMA page_size = {page_size}")
    if wal: connection.execute("PRAGMA journal_mode = WAL")
    connection.execute('CREATE TABLE other (a, b)')
    connection.execute('CREATE TABLE "unnamed" (key TEXT PRIMARY KEY, value BLOB)')
    connection.executemany("INSERT INTO other VALUES (?, ?)", [(i, "x" * i) for i in range(100)])
    connection.executemany('REPLACE INTO "unnamed" VALUES (?, ?)',
        [(k, sqlite3.Binary(pickle.dumps(v, protocol))) for k, v in rows])
    connection.commit()
    return connection
rows = [(key("generate_until", "p", i), "é" + "y" * i) for i in range(0, 3000, 7)]
rows += [(key("generate_until", "p", 100_000), "z" * 1_000_000)]
rows += [(key("loglikelihood", "p", str(i)), (-i / 7, i % 2 == 0)) for i in range(50)]
rows += [(key("loglikelihood", "odd", "int"), (0, True)), (key("loglikelihood", "odd", "none"), (-1.0, None)),
    (key("loglikelihood", "odd", "infinite"), (float("-inf"), False)),
    (key("loglikelihood", "odd", "big"), (-(2 ** 62), 1)),
    (key("loglikelihood_rolling", "odd", "float"), -2.5)]
rows += [(key("odd", 1), None), (key("odd", 2), [1.0, True]), (key("odd", 3), {"a": 1}), (key("odd", 4), (1.0, True, 2)),
    (key("odd", 5), (None, None)), (key("odd", 6), "\ud800"), (key("odd", 7), b"bytes"), (key("odd", 8), (True, True)),
    ("not a hash", "text"), (key("odd", 9), 3)]
"#;

/// Databases with all page sizes, and some that are rejected.
const DATABASES: &str = r#"
for page_size in [512, 1024, 4096, 65536]:
    for protocol in [2, 3, 4, 5]:
        make(f"{page_size}-{protocol}.db", page_size, rows, protocol).close()
many = [(key("loglikelihood", "many", str(i)), (-i / 3, False)) for i in range(20_000)]
make("many.db", 1024, many, 5).close()
make("closed.db", 4096, rows[:10], 5, wal=True).close()
open_one = make("open.db", 4096, rows[:10], 5, wal=True)
import os, shutil
for suffix in ["", "-wal"]: shutil.copy("open.db" + suffix, "left.db" + suffix)
connection = sqlite3.connect("tables.db")
connection.execute("CREATE TABLE one (a)"); connection.execute("CREATE TABLE two (a)"); connection.commit()
make("utf16.db", 4096, rows, 5, encoding="UTF-16").close()
"#;

#[test]
fn reads_databases_written_by_python() {
    let folder = tempfile::tempdir().unwrap();
    run_python(&[ROWS, DATABASES].concat(), folder.path());
    let (journal, _) = Journal::open(&folder.path().join("a.journal")).unwrap();
    let text = |text: &str| Value::str(text);
    for page_size in [512, 1024, 4096, 65536] {
        for protocol in 2..=5 {
            let name = format!("{page_size}-{protocol}.db");
            let model = journal.register_model(&identity(&name)).unwrap();
            let path = folder.path().join(&name);
            let imported = import(&journal, &path, model).unwrap();
            assert_eq!((imported.answers, imported.known, imported.skipped), (485, 0, 10), "{name}");
            for length in (0..3000).step_by(7).chain([100_000]) {
                let args = [text("p"), Value::Int(length)];
                let found = get(&journal, model, "generate_until", &args, RequestType::GenerateUntil);
                let expected = match length {
                    100_000 => "z".repeat(1_000_000),
                    length => format!("é{}", "y".repeat(length as usize)),
                };
                assert_eq!(found, Some(Response::Text(expected.into())));
            }
            let pair = |method: &str, context: &str, continuation: &str, kind| {
                get(&journal, model, method, &[text(context), text(continuation)], kind)
            };
            use RequestType::{Loglikelihood, LoglikelihoodRolling};
            for number in 0..50_u32 {
                let (logprob, is_greedy) = (-f64::from(number) / 7.0, number.is_multiple_of(2));
                let found = pair("loglikelihood", "p", &number.to_string(), Loglikelihood);
                let Some(Response::Loglikelihood { logprob: found, is_greedy: greedy }) = found else {
                    panic!("{found:?}")
                };
                // `-0 / 7` is positive in Python.
                assert_eq!((found, greedy), (logprob, is_greedy));
            }
            let likely = |logprob, is_greedy| Some(Response::Loglikelihood { logprob, is_greedy });
            assert_eq!(pair("loglikelihood", "odd", "int", Loglikelihood), likely(0.0, true));
            assert_eq!(
                pair("loglikelihood", "odd", "infinite", Loglikelihood),
                likely(f64::NEG_INFINITY, false)
            );
            assert_eq!(pair("loglikelihood", "odd", "big", Loglikelihood), likely(-(2_f64.powi(62)), true));
            assert_eq!(pair("loglikelihood", "odd", "none", Loglikelihood), None);
            let rolling = pair("loglikelihood_rolling", "odd", "float", LoglikelihoodRolling);
            assert_eq!(rolling, Some(Response::Rolling { logprob: -2.5 }));
        }
    }
    let model = journal.register_model(&identity("many")).unwrap();
    let path = folder.path().join("many.db");
    assert_eq!(import(&journal, &path, model).unwrap().answers, 20_000);
    let again = import(&journal, &path, model).unwrap();
    assert_eq!((again.answers, again.known), (0, 20_000));
    for number in 0..20_000 {
        let args = [text("many"), Value::str(number.to_string())];
        let found = get(&journal, model, "loglikelihood", &args, RequestType::Loglikelihood);
        assert_eq!(
            found,
            Some(Response::Loglikelihood { logprob: -f64::from(number) / 3.0, is_greedy: false })
        );
    }
    let imported = import(&journal, &folder.path().join("closed.db"), model).unwrap();
    assert_eq!(imported.answers, 10);
    let refuse = |name: &str| import(&journal, &folder.path().join(name), model).unwrap_err().to_string();
    // Rows that are only in the write-ahead log of an unclosed cache are read too, and the log is not changed.
    let log = fs_err::read(folder.path().join("left.db-wal")).unwrap();
    assert!(!log.is_empty());
    let unclosed = journal.register_model(&identity("unclosed")).unwrap();
    assert_eq!(import(&journal, &folder.path().join("left.db"), unclosed).unwrap().answers, 10);
    assert_eq!(fs_err::read(folder.path().join("left.db-wal")).unwrap(), log);
    let wide = journal.register_model(&identity("wide")).unwrap();
    assert_eq!(import(&journal, &folder.path().join("utf16.db"), wide).unwrap().answers, 485);
    assert!(refuse("tables.db").ends_with("which response caches have; tables: `one`, `two`"));
    assert!(refuse("a.journal").ends_with("file is not a database"));
    assert!(refuse("none.db").ends_with("unable to open database file"));
    assert!(!folder.path().join("none.db").exists());
}

/// Fills a cache with the reference harness.
const REFERENCE: &str = r#"
import pathlib
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM
class Model(LM):
    def loglikelihood(self, requests): return [(-len(r.args[0]) / 3, len(r.args[1]) % 2 == 0) for r in requests]
    def loglikelihood_rolling(self, requests): return [-len(r.args[0]) / 7 for r in requests]
    def generate_until(self, requests): return [r.args[0] * 40 for r in requests]
model = CachingLM(Model(), "caches/old_rank0.db")
make = lambda kind, args: Instance(request_type=kind, doc={}, arguments=args, idx=0)
model.loglikelihood([make("loglikelihood", ("Frage " * i, " ja" * (i % 3))) for i in range(1, 200)])
model.loglikelihood_rolling([make("loglikelihood_rolling", ("täxt " * i,)) for i in range(1, 100)])
model.generate_until([make("generate_until", ("dé\n" * i, {"until": ["\n\n"], "temperature": 0.0})) for i in range(1, 100)])
model.dbdict.close()
"#;

#[test]
fn reference_caches_answer_requests() {
    let folder = tempfile::tempdir().unwrap();
    let Some(reference) = lmeval_testkit::test_environment() else { return };
    run(&reference, REFERENCE, folder.path());
    let caches = old_caches(&folder.path().join("caches/old"));
    assert_eq!(caches, [folder.path().join("caches/old_rank0.db")]);
    let path = folder.path().join("a.journal");
    let (journal, _) = Journal::open(&path).unwrap();
    let model = journal.register_model(&identity("a")).unwrap();
    let imported = import(&journal, &caches[0], model).unwrap();
    assert_eq!((imported.answers, imported.skipped), (397, 0));
    for number in 1..200_usize {
        let (context, continuation) = ("Frage ".repeat(number), " ja".repeat(number % 3));
        let found = get(
            &journal,
            model,
            "loglikelihood",
            &[Value::str(context.as_str()), Value::str(continuation.as_str())],
            RequestType::Loglikelihood,
        );
        let logprob = -(context.len() as f64) / 3.0;
        assert_eq!(found, Some(Response::Loglikelihood { logprob, is_greedy: continuation.len() % 2 == 0 }));
    }
    for number in 1..100_usize {
        let text = "täxt ".repeat(number);
        let logprob = -((5 * number) as f64) / 7.0;
        let args = [Value::str(text)];
        let found = get(&journal, model, "loglikelihood_rolling", &args, RequestType::LoglikelihoodRolling);
        assert_eq!(found, Some(Response::Rolling { logprob }));
        let prompt = "dé\n".repeat(number);
        let mut kwargs = Dict::new();
        kwargs.insert("until", Value::list([Value::str("\n\n")]));
        kwargs.insert("temperature", 0.0);
        let args = [Value::str(prompt.as_str()), Value::from(kwargs)];
        let found = get(&journal, model, "generate_until", &args, RequestType::GenerateUntil);
        assert_eq!(found, Some(Response::Text(prompt.repeat(40).into())));
    }
    // Another model gets no answers.
    let other = Fingerprint::of(&identity("b"));
    let args = [Value::str("täxt ")];
    assert_eq!(get(&journal, other, "loglikelihood_rolling", &args, RequestType::LoglikelihoodRolling), None);
    journal.close().unwrap();
    let listing = list(&path).unwrap();
    assert_eq!((listing.models[0].answered, listing.models[0].tasks[0].task.as_deref()), (397, None));
    let mut output = Vec::new();
    assert_eq!(export(&path, &mut output).unwrap().answers, 397);
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains(r#""task": null, "doc_id": null, "idx": null, "repeat": 0, "type": null, "#));
}

#[test]
fn damaged_databases_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    run_python(&[ROWS, r#"make("damaged.db", 512, rows, 5).close()"#].concat(), folder.path());
    let path = folder.path().join("damaged.db");
    let whole = fs_err::read(&path).unwrap();
    let (journal, _) = Journal::open(&folder.path().join("a.journal")).unwrap();
    let mut dice = Dice::new(fuzz_seed(3));
    let (mut refused, mut read) = (0, 0);
    for round in 0..60_u32 {
        let mut damaged = whole.clone();
        if round.is_multiple_of(3) {
            damaged.truncate(dice.roll(whole.len()));
        }
        for _ in 0..dice.roll(200) {
            // The first pages hold the schema and the root.
            let limit = if dice.roll(2) == 0 { damaged.len().min(4096) } else { damaged.len() };
            if limit > 0 {
                damaged[dice.roll(limit)] = dice.roll(256) as u8;
            }
        }
        fs_err::write(&path, &damaged).unwrap();
        let model = journal.register_model(&identity(&round.to_string())).unwrap();
        match import(&journal, &path, model) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 20, "{refused} refused, {read} read");
}

#[test]
fn pickles_do_not_run_code() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = r#"
class Hostile:
    def __reduce__(self): return (open, ("called", "w"))
make("hostile.db", 4096, rows[:3] + [(key("odd", 20), Hostile()), (key("odd", 21), "x")], 2).close()
"#;
    run_python(&[ROWS, hostile].concat(), folder.path());
    let (journal, _) = Journal::open(&folder.path().join("a.journal")).unwrap();
    let model = journal.register_model(&identity("a")).unwrap();
    let imported = import(&journal, &folder.path().join("hostile.db"), model).unwrap();
    assert_eq!((imported.answers, imported.skipped), (4, 1));
    assert!(!folder.path().join("called").exists() && !Path::new("called").exists());
}

#[test]
fn missing_python_is_named() {
    let host =
        PythonHost::new(PythonOptions { python: Some("no-such-python".into()), ..PythonOptions::default() });
    let error = EngineError::from(host.old_cache(Path::new("old_rank0.db")).unwrap_err());
    assert_eq!(error.hints(), ["Select an interpreter with `--python`"]);
    let error = error.to_string();
    assert!(
        error.starts_with("Cannot import `old_rank0.db`: Cannot start Python `no-such-python`"),
        "{error}"
    );
}
