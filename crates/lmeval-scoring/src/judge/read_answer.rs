//! Reads the options about a judge's answers: how they are generated, and how verdicts are found in them.

use std::sync::Arc;

use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::{Dict, Value};

use super::extract::Extract;
use super::guided::{self, Guided};
use super::read_spec::{Read, given, mapping, text, type_problem, unknown};
use super::scale::Scale;
use super::spec::SpecProblem;

/// The default tokens of a judgement.
const MAX_TOKENS: i64 = 1024;

/// The default field of an object with the verdict.
const FIELD: &str = "verdict";

/// The pattern of a verdict if the task does not give one. After a marker, the word is not needed.
fn default_pattern(scale: &Scale, has_marker: bool) -> String {
    let (word, value) = match scale {
        Scale::Verdicts(_) => ("GRADE", "(.+)".to_owned()),
        Scale::Range(_, high) => {
            let high = high.to_string().replace('.', r"\.");
            ("SCORE", format!(r"([+-]?\d+(?:\.\d+)?)(?:\s*/\s*{high})?"))
        }
        Scale::Pairwise { .. } => ("VERDICT", "(.+)".to_owned()),
    };
    let optional = if has_marker { "?" } else { "" };
    format!(r"(?i)(?:{word}:){optional}\s*{value}")
}

pub(super) fn extract(options: &Dict, scale: &Scale, has_marker: bool) -> Read<Extract> {
    let pattern = |path: &[&str], source: &str| {
        Regex::new(source, Flags::default()).map_err(|error| {
            let message = format!("`{}` is not a regular expression: {}", path.join("."), error.message());
            SpecProblem::new(path, message)
        })
    };
    let Some(value) = given(options, "extract") else {
        return Ok(Extract::Line(pattern(&["extract"], &default_pattern(scale, has_marker))?));
    };
    let dict = mapping(&["extract"], value, &["regex", "take", "json"])?;
    match (given(dict, "regex"), given(dict, "json")) {
        (Some(_), Some(_)) | (None, None) => {
            Err(SpecProblem::new(&["extract"], "`extract` needs either `regex` or `json`"))
        }
        (Some(Value::Str(source)), None) => {
            let regex = pattern(&["extract", "regex"], source)?;
            match text(dict, &["extract", "take"])?.as_deref() {
                // One line has one verdict, which is the last and the only one.
                None | Some("last" | "only") => Ok(Extract::Line(regex)),
                Some("first") => {
                    let message =
                        "`take: first` is not possible: only the last line of a judge's answer counts";
                    Err(SpecProblem::new(&["extract", "take"], message)
                        .hint("Ask the judge to end with a line that consists of the verdict"))
                }
                Some(other) => Err(unknown(&["extract", "take"], other, "a choice", &["last", "only"])),
            }
        }
        (Some(other), None) => Err(type_problem(&["extract", "regex"], "a str", other)),
        (None, Some(json)) => {
            let path = ["extract", "json"];
            let dict = mapping(&path, json, &["field", "reason", "schema", "guided"])?;
            let field = text(dict, &["extract", "json", "field"])?.unwrap_or_else(|| FIELD.to_owned());
            let reason = text(dict, &["extract", "json", "reason"])?.unwrap_or_else(|| "reason".to_owned());
            if let Some(schema) = given(dict, "schema") {
                check_schema(schema, &field)?;
            }
            Ok(Extract::Json { field, reason })
        }
    }
}

/// A schema must describe an object with the field of the verdict.
fn check_schema(schema: &Value, field: &str) -> Read<()> {
    let path = ["extract", "json", "schema"];
    let dict = schema.as_dict().ok_or_else(|| type_problem(&path, "a dict", schema))?;
    match dict.get_str("properties").and_then(Value::as_dict) {
        Some(properties) if properties.contains_str(field) => Ok(()),
        _ => Err(SpecProblem::new(&path, format!("The schema has no property `{field}`"))
            .hint("`field` names the property with the verdict")),
    }
}

/// The value of `guided` that keeps the schema from the server.
const NOT_GUIDED: &str = "none";

/// The schema that servers are asked to enforce, if there is one.
pub(super) fn guided(options: &Dict, generation: &Dict) -> Read<Option<Guided>> {
    let json = given(options, "extract").and_then(Value::as_dict).and_then(|extract| given(extract, "json"));
    let Some(json) = json.and_then(Value::as_dict) else { return Ok(None) };
    let path = ["extract", "json", "guided"];
    let how = text(json, &path)?;
    let Some(schema) = given(json, "schema") else {
        return match how.as_deref() {
            None | Some(NOT_GUIDED) => Ok(None),
            Some(_) => Err(SpecProblem::new(&path, "`guided` needs a `schema`")),
        };
    };
    let field = text(json, &["extract", "json", "field"])?.unwrap_or_else(|| FIELD.to_owned());
    let how = how.as_deref().unwrap_or(guided::RESPONSE_FORMAT);
    if how == NOT_GUIDED {
        return Ok(None);
    }
    let known = [guided::RESPONSE_FORMAT, guided::GUIDED_JSON];
    match known.into_iter().find(|known| *known == how) {
        Some(how) => Ok(Some(Guided::new(how, schema, &field, generation))),
        None => Err(unknown(&path, how, "a way to pass the schema", &[&known[..], &[NOT_GUIDED]].concat())),
    }
}

/// The generation settings of the judge's requests.
pub(super) fn generation(options: &Dict) -> Read<Arc<Dict>> {
    let mut settings = Dict::new();
    settings.insert("until", Value::list([]));
    settings.insert("max_gen_toks", MAX_TOKENS);
    settings.insert("temperature", Value::Float(0.0));
    settings.insert("do_sample", false);
    match given(options, "generation_kwargs") {
        None => {}
        Some(Value::Dict(own)) => {
            if own.get_str("temperature").and_then(Value::to_f64).is_some_and(|heat| heat > 0.0) {
                settings.insert("do_sample", true);
            }
            settings.update(own);
        }
        Some(other) => return Err(type_problem(&["generation_kwargs"], "a dict", other)),
    }
    Ok(Arc::new(settings))
}
