use lmeval_pycompat::json;

use super::layout::{Column as LaidOut, markdown};
use super::*;

fn text(cells: &[&str]) -> Vec<Value> {
    cells.iter().map(|cell| Value::str(*cell)).collect()
}

/// The cells of one column without padding.
fn printed(cells: &[Value]) -> Vec<String> {
    let column = LaidOut::new("", cells, 0, None);
    let trimmed = |row: usize| {
        let (cell, padded) = column.cell(row);
        let text = if cell.is_right(column.class) { padded.trim_start() } else { padded.trim_end() };
        text.to_owned()
    };
    (0..cells.len()).map(trimmed).collect()
}

#[test]
fn columns_match_the_recordings() {
    for (cells, expected) in [
        (text(&["0.5000"]), vec!["0.5"]),
        (text(&["0.5000", "0.2500"]), vec!["0.50", "0.25"]),
        (text(&["1.0000"]), vec!["1"]),
        (text(&["1.0000", "0.0000"]), vec!["1", "0"]),
        (text(&["0.1000", "   N/A"]), vec!["0.1", "   N/A"]),
        (text(&["   N/A", "0.2500"]), vec!["   N/A", "0.2500"]),
        (text(&["0.1000", "   N/A", "   N/A", "0.2000"]), vec!["0.1", "   N/A", "   N/A", "0.2000"]),
        (text(&["   N/A", "0.0100"]), vec!["   N/A", "0.0100"]),
        (text(&["0.0100", "   N/A"]), vec!["0.01", "   N/A"]),
        (vec![Value::Float(1.0), Value::Float(2.5)], vec!["1.0", "2.5"]),
        (vec![Value::Float(2.0)], vec!["2"]),
        (text(&["N/A", "2.0"]), vec!["N/A", "2.0"]),
        (vec![Value::Int(999), Value::str("0.5000")], vec!["999.0", "0.5"]),
        (text(&["-inf"]), vec!["Infinity"]),
        (text(&["nan"]), vec!["NaN"]),
        (text(&["1,234", "1,5"]), vec!["1234", "15"]),
    ] {
        assert_eq!(printed(&cells), expected, "{cells:?}");
    }
    let column = LaidOut::new("", &[Value::str("123")], 0, None);
    assert!(column.is_right());
}

const GROUPED: &str = r#"{
    "results": {
        "g1::t3": {"alias": "T3", "name": "g1::t3", "sample_len": 2, "acc,none": 0.5, "acc_stderr,none": 0.5},
        "g1": {"alias": "Group One", "name": "g1", "sample_len": 4, "acc,none": 0.5, "acc_stderr,none": 0.3535533905932738,
               "acc_norm,none": 1.0, "acc_norm_stderr,none": 0.0, "sample_count": {"acc,none": 8}}
    },
    "group_subtasks": {"g1": ["g1::t3"]},
    "versions": {"g1": "2", "g1::t3": 3},
    "n-shot": {"g1": 0, "g1::t3": 0},
    "higher_is_better": {"g1": {"acc": true, "acc_norm": true}, "g1::t3": {"acc": true}}
}"#;

#[test]
fn rows_of_a_part_of_the_documents_are_marked() {
    let object = r#"{
        "results": {"g": {"alias": "g", "acc,none": 0.5}, "a": {"alias": "a", "acc,none": 0.5},
                    "b": {"alias": "b", "acc,none": 0.5}, "c": {"alias": "c", "acc,none": 0.5}},
        "group_subtasks": {"g": ["h", "a"], "h": ["b", "a"], "c": []},
        "n-samples": {"a": {"original": 50, "effective": 2, "failed": 28}, "b": {"original": 9, "effective": 9},
                      "c": {"original": 30, "effective": 10}}
    }"#;
    let table = make_table(json::loads(object).unwrap().as_dict().unwrap(), Column::Results, false);
    let names: Vec<&str> =
        table.lines().skip(2).map(|line| line.split('|').nth(1).unwrap().trim_end()).collect();
    // A limit leaves documents out on purpose.
    assert_eq!(
        names,
        ["c", "g (11 of 39 documents)", "  - a (2 of 30 documents)", "  - a (2 of 30 documents)", "  - b"],
        "{table}"
    );
}

#[test]
fn groups_come_before_their_members() {
    let object = json::loads(GROUPED).unwrap();
    assert_eq!(
        make_table(object.as_dict().unwrap(), Column::Results, false),
        "|  Tasks  |Version|Filter|n-shot| Metric |   |Value|   |Stderr|\n\
         |---------|------:|------|-----:|--------|---|----:|---|-----:|\n\
         |Group One|      2|none  |     0|acc     |↑  |  0.5|±  |0.3536|\n\
         |         |       |none  |     0|acc_norm|↑  |  1.0|±  |0.0000|\n\
         | - T3    |      3|none  |     0|acc     |↑  |  0.5|±  |0.5000|\n"
    );
}

#[test]
fn latex_has_the_same_rows() {
    let object = json::loads(GROUPED).unwrap();
    assert_eq!(
        make_latex_table(object.as_dict().unwrap(), Column::Results, true).lines().nth(3),
        Some(
            "    \\verb|Group One| &       2 & none   &      0 & acc      & \\verb|↑| &   0.5 & \\verb|±| & \
             0.3536 \\\\ \\hline"
        )
    );
}

#[test]
fn missing_keys_give_an_empty_table() {
    assert_eq!(
        make_table(&Dict::new(), Column::Groups, false),
        "|Groups|Version|Filter|n-shot|Metric|   |Value|   |Stderr|\n\
         |------|-------|------|------|------|---|-----|---|------|\n"
    );
}

#[test]
fn recursive_groups_terminate() {
    let object = json::loads(
        r#"{"results": {"a": {"acc,none": 1}}, "group_subtasks": {"r": ["a"], "a": ["b"], "b": ["a"]}}"#,
    );
    let table = make_table(object.unwrap().as_dict().unwrap(), Column::Results, false);
    assert!(table.contains("| - a |"), "{table}");
}

#[test]
fn escapes_bars_after_padding() {
    let rows = vec![text(&["a|b"]), text(&["日本"])];
    assert_eq!(markdown(&["x"], &rows), "| x  |\n|----|\n|a\\|b |\n|日本|\n");
}
