//! Resolution of function references.

use lmeval_core::Diagnose as _;
use lmeval_host::{PythonHost, PythonOptions};
use lmeval_pycompat::Value;
use lmeval_scoring::Host;

use crate::support::{document, function, message_and_traceback, python, write};

#[test]
fn folders_have_separate_modules() {
    let root = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        let utils = "import helper\nfrom .beside import NAME\ndef who(doc):\n    import late\n    return [helper.NAME, NAME, late.NAME]\n";
        write(root.path(), &format!("{name}/utils.py"), utils);
        for module in ["helper", "beside", "late"] {
            write(root.path(), &format!("{name}/{module}.py"), &format!("NAME = '{module} of {name}'\n"));
        }
    }
    let host =
        PythonHost::new(PythonOptions { python: Some(python()), workers: 1, ..PythonOptions::default() });
    for name in ["one", "two", "one", "two"] {
        let who = host.call(&function(&root.path().join(name), "utils.who"), &document([])).unwrap();
        let expected = ["helper", "beside", "late"].map(|module| Value::str(format!("{module} of {name}")));
        assert_eq!(who, Value::list(expected));
    }
}

#[test]
fn finds_packages_and_libraries() {
    let root = tempfile::tempdir().unwrap();
    let tasks = root.path().join("lm_eval/tasks");
    write(
        &tasks,
        "one/utils.py",
        "from lm_eval.tasks.two.deep.utils import double\nfrom .more import three\ndef f(doc):\n    return double(three)\n",
    );
    write(&tasks, "one/more.py", "three = 3\n");
    write(&tasks, "two/deep/utils.py", "def double(n):\n    return 2 * n\ndef g(doc):\n    return 'g'\n");
    let host =
        PythonHost::new(PythonOptions { python: Some(python()), workers: 1, ..PythonOptions::default() });
    let call =
        |folder: &str, reference: &str| host.call(&function(&tasks.join(folder), reference), &document([]));
    assert_eq!(call("one", "utils.f").unwrap(), Value::Int(6));
    assert_eq!(call("two", "deep.utils.g").unwrap(), Value::str("g"));
    assert_eq!(call("two", "deep/utils.g").unwrap(), Value::str("g"));
    assert_eq!(call("one", "lm_eval.tasks.two.deep.utils.g").unwrap(), Value::str("g"));
    assert_eq!(call("one", "builtins.len").unwrap(), Value::Int(0));
    let error = call("one", "absent.f").unwrap_err();
    assert!(error.hints()[0].contains("pip install absent`"), "{:?}", error.hints());
    let (message, _) = message_and_traceback(error);
    assert_eq!(message, "ModuleNotFoundError: No module named 'absent' (document {})");
    // Installing an existing package would not help.
    let error = call("one", "json.absent.f").unwrap_err();
    assert!(error.hints().is_empty(), "{:?}", error.hints());
    let (message, _) = message_and_traceback(error);
    assert_eq!(message, "ModuleNotFoundError: No module named 'json.absent' (document {})");
    let (message, _) = message_and_traceback(call("one", "utils.absent").unwrap_err());
    assert!(message.starts_with("AttributeError: "), "{message}");
    let (message, _) = message_and_traceback(call("one", "nodot").unwrap_err());
    assert!(message.starts_with("ValueError: "), "{message}");
}
