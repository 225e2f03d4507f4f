//! Whether two models are the same model: their distributions token by token, and what became of the documents.
//!
//! [`measure`] compares two distributions over one token. [`Store`] keeps those of the first model on disk until the second model
//! has been asked. [`Figures`] summarises tokens, and [`judge`] says what a paired comparison of the documents means.

mod code;
mod documents;
mod figures;
mod measure;
mod store;
mod verdict;

pub use documents::{REPORT, divergences};
pub use figures::{Figures, TokenFigures, mean_and_error};
pub use measure::{Measured, measure};
pub use store::{Kind, Store, StoreSize, Stored};
pub use verdict::{Judgement, judge};
