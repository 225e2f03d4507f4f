//! The prompts of a run whose chat template is not known, such as that of a model in Python: they are taken from its samples.

use std::sync::Arc;

use lmeval_analysis::answers::StoredSamples;
use lmeval_core::{ChatError, ChatMessage, ChatTemplate, Context, DocId};

/// Looks the prompt of a conversation up among those stored for its document.
#[derive(Debug)]
pub(super) struct StoredPrompts {
    pub(super) samples: Arc<StoredSamples>,
    /// The template in the results of the run. It need not be the one that rendered the prompts.
    pub(super) template: Option<Arc<dyn ChatTemplate>>,
}

impl ChatTemplate for StoredPrompts {
    fn apply(&self, messages: Vec<ChatMessage>, _: bool) -> Result<Context, ChatError> {
        // No stored prompt is equal to this, so that the document is reported as one without an answer.
        let contents: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
        Ok(Context::Text(contents.join("\n").into()))
    }

    fn apply_to(
        &self,
        (task, document): (&str, DocId),
        messages: Vec<ChatMessage>,
        add_generation_prompt: bool,
    ) -> Result<Context, ChatError> {
        let stored = self.samples.prompts(task, document.0)?;
        let rendered =
            self.template.as_ref().map(|template| template.apply(messages.clone(), add_generation_prompt));
        if let Some(Ok(Context::Text(rendered))) = rendered
            && stored.contains(&rendered)
        {
            return Ok(Context::Text(rendered));
        }
        // The shortest first: the prompt of another option may contain this one.
        match stored.into_iter().find(|prompt| shows(prompt, &messages)) {
            Some(prompt) => Ok(Context::Text(prompt)),
            None => self.apply(messages, add_generation_prompt),
        }
    }
}

/// Whether a prompt has the contents of all messages, in order. Templates may trim them.
fn shows(prompt: &str, messages: &[ChatMessage]) -> bool {
    let mut rest = prompt;
    messages.iter().all(|message| {
        let content = &*message.content;
        let found = [content, content.trim()].into_iter().find_map(|text| {
            let start = rest.find(text)?;
            Some(start + text.len())
        });
        found.is_some_and(|end| {
            rest = &rest[end..];
            true
        })
    })
}

#[cfg(test)]
mod tests {
    use lmeval_core::Role;

    use super::*;

    #[test]
    fn prompts_show_all_messages_in_order() {
        let messages = [ChatMessage::new(Role::System, "Be brief. "), ChatMessage::new(Role::User, "Why?")];
        assert!(shows("<s>Be brief. </s><u>Why?</u>", &messages));
        assert!(shows("<s>Be brief.</s><u>Why?</u>", &messages));
        assert!(!shows("<u>Why?</u><s>Be brief.</s>", &messages));
        assert!(!shows("<s>Be brief.</s><u>Who?</u>", &messages));
    }
}
