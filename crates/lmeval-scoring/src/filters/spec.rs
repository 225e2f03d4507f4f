//! Filter steps as configured in tasks.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use super::error::FilterError;

/// The filter that a step applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterFunction {
    /// A registered filter.
    Name(String),
    /// A Python class to instantiate.
    Class(Arc<Function>),
}

impl FilterFunction {
    /// The filter's name, or the reference to its class.
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Class(class) => &class.reference,
        }
    }
}

/// A filter and its keyword arguments.
///
/// ```
/// use lmeval_scoring::filters::FilterSpec;
/// use lmeval_pycompat::yaml;
///
/// let flat = yaml::load("{function: regex, group_select: -1}").unwrap().value;
/// let nested = yaml::load("{function: regex, kwargs: {group_select: -1}}").unwrap().value;
/// assert_eq!(FilterSpec::from_value(&flat).unwrap(), FilterSpec::from_value(&nested).unwrap());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FilterSpec {
    /// The filter to apply.
    pub function: FilterFunction,
    /// Options passed to the filter.
    pub kwargs: Dict,
}

impl FilterSpec {
    /// A registered filter without arguments.
    pub fn named(name: impl Into<String>) -> Self {
        Self { function: FilterFunction::Name(name.into()), kwargs: Dict::new() }
    }

    /// A Python class without arguments.
    pub fn of_class(class: Arc<Function>) -> Self {
        Self { function: FilterFunction::Class(class), kwargs: Dict::new() }
    }

    /// Sets an argument.
    pub fn with(mut self, argument: &str, value: impl Into<Value>) -> Self {
        self.kwargs.insert(argument, value);
        self
    }

    /// Sets all arguments.
    pub fn with_kwargs(mut self, kwargs: Dict) -> Self {
        self.kwargs = kwargs;
        self
    }

    /// Reads a step: `function`, with arguments next to it or under `kwargs`, which takes precedence.
    pub fn from_value(step: &Value) -> Result<Self, FilterError> {
        let wrong = |expected, found: &str| FilterError::Step { expected, found: found.to_owned() };
        let Value::Dict(given) = step else {
            return Err(wrong("a dict with `function`", step.type_name()));
        };
        let function = match given.get_str("function") {
            Some(Value::Str(name)) => FilterFunction::Name(name.as_ref().to_owned()),
            Some(Value::Function(class)) => FilterFunction::Class(Arc::clone(class)),
            Some(other) => {
                return Err(wrong("a dict whose `function` is a name or a class", other.type_name()));
            }
            None => return Err(wrong("a dict with `function`", "a dict without it")),
        };
        let mut kwargs: Dict = given
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), Some("function" | "kwargs")))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        match given.get_str("kwargs") {
            None => {}
            Some(Value::Dict(explicit)) => kwargs.update(explicit),
            Some(other) => return Err(wrong("a dict whose `kwargs` are a dict", other.type_name())),
        }
        Ok(Self { function, kwargs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmeval_pycompat::yaml;

    fn read(text: &str) -> Result<FilterSpec, FilterError> {
        FilterSpec::from_value(&yaml::load(text).unwrap().value)
    }

    #[test]
    fn kwargs_take_precedence() {
        let spec =
            read("{function: regex, regex_pattern: a, group_select: 1, kwargs: {regex_pattern: b}}").unwrap();
        assert_eq!(spec, FilterSpec::named("regex").with("regex_pattern", "b").with("group_select", 1_i64));
    }

    #[test]
    fn rejects_malformed_steps() {
        for text in ["regex", "{name: regex}", "{function: 1}", "{function: regex, kwargs: null}"] {
            assert!(matches!(read(text), Err(FilterError::Step { .. })), "{text}");
        }
        let error = read("{function: regex, kwargs: null}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "A filter step must be a dict whose `kwargs` are a dict, not `NoneType`"
        );
    }
}
