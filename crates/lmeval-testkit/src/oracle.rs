//! Python processes that differential tests compare with.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running script of `tests/oracle/`, which answers each line of input with one line of output.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts `tests/oracle/SCRIPT`.
    ///
    /// # Panics
    ///
    /// If Python does not start.
    pub fn start(python: &Path, script: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle");
        let mut process = Command::new(python)
            .args(["-W", "ignore"])
            .arg(folder.join(script))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("`{}` does not start: {error}", python.display()));
        let input = process.stdin.take().expect("stdin is piped");
        let output = BufReader::new(process.stdout.take().expect("stdout is piped"));
        Self { process, input, output }
    }

    /// Sends one line. Many lines that are not read back can block; use [`Oracle::ask_all`] for a batch.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn send(&mut self, line: &str) {
        send(&mut self.input, line);
    }

    /// Waits for the next line of output.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn receive(&mut self) -> String {
        receive(&mut self.output)
    }

    /// Sends one line and waits for its answer.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.receive()
    }

    /// Sends a batch and collects one answer per line, while the calling thread runs `work`.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn ask_all<T>(&mut self, lines: &[String], work: impl FnOnce() -> T) -> (Vec<String>, T) {
        let (input, output) = (&mut self.input, &mut self.output);
        // Writes and reads overlap, since a batch may be larger than the buffers of both pipes.
        std::thread::scope(|scope| {
            scope.spawn(move || lines.iter().for_each(|line| send(input, line)));
            let answers = scope.spawn(move || lines.iter().map(|_| receive(output)).collect());
            let result = work();
            (answers.join().expect("the oracle answered"), result)
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Without this, a failing test would wait for the script to notice the end of its input.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send(input: &mut ChildStdin, line: &str) {
    let written = input.write_all(format!("{line}\n").as_bytes());
    written.unwrap_or_else(|error| panic!("The oracle does not read: {error}"));
}

fn receive(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    let length =
        output.read_line(&mut line).unwrap_or_else(|error| panic!("The oracle does not answer: {error}"));
    assert!(length > 0, "The oracle ended without an answer");
    line
}
