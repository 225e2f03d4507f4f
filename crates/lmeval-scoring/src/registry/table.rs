//! Tables of named entries.

use std::fmt;
use std::sync::Arc;

use lmeval_metrics::nearest;

use super::entry::{Code, Entry, Kind};
use super::registered::Registered;

/// The error of a name that is not in the table of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a known {kind}")]
pub struct UnknownName {
    /// The kind, such as `metric`.
    pub kind: &'static str,
    /// The name that was looked up.
    pub name: String,
    /// Similar known names, best first.
    pub nearest: Vec<String>,
    /// All known names, sorted.
    pub known: Vec<String>,
}

/// The error of a name that is already registered with a different meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A different {kind} `{name}` is already registered")]
pub struct AlreadyRegistered {
    /// The kind, such as `metric`.
    pub kind: &'static str,
    /// The name that is in use.
    pub name: String,
}

/// The entries of one kind: built-in, registered by a Rust program, and registered by Python code.
#[derive(Clone)]
pub struct Table<K: Kind> {
    entries: Arc<Vec<Entry<K>>>,
}

impl<K: Kind> Table<K> {
    pub(super) fn new(built_in: Vec<Entry<K>>) -> Self {
        Self { entries: Arc::new(built_in) }
    }

    pub(super) fn register(&mut self, entry: Entry<K>) -> Result<(), AlreadyRegistered> {
        match self.entries.iter().find(|known| known.name == entry.name) {
            Some(known) if known.code.is_same(&entry.code) => {}
            Some(_) => return Err(AlreadyRegistered { kind: K::NAME, name: entry.name.into_owned() }),
            None => Arc::make_mut(&mut self.entries).push(entry),
        }
        Ok(())
    }

    pub(super) fn add_python(&mut self, name: &str, registered: Registered) {
        Arc::make_mut(&mut self.entries).push(Entry::with_code(name.to_owned(), Code::Python(registered)));
    }

    /// The entry in effect for a name: Python registrations take precedence over those of a Rust program, and those
    /// over built-in ones.
    pub fn get(&self, name: &str) -> Option<&Entry<K>> {
        self.best(name, |_| true)
    }

    /// The entry for a name, ignoring Python registrations.
    pub fn get_rust(&self, name: &str) -> Option<&Entry<K>> {
        self.best(name, |entry| entry.code.rust().is_some())
    }

    /// The Python registration in effect for a name.
    pub fn python(&self, name: &str) -> Option<&Registered> {
        self.get(name)?.code.python()
    }

    fn best(&self, name: &str, wanted: impl Fn(&Entry<K>) -> bool) -> Option<&Entry<K>> {
        let named = self.entries.iter().filter(|entry| entry.name == name && wanted(entry));
        named.max_by_key(|entry| entry.code.layer()).or_else(|| {
            self.entries
                .iter()
                .find(|entry| entry.code.python().is_none() && wanted(entry) && K::matches_name(entry, name))
        })
    }

    /// The entry in effect for a name, or an error that lists similar names.
    pub fn find(&self, name: &str) -> Result<&Entry<K>, UnknownName> {
        self.get(name).ok_or_else(|| self.unknown(name))
    }

    /// The error of an unknown name.
    pub fn unknown(&self, name: &str) -> UnknownName {
        let known = self.names();
        UnknownName {
            kind: K::NAME,
            name: name.to_owned(),
            nearest: nearest(name, known.iter().copied()).into_iter().map(str::to_owned).collect(),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }

    /// All entries, in registration order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.entries.iter()
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.iter().map(|entry| &*entry.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl<K: Kind> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(K::NAME).field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{AggregationEntry, Registry};
    use lmeval_metrics::Number;
    use lmeval_metrics::aggregation::{Mean, Median};
    use lmeval_pycompat::{Dict, Function};

    #[test]
    fn unknown_names_list_similar_ones() {
        let registry = Registry::default();
        assert_eq!(registry.aggregations.get("mean").map(|entry| &*entry.name), Some("mean"));
        let error = registry.metrics.find("exact_macth").unwrap_err();
        assert_eq!(error.nearest[0], "exact_match");
        assert_eq!(error.to_string(), "`exact_macth` is not a known metric");
        assert!(error.known.is_sorted());
        assert!(error.known.contains(&"chrf++".to_owned()));
    }

    #[test]
    fn rejects_conflicting_registrations() {
        let mut registry = Registry::default();
        let entry = AggregationEntry::new::<Number>("trimmed", Mean);
        registry.register(entry.clone()).unwrap();
        registry.register(entry).unwrap();
        assert!(registry.register(AggregationEntry::new::<Number>("trimmed", Median)).is_err());
        assert_eq!(
            registry.register(AggregationEntry::new::<Number>("mean", Median)).unwrap_err().to_string(),
            "A different aggregation `mean` is already registered"
        );
        assert!(registry.aggregations.get("trimmed").is_some());
        assert!(Registry::default().aggregations.get("trimmed").is_none());
    }

    #[test]
    fn python_overrides_program_overrides_built_in() {
        let registered = |reference: &str| Registered {
            function: Arc::new(Function { directory: String::new(), reference: reference.to_owned() }),
            facts: Dict::new(),
        };
        let mut registry = Registry::default();
        registry.register(AggregationEntry::new::<Number>("own", Mean)).unwrap();
        for name in ["own", "mean"] {
            assert!(registry.aggregations.python(name).is_none());
            registry.add_python("aggregation", name, registered("first"));
            registry.add_python("aggregation", name, registered("second"));
            assert_eq!(registry.aggregations.python(name).unwrap().function.reference, "second");
            assert!(registry.aggregation(name).is_ok(), "the overridden entry is still accessible");
        }
        assert_eq!(registry.aggregations.names().iter().filter(|name| **name == "mean").count(), 1);
    }

    #[test]
    fn names_are_unique() {
        fn distinct<K: Kind>(table: &Table<K>) {
            assert_eq!(table.names().len(), table.iter().count(), "{table:?}");
        }
        let registry = Registry::default();
        distinct(&registry.metrics);
        distinct(&registry.aggregations);
        distinct(&registry.reductions);
        distinct(&registry.filters);
        distinct(&registry.scorers);
        distinct(&registry.samplers);
        distinct(&registry.formats);
    }
}
