//! The probabilities of tokens by a model in Python.

use lmeval_core::{
    Arguments, Context, Distribution, DistributionPart, DistributionSink, Kept, ModelError, ModelErrorKind,
    ModelRequest,
};
use lmeval_pycompat::{Dict, Value};

use super::PythonModel;
use super::failure::failure;
use crate::error::WorkerError;
use crate::protocol::{ProtocolError, encode_message};
use crate::services::without_run;

/// Requests of a call: few enough to stop soon.
const REQUESTS: usize = 256;

impl PythonModel {
    /// Passes on the distributions of requests, call by call.
    pub(super) fn pass_distributions(
        &self,
        requests: &[ModelRequest],
        kept: Kept,
        mut sink: DistributionSink,
    ) -> Result<(), ModelError> {
        let what = format!("The model `{}` failed to return the probabilities of tokens", self.name);
        for (call, some) in requests.chunks(REQUESTS).enumerate() {
            let first = call * REQUESTS;
            let (mut is_wanted, mut malformed) = (true, false);
            let mut take = |value: Value| {
                if value.is_none() {
                    return true;
                }
                match part(&value).filter(|(index, _)| *index < some.len()) {
                    // The rest of a call that nobody wants is read and dropped.
                    Some((index, part)) => is_wanted = is_wanted && sink(first + index, part),
                    None => malformed = true,
                }
                false
            };
            let message = encode_message("model_distributions", &self.message(some, kept));
            let message = message.map_err(|error| failure(ModelErrorKind::Request, &what, error.into()))?;
            self.link.converse(&message, &mut take, &without_run).map_err(|error| {
                let is_missing =
                    matches!(&error, WorkerError::Raised { kind, .. } if kind == "NotImplementedError");
                let kind = if is_missing { ModelErrorKind::Unsupported } else { ModelErrorKind::Capability };
                failure(kind, &what, error)
            })?;
            if malformed {
                let error = ProtocolError::Malformed("a part of no distribution".to_owned());
                return Err(failure(ModelErrorKind::Capability, &what, error.into()));
            }
            if !is_wanted {
                return Ok(());
            }
        }
        Ok(())
    }

    fn message(&self, requests: &[ModelRequest], kept: Kept) -> Dict {
        let mut message = Dict::new();
        message.insert("handle", self.handle);
        message.insert("share", kept.share);
        message.insert("most", kept.most as i64);
        let text = |context: &Context| context.as_text().map_or(Value::None, |text| Value::Str(text.clone()));
        let of_request = |request: &ModelRequest| match &request.arguments {
            Arguments::Loglikelihood { context, continuation } => {
                Value::list([text(context), Value::Str(continuation.clone())])
            }
            Arguments::Rolling { text } => Value::list([Value::Str(text.clone())]),
            Arguments::Generate { .. } | Arguments::Letters { .. } => Value::list([]),
        };
        message.insert("requests", Value::list(requests.iter().map(of_request)));
        message
    }
}

/// Reads a part, with the index of its request; `None` if it is malformed.
fn part(value: &Value) -> Option<(usize, DistributionPart)> {
    let index = |value: &Value| usize::try_from(value.as_i64()?).ok();
    let found = match value.as_list()? {
        [request, Value::Str(reason)] => {
            let error = ModelError::new(ModelErrorKind::Request, reason.as_ref());
            (index(request)?, DistributionPart::Failed(error))
        }
        [request, Value::List(tokens), scored] => {
            let id = |token: &Value| u32::try_from(token.as_i64()?).ok();
            let tokens: Vec<u32> = tokens.iter().map(id).collect::<Option<_>>()?;
            let scored = index(scored).filter(|scored| *scored <= tokens.len())?;
            (index(request)?, DistributionPart::Tokens { tokens, scored })
        }
        [request, position, logprob, Value::Bytes(ids), Value::Bytes(logprobs), rest] => {
            let logprobs = words(logprobs)?.map(|word| f64::from(f32::from_le_bytes(word)));
            let ids: Vec<u32> = if ids.is_empty() {
                // All tokens, in the order of their ids.
                (0..logprobs.len() as u32).collect()
            } else {
                words(ids)?.map(u32::from_le_bytes).collect()
            };
            if ids.len() != logprobs.len() {
                return None;
            }
            let likely = ids.into_iter().zip(logprobs).collect();
            let distribution = Distribution { likely, rest: rest.to_f64()? };
            let (position, logprob) = (index(position)?, logprob.to_f64()?);
            (index(request)?, DistributionPart::Token { position, logprob, distribution })
        }
        _ => return None,
    };
    Some(found)
}

/// Groups of four bytes; `None` if some are left over.
fn words(bytes: &[u8]) -> Option<impl ExactSizeIterator<Item = [u8; 4]>> {
    let (words, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| words.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_parts_are_refused() {
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
        let number = Value::Float(-0.5);
        let parts = |ids: &[u8], logprobs: &[u8]| {
            Value::list([
                Value::Int(1),
                Value::Int(0),
                number.clone(),
                bytes(ids),
                bytes(logprobs),
                Value::Float(0.25),
            ])
        };
        let sound = parts(&7_u32.to_le_bytes(), &(-1.5_f32).to_le_bytes());
        let Some((1, DistributionPart::Token { position: 0, distribution, .. })) = part(&sound) else {
            panic!("{sound:?}")
        };
        assert_eq!((distribution.likely, distribution.rest), (vec![(7, -1.5)], 0.25));
        for wrong in [
            parts(&[1, 2, 3], &[0; 4]),
            parts(&[0; 8], &[0; 4]),
            Value::list([Value::Int(-1), Value::str("no")]),
            Value::list([Value::Int(0), Value::list([Value::Int(1)]), Value::Int(2)]),
            Value::Int(3),
        ] {
            assert!(part(&wrong).is_none(), "{wrong:?}");
        }
    }
}
