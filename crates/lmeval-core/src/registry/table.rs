//! A table of named entries: the built-in ones and those added at run time.

use std::fmt;

use crate::near::nearest;

/// Something that is found by its name.
pub trait Entry: Clone + PartialEq + 'static {
    /// What messages call one of these, such as `metric`.
    const KIND: &'static str;

    /// The name.
    fn name(&self) -> &str;

    /// Whether the entry answers to this name; some names are patterns, such as `pass@k`.
    fn answers_to(&self, name: &str) -> bool {
        self.name() == name
    }
}

/// A name that is in no table of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a known {kind}")]
pub struct UnknownName {
    /// The kind of thing that was looked for.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// Known names that look like it, best first.
    pub nearest: Vec<String>,
    /// All known names, sorted.
    pub known: Vec<String>,
}

/// A name that already stands for something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The {kind} `{name}` is registered already and differs from the new one")]
pub struct AlreadyRegistered {
    /// The kind of thing that was registered.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}

/// A table of named entries.
///
/// ```
/// use lmeval_core::registry::{Registry, SAMPLERS, SamplerEntry};
///
/// let mut samplers = Registry::new(SAMPLERS);
/// samplers.register(SamplerEntry::new("nearest", "The examples most like the document")).unwrap();
/// assert_eq!(samplers.names(), ["default", "first_n", "nearest"]);
/// ```
#[derive(Clone)]
pub struct Registry<T: 'static> {
    built_in: &'static [T],
    added: Vec<T>,
}

impl<T: Entry> Registry<T> {
    /// A registry that holds the built-in entries.
    pub fn new(built_in: &'static [T]) -> Self {
        Self { built_in, added: Vec::new() }
    }

    /// Adds an entry. Adding an equal entry again changes nothing; a name never changes its meaning.
    pub fn register(&mut self, entry: T) -> Result<(), AlreadyRegistered> {
        let known = self.iter().find(|known| known.name() == entry.name());
        if let Some(known) = known {
            return if *known == entry {
                Ok(())
            } else {
                Err(AlreadyRegistered { kind: T::KIND, name: entry.name().to_owned() })
            };
        }
        self.added.push(entry);
        Ok(())
    }

    /// The entry of a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter()
            .find(|entry| entry.name() == name)
            .or_else(|| self.iter().find(|entry| entry.answers_to(name)))
    }

    /// The entry of a name, or an error that lists the nearest names.
    pub fn find(&self, name: &str) -> Result<&T, UnknownName> {
        self.get(name).ok_or_else(|| {
            let known = self.names();
            UnknownName {
                kind: T::KIND,
                name: name.to_owned(),
                nearest: nearest(name, known.iter().copied()).into_iter().map(str::to_owned).collect(),
                known: known.into_iter().map(str::to_owned).collect(),
            }
        })
    }

    /// All entries: the built-in ones, then the added ones in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.built_in.iter().chain(&self.added)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.iter().map(Entry::name).collect();
        names.sort_unstable();
        names
    }
}

impl<T: Entry> fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(T::KIND).field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{AGGREGATIONS, AggregationEntry, AggregationInput, Registries};

    #[test]
    fn names_are_found_and_missed() {
        let registries = Registries::default();
        assert_eq!(registries.aggregations.get("mean").map(Entry::name), Some("mean"));
        let error = registries.metrics.find("exact_macth").unwrap_err();
        assert_eq!(error.nearest[0], "exact_match");
        assert_eq!(error.to_string(), "`exact_macth` is not a known metric");
        assert!(error.known.is_sorted());
        assert!(error.known.contains(&"chrf++".to_owned()));
    }

    #[test]
    fn a_name_keeps_its_meaning() {
        let mut aggregations = Registry::new(AGGREGATIONS);
        let entry = AggregationEntry::new("trimmed", AggregationInput::Numbers, "Mean without the extremes");
        aggregations.register(entry.clone()).unwrap();
        aggregations.register(entry).unwrap();
        let other = AggregationEntry::new("trimmed", AggregationInput::Any, "Something else");
        assert!(aggregations.register(other).is_err());
        let built_in = AggregationEntry::new("mean", AggregationInput::Any, "Not the mean");
        assert_eq!(
            aggregations.register(built_in).unwrap_err().to_string(),
            "The aggregation `mean` is registered already and differs from the new one"
        );
        assert!(aggregations.get("trimmed").is_some());
    }

    #[test]
    fn no_table_holds_a_name_twice() {
        fn distinct<T: Entry>(registry: &Registry<T>) {
            let names = registry.names();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
        let registries = Registries::default();
        distinct(&registries.metrics);
        distinct(&registries.aggregations);
        distinct(&registries.reductions);
        distinct(&registries.filters);
        distinct(&registries.scorers);
        distinct(&registries.samplers);
    }
}
