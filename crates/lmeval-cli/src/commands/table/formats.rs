//! Score tables as Markdown, LaTeX, CSV and JSON.

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::table::{Cell, Row, ScoreTable};
use lmeval_pycompat::{Dict, Value, repr};

use super::arguments::By;
use crate::excerpt;
use crate::{csv, json_line, table};

/// A cell for which a model has no score.
const MISSING: &str = "—";

/// A Markdown table.
pub(super) fn markdown(scores: &ScoreTable, by: By) -> String {
    let grid = Grid::new(scores, by);
    let first_number = grid.names;
    let rows: Vec<Vec<String>> = rows(scores, by, |cell| vec![score(cell, " ± ", MISSING)]);
    table::render(&grid.headers, &rows, first_number)
}

/// A LaTeX table, which needs the package `booktabs`.
pub(super) fn latex(scores: &ScoreTable, by: By) -> String {
    let grid = Grid::new(scores, by);
    let rows = rows(scores, by, |cell| vec![score(cell, r" \pm ", "")]);
    let columns = "l".repeat(grid.names) + &"r".repeat(grid.headers.len() - grid.names);
    let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
    let mut text = format!("% \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
    text += &line(grid.headers.iter().map(|header| escaped(header)).collect());
    text += "\\midrule\n";
    for row in rows {
        let cells = row.into_iter().enumerate().map(|(column, cell)| match cell.as_str() {
            "" if column >= grid.names => "--".to_owned(),
            // Arithmetic mode makes `\pm` and minus signs; text is escaped.
            _ if column >= grid.names && is_number(&cell) => format!("${cell}$"),
            _ => escaped(&cell),
        });
        text += &line(cells.collect());
    }
    text + "\\bottomrule\n\\end{tabular}\n"
}

/// Comma-separated values: a score and its standard error in columns of their own, with all digits.
pub(super) fn csv(scores: &ScoreTable, by: By) -> String {
    let grid = Grid::new(scores, by);
    let (names, values) = grid.headers.split_at(grid.names);
    let headers = names
        .iter()
        .map(|header| if header.is_empty() { "higher_is_better".to_owned() } else { header.to_lowercase() })
        .chain(values.iter().flat_map(|header| [header.clone(), format!("{header} stderr")]));
    let exact = |cell: Option<&Cell>| {
        let stderr = cell.and_then(|cell| cell.stderr).map(Value::Float);
        vec![excerpt::cell(cell.map(|cell| &cell.value)), excerpt::cell(stderr.as_ref())]
    };
    let mut text = csv::line(headers);
    for (index, mut row) in rows(scores, by, exact).into_iter().enumerate() {
        if by == By::Task {
            let score = &scores.rows[index];
            row[0].clone_from(&score.task);
            row[3] = score.higher_is_better.map(|higher| higher.to_string()).unwrap_or_default();
        }
        text += &csv::line(row);
    }
    text
}

/// One JSON object.
pub(super) fn json(scores: &ScoreTable, runs: &[Run]) -> Result<String> {
    let strings = |items: &[String]| Value::list(items.iter().map(|item| Value::str(item.as_str())));
    let given = |value: Option<&Value>| value.cloned().unwrap_or_default();
    let cell_value = |cell: &Cell| {
        Value::dict([
            ("value", cell.value.clone()),
            ("stderr", cell.stderr.map_or(Value::None, Value::Float)),
            ("n", cell.documents.map_or(Value::None, Value::Int)),
            ("n_shot", given(cell.shots.as_ref())),
            ("version", given(cell.version.as_ref())),
            ("run", Value::from(runs[cell.run].path.display().to_string())),
        ])
    };
    let row_value = |row: &Row| {
        let cells: Dict = scores
            .models
            .iter()
            .zip(&row.cells)
            .map(|(model, cell)| (Value::str(model.as_str()), cell.as_ref().map_or(Value::None, cell_value)))
            .collect();
        Value::dict([
            ("task", Value::str(row.task.as_str())),
            ("is_group", Value::Bool(row.is_group)),
            ("filter", Value::str(row.filter.as_str())),
            ("metric", Value::str(row.metric.as_str())),
            ("higher_is_better", row.higher_is_better.map_or(Value::None, Value::Bool)),
            ("models", Value::from(cells)),
        ])
    };
    let whole = Value::dict([
        ("models", strings(&scores.models)),
        ("scores", Value::list(scores.rows.iter().map(row_value))),
        ("notes", strings(&scores.notes)),
    ]);
    let mut text = String::new();
    json_line::write(&mut text, &whole)?;
    Ok(text)
}

/// The headers of a table, of which the first `names` name a row.
struct Grid {
    headers: Vec<String>,
    names: usize,
}

impl Grid {
    fn new(scores: &ScoreTable, by: By) -> Self {
        let (names, values): (Vec<String>, Vec<String>) = match by {
            By::Task => (["Task", "Filter", "Metric", ""].map(str::to_owned).into(), scores.models.clone()),
            By::Model => {
                (vec!["Model".to_owned()], scores.rows.iter().map(|row| label(row, scores)).collect())
            }
        };
        Self { names: names.len(), headers: [names, values].concat() }
    }
}

/// The cells of all rows; `show` gives the cells of one score.
fn rows(scores: &ScoreTable, by: By, show: impl Fn(Option<&Cell>) -> Vec<String>) -> Vec<Vec<String>> {
    match by {
        By::Task => scores
            .rows
            .iter()
            .map(|row| {
                let indent =
                    if row.depth > 0 { format!("{}- ", " ".repeat(row.depth)) } else { String::new() };
                let names = [
                    indent + own_name(row, scores),
                    row.filter.clone(),
                    row.metric.clone(),
                    arrow(row).to_owned(),
                ];
                names.into_iter().chain(row.cells.iter().flat_map(|cell| show(cell.as_ref()))).collect()
            })
            .collect(),
        By::Model => (0..scores.models.len())
            .map(|model| {
                let cells = scores.rows.iter().flat_map(|row| show(row.cells[model].as_ref()));
                std::iter::once(scores.models[model].clone()).chain(cells).collect()
            })
            .collect(),
    }
}

/// The name of a score as the header of a column: its filter only where the metric of the task has several.
fn label(row: &Row, scores: &ScoreTable) -> String {
    let is_same = |other: &&Row| other.task == row.task && other.metric == row.metric;
    match scores.rows.iter().filter(is_same).count() {
        1 => format!("{} {}", own_name(row, scores), row.metric),
        _ => format!("{} {} ({})", own_name(row, scores), row.metric, row.filter),
    }
}

/// The task without the groups in front of it, unless another task has the same name then.
fn own_name<'a>(row: &'a Row, scores: &ScoreTable) -> &'a str {
    let name = row.task.rsplit("::").next().unwrap_or(&row.task);
    let is_taken = |other: &Row| other.task != row.task && other.task.rsplit("::").next() == Some(name);
    if scores.rows.iter().any(is_taken) { &row.task } else { name }
}

fn arrow(row: &Row) -> &'static str {
    match row.higher_is_better {
        Some(true) => "↑",
        Some(false) => "↓",
        None => "",
    }
}

/// A score with its standard error, to four decimals.
fn score(cell: Option<&Cell>, sign: &str, missing: &str) -> String {
    let Some(cell) = cell else { return missing.to_owned() };
    let number = |number: f64| match number {
        number if number.is_nan() => "nan".to_owned(),
        number => format!("{number:.4}"),
    };
    let value = match &cell.value {
        Value::Float(value) => number(*value),
        other => repr::str(other),
    };
    match cell.stderr {
        Some(stderr) => format!("{value}{sign}{}", number(stderr)),
        None => value,
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || first == '-')
}

/// Text as LaTeX has it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\\' => out.push_str(r"\textbackslash{}"),
            '~' => out.push_str(r"\textasciitilde{}"),
            '^' => out.push_str(r"\textasciicircum{}"),
            '<' => out.push_str(r"\textless{}"),
            '>' => out.push_str(r"\textgreater{}"),
            '|' => out.push_str(r"\textbar{}"),
            '↑' => out.push_str(r"$\uparrow$"),
            '↓' => out.push_str(r"$\downarrow$"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', character]),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latex_text_is_escaped() {
        assert_eq!(
            escaped("a_b & 50% $x$ #1 {c} ~^\\"),
            "a\\_b \\& 50\\% \\$x\\$ \\#1 \\{c\\} \\textasciitilde{}\\textasciicircum{}\\textbackslash{}"
        );
        assert_eq!(escaped("↑"), "$\\uparrow$");
    }
}
