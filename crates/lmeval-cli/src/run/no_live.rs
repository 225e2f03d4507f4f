//! The live page in a build without the viewer: there is none.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use lmeval_core::{Diagnostic, Model};
use lmeval_engine::Event;

use crate::progress::RequestCounts;

/// The server of a run that is watched; never created.
pub(crate) enum LiveView {}

impl LiveView {
    pub(crate) fn start(
        _: String,
        _: Option<&Path>,
        _: &Arc<RequestCounts>,
        _: &Arc<dyn Model>,
    ) -> Result<Self> {
        Err(missing().into())
    }

    pub(crate) fn url(&self) -> String {
        match *self {}
    }

    pub(crate) fn event(&self, _: &Event<'_>) {
        match *self {}
    }

    pub(crate) fn finish(&self, _: Option<&Path>) {
        match *self {}
    }
}

/// The error of everything that needs the viewer.
pub(crate) fn missing() -> Diagnostic {
    Diagnostic::new("This `lm-eval` was built without the viewer")
        .hint("`cargo install --path crates/lmeval-cli --locked --features view` builds it in")
}
