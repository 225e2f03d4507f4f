//! Markdown tables of text, laid out as the reference lays them out.

use unicode_width::UnicodeWidthStr;

/// The narrowest column.
const MINIMUM: usize = 3;

/// A table of text columns: headers centred, cells on the left.
pub(crate) struct Table<'a, const COLUMNS: usize> {
    headers: [&'a str; COLUMNS],
    rows: Vec<[&'a str; COLUMNS]>,
}

impl<'a, const COLUMNS: usize> Table<'a, COLUMNS> {
    /// A table without rows.
    pub(crate) fn new(headers: [&'a str; COLUMNS]) -> Self {
        Self {
            headers,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [&'a str; COLUMNS]) {
        self.rows.push(cells);
    }

    /// Writes the table, each line with its end.
    pub(crate) fn write(&self, out: &mut String) {
        let mut widths = [MINIMUM; COLUMNS];
        for row in std::iter::once(&self.headers).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(display_width(cell));
            }
        }
        for (header, width) in self.headers.iter().zip(widths) {
            let blanks = width - display_width(header);
            out.push('|');
            pad(out, blanks / 2, ' ');
            out.push_str(header);
            pad(out, blanks - blanks / 2, ' ');
        }
        out.push_str("|\n");
        for width in widths {
            out.push('|');
            pad(out, width, '-');
        }
        out.push_str("|\n");
        for row in &self.rows {
            for (cell, width) in row.iter().zip(widths) {
                out.push('|');
                push_cell(out, cell);
                pad(out, width - display_width(cell), ' ');
            }
            out.push_str("|\n");
        }
    }
}

fn pad(out: &mut String, count: usize, character: char) {
    out.extend(std::iter::repeat_n(character, count));
}

/// A bar would end the cell, a line break the row.
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

    #[test]
    fn lays_out_as_the_reference() {
        let mut table = Table::new(["Task", "Config Location", "Output Type"]);
        table.row(["日本", "/a/b", ""]);
        table.row(["x", "/a/b", "generate_until"]);
        let mut text = String::new();
        table.write(&mut text);
        assert_eq!(
            text,
            "|Task|Config Location| Output Type  |\n\
             |----|---------------|--------------|\n\
             |日本|/a/b           |              |\n\
             |x   |/a/b           |generate_until|\n"
        );
    }

    #[test]
    fn an_empty_table_has_its_header() {
        let mut text = String::new();
        Table::new(["Tag"]).write(&mut text);
        assert_eq!(text, "|Tag|\n|---|\n");
    }

    #[test]
    fn bars_are_escaped_after_padding() {
        let mut table = Table::new(["Tag"]);
        table.row(["a|b"]);
        let mut text = String::new();
        table.write(&mut text);
        assert_eq!(text, "|Tag|\n|---|\n|a\\|b|\n");
    }
}
