//! The fields of a task, compiled for resolution against documents.

use std::sync::{Arc, OnceLock};

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::{Host, HostFn};
use lmeval_template::{Environment, Template};
use rustc_hash::FxHashSet;

use super::error::{PromptError, PromptErrorKind};
use crate::config::Field;

/// How a value was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By rendering a template.
    Rendered,
    /// From a column, a function or the configuration.
    Given,
}

/// The value of a field for one document.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl Resolved {
    fn given(value: Value) -> Self {
        Self { value, origin: Origin::Given }
    }

    /// The string, if a template rendered it.
    pub(crate) fn rendered(&self) -> Option<&str> {
        self.value.as_str().filter(|_| self.origin == Origin::Rendered)
    }
}

/// The rules by which fields are resolved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolution {
    /// The known columns; `None` means those of the current document.
    pub(crate) columns: Option<FxHashSet<String>>,
    /// Whether strings in lists are templates.
    pub(crate) list_elements_are_templates: bool,
}

/// A field whose templates are compiled on first use.
#[derive(Debug)]
pub(crate) struct PromptField {
    name: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text(Text),
    Function(HostFn),
    Constant(Value),
    List { elements: Vec<Element>, verbatim: Value },
}

#[derive(Debug)]
enum Element {
    Template(Text),
    Value(Value),
}

/// A column name or template.
#[derive(Debug)]
struct Text {
    /// The string in the task file.
    written: Arc<str>,
    /// The rendered template, if it contains no expressions.
    plain: Option<Arc<str>>,
    template: OnceLock<Result<Template, Arc<lmeval_template::Error>>>,
}

impl PromptField {
    /// Prepares a field without compiling it, since the string may be the name of a column.
    pub(crate) fn new(name: &'static str, field: &Field, host: &Arc<dyn Host>) -> Self {
        let kind = match field {
            Field::Text(text) => Kind::Text(Text::new(text)),
            Field::Function(function) => Kind::Function(HostFn::new(Arc::clone(function), Arc::clone(host))),
            Field::Int(number) => Kind::Constant(Value::Int(*number)),
            Field::Bool(truth) => Kind::Constant(Value::Bool(*truth)),
            Field::List(items) => Kind::List {
                elements: items
                    .iter()
                    .map(|item| match item {
                        Value::Str(text) => Element::Template(Text::new(text)),
                        other => Element::Value(other.clone()),
                    })
                    .collect(),
                verbatim: Value::List(Arc::clone(items)),
            },
            Field::Dict(dict) => Kind::Constant(Value::list(dict.values().cloned())),
        };
        Self { name, kind }
    }

    /// The key of the field in the configuration.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The column name or template, unless the field is something else.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(&text.written),
            _ => None,
        }
    }

    /// Whether the field is falsy in Python: an empty string or list.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Text(text) => text.written.is_empty(),
            Kind::List { elements, .. } => elements.is_empty(),
            Kind::Constant(value) => !value.is_truthy(),
            Kind::Function(_) => false,
        }
    }

    /// Resolves the field for a document.
    pub(crate) fn resolve(&self, document: &Arc<Dict>, rules: &Resolution) -> Result<Resolved, PromptError> {
        let resolved = match &self.kind {
            Kind::Text(text) => text.resolve(document, rules),
            Kind::Function(function) => {
                function.call(document).map(Resolved::given).map_err(PromptError::host)
            }
            Kind::Constant(value) => Ok(Resolved::given(value.clone())),
            Kind::List { verbatim, .. } if !rules.list_elements_are_templates => {
                Ok(Resolved::given(verbatim.clone()))
            }
            Kind::List { elements, .. } => {
                let values: Result<Vec<Value>, PromptError> =
                    elements.iter().map(|element| element.value(document)).collect();
                values.map(|values| Resolved::given(Value::from(values)))
            }
        };
        resolved.map_err(|error| error.in_field(self.name))
    }

    /// Resolves the field for a document; also returns the document if a function changed it.
    pub(crate) fn resolve_watched(
        &self,
        document: &Arc<Dict>,
        rules: &Resolution,
    ) -> Result<(Resolved, Option<Dict>), PromptError> {
        let Kind::Function(function) = &self.kind else { return Ok((self.resolve(document, rules)?, None)) };
        let (value, changed) =
            function.call_watched(document).map_err(|error| PromptError::host(error).in_field(self.name))?;
        Ok((Resolved::given(value), changed))
    }

    /// Resolves each item of a list as a separate field, as for images.
    pub(crate) fn resolve_each(
        &self,
        document: &Arc<Dict>,
        rules: &Resolution,
    ) -> Result<Vec<Resolved>, PromptError> {
        let Kind::List { elements, .. } = &self.kind else {
            return Ok(vec![self.resolve(document, rules)?]);
        };
        let resolve = |element: &Element| match element {
            Element::Template(text) => text.resolve(document, rules),
            Element::Value(value) => Ok(Resolved::given(value.clone())),
        };
        let resolved: Result<Vec<Resolved>, PromptError> = elements.iter().map(resolve).collect();
        resolved.map_err(|error| error.in_field(self.name))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List { .. })
    }
}

impl Element {
    fn value(&self, document: &Dict) -> Result<Value, PromptError> {
        match self {
            Self::Template(text) => text.render(document).map(Value::Str),
            Self::Value(value) => Ok(value.clone()),
        }
    }
}

impl Text {
    fn new(text: &Arc<str>) -> Self {
        let plain = (!text.contains('{')).then(|| {
            // Line breaks of a template are `\n`, whatever the file uses.
            if text.contains('\r') {
                text.replace("\r\n", "\n").replace('\r', "\n").into()
            } else {
                Arc::clone(text)
            }
        });
        Self { written: Arc::clone(text), plain, template: OnceLock::new() }
    }

    fn resolve(&self, document: &Dict, rules: &Resolution) -> Result<Resolved, PromptError> {
        let column = document.get_str(&self.written);
        let named = match &rules.columns {
            None => column.is_some(),
            Some(columns) => columns.contains(&*self.written),
        };
        if !named {
            return Ok(Resolved { value: Value::Str(self.render(document)?), origin: Origin::Rendered });
        }
        column.cloned().map(Resolved::given).ok_or_else(|| {
            let columns: Vec<String> =
                document.keys().filter_map(|key| key.as_str()).map(|key| format!("`{key}`")).collect();
            let message = format!("The document has no column `{}`", self.written);
            PromptError::new(PromptErrorKind::MissingColumn, message)
                .hint(format!("The columns are {}", columns.join(", ")))
        })
    }

    fn render(&self, document: &Dict) -> Result<Arc<str>, PromptError> {
        if let Some(plain) = &self.plain {
            return Ok(Arc::clone(plain));
        }
        let template =
            self.template.get_or_init(|| Environment::new().compile(&self.written).map_err(Arc::new));
        match template {
            Ok(template) => match template.render(document) {
                Ok(text) => Ok(text.into()),
                Err(error) => Err(self.failed(&Arc::new(error))),
            },
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: &Arc<lmeval_template::Error>) -> PromptError {
        let mut failure = PromptError::new(PromptErrorKind::Template, error.message())
            .with_template(&self.written)
            .including_cause((**error).clone());
        for hint in error.hints() {
            failure = failure.hint(hint.as_str());
        }
        failure
    }
}
