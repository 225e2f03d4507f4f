//! A folder full of broken files: nothing panics or hangs, and each error names its file and line.

use std::fmt::Write;
use std::time::{Duration, Instant};

use lmeval_tasks::{Severity, TaskManager};

use crate::support::{Library, task};

/// The content of a broken file; `number` makes each one unique.
fn broken(kind: usize, number: usize) -> Vec<u8> {
    match kind {
        0 => format!("task: x{number}\ndoc_to_text: \"unclosed\n").into_bytes(),
        1 => (0..2000).map(|byte| ((byte * 7 + number) % 251) as u8).collect(),
        2 => format!("task: x{number}\ninclude: {number}_cycle.yaml\n").into_bytes(),
        3 => format!("task: x{number}\na: {}", "[".repeat(20_000)).into_bytes(),
        4 => format!("task: x{number}\n{}", "- ".repeat(20_000)).into_bytes(),
        5 => {
            // Ten levels of ten aliases each expand to ten billion values.
            let mut text = format!("task: x{number}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
            for level in 1..10 {
                let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
                let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
            }
            text.into_bytes()
        }
        6 => format!("task: x{number}\nkey: value: again\n").into_bytes(),
        7 => format!("task: x{number}\n\tkey: tab\n").into_bytes(),
        8 => b"- just\n- a list\n".to_vec(),
        9 => format!("task: x{number}\na: &a [*a]\n").into_bytes(),
        10 => format!("task: x{number}\na: !!python/object:os.system x\n").into_bytes(),
        11 => format!("task: x{number}\na: {{{{x}}}}\n").into_bytes(),
        12 => format!("task: x{number}\ndate: 2020-13-45\n").into_bytes(),
        13 => format!("task: x{number}\n---\ntask: second\n").into_bytes(),
        14 => [b"task: x\ndoc_to_text: ".as_slice(), &[0xff, 0xfe, 0x80]].concat(),
        _ => format!("include: missing_{number}\ntask: x{number}\n").into_bytes(),
    }
}

const KINDS: usize = 16;

#[test]
fn reports_each_of_a_thousand_broken_files() {
    let library = Library::new(&[("sound.yaml", &task("sound", ""))]);
    for number in 0..1000 {
        let kind = number % KINDS;
        let name = if kind == 2 { format!("{number}_cycle.yaml") } else { format!("{number}.yaml") };
        library.write(&name, &broken(kind, number));
    }
    let start = Instant::now();
    let manager = TaskManager::new(&[library.path()]);
    assert_eq!(manager.all_tasks(), ["sound"]);
    let findings = manager.unreadable();
    assert!(start.elapsed() < Duration::from_mins(1), "this hangs");
    assert_eq!(findings.len(), 1000);
    for finding in findings {
        assert_eq!(finding.severity, Severity::Error);
        let location =
            finding.diagnostic.location.clone().unwrap_or_else(|| panic!("no location: {finding:?}"));
        assert!(location.line >= 1 && location.path().starts_with(library.path()), "{location}");
    }
}

#[test]
fn loads_a_huge_scalar() {
    let library = Library::new(&[]);
    let text = "word ".repeat(2_000_000);
    library.write("huge.yaml", task("huge", &format!("description: \"{text}\"\n")).as_bytes());
    let loaded = library.load(&["huge"]).unwrap();
    assert_eq!(loaded.tasks.len(), 1);
}

#[test]
fn rejects_a_file_that_is_too_large_without_reading_it() {
    let library = Library::new(&[]);
    let path = library.path().join("large.yaml");
    let file = fs_err::File::create(&path).unwrap();
    file.set_len(lmeval_tasks::source::MAX_FILE_SIZE + 1).unwrap();
    let findings = library.manager().unreadable();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].diagnostic.to_string().contains("large.yaml"));
}

#[cfg(unix)]
#[test]
fn special_files_do_not_block() {
    let library = Library::new(&[("sound.yaml", &task("sound", ""))]);
    let pipe = library.path().join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(library.manager().all_tasks(), ["sound"]);
}
