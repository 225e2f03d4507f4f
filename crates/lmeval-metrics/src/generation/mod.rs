//! Metrics of generated answers. One file each.

mod bleu;
mod chrf;
mod exact_match;
mod ngrams;
mod porter;
mod rouge;
mod squad;
mod ter;
mod ter_edits;
mod text_corpus;
mod tokenizer_13a;

pub(crate) use self::bleu::Bleu;
pub use self::bleu::bleu;
pub use self::chrf::chrf;
pub(crate) use self::chrf::{ChrF, chrf_plus_plus};
pub use self::exact_match::{ExactMatch, exact_match};
pub use self::porter::stem;
pub(crate) use self::rouge::rouge_metric;
pub use self::rouge::{RougeKind, rouge, rouge_multi};
pub use self::squad::{squad_exact_match, squad_f1};
pub(crate) use self::squad::{squad_exact_match_metric, squad_f1_metric};
pub(crate) use self::ter::Ter;
pub use self::ter::ter;
pub use self::tokenizer_13a::tokenize_13a;

use crate::output_type::OutputType;

const GENERATION: &[OutputType] = &[OutputType::GenerateUntil];
