//! `ls models`, `ls metrics` and `ls filters`: registered extensions.

use anyhow::Result;
use lmeval_claims::recipe::{self, Recipe};
use lmeval_core::OutputType;
use lmeval_pycompat::Value;
use lmeval_scoring::registry::{Entry, Kind, Table};

use super::search::{Search, ranked};

/// An extension registered under one or more names.
pub(super) struct Named {
    /// The names, the main one first.
    pub names: Vec<String>,
    /// The output types it supports, if that is worth a column.
    pub made_for: Option<String>,
    /// A one-line description.
    pub summary: String,
}

impl Named {
    pub(super) fn json(&self, kind: &str) -> Value {
        let (name, others) = self.names.split_first().map_or(("", &[][..]), |(name, others)| (name, others));
        let mut fields = vec![("name", Value::from(name)), ("kind", Value::from(kind))];
        if kind == "model" {
            let others = others.iter().map(|name| Value::from(name.as_str()));
            fields.push(("other_names", Value::list(others)));
        }
        if let Some(made_for) = &self.made_for {
            fields.push(("output_types", Value::list(made_for.split(", ").map(Value::from))));
        }
        fields.push(("summary", Value::from(self.summary.as_str())));
        Value::dict(fields)
    }
}

/// Models available to `--model`.
pub(super) fn models(search: Option<&Search>) -> Vec<Named> {
    let registry = lmeval::registry();
    let named = registry.models.iter().map(|entry| Named {
        names: entry.names().map(str::to_owned).collect(),
        made_for: None,
        summary: entry.summary.clone().into_owned(),
    });
    found(search, named)
}

/// Metrics available to `metric:`.
pub(super) fn metrics(search: Option<&Search>) -> Vec<Named> {
    let types = |types: &[OutputType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    named(search, &lmeval::registry().metrics, |entry| Some(types(&entry.output_types)))
}

/// Filters available to `function:`.
pub(super) fn filters(search: Option<&Search>) -> Vec<Named> {
    named(search, &lmeval::registry().filters, |_| None)
}

/// The recipes in the binary.
pub(super) fn recipes(search: Option<&Search>) -> Result<Vec<Named>> {
    let recipes = recipe::names().map(|name| {
        let recipe = Recipe::open(name)?;
        Ok(Named { names: vec![recipe.name], made_for: None, summary: recipe.description })
    });
    Ok(found(search, recipes.collect::<Result<Vec<_>>>()?.into_iter()))
}

fn named<K: Kind>(
    search: Option<&Search>,
    table: &Table<K>,
    made_for: impl Fn(&Entry<K>) -> Option<String>,
) -> Vec<Named> {
    let entries = table.iter().map(|entry| Named {
        names: vec![entry.name.clone().into_owned()],
        made_for: made_for(entry),
        summary: entry.summary.clone().into_owned(),
    });
    found(search, entries)
}

fn found(search: Option<&Search>, named: impl Iterator<Item = Named>) -> Vec<Named> {
    let mut named: Vec<Named> = named.collect();
    named.sort_by(|left, right| left.names.cmp(&right.names));
    ranked(search, named, |one| one.names.clone())
}
