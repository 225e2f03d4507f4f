//! The filter `custom`.

use std::sync::Arc;

use lmeval_pycompat::{Function, Value};

use super::{Arguments, Filter, FilterContext, FilterDocs, FilterError, Filtered, Responses};
use crate::host::Host;
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};

const OPTIONS: &[OptionEntry] = &[OptionEntry::required("filter_fn", OptionKind::Function)];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("custom", |arguments, context| Ok(Box::new(Custom::from_arguments(arguments, context)?)))
        .options(OptionTable::lenient(OPTIONS))
        .summary("Calls a function with all answers and documents")
}

/// Calls a Python function with the answers to all requests and their documents.
///
/// | argument | default | |
/// |---|---|---|
/// | `filter_fn` | required | a function, written as `!function module.name`, with the arguments `resps` and `docs` |
///
/// Other arguments are ignored. The function returns a new list of answers for each request, in the same order.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    function: Arc<Function>,
    host: Arc<dyn Host>,
    may_unwrap: bool,
}

impl Custom {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(
        arguments: &Arguments<'_>,
        context: &FilterContext,
    ) -> Result<Self, FilterError> {
        let value = arguments.required("filter_fn", OptionKind::Function)?;
        let Value::Function(function) = value else {
            return Err(arguments.wrong("filter_fn", OptionKind::Function, value));
        };
        context
            .host
            .check_filter(function)
            .map_err(|source| FilterError::Host { filter: "custom".to_owned(), source })?;
        Ok(Self {
            function: Arc::clone(function),
            host: Arc::clone(&context.host),
            may_unwrap: context.dialect.filters.take_first_unwraps,
        })
    }

    fn call(&self, values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        let given = values.len();
        let returned = self
            .host
            .call_filter(&self.function, values, docs)
            .map_err(|source| FilterError::Host { filter: "custom".to_owned(), source })?;
        if returned.len() != given {
            return Err(FilterError::Length { given, returned: returned.len() });
        }
        let is_list = |value: &Value| matches!(value, Value::List(_) | Value::Tuple(_));
        if self.may_unwrap && !returned.iter().all(is_list) {
            return Ok(Filtered::from_bare(returned));
        }
        let lists = returned.into_iter().enumerate().map(|(request, value)| match value {
            Value::List(items) | Value::Tuple(items) => Ok(Arc::unwrap_or_clone(items)),
            other => Err(FilterError::WrongResponse {
                filter: "custom".to_owned(),
                document: docs.id(request),
                expected: "`filter_fn` to return a list for each request",
                found: other.type_name(),
            }),
        });
        Ok(lists.collect::<Result<Responses, _>>()?.into())
    }
}

impl Filter for Custom {
    fn apply(&self, responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        self.call(responses.into_iter().map(Value::from).collect(), docs)
    }

    fn apply_bare(&self, values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        self.call(values, docs)
    }

    fn calls_task_code(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterSpec;
    use crate::filters::testing::{texts, with_documents};
    use crate::host::HostError;
    use crate::registry::Registry;
    use lmeval_core::Dialect;
    use lmeval_pycompat::Dict;

    /// A host with built-in test functions.
    #[derive(Debug)]
    struct Functions;

    impl Host for Functions {
        fn call_filter(
            &self,
            function: &Function,
            responses: Vec<Value>,
            docs: &FilterDocs<'_>,
        ) -> Result<Vec<Value>, HostError> {
            let failed = || HostError::Failed {
                function: function.reference.clone(),
                message: "no".into(),
                traceback: None,
                hint: None,
            };
            let prompt = |request| {
                let document = docs.get(request).map_err(|_| failed())?;
                Ok(document.get_str("prompt").and_then(Value::as_str).unwrap_or_default().to_owned())
            };
            let first = |value: &Value| match value {
                Value::List(items) => items.first().cloned().unwrap_or_default(),
                other => other.clone(),
            };
            match function.reference.as_str() {
                "utils.prepend" => responses
                    .iter()
                    .enumerate()
                    .map(|(request, value)| {
                        let text = prompt(request)? + first(value).as_str().unwrap_or_default();
                        Ok(Value::list([Value::str(text)]))
                    })
                    .collect(),
                "utils.flat" => Ok(responses.iter().map(first).collect()),
                "utils.short" => Ok(Vec::new()),
                _ => Err(failed()),
            }
        }

        fn check_filter(&self, _: &Function) -> Result<(), HostError> {
            Ok(())
        }
    }

    fn run(reference: &str, dialect: Dialect) -> Result<Filtered, FilterError> {
        let function = Function { reference: reference.into(), directory: String::new() };
        let step = FilterSpec::named("custom").with("filter_fn", Value::Function(Arc::new(function)));
        let context = FilterContext { dialect, host: Arc::new(Functions) };
        let filter = Registry::default().filter(&step, &context)?;
        let document: Dict = [(Value::str("prompt"), Value::str("def f():"))].into_iter().collect();
        with_documents(vec![document], |docs| filter.apply(texts(&[&[" pass"]]), docs))
    }

    #[test]
    fn passes_answers_and_documents() {
        let filtered = run("utils.prepend", Dialect::V05).unwrap();
        assert_eq!(filtered, texts(&[&["def f(): pass"]]).into());
    }

    #[test]
    fn rejects_results_that_are_not_lists() {
        let error = run("utils.flat", Dialect::V05).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `custom` expects `filter_fn` to return a list for each request, but an answer to document 0 is `str`"
        );
        assert_eq!(run("utils.flat", Dialect::V04).unwrap(), Filtered::from_bare(vec![Value::str(" pass")]));
    }

    #[test]
    fn reports_failures() {
        assert!(matches!(run("utils.short", Dialect::V05), Err(FilterError::Length { .. })));
        assert!(matches!(run("utils.other", Dialect::V05), Err(FilterError::Host { .. })));
    }
}
