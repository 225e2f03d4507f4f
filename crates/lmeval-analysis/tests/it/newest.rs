//! The newest of several runs.

use std::path::Path;

use lmeval_analysis::read::Run;

/// Writes results files with a time in their name and a date in their content; returns the name of the one that is taken.
fn newest(files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (stamp, date) in files {
        let path = folder.path().join(format!("results_{stamp}.json"));
        fs_err::write(path, format!(r#"{{"results": {{}}, "date": {date}}}"#)).unwrap();
    }
    let run = Run::open(folder.path()).unwrap();
    let journal = folder.path().join("answers.journal");
    assert_eq!(Run::open_answers(&journal).unwrap().path, run.path);
    Path::new(&run.path).file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn is_the_one_that_started_last_although_clocks_were_set_back() {
    // 2026-10-25: at 01:00 UTC, 03:00 CEST becomes 02:00 CET.
    let before = ("2026-10-25T02-50-00.250000", "1792889400.25");
    let after = ("2026-10-25T02-10-00.500001", "1792890600.5");
    assert_eq!(newest(&[before, after]), "results_2026-10-25T02-10-00.500001.json");
    // The same moment of the day before in another zone, and a run of last year.
    let honolulu = ("2026-10-24T17-30-00", "1792899000.0");
    assert_eq!(newest(&[before, after, honolulu]), "results_2026-10-24T17-30-00.json");
    let old = ("2025-10-25T02-10-00", "1792999999.0");
    assert_eq!(newest(&[old, before, after]), "results_2026-10-25T02-10-00.500001.json");
}

#[test]
fn is_decided_by_names_if_dates_do_not_fit_them() {
    let (one, two) = ("2026-10-25T02-10-00", "2026-10-25T02-50-00");
    for (date, other) in [
        // The date of a shard, a damaged one, none.
        ("1792890600.0", "1792880000.0"),
        ("1792890600.0", "2792889400.0"),
        ("1792890600.0", "null"),
        ("7792890600.0", "1792889400.0"),
    ] {
        assert_eq!(newest(&[(one, date), (two, other)]), format!("results_{two}.json"), "{date} {other}");
    }
}
