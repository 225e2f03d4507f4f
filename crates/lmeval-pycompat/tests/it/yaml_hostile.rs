//! Documents designed to exhaust the reader: each results in a value or in an error with a position, in linear time and
//! on a small stack.

use std::fmt::Write;
use std::time::{Duration, Instant};

use lmeval_pycompat::yaml::ErrorKind::{Composer, Constructor, Limit, Parser, Scanner};
use lmeval_pycompat::yaml::{self, ErrorKind, Loader};
use lmeval_testkit::thread_time;

const MEGABYTE: usize = 1 << 20;

/// Generates a document of roughly a given size.
type Make = fn(usize) -> String;

fn repeated(piece: &str, size: usize) -> String {
    piece.repeat(size / piece.len())
}

/// Lines written by a function of their index, up to a size.
fn numbered(size: usize, line: fn(usize, &mut String)) -> String {
    let mut text = String::with_capacity(size + 100);
    for index in 0.. {
        if text.len() >= size {
            break;
        }
        line(index, &mut text);
    }
    text
}

/// The name of each document, how to generate it, and the expected error; `None` is a value.
type Case = (&'static str, Make, Option<ErrorKind>);

/// Documents that are also loaded at a size of ten megabytes.
fn large_cases() -> Vec<Case> {
    vec![
        ("[", |size| repeated("[", size), Some(Limit)),
        ("{", |size| repeated("{", size), Some(Limit)),
        ("? ", |size| repeated("? ", size), Some(Limit)),
        ("- ", |size| repeated("- ", size), Some(Limit)),
        ("[{", |size| repeated("[{a: ", size), Some(Limit)),
        (
            "indentation",
            |size| numbered(size, |index, out| writeln!(out, "{}a:", " ".repeat(index)).unwrap()),
            Some(Limit),
        ),
        ("a: a: ", |size| repeated("a: a: ", size), Some(Scanner)),
        ("&a ", |size| repeated("&a ", size), Some(Composer)),
        ("!!str ", |size| repeated("!!str ", size), Some(Parser)),
        ("double quotes", |size| repeated("\"", size), Some(Parser)),
        ("an open quote", |size| format!("\"{}", repeated("a ", size)), Some(Scanner)),
        ("plain lines", |size| repeated("a\n", size), None),
        ("one line of many keys", |size| flow_mapping(size), None),
    ]
}

fn cases() -> Vec<Case> {
    vec![
        ("[? ", |size| repeated("[? ", size), Some(Limit)),
        ("!", |size| repeated("!", size), Some(Constructor)),
        ("single quotes", |size| format!("'{}", repeated("''", size)), Some(Scanner)),
        ("an open quote of many lines", |size| format!("\"{}", repeated("a \n\n", size)), Some(Scanner)),
        ("escapes", |size| format!("\"{}\"", repeated("\\n", size)), None),
        ("escaped breaks", |size| format!("\"{}\"", repeated("\\\n ", size)), None),
        ("a long anchor", |size| format!("&{}", repeated("a", size)), None),
        ("a long alias", |size| format!("*{}", repeated("a", size)), Some(Composer)),
        ("a long tag", |size| format!("!{}!a", repeated("a", size)), Some(Parser)),
        ("a plain word", |size| repeated("a", size), None),
        ("a plain line", |size| repeated("a ", size), None),
        ("plain spaces", |size| format!("a{}b", repeated(" ", size)), None),
        ("plain empty lines", |size| format!("a{}b", repeated("\n", size)), None),
        ("plain colons", |size| repeated("a:", size) + "a", None),
        ("plain in brackets", |size| format!("[{}]", repeated("a :b #\n", size)), Some(Parser)),
        ("a key that is too long", |size| format!("{}: a", repeated("a", size)), Some(Scanner)),
        ("comments", |size| repeated("# a\n", size), None),
        ("empty lines", |size| repeated("\n", size), None),
        ("spaces", |size| repeated(" ", size), None),
        ("literal lines", |size| format!("|\n{}", repeated(" a\n", size)), None),
        ("folded lines", |size| format!(">\n{}", repeated(" a\n\n", size)), None),
        ("literal empty lines", |size| format!("|+\n{}", repeated("\n", size)), None),
        (
            "one line of long keys",
            |size| format!("{{{}}}", repeated(&format!("? {}, ", "a".repeat(5000)), size)),
            None,
        ),
        (
            "one line of many pairs",
            |size| format!("[{}]", repeated("\"a\" : b123456789012345678901234567890, ", size)),
            None,
        ),
        (
            "keys",
            |size| numbered(size, |index, out| writeln!(out, "key{index}: value of the key").unwrap()),
            None,
        ),
        ("items", |size| repeated("- item of the list\n", size), None),
        ("too many items", |size| repeated("-\n", size.max(2_100_000)), Some(Limit)),
        (
            "anchors",
            |size| numbered(size, |index, out| writeln!(out, "- &anchor{index} value").unwrap()),
            None,
        ),
        ("aliases", |size| format!("- &a b\n{}", repeated("- *a # an alias\n", size)), None),
        (
            "handles",
            |size| numbered(size, |index, out| writeln!(out, "%TAG !e{index}! tag").unwrap()),
            Some(Parser),
        ),
        ("a large integer as a key", |size| format!("? 0x{}\n: a", repeated("f", size)), None),
        (
            "merges of merges",
            |size| {
                let first = "- &a0 {k: v}\n".to_owned();
                first
                    + &numbered(size, |index, out| {
                        writeln!(out, "- &a{} {{<<: [*a{index}, *a{index}]}}", index + 1).unwrap();
                    })
            },
            Some(Limit),
        ),
        ("entries that merge", |size| format!("{{{}}}", repeated("<<: {a: b, c: d}, ", size)), None),
        ("tabs", |size| format!("a:{}b", repeated("\t", size)), None),
        ("CRLF", |size| format!("a{}: b", repeated("\r\n", size)), Some(Scanner)),
        ("comments in brackets", |size| format!("[{}]", repeated("a, # b\n", size)), None),
        ("an indentation of a block scalar", |size| format!("a: |\n{}b", repeated(" ", size)), None),
        ("short lines below an indicator", |size| format!("a: |9+\n{}", repeated("    \n", size)), None),
        ("a long directive", |size| format!("%YAML {}", repeated("1", size)), Some(Scanner)),
        ("escapes of a tag", |size| format!("!<{}> a", repeated("%41", size)), Some(Constructor)),
        (
            "a long prefix of many tags",
            |size| {
                let prefix = repeated("a", size / 2);
                format!("%TAG !e! {prefix}\n---\n{}", repeated("- !e!a b\n", size / 2))
            },
            Some(Constructor),
        ),
        (
            "brackets in a block",
            |size| repeated("- [aaaaaaaa, {bbbbbbbb: [cccccccc, dddddddd]}]\n", size),
            None,
        ),
        ("fractions of a second", |size| format!("2001-01-01 00:00:00.{}", repeated("1", size)), None),
        ("letters of several bytes", |size| repeated("é: é ", size), Some(Scanner)),
        ("breaks of several bytes", |size| repeated("â\u{2028}Â\u{85}", size), None),
        ("byte order marks", |size| repeated("\u{feff}\n", size), None),
    ]
}

fn flow_mapping(size: usize) -> String {
    format!("{{{}}}", numbered(size, |index, out| write!(out, "key{index}: value{index}, ").unwrap()))
}

fn check(name: &str, text: &str, expected: Option<ErrorKind>) {
    match (yaml::load(text), expected) {
        (Ok(_), None) => {}
        (Err(error), Some(kind)) => {
            assert_eq!(error.kind(), kind, "{name}: {error}");
            let shown = error.to_string();
            assert!(shown.starts_with("line ") && shown.len() < 400, "{name}: {shown}");
        }
        (Ok(_), Some(_)) => panic!("{name} loads"),
        (Err(error), None) => panic!("{name}: {error}"),
    }
}

/// Runs on a stack of the default thread size, whatever the test's thread has.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 * MEGABYTE).spawn(work).unwrap().join().unwrap();
}

#[test]
fn ten_megabytes_load_or_fail_cleanly() {
    on_a_small_stack(|| {
        for (name, make, expected) in large_cases() {
            check(name, &make(10 * MEGABYTE), expected);
        }
    });
}

#[test]
fn time_is_linear_in_the_size() {
    fn time(text: &str) -> Duration {
        let (clock, start) = (Instant::now(), thread_time());
        let _ = std::hint::black_box(yaml::load(text));
        match (start, thread_time()) {
            (Some(start), Some(end)) => end.saturating_sub(start),
            _ => clock.elapsed(),
        }
    }
    for (name, make, expected) in large_cases().into_iter().chain(cases()) {
        let (small, large) = (make(MEGABYTE / 16), make(MEGABYTE / 2));
        check(name, &large, expected);
        // Eight times the size; quadratic time would take 64 times as long.
        let is_linear = |_| time(&large) < time(&small) * 20 + Duration::from_millis(2);
        assert!((0..10).any(is_linear), "{name}");
    }
}

#[test]
fn deepest_documents_fit_a_small_stack() {
    on_a_small_stack(|| {
        let depth = Loader::default().max_depth;
        let nested =
            |open: &str, close: &str, count| format!("{}a{}", open.repeat(count), close.repeat(count));
        let indented = |line: &str| {
            let lines = (0..depth).map(|index| format!("{}{line}\n", " ".repeat(index)));
            lines.collect::<String>()
        };
        for text in [
            nested("[", "]", depth),
            nested("{a: ", "}", depth),
            nested("[a: ", "]", depth / 2),
            nested("- ", "", depth),
            nested("[? a : ", "]", depth / 2),
            indented("a:"),
            indented("-"),
            indented("&a a:").replace("&a", ""),
            indented("? a\n:").replace("\n:", ""),
        ] {
            let loaded = yaml::load(&text);
            if let Err(error) = &loaded {
                panic!("{error}: {text:.60}");
            }
            drop(loaded);
        }
    });
}
