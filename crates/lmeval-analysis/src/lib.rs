//! Read finished evaluation runs and compare them document by document.
//!
//! [`read`] finds the files of a run and reads the scores of its documents. [`answers`] looks up its answers. [`samples`] looks at single documents, [`summary`] describes results files
//! without decoding all of them, [`fidelity`] compares distributions token by token, [`budget`] holds scores by token budget, [`curve`] those of the steps of a training run, [`table`] puts the scores of several runs side by side, [`publish`] writes a run in the
//! formats of other programs, and [`foreign`] reads those. [`stats`] holds the arithmetic: paired tests, intervals, clustered standard errors, corrections for many
//! comparisons, and power. It knows nothing of files.

pub mod answers;
pub mod budget;
pub mod compare;
pub mod condition;
pub mod curve;
pub mod fidelity;
pub mod foreign;
pub mod gate;
pub mod pool;
pub mod publish;
pub mod read;
pub mod samples;
pub mod stats;
pub mod summary;
pub mod table;
pub mod threshold;

use lmeval_core::Diagnostic;

/// Why a run cannot be read or compared, with advice; boxed to keep results small.
pub type Error = Box<Diagnostic>;
