//! Stops a run whose server has failed every call from the beginning.

use std::time::Duration;

use bytes::Bytes;
use lmeval_core::{ModelError, ModelErrorKind};
use serde_json::Value;

use super::client::{Call, Client, Route, nobody};
use super::failure::{AttemptError, Failure};
use super::member::Endpoint;

/// The time limit of a trial call.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// Sets the path and body of a small call that tells a server that fails every call from one that fails some.
    pub(crate) fn set_trial(&self, path: String, body: Bytes) {
        // A model that gets its tokenizer later sets the same one again.
        let _ = self.trial.set((path, body));
    }

    /// Fails if no call has been answered since the first one, for so long that the others will fail too.
    pub(super) async fn check_start(
        &self,
        endpoint: &Endpoint,
        is_first_of_call: bool,
        failure: &Failure,
    ) -> Result<(), ModelError> {
        let Some(start) = self.first_answer.record_failure(is_first_of_call) else { return Ok(()) };
        if start.calls == 1 && self.answers_trial(endpoint).await {
            self.first_answer.start_over();
            return Ok(());
        }
        let message = format!(
            "No request has been answered so far, in {} attempts over {:.0} s: {}",
            start.attempts,
            start.lasted.as_secs_f64(),
            failure.reason
        );
        let error = self.given_up(ModelErrorKind::Capability, message, failure.hint.clone());
        Err(error.hint("Look at the log of the server; the same command then continues this run"))
    }

    /// Whether a server answers a small call. The only call so far may be one that it cannot answer.
    async fn answers_trial(&self, endpoint: &Endpoint) -> bool {
        let Some((path, body)) = self.trial.get() else { return false };
        let about = "a test request";
        let call = Call { path, body: body.clone(), about, tokens: 0, scores: false };
        let trial = tokio::time::timeout(TRIAL_TIMEOUT, self.attempt(endpoint, Route::default(), &call));
        matches!(trial.await, Ok(Ok(body)) if serde_json::from_slice::<Value>(&body).is_ok())
    }

    /// Sends a call to the first server once, without retries, to its base URL or to another path of the server.
    pub(crate) async fn post_once(
        &self,
        route: Option<&str>,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, ModelError> {
        let call = Call { path: "", body, about: "a test request", tokens: 0, scores: false };
        let Some(endpoint) = self.balancer.first() else { return Err(nobody(&call)) };
        let route = Route { path: route, ..Route::default() };
        match tokio::time::timeout(timeout, self.attempt(&endpoint, route, &call)).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(AttemptError::Final(error))) => Err(self.secrets.mask_error(&error)),
            Ok(Err(AttemptError::Retry(failure))) => {
                Err(self.given_up(failure.kind, failure.reason, failure.hint))
            }
            Err(_) => {
                let message = format!("No answer from `{}` within {} s", endpoint.shown, timeout.as_secs());
                Err(ModelError::new(ModelErrorKind::Unreachable, message))
            }
        }
    }
}
