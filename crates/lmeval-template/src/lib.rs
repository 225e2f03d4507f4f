//! Jinja templates with Python's semantics.
//!
//! Prompts are written in Jinja and rendered on Python values; one differing space makes a different prompt.
//! This crate therefore implements Jinja2 3.1 on [`lmeval_pycompat::Value`], with its own lexer, parser,
//! scopes, filters, tests and methods. [`Environment`] renders prompts, [`chat`] the chat templates of
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
mod expression;
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
pub use expression::Expression;
pub use template::{Environment, Template};
