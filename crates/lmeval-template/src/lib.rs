//! Jinja templates with Python's semantics.
//!
//! Prompts are written in Jinja and run on Python values; a prompt that differs by one blank is another prompt. So
//! this is an implementation of the language as Jinja2 3.1 defines it, on [`lmeval_pycompat::Value`]: its own lexer,
//! parser, scopes, filters, tests and methods. [`Environment`] is for prompts, [`chat`] for the chat templates of
//! tokenizers.
//!
//! ```
//! use lmeval_pycompat::{Dict, Value};
//! use lmeval_template::Environment;
//!
//! let environment = Environment::new();
//! let template = environment.compile("{% for c in choices %}{{ loop.index }}. {{ c }}\n{% endfor %}").unwrap();
//! let choices = Value::list([Value::str("yes"), Value::str("no")]);
//! let document: Dict = [(Value::str("choices"), choices)].into_iter().collect();
//! assert_eq!(template.render(&document).unwrap(), "1. yes\n2. no\n");
//! ```

mod arguments;
mod ast;
pub mod chat;
mod error;
mod eval;
mod filters;
mod format;
mod globals;
mod lexer;
mod methods;
mod operators;
mod parser;
mod predicates;
mod program;
mod scope;
mod template;
mod value;

pub use error::{Error, ErrorKind};
pub use template::{Environment, Template};
