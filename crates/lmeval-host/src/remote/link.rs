//! A connection to a worker, and the words for its end.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lmeval_core::work_queue::Item;
use lmeval_core::{Answer, ModelError, ModelIdentity};
use lmeval_pycompat::json::Decoder;

use super::channel::{Receiver, Sender};
use super::wire::{FromWorker, ToWorker};

/// A connection to a worker.
pub(super) struct Link {
    pub(super) sender: Arc<Mutex<Sender>>,
    pub(super) receiver: Receiver,
    pub(super) decoder: Decoder,
}

impl Link {
    pub(super) fn locked(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, message: &ToWorker) -> io::Result<()> {
        self.locked().send(&message.encode().map_err(io::Error::other)?)
    }

    pub(super) fn receive(&mut self) -> io::Result<Option<FromWorker>> {
        let text = self.receiver.receive()?;
        Ok(FromWorker::decode(&mut self.decoder, &text))
    }
}

/// Why a connection ended.
pub(super) fn reason(error: &io::Error, stall: Duration) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "it closed the connection".to_owned()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("it said nothing for {} s", stall.as_secs_f64())
        }
        _ => error.to_string(),
    }
}

/// The first fact in which two models differ.
pub(super) fn difference(known: &ModelIdentity, other: &ModelIdentity) -> String {
    if known.backend != other.backend {
        return format!("{} instead of {}", other.backend, known.backend);
    }
    let names = known.facts.iter().chain(&other.facts).map(|(name, _)| *name);
    let differing = names.into_iter().find(|name| known.fact(name) != other.fact(name));
    let Some(name) = differing else { return "other facts".to_owned() };
    let shown = |identity: &ModelIdentity| identity.fact(name).unwrap_or("none").to_owned();
    format!("{name} {} instead of {}", shown(other), shown(known))
}

/// Delivers answers by the index of their requests.
pub(super) fn deliver(open: &mut [Option<Item>], answers: Vec<(usize, Result<Answer, ModelError>)>) {
    for (index, answer) in answers {
        if let Some(item) = open.get_mut(index).and_then(Option::take) {
            item.answer(answer);
        }
    }
}
