//! The Python process that knows what PyYAML makes of a document.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(super) struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    pub(super) fn start(python: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/yaml_values.py");
        let mut child =
            Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Sends a batch; the process reads all of it before it answers.
    pub(super) fn ask(&mut self, texts: &[String]) {
        let mut line = serde_json::to_vec(texts).unwrap();
        line.push(b'\n');
        self.input.write_all(&line).unwrap();
    }

    /// The typed forms of the batch that was sent, `None` for a document that does not load.
    pub(super) fn answer(&mut self) -> Vec<Option<String>> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(super) fn finish(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}
