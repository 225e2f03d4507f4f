//! Options of the CSV loader.

use std::collections::HashSet;

use lmeval_pycompat::{Dict, Value};

use crate::error::Error;

use super::Dialect;

/// Cells that represent a missing value.
const MISSING: [&str; 19] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Options for reading a CSV file.
#[derive(Clone, Debug)]
pub(crate) struct CsvOptions {
    pub(super) dialect: Dialect,
    /// The index of the record with the column names; `None` if there is none.
    pub(super) header: Option<usize>,
    pub(super) names: Option<Vec<String>>,
    pub(super) skip_rows: usize,
    columns: Option<Vec<Value>>,
    missing: HashSet<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            dialect: Dialect { separator: b',', quote: Some(b'"'), skip_blank_lines: true },
            header: Some(0),
            names: None,
            skip_rows: 0,
            columns: None,
            missing: MISSING.iter().map(|word| (*word).to_owned()).collect(),
        }
    }
}

impl CsvOptions {
    /// The names of all options.
    pub(crate) const NAMES: [&str; 14] = [
        "sep",
        "delimiter",
        "header",
        "names",
        "column_names",
        "usecols",
        "skiprows",
        "quotechar",
        "quoting",
        "skip_blank_lines",
        "na_values",
        "keep_default_na",
        "na_filter",
        "encoding",
    ];

    /// Parses the options.
    pub(crate) fn new(kwargs: &Dict) -> Result<Self, Error> {
        let mut options = Self::default();
        let fail = |name: &str, message: &str| Error::option("csv", name, message);
        let given = |name: &str| kwargs.get_str(name).filter(|value| !value.is_none());
        for name in ["sep", "delimiter"] {
            if let Some(value) = given(name) {
                options.dialect.separator =
                    one_byte(value).ok_or_else(|| fail(name, "expected a single ASCII character"))?;
            }
        }
        if let Some(value) = given("quotechar") {
            options.dialect.quote =
                Some(one_byte(value).ok_or_else(|| fail("quotechar", "expected a single ASCII character"))?);
        }
        match given("quoting").map(Value::as_i64) {
            None | Some(Some(0..=2)) => {}
            Some(Some(3)) => options.dialect.quote = None,
            Some(_) => return Err(fail("quoting", "expected a number from 0 to 3")),
        }
        for name in ["names", "column_names"] {
            if let Some(value) = given(name) {
                let names = value.as_list().and_then(|names| {
                    names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
                });
                options.names = Some(names.ok_or_else(|| fail(name, "expected a list of strings"))?);
                options.header = None;
            }
        }
        match kwargs.get_str("header") {
            None => {}
            Some(Value::None) => options.header = None,
            Some(Value::Str(text)) if **text == *"infer" => {}
            Some(Value::Int(index @ 0..)) => options.header = Some(*index as usize),
            Some(_) => return Err(fail("header", "expected `infer`, null or an integer")),
        }
        if let Some(value) = given("skiprows") {
            let count = value.as_i64().and_then(|count| usize::try_from(count).ok());
            options.skip_rows = count.ok_or_else(|| fail("skiprows", "expected an integer"))?;
        }
        if let Some(value) = given("usecols") {
            options.columns =
                Some(value.as_list().ok_or_else(|| fail("usecols", "expected a list"))?.to_vec());
        }
        let flag = |name: &str| match given(name) {
            None => Ok(true),
            Some(value) => value.as_bool().ok_or_else(|| fail(name, "expected true or false")),
        };
        options.dialect.skip_blank_lines = flag("skip_blank_lines")?;
        if !flag("keep_default_na")? {
            options.missing.clear();
        }
        match given("na_values") {
            None => {}
            Some(Value::Str(word)) => {
                options.missing.insert(word.to_string());
            }
            Some(Value::List(words)) => {
                options.missing.extend(words.iter().map(lmeval_pycompat::repr::str));
            }
            Some(_) => return Err(fail("na_values", "expected a string or a list")),
        }
        if !flag("na_filter")? {
            options.missing.clear();
        }
        match given("encoding").map(Value::as_str) {
            None => {}
            Some(Some(name)) if is_utf8(name) => {}
            Some(_) => return Err(fail("encoding", "only UTF-8 is supported; convert the file")),
        }
        Ok(options)
    }

    pub(super) fn is_missing(&self, cell: &str) -> bool {
        self.missing.contains(cell)
    }

    pub(super) fn uses(&self, index: usize, name: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| {
            columns.iter().any(|column| match column {
                Value::Int(number) => usize::try_from(*number) == Ok(index),
                column => column.as_str() == Some(name),
            })
        })
    }
}

/// Whether an encoding name means UTF-8.
pub(crate) fn is_utf8(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().replace('_', "-").as_str(), "utf-8" | "utf8" | "utf-8-sig" | "ascii")
}

fn one_byte(value: &Value) -> Option<u8> {
    match value.as_str()?.as_bytes() {
        [byte] if byte.is_ascii() => Some(*byte),
        _ => None,
    }
}
