//! Examines the members of a pool: they must give the same numbers, and prove protocols of their own.

use std::sync::PoisonError;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value};

use super::super::contact::Wait;
use super::super::model::ApiModel;
use super::super::protocol::{Prompt, Scored};
use super::next_token::Trouble;
use super::probe::{ABOUT, test_prompts};
use super::{Precision, Tolerance};
use crate::http::MemberView;

/// Numbers that every member of a pool must give.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    prompts: Vec<Scored>,
    /// The log-probabilities of their last tokens, with `echo`.
    logprobs: Vec<f64>,
}

/// The outcome of an examination.
#[derive(Debug)]
pub(in super::super) enum Verdict {
    /// The run needs no log-likelihoods.
    Unexamined,
    /// It gives the right numbers, and has proven these protocols, as bits.
    Proven(u8),
    /// It gives other numbers.
    Other(String),
    /// It could not be examined.
    Later,
}

impl ApiModel {
    /// Takes the numbers of the first member of a pool that answers, and refuses the members that give others. Returns the
    /// numbers and the members that give them: nothing for a fixed list of addresses, and without log-probabilities.
    pub(super) async fn compare_members(&self) -> Result<(Option<Reference>, Vec<usize>), ModelError> {
        let client = &self.parts.client;
        let nothing = || Ok((None, Vec::new()));
        let Some(encoder) = self.parts.encoder.as_ref().filter(|_| client.is_pool()) else {
            return nothing();
        };
        let Some(tokens) = self.test_tokens(encoder).await? else { return nothing() };
        let mut prompts = test_prompts(&tokens);
        self.add_texts(&mut prompts).await?;
        let wait = Wait::new(client);
        let (first, reference) = loop {
            let mut failure = None;
            let mut found = None;
            for member in client.serving() {
                match self.numbers_of(member.id, &prompts).await {
                    Ok(logprobs) => {
                        found = Some((member.id, logprobs));
                        break;
                    }
                    Err(error) if error.kind() == ModelErrorKind::Unreachable => failure = Some(error),
                    // The run reports it with its first request.
                    Err(_) => return nothing(),
                }
            }
            if let Some((first, logprobs)) = found {
                wait.done();
                break (first, Reference { prompts, logprobs });
            }
            let nobody = || ModelError::new(ModelErrorKind::Unreachable, "The pool has no server");
            wait.again(failure.unwrap_or_else(nobody)).await?;
        };
        let mut compared = vec![first];
        for member in client.serving() {
            if member.id == first {
                continue;
            }
            match self.compare(&member, &reference).await {
                Ok(()) => compared.push(member.id),
                Err(Verdict::Other(reason)) => self.parts.keeper.refuse(&member, &reason),
                Err(_) => {}
            }
        }
        Ok((Some(reference), compared))
    }

    /// Examines a member of a pool, or an address that could not be reached before.
    pub(in super::super) async fn prove_member(&self, member: &MemberView) -> Verdict {
        let Some(proven) = self.planner.proven.get() else { return Verdict::Later };
        if let Some(reference) = &proven.reference
            && let Err(verdict) = self.compare(member, reference).await
        {
            return verdict;
        }
        let (Some(_), Some(encoder)) = (proven.name(), &self.parts.encoder) else {
            return Verdict::Proven(0);
        };
        let Ok(Some(tokens)) = self.test_tokens(encoder).await else { return Verdict::Later };
        let mut found = Dict::new();
        found.insert("address", member.shown.as_str());
        found.insert("joined", true);
        let (protocols, evidence) = match self.prove_one(member.id, &tokens, found).await {
            Ok(one) => (proven.shared_with(&one), one.evidence),
            Err(Trouble::Failed(error)) if error.kind() == ModelErrorKind::Unreachable => {
                return Verdict::Later;
            }
            Err(trouble) => {
                let mut found = Dict::new();
                found.insert("address", member.shown.as_str());
                found.insert("joined", true);
                found.insert("reason", trouble.reason());
                (0, vec![Value::from(found)])
            }
        };
        if protocols == 0 {
            let warning = format!(
                "The server `{}` has not proven the scoring protocol of the run, and gets no such requests",
                member.shown
            );
            self.parts.client.stats().warn(warning);
        }
        self.planner.joined.lock().unwrap_or_else(PoisonError::into_inner).extend(evidence);
        Verdict::Proven(protocols)
    }

    /// Compares the numbers of a member that gets calls with those at the start: whoever serves it may have exchanged the
    /// weights under the same name.
    pub(in super::super) async fn recheck_member(&self, member: &MemberView) -> Result<(), Verdict> {
        let reference = self.planner.proven.get().and_then(|proven| proven.reference.as_ref());
        self.compare(member, reference.ok_or(Verdict::Unexamined)?).await
    }

    /// Compares the numbers of a member with those of the first one.
    async fn compare(&self, member: &MemberView, reference: &Reference) -> Result<(), Verdict> {
        // Machines differ more than protocols on one machine.
        let tolerance = Tolerance::of(Precision::Half);
        let found = match self.numbers_of(member.id, &reference.prompts).await {
            Ok(found) => found,
            Err(error) if error.kind() == ModelErrorKind::Unreachable => return Err(Verdict::Later),
            Err(error) => return Err(Verdict::Other(error.to_string())),
        };
        let mut pairs = found.iter().zip(&reference.logprobs);
        match pairs.find(|(one, other)| !tolerance.holds(**one, **other)) {
            None => Ok(()),
            Some((one, other)) => Err(Verdict::Other(format!(
                "the log-probability of a test token is {one:.4}, but {other:.4} on the others, so it does not run the same \
                 model"
            ))),
        }
    }

    /// The log-probabilities of the last tokens of prompts on one member.
    async fn numbers_of(&self, id: usize, prompts: &[Scored]) -> Result<Vec<f64>, ModelError> {
        let mut numbers = Vec::with_capacity(prompts.len());
        // One by one: some servers take a single prompt.
        for prompt in prompts.chunks(1) {
            let sent = match &prompt[0].text {
                Some(text) => self.text_prompt(vec![text.clone()]),
                None => Prompt::Tokens(vec![prompt[0].tokens.clone()]),
            };
            let found = self.echo(self.route_to(id), ABOUT, &sent, prompt).await?;
            numbers.extend(found.into_iter().map(|(logprob, _)| logprob));
        }
        Ok(numbers)
    }
}
