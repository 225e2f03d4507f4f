//! Folds Markdown tables that are wider than the terminal: long cells wrap onto further lines, and if that is not
//! enough, each row becomes a block.

use unicode_width::UnicodeWidthStr;

/// The minimum width of text columns; numbers are never wrapped.
const NARROWEST: usize = 8;

/// Folds the table into `width` columns; returns it unchanged if it fits.
pub(crate) fn fold(table: &str, width: usize) -> String {
    if table.lines().all(|line| line.width() <= width) {
        return table.to_owned();
    }
    let mut lines = table.lines().map(cells);
    let (Some(headers), Some(rules)) = (lines.next(), lines.next()) else { return table.to_owned() };
    let columns: Vec<Column> = headers
        .iter()
        .zip(&rules)
        .map(|(header, rule)| Column {
            header: header.trim().to_owned(),
            width: rule.width(),
            is_number: rule.ends_with(':'),
        })
        .collect();
    let rows: Vec<Vec<String>> = lines
        .map(|row| row.iter().zip(&columns).map(|(cell, column)| column.trimmed(cell).to_owned()).collect())
        .collect();
    match narrowed(&columns, width) {
        Some(widths) => wrapped(&columns, &widths, &rows),
        None => blocks(&columns, &rows, width),
    }
}

struct Column {
    header: String,
    width: usize,
    is_number: bool,
}

impl Column {
    /// Trims a cell. Leading spaces of text cells are kept: they indent nested tasks.
    fn trimmed<'a>(&self, cell: &'a str) -> &'a str {
        if self.is_number { cell.trim() } else { cell.trim_end() }
    }
}

/// Splits a line of a Markdown table into cells. An escaped bar is part of its cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&'|') => {
                cell.push_str("\\|");
                characters.next();
            }
            '|' => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells
}

/// Column widths with the widest text columns reduced until the table fits; `None` if that is not possible.
fn narrowed(columns: &[Column], width: usize) -> Option<Vec<usize>> {
    let available = width.checked_sub(columns.len() + 1)?;
    let capped = |cap: usize| -> Vec<usize> {
        let most = |column: &Column| if column.is_number { column.width } else { column.width.min(cap) };
        columns.iter().map(most).collect()
    };
    let widest = columns.iter().map(|column| column.width).max()?;
    (NARROWEST..=widest).rev().map(capped).find(|widths| widths.iter().sum::<usize>() <= available)
}

fn wrapped(columns: &[Column], widths: &[usize], rows: &[Vec<String>]) -> String {
    let mut table = String::new();
    let headers: Vec<String> = columns.iter().map(|column| column.header.clone()).collect();
    push_row(&mut table, columns, widths, &headers);
    for (column, width) in columns.iter().zip(widths) {
        table.push('|');
        let rule = "-".repeat(width - usize::from(column.is_number));
        table.push_str(&rule);
        if column.is_number {
            table.push(':');
        }
    }
    table.push_str("|\n");
    for row in rows {
        push_row(&mut table, columns, widths, row);
    }
    table
}

fn push_row(table: &mut String, columns: &[Column], widths: &[usize], row: &[String]) {
    let pieces: Vec<Vec<String>> = row.iter().zip(widths).map(|(cell, width)| pieces(cell, *width)).collect();
    for line in 0..pieces.iter().map(Vec::len).max().unwrap_or(0) {
        for ((column, width), pieces) in columns.iter().zip(widths).zip(&pieces) {
            let text = pieces.get(line).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(text.width()));
            table.push('|');
            if column.is_number {
                table.push_str(&padding);
            }
            table.push_str(text);
            if !column.is_number {
                table.push_str(&padding);
            }
        }
        table.push_str("|\n");
    }
}

/// Renders each row as its first cell with the others indented below it, each after its column's header.
fn blocks(columns: &[Column], rows: &[Vec<String>], width: usize) -> String {
    let mut text = String::new();
    for row in rows {
        let Some((first, others)) = row.split_first() else { continue };
        if !first.is_empty() {
            push_lines(&mut text, "", &pieces(first, width));
        }
        // A column without a header, such as the arrows, belongs to the previous one.
        let mut parts: Vec<String> = Vec::new();
        for (cell, column) in others.iter().zip(columns.iter().skip(1)) {
            match (cell.trim(), column.header.as_str(), parts.last_mut()) {
                ("", ..) => {}
                (cell, "", Some(last)) => *last = format!("{last} {cell}"),
                (cell, "", None) => parts.push(cell.to_owned()),
                (cell, header, _) => parts.push(format!("{header} {cell}")),
            }
        }
        let room = width.saturating_sub(INDENT.len()).max(1);
        let mut lines: Vec<String> = Vec::new();
        for part in parts {
            match lines.last_mut() {
                Some(line) if line.width() + INDENT.len() + part.width() <= room => {
                    *line = format!("{line}{INDENT}{part}");
                }
                _ => lines.extend(pieces(&part, room)),
            }
        }
        push_lines(&mut text, INDENT, &lines);
    }
    text
}

/// Indents the cells of a block, and separates them.
const INDENT: &str = "  ";

fn push_lines(text: &mut String, indent: &str, lines: &[String]) {
    for line in lines {
        text.push_str(indent);
        text.push_str(line);
        text.push('\n');
    }
}

/// Splits text into pieces of at most `width` columns, after a separator if possible.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.width() > width {
        let mut end = 0;
        let mut after_separator = None;
        let mut used = 0;
        for (offset, character) in rest.char_indices() {
            used += character.to_string().width();
            if used > width && end > 0 {
                break;
            }
            end = offset + character.len_utf8();
            if "_/-:, ".contains(character) && !rest[..offset].trim().is_empty() {
                after_separator = Some(end);
            }
        }
        let end = after_separator.unwrap_or(end);
        pieces.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    pieces.push(rest.to_owned());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "\
|              Tasks               |Version|Filter|n-shot|Metric|   |Value |   |Stderr|
|----------------------------------|------:|------|-----:|------|---|-----:|---|-----:|
|mmlu_stem                         |      2|none  |      |acc   |↑  |0.2613|±  |0.0078|
| - mmlu_stem::mmlu_abstract_algebra|      1|none  |     0|acc   |↑  |0.2200|±  |0.0416|
";

    fn widest(text: &str) -> usize {
        text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    #[test]
    fn leaves_fitting_tables_unchanged() {
        assert_eq!(fold(RESULTS, 200), RESULTS);
    }

    #[test]
    fn wraps_long_cells() {
        let folded = fold(RESULTS, 80);
        assert!(widest(&folded) <= 80, "{folded}");
        assert!(folded.contains("|      1|none  |     0|acc   |↑  |0.2200|±  |0.0416|"), "{folded}");
        let names: String =
            folded.lines().map(|line| line[1..].split('|').next().unwrap().trim_end()).collect();
        assert!(names.contains("- mmlu_stem::mmlu_abstract_algebra"), "{folded}");
    }

    #[test]
    fn narrow_terminals_get_blocks() {
        let folded = fold(RESULTS, 40);
        assert_eq!(
            folded,
            "mmlu_stem\n  Version 2  Filter none  Metric acc ↑\n  Value 0.2613 ±  Stderr 0.0078\n \
             - mmlu_stem::mmlu_abstract_algebra\n  Version 1  Filter none  n-shot 0\n  Metric acc ↑  Value 0.2200 ±\n  \
             Stderr 0.0416\n"
        );
        assert!(widest(&folded) <= 40);
    }

    #[test]
    fn keeps_every_character_within_the_width() {
        let cell = "日本語の_とても長い名前/with a bar \\| and more";
        let table = format!("|Task|x|\n|---------------------------------------------|---|\n|{cell}|b|\n");
        for width in 1..80 {
            let folded = fold(&table, width);
            assert!(width < 16 || widest(&folded) <= width, "{width}: {folded}");
            let kept = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
            assert!(kept(&folded) >= kept(cell), "{width}: {folded}");
        }
    }
}
