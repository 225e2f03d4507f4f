//! LaTeX tables.

use lmeval_pycompat::Value;

use super::cells::Class;
use super::layout::Column;

/// Renders rows as a LaTeX `array`, with a trailing newline.
pub(super) fn latex(headers: &[&str], rows: &[Vec<Value>]) -> String {
    let columns: Vec<Column> = headers
        .iter()
        .enumerate()
        .map(|(index, header)| Column::new(header, rows.iter().map(|row| &row[index]), 1, Some("\\infty")))
        .collect();
    let edges: Vec<&str> = columns.iter().map(|column| if column.is_right() { "r" } else { "l" }).collect();
    let line = |cells: Vec<String>| format!("    {} \\\\ \\hline\n", cells.join(" & "));
    let mut table = format!("\\begin{{array}}{{{}}} \\hline\n", edges.join(" | "));
    table += &line(columns.iter().map(|column| verbatim(&column.header())).collect());
    table += "    \\hline\n";
    for row in 0..rows.len() {
        table += &line(columns.iter().map(|column| item(column, row)).collect());
    }
    table += "\\end{array}\n";
    table
}

/// Renders a cell; text other than letters is verbatim.
fn item(column: &Column, row: usize) -> String {
    let (cell, padded) = column.cell(row);
    let text = column.text(row);
    let letters = text.strip_prefix('\\').unwrap_or(text);
    let is_word = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    if cell.class == Class::Text && !is_word { verbatim(&padded) } else { padded }
}

fn verbatim(text: &str) -> String {
    format!("\\verb|{text}|")
}
