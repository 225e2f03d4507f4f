//! The Python process that renders templates with Jinja2.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lmeval_pycompat::json::{Options, dumps, loads};
use lmeval_pycompat::{Dict, Value};

use super::{Documents, Outcome};

/// A template to render, with its own document or the shared one.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) template: String,
    pub(super) chat: bool,
    pub(super) document: Option<Dict>,
}

impl Case {
    fn line(&self) -> String {
        let template = Value::from(self.template.as_str());
        let mut request: Dict =
            [(Value::from("template"), template), (Value::from("chat"), Value::Bool(self.chat))]
                .into_iter()
                .collect();
        if let Some(document) = &self.document {
            request.insert("doc", Value::from(document.clone()));
        }
        dumps(&Value::from(request), &Options::default()).unwrap() + "\n"
    }
}

pub(super) struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    pub(super) fn start(python: &Path, documents: &Documents) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/jinja.py");
        let mut command = Command::new(python);
        let mut child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let shared = Value::dict([
            ("doc", Value::from(documents.prompt.clone())),
            ("chat", Value::from(documents.chat.clone())),
        ]);
        writeln!(input, "{}", dumps(&shared, &Options::default()).unwrap()).unwrap();
        Self { child, input, output }
    }

    /// Renders templates with Jinja2 while running a closure.
    pub(super) fn render_while<T>(&mut self, cases: &[Case], run: impl FnOnce() -> T) -> (Vec<Outcome>, T) {
        let lines: String = cases.iter().map(Case::line).collect();
        let (input, output) = (&mut self.input, &mut self.output);
        // Write and read concurrently: neither pipe holds a full batch.
        std::thread::scope(|scope| {
            scope.spawn(move || {
                input.write_all(lines.as_bytes()).unwrap();
                input.flush().unwrap();
            });
            let answers = scope.spawn(move || cases.iter().map(|_| receive(output)).collect());
            let result = run();
            (answers.join().unwrap(), result)
        })
    }

    pub(super) fn ask(&mut self, case: &Case) -> Outcome {
        self.input.write_all(case.line().as_bytes()).unwrap();
        self.input.flush().unwrap();
        receive(&mut self.output)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It exits when its input ends, but a failing test does not wait for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the next answer.
fn receive(output: &mut BufReader<ChildStdout>) -> Outcome {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let answer = loads(&line).expect("the oracle answers");
    let answer = answer.as_dict().unwrap();
    let text = |key: &str| answer.get_str(key).and_then(Value::as_str).map(str::to_owned);
    match text("out") {
        Some(out) => Outcome::Text(out),
        None => Outcome::failure(&text("error").unwrap(), text("text").unwrap()),
    }
}
