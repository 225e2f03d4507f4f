//! Branches and tags of a model on the hub, as checkpoints.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use lmeval_analysis::curve::{StepPattern, step_in};
use lmeval_hub::{Client, Kind as Repository, Settings, revisions};
use lmeval_pycompat::fnmatch::Pattern;

use super::find::{Candidate, Kind};

/// A model of the hub with the revisions that are wanted.
pub(super) struct Hub {
    client: Arc<Client>,
    id: String,
    wanted: Pattern,
    steps: Option<StepPattern>,
}

impl Hub {
    pub(super) fn new(id: &str, wanted: &str, steps: Option<StepPattern>) -> Result<Self> {
        let client = Arc::new(Client::new(&Settings::from_environment(Repository::Model))?);
        Ok(Self { client, id: id.to_owned(), wanted: Pattern::new(wanted), steps })
    }

    /// All revisions that fit and name a step, by their commits: a branch that moves is another checkpoint. Those without a step, such as
    /// `main`, are left out.
    pub(super) fn scan(&self) -> Result<Vec<Candidate>> {
        let found = revisions(&self.client, Repository::Model, &self.id)?;
        let step = |name: &str| match &self.steps {
            Some(pattern) => pattern.find(name),
            None => step_in(name),
        };
        let candidates =
            found.into_iter().filter(|revision| self.wanted.matches(&revision.name)).filter_map(|revision| {
                Some(Candidate {
                    step: Some(step(&revision.name)?),
                    path: PathBuf::from(&revision.name),
                    // A name becomes a folder.
                    name: revision.name.replace(['/', '\\'], "_").replace("..", "_"),
                    kind: Kind::Revision,
                    signature: revision.commit,
                    missing: None,
                })
            });
        Ok(candidates.collect())
    }
}
