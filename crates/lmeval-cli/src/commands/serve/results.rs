//! Small services for the Python package: result tables, settings files, task files.

use std::path::Path;

use anyhow::{Result, bail};
use lmeval_pycompat::Value;
use lmeval_report::{Column, make_latex_table, make_table};
use lmeval_tasks::source::Loader;

use super::Request;
use crate::settings::ConfigFile;

/// Renders results as a table, in Markdown or LaTeX.
pub(super) fn table(request: &Request) -> Result<Value> {
    let column = match request.part("column").as_str() {
        Some("results") => Column::Results,
        Some("groups") => Column::Groups,
        other => bail!("A table shows `results` or `groups`, not `{}`", other.unwrap_or_default()),
    };
    let results = request.dict("results");
    let sorted = request.part("sort").is_truthy();
    let table = if request.part("latex").is_truthy() { make_latex_table } else { make_table };
    Ok(Value::from(table(&results, column, sorted)))
}

/// Reads a YAML settings file.
pub(super) fn read_config(request: &Request) -> Result<Value> {
    let path = request.part("path");
    let file = ConfigFile::read(Path::new(path.as_str().unwrap_or_default()))?;
    Ok(Value::from(file.dict))
}

/// Reads the YAML file of a task or group, with the files it includes unless the request excludes them.
pub(super) fn read_yaml(request: &Request) -> Result<Value> {
    let path = request.part("path");
    let path = Path::new(path.as_str().unwrap_or_default());
    if !request.part("includes").is_truthy() {
        return Ok(Value::from(Loader::new().load_alone(path)?.values));
    }
    Ok(Value::from(Loader::new().load(path)?.values().clone()))
}
