//! Data larger than a block, a batch or memory.

use std::fmt::Write as _;
use std::process::Command;

use lmeval_pycompat::Value;

use crate::support::{load_in, request, write};

/// The resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<u64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Set in the child process that measures itself.
const ALONE: &str = "LMEVAL_DATA_MEASURED";

#[test]
fn rows_are_not_held_in_memory() {
    if std::env::var_os(ALONE).is_none() {
        // Other tests would distort the measurement, so this one runs again in a separate process.
        let test = "large::rows_are_not_held_in_memory";
        let program = std::env::current_exe().unwrap();
        let status =
            Command::new(program).args([test, "--exact", "--quiet"]).env(ALONE, "1").output().unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let filler = "x".repeat(1000);
    let (mut json, mut csv, mut text) = (String::new(), String::from("n,t\n"), String::new());
    let count = 25_000_u64;
    for number in 0..count {
        writeln!(json, "{{\"n\": {number}, \"t\": \"{filler}\"}}").unwrap();
        writeln!(csv, "{number},\"{filler}\n\"").unwrap();
        writeln!(text, "{number} {filler}").unwrap();
    }
    for (loader, content) in [("json", json), ("csv", csv), ("text", text)] {
        write(folder.path(), loader, content);
        let before = resident();
        let data =
            load_in(folder.path(), &request(loader, &["train"], &[("data_files", loader.into())])).unwrap();
        let split = data.get("train").unwrap();
        assert_eq!(split.len(), count);
        for index in [0, 1, 12_345, count - 1, 9_999, 10_000] {
            let row = split.get(index).unwrap().unwrap();
            match loader {
                "text" => {
                    let text = row.get_str("text").and_then(Value::as_str).unwrap();
                    assert!(text.starts_with(&format!("{index} ")));
                }
                _ => assert_eq!(row.get_str("n"), Some(&Value::Int(index as i64))),
            }
        }
        assert_eq!(split.iter().map(|row| row.unwrap().len() as u64).sum::<u64>() % count, 0);
        if let (Some(before), Some(after)) = (before, resident()) {
            assert!(after.saturating_sub(before) < 20 << 20, "{loader} took {} bytes", after - before);
        }
    }
}

#[test]
fn reads_line_of_ten_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let filler = "é".repeat(5 << 20);
    write(folder.path(), "x", format!("{{\"a\": 1}}\n{{\"a\": 2, \"t\": \"{filler}\"}}\n{{\"a\": 3}}\n"));
    let data = load_in(folder.path(), &request("json", &["train"], &[("data_files", "x".into())])).unwrap();
    let split = data.get("train").unwrap();
    let row = split.get(1).unwrap().unwrap();
    assert_eq!(row.get_str("t").unwrap().as_str().unwrap().len(), 10 << 20);
    let last = split.get(2).unwrap().unwrap();
    assert_eq!((last.get_str("a"), last.get_str("t")), (Some(&Value::Int(3)), Some(&Value::None)));
}
