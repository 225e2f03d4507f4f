//! Column widths and Markdown tables.

use lmeval_pycompat::Value;
use unicode_width::UnicodeWidthChar;

use super::cells::{Cell, Class, column_class, read_column};

/// The minimum width of a column in a Markdown table.
const MINIMUM: usize = 3;

/// A formatted column.
pub(super) struct Column {
    pub(super) class: Class,
    pub(super) width: usize,
    header: String,
    cells: Vec<(Cell, String)>,
}

impl Column {
    /// Formats a column; `infinity`, if given, replaces infinite values of either sign.
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

    /// Whether the column is right-aligned.
    pub(super) fn is_right(&self) -> bool {
        matches!(self.class, Class::Int | Class::Real)
    }

    /// The header, centered; an odd space goes after it.
    pub(super) fn header(&self) -> String {
        let padding = self.width.saturating_sub(display_width(&self.header));
        format!("{}{}{}", " ".repeat(padding / 2), self.header, " ".repeat(padding - padding / 2))
    }

    /// The text of a cell without padding.
    pub(super) fn text(&self, row: usize) -> &str {
        &self.cells[row].1
    }

    /// A cell with padding.
    pub(super) fn cell(&self, row: usize) -> (&Cell, String) {
        let (cell, text) = &self.cells[row];
        let padding = " ".repeat(self.width.saturating_sub(display_width(text)));
        (cell, if cell.is_right(self.class) { padding + text } else { format!("{text}{padding}") })
    }
}

/// Renders rows as a Markdown table, with a trailing newline.
pub(super) fn markdown(headers: &[&str], rows: &[Vec<Value>]) -> String {
    let columns: Vec<Column> = headers
        .iter()
        .enumerate()
        .map(|(index, header)| Column::new(header, rows.iter().map(|row| &row[index]), MINIMUM, None))
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

/// Reference: bars are escaped after padding, so such a cell is wider than its column.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The width of a string: 2 for wide characters, 1 for all others, including zero-width ones.
pub(super) fn display_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(|character| if character.width() == Some(2) { 2 } else { 1 }).sum()
}
