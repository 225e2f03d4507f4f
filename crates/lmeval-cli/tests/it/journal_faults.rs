//! Damaged journals and servers that misreport their model.

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};

use crate::long_run::{arguments, outcome, undisturbed, write_task};

/// Faulty responses of `/v1/models`.
pub(crate) const ODD_MODELS: [(u16, &str); 5] = [
    (200, "<html><body>Login</body></html>"),
    (404, r#"{"detail": "Not Found"}"#),
    (200, r#"{"object": "list", "data": []}"#),
    (500, r#"{"error": "trouble"}"#),
    (200, ""),
];

const DOCUMENTS: usize = 30;

/// A finished run, and the arguments to repeat it.
fn finished() -> (TestContext, StandInServer, Vec<String>) {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    let server = StandInServer::start(ServerOptions::default());
    let arguments = arguments(&server, ",retry_wait=0.005");
    let output = run(&context, &arguments);
    assert_eq!(output.status, 0, "{output}");
    server.reset();
    (context, server, arguments)
}

fn run(context: &TestContext, arguments: &[String]) -> lmeval_testkit::Output {
    context.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn assumes_the_same_model_if_the_server_reports_none() {
    let (context, server, arguments) = finished();
    let mut documents = DOCUMENTS;
    for odd in ODD_MODELS {
        server.set_models(Some(odd));
        // The server is asked because one answer is missing.
        documents += 1;
        write_task(&context, documents);
        server.reset();
        let output = run(&context, &arguments);
        assert_eq!(output.status, 0, "{odd:?}: {output}");
        assert_eq!(server.total(), 1, "{odd:?}");
        assert!(output.stderr.contains("warning: The server does not report which model"), "{output}");
        assert!(output.stderr.contains("`stand-in`"), "{output}");
    }
    server.set_models(None);
    server.reset();
    let output = run(&context, &arguments);
    assert!(output.status == 0 && !output.stderr.contains("warning"), "{output}");
    assert_eq!(server.total(), 0);
    // A server that reports another model is believed.
    server.set_models(Some((200, r#"{"data": [{"id": "another"}]}"#)));
    write_task(&context, documents + 1);
    assert_eq!(run(&context, &arguments).status, 0);
    assert_eq!(server.total(), documents + 1);
}

#[test]
fn reuses_answers_of_a_server_that_never_reports_its_model() {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    let server = StandInServer::start(ServerOptions::default());
    server.set_models(Some(ODD_MODELS[1]));
    let arguments = arguments(&server, ",retry_wait=0.005");
    for asked in [DOCUMENTS, 0] {
        server.reset();
        let output = run(&context, &arguments);
        assert_eq!(output.status, 0, "{output}");
        assert_eq!(server.total(), asked);
        assert!(!output.stderr.contains("warning"), "{output}");
    }
}

#[test]
fn damage_loses_only_the_affected_answers() {
    let (context, server, arguments) = finished();
    let path = context.work().join("out/m/answers.journal");
    let whole = fs_err::read(&path).unwrap();
    // Damage in the header loses nothing; damage in a record loses its answer.
    for (at, asked) in [(3, 0), (9, 0), (14, 0), (whole.len() / 2, 1), (whole.len() * 3 / 4, 1)] {
        server.reset();
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        fs_err::write(&path, damaged).unwrap();
        let output = run(&context, &arguments);
        assert_eq!(output.status, 0, "{output}");
        assert!(output.stderr.contains("warning: The journal is damaged: 1 part, "), "{output}");
        assert!(output.stderr.contains("lm-eval journal verify"), "{output}");
        assert_eq!(server.total(), asked, "byte {at}");
        assert!(outcome(&context.work().join("out")) == undisturbed(DOCUMENTS), "the results differ");
    }
}

#[test]
fn removes_files_of_killed_runs() {
    let (context, _server, arguments) = finished();
    let left = [".samples_other.jsonl.part", ".results_2026-01-01T00-00-00.json.4711.part"];
    for name in left {
        context.write(format!("out/m/{name}"), "half");
    }
    context.write("out/m/answers.journal.compact", "half");
    assert_eq!(run(&context, &arguments).status, 0);
    for name in left.iter().chain(&["answers.journal.compact"]) {
        assert!(!context.work().join("out/m").join(name).exists(), "{name}");
    }
}
