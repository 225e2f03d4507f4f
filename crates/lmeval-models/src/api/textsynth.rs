//! `textsynth`: the TextSynth API.

use lmeval_core::{Arguments, Finish, ModelError, ModelErrorKind, RequestType, Response};
use lmeval_pycompat::{Dict, Value};

use super::answer::{finish, malformed, text};
use super::arguments::Credentials;
use super::text::{TextAnswer, TextBackend, TextProtocol, plain};
use crate::http::BadAnswer;

pub(crate) const TEXTSYNTH: TextBackend = TextBackend {
    name: "textsynth",
    base_url: Some("https://api.textsynth.com"),
    credentials: Some(Credentials::RequiredBearer("TEXTSYNTH_API_SECRET_KEY")),
    is_hosted: true,
    make: |settings| Ok(Box::new(TextSynth { engine: settings.required("engine", "gptj_6B")? })),
};

#[derive(Debug)]
pub(super) struct TextSynth {
    pub(super) engine: String,
}

impl TextProtocol for TextSynth {
    fn model(&self) -> Option<&str> {
        Some(&self.engine)
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        if matches!(kind, RequestType::Loglikelihood | RequestType::GenerateUntil) {
            return Ok(());
        }
        let message = format!("TextSynth does not accept tokens, which `{kind}` requests need");
        Err(ModelError::new(ModelErrorKind::Unsupported, message))
    }

    fn call(&self, arguments: &Arguments) -> Result<(String, Dict), ModelError> {
        let mut body = Dict::new();
        let call = match arguments {
            Arguments::Loglikelihood { context, continuation } => {
                body.insert("context", plain(context)?);
                body.insert("continuation", continuation.as_ref());
                "logprob"
            }
            Arguments::Generate { context, kwargs } => {
                body.insert("prompt", plain(context)?);
                body.insert("max_tokens", 256);
                body.insert("top_k", 1);
                body.insert("stop", kwargs.get_str("until").cloned().unwrap_or_else(|| Value::list([])));
                "completions"
            }
            Arguments::Rolling { .. } => {
                self.supports(RequestType::LoglikelihoodRolling)?;
                "logprob"
            }
            Arguments::Letters { .. } => {
                self.supports(RequestType::ChoiceLetters)?;
                "logprob"
            }
        };
        Ok((format!("/v1/engines/{}/{call}", self.engine), body))
    }

    fn read(&self, answer: &Value, arguments: &Arguments) -> Result<TextAnswer, BadAnswer> {
        let object = answer.as_dict().ok_or_else(|| malformed("The answer is not a JSON object"))?;
        if matches!(arguments, Arguments::Generate { .. }) {
            let text = text(object, "text")?;
            return Ok(TextAnswer {
                response: Response::Text(text),
                finish: finish(object, "finish_reason"),
            });
        }
        let logprob = object.get_str("logprob").and_then(Value::to_f64);
        let is_greedy = object.get_str("is_greedy").map(Value::is_truthy);
        let (Some(logprob), Some(is_greedy)) = (logprob, is_greedy) else {
            return Err(malformed("The answer has no `logprob` or no `is_greedy`"));
        };
        Ok(TextAnswer { response: Response::Loglikelihood { logprob, is_greedy }, finish: Finish::Complete })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lmeval_pycompat::json;

    use super::*;

    #[test]
    fn builds_bodies_and_parses_answers() {
        let protocol = TextSynth { engine: "gptj_6B".into() };
        let built = |arguments: &Arguments| {
            let (path, body) = protocol.call(arguments).unwrap();
            (path, json::dumps(&Value::Dict(Arc::new(body)), &json::Options::default()).unwrap())
        };
        let pair = Arguments::Loglikelihood { context: "a".into(), continuation: " b".into() };
        assert_eq!(
            built(&pair),
            ("/v1/engines/gptj_6B/logprob".into(), r#"{"context": "a", "continuation": " b"}"#.into())
        );
        let mut kwargs = Dict::new();
        kwargs.insert("until", Value::list([Value::str("x")]));
        let generation = Arguments::Generate { context: "a".into(), kwargs: Arc::new(kwargs) };
        assert_eq!(
            built(&generation),
            (
                "/v1/engines/gptj_6B/completions".into(),
                r#"{"prompt": "a", "max_tokens": 256, "top_k": 1, "stop": ["x"]}"#.into()
            )
        );
        let read = |text: &str, arguments| protocol.read(&json::loads(text).unwrap(), arguments);
        let found = read(r#"{"logprob": -1.5, "is_greedy": 1}"#, &pair).unwrap();
        assert_eq!(found.response, Response::Loglikelihood { logprob: -1.5, is_greedy: true });
        assert!(read(r#"{"is_greedy": 1}"#, &pair).is_err());
        assert_eq!(read(r#"{"text": "t"}"#, &generation).unwrap().response, Response::Text("t".into()));
    }
}
