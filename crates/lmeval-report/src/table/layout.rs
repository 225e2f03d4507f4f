//! Columns with their widths, and the Markdown table.

use lmeval_pycompat::Value;
use unicode_width::UnicodeWidthChar;

use super::cells::{Cell, Class, column_class, read_column};

/// The narrowest column of a Markdown table.
const MINIMUM: usize = 3;

/// A column ready to be written.
pub(super) struct Column {
    pub(super) class: Class,
    pub(super) width: usize,
    header: String,
    cells: Vec<(Cell, String)>,
}

impl Column {
    /// Reads a column; `infinity`, where it is given, is the text of what is not finite, whatever its sign.
    pub(super) fn new<'a>(
        header: &str,
        values: impl IntoIterator<Item = &'a Value>,
        minimum: usize,
        infinity: Option<&str>,
    ) -> Self {
        let cells = read_column(values, infinity);
        let class = column_class(&cells);
        let decimals = cells.iter().filter_map(Cell::decimals).max().unwrap_or(0);
        let cells: Vec<(Cell, String)> = cells
            .into_iter()
            .map(|cell| {
                let text = cell.show(class, decimals);
                (cell, text)
            })
            .collect();
        let widest = cells.iter().map(|(_, text)| display_width(text)).max().unwrap_or(0);
        let width = widest.max(display_width(header)).max(minimum);
        Self { class, width, header: header.to_owned(), cells }
    }

    /// Whether numbers stand at the right edge.
    pub(super) fn is_right(&self) -> bool {
        matches!(self.class, Class::Int | Class::Real)
    }

    /// The header in the middle of the column, an odd blank behind it.
    pub(super) fn header(&self) -> String {
        let blanks = self.width.saturating_sub(display_width(&self.header));
        format!("{}{}{}", " ".repeat(blanks / 2), self.header, " ".repeat(blanks - blanks / 2))
    }

    /// The text of a cell alone.
    pub(super) fn text(&self, row: usize) -> &str {
        &self.cells[row].1
    }

    /// A cell with its blanks.
    pub(super) fn cell(&self, row: usize) -> (&Cell, String) {
        let (cell, text) = &self.cells[row];
        let blanks = " ".repeat(self.width.saturating_sub(display_width(text)));
        (cell, if cell.is_right(self.class) { blanks + text } else { format!("{text}{blanks}") })
    }
}

/// The Markdown table of rows, with the end of its last line.
pub(super) fn markdown(headers: &[&str], rows: &[Vec<Value>]) -> String {
    let columns: Vec<Column> = headers
        .iter()
        .enumerate()
        .map(|(place, header)| Column::new(header, rows.iter().map(|row| &row[place]), MINIMUM, None))
        .collect();
    let mut table = String::new();
    let mut line = |cells: Vec<String>| {
        table.push('|');
        table.push_str(&cells.join("|"));
        table.push_str("|\n");
    };
    line(columns.iter().map(|column| escape(&column.header())).collect());
    line(columns.iter().map(separator).collect());
    for row in 0..rows.len() {
        line(columns.iter().map(|column| escape(&column.cell(row).1)).collect());
    }
    table
}

fn separator(column: &Column) -> String {
    if column.is_right() { "-".repeat(column.width - 1) + ":" } else { "-".repeat(column.width) }
}

/// Reference: a bar is escaped behind the padding, so such a cell is wider than its column.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The width of a text: wide characters count twice, all others once, also those that take no place.
pub(super) fn display_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(|character| if character.width() == Some(2) { 2 } else { 1 }).sum()
}
