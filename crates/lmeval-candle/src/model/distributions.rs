//! The distributions over the next token in the place of each scored token.

use lmeval_core::{
    Arguments, Distribution, DistributionPart, DistributionSink, Kept, ModelError, ModelRequest,
};
use rayon::prelude::*;

use super::work::Answerer;
use crate::engine::{Row, ScoreRequest};

/// Requests scored at a time: enough for shared prefixes, and few enough to stop soon.
const REQUESTS: usize = 512;

impl Answerer {
    /// Passes on the distributions of log-likelihood requests, rolling ones as well.
    pub(super) fn distributions(
        &self,
        requests: &[ModelRequest],
        kept: Kept,
        mut sink: DistributionSink,
    ) -> Result<(), ModelError> {
        for (part, some) in requests.chunks(REQUESTS).enumerate() {
            let encoded: Vec<Result<Vec<ScoreRequest>, ModelError>> =
                some.par_iter().map(|asked| self.sequences(asked)).collect();
            let mut sequences = Vec::new();
            // For each sequence, the index of its request, and the scored tokens of the request before it.
            let mut owners = Vec::new();
            for (index, found) in encoded.into_iter().enumerate() {
                let index = part * REQUESTS + index;
                let is_wanted = match found {
                    Err(error) => sink(index, DistributionPart::Failed(error)),
                    Ok(found) => {
                        let tokens = whole(&found);
                        let scored = found.iter().map(|sequence| sequence.scored).sum();
                        let mut before = 0;
                        for sequence in found {
                            owners.push((index, before));
                            before += sequence.scored;
                            sequences.push(sequence);
                        }
                        sink(index, DistributionPart::Tokens { tokens, scored })
                    }
                };
                if !is_wanted {
                    return Ok(());
                }
            }
            let mut is_wanted = true;
            let mut failed = Vec::new();
            let mut rows = |rows: &[Row<'_>]| {
                let of_row = |row: &Row<'_>| Distribution::of_logits(row.logits, kept);
                let found: Vec<Distribution> = rows.par_iter().map(of_row).collect();
                for (row, distribution) in rows.iter().zip(found) {
                    let (request, before) = owners[row.request];
                    let position = before + row.index;
                    let part = DistributionPart::Token { position, logprob: row.logprob, distribution };
                    is_wanted = is_wanted && sink(request, part);
                }
                if !is_wanted {
                    self.cancel();
                }
            };
            let mut deliver = |sequence: usize, score: crate::error::Result<_>| {
                failed.extend(score.err().map(|error| (owners[sequence].0, error)));
            };
            let scored = self.engine.score_rows(&sequences, &mut deliver, Some(&mut rows));
            if !is_wanted {
                return Ok(());
            }
            scored?;
            for (request, error) in failed {
                if !sink(request, DistributionPart::Failed(error.into())) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The sequences that score a request: several for a text that is longer than the model's context.
    fn sequences(&self, asked: &ModelRequest) -> Result<Vec<ScoreRequest>, ModelError> {
        match &asked.arguments {
            Arguments::Loglikelihood { context, continuation } => Ok(vec![self.pair(context, continuation)?]),
            Arguments::Rolling { text } => self.windows(text),
            Arguments::Generate { .. } | Arguments::Letters { .. } => Err(asked.unsupported()),
        }
    }
}

/// The tokens of a request: the context of its first sequence, and everything that is scored.
fn whole(sequences: &[ScoreRequest]) -> Vec<u32> {
    let mut tokens = Vec::new();
    for (index, sequence) in sequences.iter().enumerate() {
        let context = sequence.tokens.len() - sequence.scored;
        tokens.extend_from_slice(if index == 0 { &sequence.tokens } else { &sequence.tokens[context..] });
    }
    tokens
}
