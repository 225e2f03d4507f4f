//! `replay`: answers from a recording.
//!
//! A recording is the output of an earlier run: its samples files, or lines of requests with their answers.
//! It allows rescoring with other filters and metrics without the model.

mod files;
mod record;
mod recording;

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{
    Answer, InProcess, LocalModel, Model, ModelError, ModelIdentity, ModelRequest, ModelSettings,
    ModelTemplate, ModelTraits, RemoteTemplate, Response,
};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use self::recording::Recording;
use super::arguments::{check, configuration, hexadecimal};
use super::template::PlainTemplate;

/// A model that looks up recorded answers.
#[derive(Debug)]
pub(crate) struct Replay {
    recording: Recording,
    strict: bool,
    path: String,
    hash: String,
    template: ModelTemplate,
}

pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    check(settings, "replay", &["path", "strict", "chat_template"])?;
    let path = settings.required("path", "recording.jsonl")?;
    let strict = settings.flag("strict", false)?;
    let template = match settings.text("chat_template") {
        Some(file) => PlainTemplate::read(Path::new(&file))?.into_model_template(),
        // Chat prompts stay lists of messages, as they were sent to a chat server.
        None => ModelTemplate { template: Arc::new(RemoteTemplate), source: None },
    };
    let mut recording = Recording::default();
    let mut hash = Sha256::new();
    for file in files::recording_files(&path)? {
        files::read(&file, &mut recording, &mut hash)?;
    }
    if recording.len() == 0 {
        return Err(configuration(format!("The recording `{path}` is empty")));
    }
    recording.finish();
    let hash = hexadecimal(&hash.finalize());
    Ok(Arc::new(InProcess::new(Replay { recording, strict, path, hash, template })))
}

impl LocalModel for Replay {
    fn traits(&self) -> ModelTraits {
        ModelTraits {
            depends_on_document: true,
            is_worth_saving: false,
            takes_media: true,
            ..ModelTraits::local()
        }
    }

    fn identity(&self) -> ModelIdentity {
        let facts = vec![
            ("recording", self.path.clone()),
            ("sha256", self.hash.clone()),
            ("strict", self.strict.to_string()),
        ];
        ModelIdentity { backend: "replay".to_owned(), facts }
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Ok(self.template.clone())
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        self.recording.find(request, self.strict)
    }

    fn answer_batch(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        requests.par_iter().map(|request| self.answer(request).map(Answer::from)).collect()
    }
}
