//! Functions that fail.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lmeval_core::Diagnose as _;
use lmeval_host::{PythonHost, PythonOptions};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::{Host, HostError};

use crate::support::{Folder, document, function, message_and_traceback, python, write};

const UTILS: &str = r#"
import ctypes, os, sys, time
def fine(doc):
    return os.getpid()
def raises(doc):
    raise ValueError("bad " + doc["q"])
def leaves(doc):
    sys.exit(3)
def wrong(doc):
    return object()
def surrogate(doc):
    return "\ud800"
def prints(doc):
    print("x" * 1_000_000)
    sys.stderr.write("y" * 1_000_000)
    os.write(1, b"z" * 1_000_000)
    return 1
def reads(doc):
    return sys.stdin.read()
def hangs(doc):
    open(doc["q"], "w").close()
    time.sleep(1000)
def sleeps(doc):
    time.sleep(1000)
def exits(doc):
    os._exit(7)
def crashes(doc):
    ctypes.string_at(0)
def forks(doc):
    os.fork()
    return doc["q"]
def starts(doc):
    import subprocess
    return subprocess.Popen(["sleep", "1000"]).pid
def allocates(doc):
    return len(bytearray(1 << 40))
def results(doc, results):
    if doc["q"] == "poison":
        os._exit(9)
    return {"a": 1}
def number(doc, results):
    return 5
"#;

fn asked() -> Arc<Dict> {
    document([("q", Value::str("why"))])
}

fn fault(folder: &Folder, name: &str) -> (String, String) {
    message_and_traceback(folder.host.call(&folder.function(name), &asked()).unwrap_err())
}

fn is_running(process: i64) -> bool {
    // A zombie has ended.
    let status = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn ends(process: i64) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_running(process) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    !is_running(process)
}

#[test]
fn exceptions_leave_worker_usable() {
    let folder = Folder::with(UTILS, |options| options.workers = 1);
    let process = || folder.host.call(&folder.function("utils.fine"), &asked()).unwrap();
    let before = process();
    let (message, traceback) = fault(&folder, "utils.raises");
    assert_eq!(message, "ValueError: bad why (document {'q': 'why'})");
    assert!(
        traceback.contains("utils.py\", line 6, in raises") && traceback.contains("bad why"),
        "{traceback}"
    );
    assert!(!traceback.contains("_worker.py"), "{traceback}");
    assert_eq!(fault(&folder, "utils.leaves").0, "SystemExit: 3 (document {'q': 'why'})");
    assert!(fault(&folder, "utils.wrong").0.contains("a value of type `object` cannot be sent"));
    assert!(fault(&folder, "utils.surrogate").0.starts_with("UnicodeEncodeError"));
    let prints = folder.host.call(&folder.function("utils.prints"), &asked()).unwrap();
    assert_eq!(prints, Value::Int(1));
    assert_eq!(folder.host.call(&folder.function("utils.reads"), &asked()).unwrap(), Value::str(""));
    assert_eq!(folder.host.call(&folder.function("utils.forks"), &asked()).unwrap(), Value::str("why"));
    let code = folder.host.process_results(&folder.function("utils.number")).unwrap();
    let error = code.process_results(&asked(), &[]).unwrap_err();
    assert!(
        error.to_string().contains("Expected a dictionary of values, found a value of type `int`"),
        "{error}"
    );
    assert_eq!(process(), before);
}

#[test]
fn reports_crash_and_recovers() {
    let folder = Folder::with(UTILS, |options| options.workers = 1);
    let (message, _) = fault(&folder, "utils.exits");
    assert_eq!(message, "Python ended with status 7 (document {'q': 'why'})");
    let (message, said) = fault(&folder, "utils.crashes");
    assert!(message.starts_with("Python crashed (signal 11"), "{message}");
    assert!(said.contains("in crashes"), "{said}");
    assert!(folder.host.call(&folder.function("utils.fine"), &asked()).is_ok());
}

#[test]
fn names_the_document_that_crashed() {
    let folder = Folder::new(UTILS);
    let code = folder.host.process_results(&folder.function("utils.results")).unwrap();
    let question = |number: usize| if number == 150 { "poison".to_owned() } else { format!("q{number}") };
    let calls: Vec<(Arc<Dict>, Vec<Value>)> =
        (0..300).map(|number| (document([("q", Value::from(question(number)))]), vec![])).collect();
    let (message, _) = message_and_traceback(code.process_many(&calls).unwrap_err());
    assert_eq!(message, "Python ended with status 9 (document {'q': 'poison'})");
    assert_eq!(code.process_many(&calls[..100]).unwrap().len(), 100);
}

#[test]
fn calls_time_out() {
    let folder = Folder::with(UTILS, |options| options.time_limit = Duration::from_millis(500));
    let started = Instant::now();
    let (message, _) = fault(&folder, "utils.sleeps");
    assert_eq!(message, "Timed out: no answer within 0.5 seconds (document {'q': 'why'})");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn abandoned_call_names_the_culprit() {
    let folder = Folder::with(UTILS, |options| {
        options.workers = 1;
        options.time_limit = Duration::from_secs(4);
    });
    let mark = folder.folder.path().join("called");
    let hung = document([("q", Value::str(mark.to_str().unwrap()))]);
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| folder.host.call(&folder.function("utils.hangs"), &hung).unwrap_err());
        while !mark.exists() && !first.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let second = folder.host.call(&folder.function("utils.fine"), &asked()).unwrap_err();
        (first.join().unwrap(), second)
    });
    assert!(!HostError::is_abandoned(&first) && HostError::is_abandoned(&second), "{first}; {second}");
    assert_eq!(
        second.to_string(),
        "The function `utils.fine` was not called because `utils.hangs` timed out after 4 seconds"
    );
}

#[test]
fn limits_memory() {
    let folder = Folder::with(UTILS, |options| options.memory_limit = Some(4 << 30));
    assert!(fault(&folder, "utils.allocates").0.starts_with("MemoryError"));
}

#[test]
fn leaves_no_processes() {
    let folder = Folder::new(UTILS);
    let call = |name: &str| folder.host.call(&folder.function(name), &asked()).unwrap().as_i64().unwrap();
    let (worker, child) = (call("utils.fine"), call("utils.starts"));
    assert!(is_running(worker) && is_running(child));
    drop(folder);
    assert!(ends(worker), "the worker still runs");
    assert!(ends(child), "a child process of a function still runs");
}

#[test]
fn nothing_starts_before_the_first_call() {
    let host =
        PythonHost::new(PythonOptions { python: Some("/no/such/python".into()), ..PythonOptions::default() });
    let error = host.call(&function(Path::new("/"), "utils.f"), &asked()).unwrap_err();
    assert_eq!(error.hints(), ["Select an interpreter with `--python`"]);
    let HostError::Failed { message, .. } = error else { panic!("{error}") };
    assert!(message.starts_with("Cannot start Python `/no/such/python`: "), "{message}");
}

#[test]
fn ignores_missing_virtual_environment() {
    let folder = Folder::with(UTILS, |options| {
        options.python = None;
        options.virtual_env = Some(PathBuf::from("/no/such/environment"));
    });
    assert!(folder.host.call(&folder.function("utils.fine"), &asked()).is_ok());
}

/// The environment variable with the folder of [`waits_to_be_killed`].
const KILLED: &str = "LMEVAL_HOST_TEST_KILLED";

/// An engine that [`workers_end_with_a_killed_engine`] kills while a function runs.
#[test]
#[ignore = "part of another test"]
fn waits_to_be_killed() {
    let Some(path) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    let host =
        PythonHost::new(PythonOptions { python: Some(python()), workers: 1, ..PythonOptions::default() });
    let _ = host.call(&function(&path, "utils.sleeps"), &asked());
}

#[test]
fn workers_end_with_a_killed_engine() {
    let folder = tempfile::tempdir().unwrap();
    let utils = "import os, time\ndef sleeps(doc):\n    with open(os.path.join(os.path.dirname(__file__), 'pid'), 'w') as file:\n        file.write(f'{os.getpid()}.')\n    time.sleep(1000)\n";
    write(folder.path(), "utils.py", utils);
    let mut engine = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "faults::waits_to_be_killed"])
        .env(KILLED, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let worker = loop {
        let message_and_traceback = fs_err::read_to_string(folder.path().join("pid")).unwrap_or_default();
        if let Some(process) = message_and_traceback.strip_suffix('.') {
            break process.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "the function was not called");
        std::thread::sleep(Duration::from_millis(20));
    };
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert!(ends(worker), "the worker still runs");
}

#[test]
fn rejects_old_interpreter() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    // The test interpreter, pretending to be 3.8.
    write(
        folder.path(),
        "python",
        "#!/bin/sh\nexec python3 -c \"import sys; sys.version_info = (3, 8, 0); exec(sys.argv[1])\" \"$3\"\n",
    );
    let python = folder.path().join("python");
    fs_err::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let host = PythonHost::new(PythonOptions { python: Some(python), ..PythonOptions::default() });
    let error = host.call(&function(folder.path(), "utils.f"), &asked()).unwrap_err();
    assert!(error.to_string().contains("Python 3.10 or newer is required"), "{error}");
    assert!(error.to_string().contains("Python 3.8 is too old"), "{error}");
}

#[test]
fn reports_syntax_error() {
    let folder = Folder::new("def f(doc):\n    return (\n");
    let (message, traceback) = fault(&folder, "utils.f");
    assert!(message.starts_with("SyntaxError: '(' was never closed"), "{message}");
    assert!(traceback.contains("utils.py\", line 2"), "{traceback}");
}
