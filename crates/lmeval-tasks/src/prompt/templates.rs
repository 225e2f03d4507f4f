//! Templates rendered on behalf of a task's code.

use std::sync::{Arc, PoisonError, RwLock};

use lmeval_pycompat::Dict;
use lmeval_template::{Environment, Error, Template};
use rustc_hash::FxHashMap;

/// A cache of compiled templates.
#[derive(Debug, Default)]
pub struct Templates(RwLock<FxHashMap<String, Arc<Template>>>);

impl Templates {
    /// Renders a template with the fields of a document.
    ///
    /// ```
    /// use lmeval_pycompat::{Dict, Value};
    /// use lmeval_tasks::prompt::Templates;
    ///
    /// let document: Dict = [(Value::str("q"), Value::str("Why"))].into_iter().collect();
    /// assert_eq!(Templates::default().render("{{q}}?", &document).unwrap(), "Why?");
    /// ```
    pub fn render(&self, template: &str, document: &Dict) -> Result<String, Error> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(template).cloned();
        let compiled = match known {
            Some(compiled) => compiled,
            None => {
                let compiled = Arc::new(Environment::new().compile(template)?);
                let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
                kept.insert(template.to_owned(), Arc::clone(&compiled));
                compiled
            }
        };
        compiled.render(document)
    }
}
