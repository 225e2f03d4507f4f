//! Markdown tables of text, in the reference's layout.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// The narrowest column.
const MINIMUM: usize = 3;

/// A table of text columns: centered headers, left-aligned cells.
pub(crate) struct Table<'a, const COLUMNS: usize> {
    headers: [&'a str; COLUMNS],
    rows: Vec<[&'a str; COLUMNS]>,
}

impl<'a, const COLUMNS: usize> Table<'a, COLUMNS> {
    /// A table without rows.
    pub(crate) fn new(headers: [&'a str; COLUMNS]) -> Self {
        Self { headers, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [&'a str; COLUMNS]) {
        self.rows.push(cells);
    }

    /// Writes the table; every line ends with a newline.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let rows: Vec<&[&str]> = self.rows.iter().map(<[&str; COLUMNS]>::as_slice).collect();
        out.write_all(layout(&self.headers, &rows, COLUMNS).as_bytes())
    }
}

/// A table of any number of columns. Those from `first_number` on are right-aligned, and never wrapped when folded.
pub(crate) fn render(headers: &[String], rows: &[Vec<String>], first_number: usize) -> String {
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    layout(&headers, &rows, first_number)
}

/// Lays out a table; every line ends with a newline.
fn layout(headers: &[&str], rows: &[&[&str]], first_number: usize) -> String {
    let mut widths = vec![MINIMUM; headers.len()];
    for row in std::iter::once(&headers).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(*row) {
            *width = (*width).max(display_width(cell));
        }
    }
    let mut text = String::new();
    for (header, width) in headers.iter().zip(&widths) {
        let padding = width - display_width(header);
        text.push('|');
        pad(&mut text, padding / 2, ' ');
        push_cell(&mut text, header);
        pad(&mut text, padding - padding / 2, ' ');
    }
    text.push_str("|\n");
    for (column, width) in widths.iter().enumerate() {
        text.push('|');
        if column < first_number {
            pad(&mut text, *width, '-');
        } else {
            pad(&mut text, width - 1, '-');
            text.push(':');
        }
    }
    text.push_str("|\n");
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = width - display_width(cell);
            text.push('|');
            if column >= first_number {
                pad(&mut text, padding, ' ');
            }
            push_cell(&mut text, cell);
            if column < first_number {
                pad(&mut text, padding, ' ');
            }
        }
        text.push_str("|\n");
    }
    text
}

fn pad(out: &mut String, count: usize, character: char) {
    out.extend(std::iter::repeat_n(character, count));
}

/// Escapes bars and line breaks, which would end the cell or the row.
fn push_cell(out: &mut String, cell: &str) {
    if !cell.contains(['|', '\n', '\r']) {
        out.push_str(cell);
        return;
    }
    for character in cell.chars() {
        match character {
            '|' => out.push_str("\\|"),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
}

fn display_width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<const COLUMNS: usize>(table: &Table<'_, COLUMNS>) -> String {
        let mut bytes = Vec::new();
        table.write(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn matches_reference_layout() {
        let mut table = Table::new(["Task", "Config Location", "Output Type"]);
        table.row(["日本", "/a/b", ""]);
        table.row(["x", "/a/b", "generate_until"]);
        let text = written(&table);
        assert_eq!(
            text,
            "|Task|Config Location| Output Type  |\n\
             |----|---------------|--------------|\n\
             |日本|/a/b           |              |\n\
             |x   |/a/b           |generate_until|\n"
        );
    }

    #[test]
    fn numbers_are_right_aligned() {
        let headers = ["Task".to_owned(), "a|b".to_owned()];
        let rows = [vec!["x".to_owned(), "0.5".to_owned()], vec!["y".to_owned(), "10.25".to_owned()]];
        assert_eq!(render(&headers, &rows, 1), "|Task| a\\|b |\n|----|----:|\n|x   |  0.5|\n|y   |10.25|\n");
    }

    #[test]
    fn empty_table_has_a_header() {
        assert_eq!(written(&Table::new(["Tag"])), "|Tag|\n|---|\n");
    }

    #[test]
    fn bars_are_escaped_after_padding() {
        let mut table = Table::new(["Tag"]);
        table.row(["a|b"]);
        let text = written(&table);
        assert_eq!(text, "|Tag|\n|---|\n|a\\|b|\n");
    }
}
