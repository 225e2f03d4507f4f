//! Checks every answer before it is saved or scored, whatever backend it comes from.

use std::borrow::Cow;
use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, Letter, ModelError, ModelErrorKind, ModelRequest, Response, TokenEnds, Trace, secrets,
};

/// How far rounding may lift a log-likelihood above 0, the logarithm of certainty.
const ROUNDING: f64 = 0.02;

/// Passes an answer on if it fits its request, and fails the request otherwise.
pub(crate) fn checked(
    request: &ModelRequest,
    answer: Result<Answer, ModelError>,
) -> Result<Answer, ModelError> {
    answer.and_then(|answer| match problem(request, &answer.response) {
        None => Ok(answer),
        Some(error) => Err(error),
    })
}

/// An answer in which keys of this process are masked. A server may repeat the key that it was sent, in any form that JSON
/// allows, and the journal would keep it. Both this run and one that resumes it score the masked text.
pub(crate) fn masked(mut answer: Answer) -> Answer {
    let mut is_changed = false;
    let mut mask = |text: &Arc<str>| match secrets::mask_data(text) {
        Cow::Owned(masked) => {
            is_changed = true;
            masked.into()
        }
        Cow::Borrowed(_) => Arc::clone(text),
    };
    if let Response::Text(text) = &answer.response {
        answer.response = Response::Text(mask(text));
    }
    if let Some(trace) = answer.trace.as_deref() {
        let (reasoning, rest) = (mask(&trace.reasoning), mask(&trace.rest));
        if is_changed {
            // The ends of tokens are those of the text as it was.
            answer.trace = Some(Arc::new(Trace {
                reasoning,
                rest,
                separator: trace.separator,
                tokens: TokenEnds::default(),
                ids: Arc::default(),
            }));
        }
    }
    answer
}

/// Whether an answer fits its request.
pub(crate) fn is_valid(request: &ModelRequest, answer: &Answer) -> bool {
    problem(request, &answer.response).is_none()
}

fn problem(request: &ModelRequest, response: &Response) -> Option<ModelError> {
    match (&request.arguments, response) {
        (Arguments::Loglikelihood { .. }, Response::Loglikelihood { logprob, .. })
        | (Arguments::Rolling { .. }, Response::Rolling { logprob }) => {
            (!is_log_likelihood(*logprob)).then(|| wrong_value(*logprob))
        }
        (Arguments::Generate { .. }, Response::Text(_)) => None,
        (Arguments::Letters { labels, .. }, Response::Letters(letters)) if labels.len() == letters.len() => {
            letters.iter().find_map(wrong_letter).map(wrong_value)
        }
        (Arguments::Letters { labels, .. }, Response::Letters(letters)) => {
            let message = format!(
                "The model answered with the probabilities of {} labels to a request with {}",
                letters.len(),
                labels.len()
            );
            Some(ModelError::new(ModelErrorKind::Answer, message))
        }
        _ => Some(wrong_type(request, response)),
    }
}

fn is_log_likelihood(number: f64) -> bool {
    number.is_finite() && number <= ROUNDING
}

/// The number of a label that is not the logarithm of a probability. A label that cannot occur has minus infinity.
fn wrong_letter(letter: &Letter) -> Option<f64> {
    let numbers = [letter.lower(), letter.upper];
    numbers.into_iter().find(|number| *number != f64::NEG_INFINITY && !is_log_likelihood(*number))
}

fn wrong_value(number: f64) -> ModelError {
    let shown = match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "infinity".to_owned(),
        f64::NEG_INFINITY => "minus infinity".to_owned(),
        _ => number.to_string(),
    };
    let message = format!("The model answered with a log-likelihood of {shown}");
    ModelError::new(ModelErrorKind::Answer, message).hint(format!(
        "A log-likelihood is finite and at most 0; {ROUNDING} above it is allowed for rounding. \
         Check the numerical precision of the model (`dtype`) and the code that computes its scores"
    ))
}

fn wrong_type(request: &ModelRequest, response: &Response) -> ModelError {
    let found = match response {
        Response::Loglikelihood { .. } => "a log-likelihood",
        Response::Rolling { .. } => "a rolling log-likelihood",
        Response::Text(_) => "a string",
        Response::Letters(_) => "the probabilities of labels",
    };
    let message = format!("The model answered a `{}` request with {found}", request.request_type());
    ModelError::new(ModelErrorKind::Answer, message)
}

#[cfg(test)]
mod tests {
    use lmeval_core::DocId;
    use lmeval_pycompat::Dict;

    use super::*;

    fn request(arguments: Arguments) -> ModelRequest {
        ModelRequest {
            task_name: "t".into(),
            doc_id: DocId(0),
            idx: 0,
            repeat: 0,
            arguments,
            additional_args: None,
            document: None,
            progress: None,
        }
    }

    fn requests() -> [ModelRequest; 4] {
        [
            Arguments::Loglikelihood { context: "Q".into(), continuation: "A".into() },
            Arguments::Rolling { text: "Q".into() },
            Arguments::Generate { context: "Q".into(), kwargs: Arc::new(Dict::new()) },
            Arguments::Letters { context: "Q".into(), labels: Arc::from(["A".into()]) },
        ]
        .map(request)
    }

    fn letter(logprob: Option<f64>, upper: f64) -> Response {
        Response::Letters([Letter { logprob, upper, is_greedy: true }].into())
    }

    fn error(request: &ModelRequest, response: Response) -> Option<String> {
        checked(request, Ok(response.into())).err().map(|error| error.to_string())
    }

    #[test]
    fn answers_must_have_the_type_of_their_request() {
        let responses = || {
            let logprob = -1.0;
            let scored = Response::Loglikelihood { logprob, is_greedy: true };
            [scored, Response::Rolling { logprob }, Response::Text("".into()), letter(None, -1.0)]
        };
        for (kind, request) in requests().iter().enumerate() {
            for (answered, response) in responses().into_iter().enumerate() {
                assert_eq!(error(request, response).is_none(), kind == answered, "{kind} {answered}");
            }
        }
        assert_eq!(
            error(&requests()[0], Response::Rolling { logprob: -1.0 }).unwrap(),
            "The model answered a `loglikelihood` request with a rolling log-likelihood"
        );
    }

    #[test]
    fn log_likelihoods_are_finite_and_not_positive() {
        let [scored, rolling, ..] = requests();
        let accepts = |logprob| {
            let response = Response::Loglikelihood { logprob, is_greedy: true };
            let accepts = error(&scored, response).is_none();
            assert_eq!(accepts, error(&rolling, Response::Rolling { logprob }).is_none());
            accepts
        };
        for number in [0.0, -0.0, -1e300, 1e-6, ROUNDING] {
            assert!(accepts(number), "{number}");
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.03, 1.0, 1e300] {
            assert!(!accepts(number), "{number}");
        }
    }

    #[test]
    fn labels_may_be_impossible() {
        let [.., letters] = requests();
        let low = f64::NEG_INFINITY;
        for response in [letter(None, low), letter(Some(low), low), letter(Some(0.01), 0.015)] {
            assert_eq!(error(&letters, response), None);
        }
        for response in [letter(Some(f64::NAN), 0.0), letter(None, f64::NAN), letter(Some(0.5), 0.5)] {
            assert!(error(&letters, response).is_some());
        }
        assert!(error(&letters, Response::Letters([].into())).is_some());
    }
}
