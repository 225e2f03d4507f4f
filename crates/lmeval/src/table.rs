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
        let mut widths = [MINIMUM; COLUMNS];
        for row in std::iter::once(&self.headers).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(display_width(cell));
            }
        }
        let mut line = String::new();
        for (header, width) in self.headers.iter().zip(widths) {
            let padding = width - display_width(header);
            line.push('|');
            pad(&mut line, padding / 2, ' ');
            line.push_str(header);
            pad(&mut line, padding - padding / 2, ' ');
        }
        line.push_str("|\n");
        for width in widths {
            line.push('|');
            pad(&mut line, width, '-');
        }
        line.push_str("|\n");
        out.write_all(line.as_bytes())?;
        for row in &self.rows {
            line.clear();
            for (cell, width) in row.iter().zip(widths) {
                line.push('|');
                push_cell(&mut line, cell);
                pad(&mut line, width - display_width(cell), ' ');
            }
            line.push_str("|\n");
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
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
