//! Output on real pseudo-terminals of several widths, created by `script` of util-linux.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::TestContext;

use crate::context;
use crate::server::{Server, TASK, documents};

const WIDTHS: [usize; 3] = [40, 80, 200];

/// A command in a terminal.
struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    columns: usize,
}

impl Terminal {
    fn start(context: &TestContext, columns: usize, arguments: &[String]) -> Self {
        Self::start_with(context, columns, arguments, "cat")
    }

    fn start_with(context: &TestContext, columns: usize, arguments: &[String], pager: &str) -> Self {
        let quoted: Vec<String> =
            arguments.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let call = format!(
            "stty cols {columns} rows 50; exec '{}' {}",
            env!("CARGO_BIN_EXE_lm-eval"),
            quoted.join(" ")
        );
        let mut child = Command::new("script")
            .args(["-qec", &call, "/dev/null"])
            .current_dir(context.work())
            .env("LM_EVAL_HOME", context.lm_eval_home())
            .env("TERM", "xterm-256color")
            .env("PAGER", pager)
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("`script` of util-linux is installed");
        let keyboard = child.stdin.take().unwrap();
        Self { child, keyboard, columns }
    }

    /// Presses Ctrl-C like a keyboard.
    fn press_ctrl_c(&mut self) {
        self.keyboard.write_all(b"\x03").unwrap();
        self.keyboard.flush().unwrap();
    }

    fn end(self) -> Shown {
        let output = self.child.wait_with_output().unwrap();
        drop(self.keyboard);
        let raw = String::from_utf8_lossy(&output.stdout).into_owned();
        Shown { status: output.status.code().unwrap(), columns: self.columns, raw }
    }
}

fn shown(context: &TestContext, columns: usize, words: &[&str]) -> Shown {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Terminal::start(context, columns, &words).end()
}

/// The output a terminal received.
struct Shown {
    status: i32,
    columns: usize,
    raw: String,
}

impl Shown {
    /// Every state of the status line.
    fn progress(&self) -> Vec<&str> {
        let drawn = self.raw.split("\x1b[?7l").skip(1);
        drawn.map(|rest| rest.split("\x1b[?7h").next().unwrap()).filter(|line| !line.is_empty()).collect()
    }

    /// The final screen: without cleared lines and styles.
    fn screen(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        let mut characters = self.raw.chars();
        while let Some(character) = characters.next() {
            match character {
                '\n' => lines.push(String::new()),
                '\r' => {}
                '\x1b' => {
                    let mut parameters = String::new();
                    let last = loop {
                        match characters.next() {
                            Some('[') => {}
                            Some(end) if end.is_ascii_alphabetic() => break end,
                            Some(parameter) => parameters.push(parameter),
                            None => break '\0',
                        }
                    };
                    if (parameters.as_str(), last) == ("2", 'K') {
                        lines.last_mut().unwrap().clear();
                    }
                }
                other => lines.last_mut().unwrap().push(other),
            }
        }
        lines
    }

    fn assert_fits(&self, line: &str) {
        assert!(line.chars().count() <= self.columns, "{} columns: {line:?}\n{}", self.columns, self.raw);
    }
}

fn numbers() -> TestContext {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    context
}

fn run_words(server: &Server) -> Vec<String> {
    let model_args =
        format!("model=m,base_url={},num_concurrent=1,max_retries=1,tokenizer_backend=None", server.url);
    ["run", "--model", "local-completions", "--model_args", &model_args, "--tasks", "numbers.yaml"]
        .into_iter()
        .chain(["--output_path", "out", "--fresh"])
        .map(str::to_owned)
        .collect()
}

#[test]
fn progress_fits_and_shows_the_time_left() {
    let context = numbers();
    for columns in WIDTHS {
        let server = Server::start(Duration::from_millis(150), None);
        let shown = Terminal::start(&context, columns, &run_words(&server)).end();
        assert_eq!(shown.status, 0, "{}", shown.raw);
        let progress = shown.progress();
        for line in &progress {
            // The last column stays free: some terminals wrap when it is written.
            assert!(line.chars().count() < columns, "{columns}: {line}");
        }
        assert!(progress.iter().any(|line| line.contains("/10") && line.ends_with(" left")), "{progress:?}");
        // The status line is gone in the end.
        assert!(!shown.screen().iter().any(|line| line.contains(" left")), "{}", shown.raw);
    }
}

#[test]
fn tables_fit() {
    let context = numbers();
    let long = "a_task_with_a_name_that_is_longer_than_most_terminals_are_wide_at_forty_columns";
    context.write("tasks/long.yaml", TASK.replace("task: numbers", &format!("task: {long}")));
    for columns in WIDTHS {
        let run = ["run", "--model", "uniform", "--tasks", "tasks/long.yaml,demo", "-L", "2", "-q"];
        let ls = ["ls", "tasks", "--include_path", "tasks"];
        for words in [&run[..], &ls, &["ls", "models"], &["ls", "metrics"]] {
            let shown = shown(&context, columns, words);
            assert_eq!(shown.status, 0, "{}", shown.raw);
            let screen = shown.screen();
            // The first line of a run shows the settings and is not a table.
            for line in screen.iter().skip(usize::from(words[0] == "run")) {
                shown.assert_fits(line);
            }
            if words[0] == "run" || words[1] == "tasks" {
                // Folded or not, every character of the name is present.
                let text: String = screen
                    .iter()
                    .map(|line| line.trim_start_matches('|').split('|').next().unwrap().trim())
                    .collect();
                assert!(text.contains(long), "{columns}: {}", shown.raw);
            }
        }
    }
}

#[test]
fn excerpts_of_files_fit() {
    let context = context();
    let value = "x".repeat(300);
    context.write("my.yaml", format!("task: my\ndoc_to_txt: \"{value}\" # {value}\n"));
    for columns in WIDTHS {
        let shown = shown(&context, columns, &["show", "my.yaml"]);
        assert_eq!(shown.status, 1, "{}", shown.raw);
        let screen = shown.screen();
        let excerpt: Vec<&String> =
            screen.iter().filter(|line| line.starts_with("2 |") || line.starts_with("  |")).collect();
        assert!(excerpt.iter().any(|line| line.contains("doc_to_txt")), "{}", shown.raw);
        for line in excerpt {
            shown.assert_fits(line);
        }
    }
}

#[test]
fn ctrl_c_clears_the_status_line() {
    let context = numbers();
    for columns in WIDTHS {
        let server = Server::start(Duration::from_millis(300), None);
        let mut terminal = Terminal::start(&context, columns, &run_words(&server));
        let begun = Instant::now();
        while server.requests() < 2 {
            assert!(begun.elapsed() < Duration::from_mins(1), "nothing was sent");
            thread::sleep(Duration::from_millis(5));
        }
        terminal.press_ctrl_c();
        let shown = terminal.end();
        assert_eq!(shown.status, 130, "{}", shown.raw);
        let screen = shown.screen().join("\n");
        assert!(screen.contains("Press Ctrl-C again to quit now"), "{}", shown.raw);
        assert!(screen.contains("Run the same command again"), "{}", shown.raw);
        assert!(!screen.contains("generate_until"), "{}", shown.raw);
        for line in shown.progress() {
            assert!(line.chars().count() < columns, "{columns}: {line}");
        }
    }
}

#[test]
fn shows_that_a_model_is_loading() {
    let context = numbers();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lmeval-candle/tests/fixtures/llama");
    let model_args =
        format!("pretrained={},device=cpu,max_length=600", model.canonicalize().unwrap().display());
    for columns in WIDTHS {
        let words = ["run", "--model", "hf", "--model_args", &model_args, "--tasks", "numbers.yaml"];
        let shown = shown(&context, columns, &words);
        assert_eq!(shown.status, 0, "{}", shown.raw);
        let progress = shown.progress();
        assert!(progress[0].starts_with("Loading the model `"), "{progress:?}");
        for line in &progress {
            assert!(line.chars().count() < columns, "{columns}: {line}");
        }
    }
}

/// Samples with text that would control the terminal or reverse what it shows.
fn hostile_samples() -> TestContext {
    let context = context();
    let sample = |id: usize| {
        format!(
            "{{\"doc_id\": {id}, \"doc\": {{}}, \"target\": \"x\", \"arguments\": {{\"gen_args_0\": {{\"arg_0\": \"Q\"}}}}, \"resps\": \
             [[\"\\u001b[31mred \u{202e}drawkcab\u{2069} \u{9b}2J\"]], \"filter\": \"none\", \"metrics\": [\"em\"], \"em\": 1}}\n"
        )
    };
    context.write("f.jsonl", (0..3).map(sample).collect::<String>());
    context
}

#[test]
fn documents_cannot_control_the_terminal() {
    let context = hostile_samples();
    for (format, escaped) in [
        ("table", "\\x1b[31mred \\u202edrawkcab\\u2069 \\x9b2J"),
        ("csv", "\\x1b[31mred \\u202edrawkcab\\u2069 \\x9b2J"),
        ("markdown", "\\x1b[31mred \\u202edrawkcab\\u2069 \\x9b2J"),
        ("jsonl", "\\u001b[31mred \\u202edrawkcab\\u2069 \\u009b2J"),
    ] {
        let shown = shown(&context, 200, &["samples", "f.jsonl", "--format", format]);
        assert_eq!(shown.status, 0, "{}", shown.raw);
        assert!(shown.raw.contains(escaped), "{format}: {}", shown.raw);
        assert!(!shown.raw.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{2069}']), "{format}: {}", shown.raw);
    }
}

#[test]
fn samples_are_shown_in_the_pager() {
    let context = hostile_samples();
    let words: Vec<String> = ["samples", "f.jsonl", "--wrong"].map(str::to_owned).into();
    let paged = |words: &[String], pager: &str| Terminal::start_with(&context, 80, words, pager).end();
    let shown = paged(&words[..2], "sed 's/^/> /'");
    assert_eq!(shown.status, 0, "{}", shown.raw);
    assert!(shown.raw.starts_with("> f document 0: right, em 1"), "{}", shown.raw);
    // A pager that is left early, one that is not installed, and none.
    let shown = paged(&words[..2], "true");
    assert_eq!((shown.status, shown.raw.as_str()), (0, ""));
    let shown = paged(&words[..2], "no-such-pager 2> /dev/null");
    assert!(shown.status == 1 && shown.raw.contains("--no-pager"), "{}", shown.raw);
    let plain = ["samples", "f.jsonl", "--no-pager"].map(str::to_owned);
    let shown = paged(&plain, "sed 's/^/> /'");
    assert!(shown.raw.starts_with("f document 0: right, em 1"), "{}", shown.raw);
    // Notes come after the pager.
    let shown = paged(&words, "sed 's/^/> /'");
    assert!(shown.raw.contains("None of 3 documents matches"), "{}", shown.raw);
}
