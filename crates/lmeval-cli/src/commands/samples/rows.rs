//! Samples as rows: tables, Markdown, CSV and JSON.

use anyhow::Result;
use lmeval_analysis::samples::{Expression, Sample};
use lmeval_pycompat::{Dict, Value};

use super::arguments::Format;
use crate::excerpt::{Folding, cell};
use crate::printer::Printer;
use crate::{csv, json_line, table};

/// Characters shown at the start and at the end of a long cell.
const ENDS: usize = 60;

/// Rows of one table; column widths need all of them, so a long table is printed in parts.
const PART: usize = 1000;

/// Prints chosen fields of samples.
pub(super) struct Rows {
    format: Format,
    fields: Vec<Expression>,
    /// Whether a sample had a value, by field.
    is_set: Vec<bool>,
    folding: Folding,
    waiting: Vec<Vec<String>>,
    printed: usize,
}

impl Rows {
    pub(super) fn new(format: Format, fields: Vec<Expression>, full: bool) -> Self {
        let folds = !full && matches!(format, Format::Table | Format::Markdown);
        Self {
            format,
            is_set: vec![false; fields.len()],
            fields,
            folding: Folding::new(folds.then_some(ENDS)),
            waiting: Vec::new(),
            printed: 0,
        }
    }

    pub(super) fn write(&mut self, sample: &Sample<'_>, printer: &mut Printer) -> Result<()> {
        let mut values = Vec::with_capacity(self.fields.len());
        for (field, is_set) in self.fields.iter().zip(&mut self.is_set) {
            let value = field.value(sample)?;
            *is_set |= value.is_some();
            values.push(value);
        }
        self.printed += 1;
        match self.format {
            Format::Jsonl => {
                let object: Dict = self
                    .fields
                    .iter()
                    .zip(values)
                    .map(|(field, value)| (Value::str(field.text()), value.unwrap_or_default()))
                    .collect();
                let mut line = String::new();
                json_line::write(&mut line, &Value::from(object))?;
                printer.data(&line, true)?;
            }
            Format::Csv => {
                self.csv_header(printer)?;
                let cells = values.iter().map(|value| cell(value.as_ref()));
                printer.data(&csv::line(cells), false)?;
            }
            Format::Markdown => {
                self.markdown_header(printer)?;
                let cells = values.iter().map(|value| markdown(&self.folding.fold(cell(value.as_ref()))));
                printer.result(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")))?;
            }
            Format::Table => {
                let cells = values.iter().map(|value| {
                    let text = self.folding.fold(cell(value.as_ref()));
                    text.replace("\r\n", "⏎").replace(['\n', '\r'], "⏎").replace('\t', " ")
                });
                self.waiting.push(cells.collect());
                if self.waiting.len() == PART {
                    self.print_part(printer)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, printer: &mut Printer) -> Result<()> {
        self.printed += 1;
        match self.format {
            Format::Csv => self.csv_header(printer),
            Format::Markdown => self.markdown_header(printer),
            Format::Table if self.printed == 1 || !self.waiting.is_empty() => self.print_part(printer),
            Format::Table | Format::Jsonl => Ok(()),
        }
    }

    /// The number of folded values.
    pub(super) fn folded(&self) -> usize {
        self.folding.folded()
    }

    /// Fields for which no printed sample had a value.
    pub(super) fn never_set(&self) -> impl Iterator<Item = &str> {
        let is_empty = self.printed <= 1;
        let fields = self.fields.iter().zip(&self.is_set).filter(move |(_, is_set)| !is_empty && !**is_set);
        fields.map(|(field, _)| field.text())
    }

    fn headers(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.text().to_owned()).collect()
    }

    /// Prints the names of columns before the first row.
    fn csv_header(&self, printer: &mut Printer) -> Result<()> {
        if self.printed > 1 {
            return Ok(());
        }
        Ok(printer.data(&csv::line(self.headers()), false)?)
    }

    fn markdown_header(&self, printer: &mut Printer) -> Result<()> {
        if self.printed > 1 {
            return Ok(());
        }
        let names: Vec<String> = self.headers().iter().map(|name| markdown(name)).collect();
        let rules = vec!["---"; names.len()].join(" | ");
        Ok(printer.result(&format!("| {} |\n| {rules} |\n", names.join(" | ")))?)
    }

    fn print_part(&mut self, printer: &mut Printer) -> Result<()> {
        let text = table::render(&self.headers(), &self.waiting, self.fields.len());
        self.waiting.clear();
        Ok(printer.table(&text)?)
    }
}

/// A Markdown cell: nothing in it is markup.
fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut previous = ' ';
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '|' | '`' | '*' | '\\' => out.extend(['\\', character]),
            '\n' if previous == '\r' => {}
            '\n' | '\r' => out.push_str("<br>"),
            other => out.push(other),
        }
        previous = character;
    }
    out
}
