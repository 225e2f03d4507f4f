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

pub use self::bleu::{Bleu, bleu};
pub use self::chrf::{ChrF, chrf, chrf_plus_plus};
pub use self::exact_match::{ExactMatch, exact_match};
pub use self::porter::stem;
pub use self::rouge::{RougeKind, RougeScore, rouge, rouge_metric, rouge_multi};
pub use self::squad::{
    squad_exact_match, squad_exact_match_metric, squad_f1, squad_f1_metric, squad_normalize,
};
pub use self::ter::{Ter, ter};
pub use self::tokenizer_13a::tokenize_13a;

use crate::output_type::OutputType;

const GENERATION: &[OutputType] = &[OutputType::GenerateUntil];
