//! The context of a document: system prompt, examples and question.

use std::sync::Arc;

use lmeval_core::{
    Context, DocId, Message, Role, messages_to_single_turn, messages_to_text, messages_to_turns,
};
use lmeval_pycompat::{Dict, Value};

use super::error::{PromptError, PromptErrorKind};
use super::example::not_a;
use super::fields::{Inputs, Options};
use super::plan::Plan;
use super::turn::{Delimiter, Delimiters, join, push_turn};

/// The contexts of a document.
#[derive(Debug)]
pub(crate) enum Contexts {
    /// One for all requests.
    One(Context),
    /// One per input.
    Several(Vec<Context>),
}

impl Plan {
    /// Builds the contexts of a document, given its examples.
    pub(crate) fn contexts(
        &self,
        doc_id: DocId,
        document: &Arc<Dict>,
        examples: &[usize],
        options: Option<&Options>,
    ) -> Result<Contexts, PromptError> {
        let fields = &self.fields;
        let prefix = fields.prefix(fields.evaluated.prefix.as_deref(), document)?;
        let prefix = prefix.as_ref();
        let mut messages = Vec::with_capacity(2 * examples.len() + 3);
        self.push_system(&mut messages, document)?;
        self.push_examples(&mut messages, document, examples)?;
        let field = fields.evaluated.text.as_deref();
        let inputs = match fields.shape.inputs {
            Inputs::One => {
                let question = match fields.text(field, document)? {
                    Value::Str(question) => question,
                    other => {
                        return Err(not_a("text", &other)
                            .in_field("doc_to_text")
                            .hint("A template around the value converts it to a string"));
                    }
                };
                push_turn(&mut messages, &question, None, prefix, &self.delimiters)?;
                return self.render(doc_id, &messages, prefix.is_none()).map(Contexts::One);
            }
            Inputs::Listed => match fields.text(field, document)? {
                Value::List(inputs) => inputs,
                other => return Err(not_a("a list of inputs", &other).in_field("doc_to_text")),
            },
            Inputs::Options => options.cloned().unwrap_or_default(),
        };
        // Reference: such inputs have no delimiter before the prefix.
        let delimiters =
            Delimiters { target: Delimiter::new("target_delimiter", Some("")), ..self.delimiters.clone() };
        let shared = messages.len();
        let contexts = inputs.iter().map(|input| {
            let Value::Str(input) = input else {
                return Err(not_a("a str as an input", input));
            };
            messages.truncate(shared);
            push_turn(&mut messages, input, None, prefix, &delimiters)?;
            self.render(doc_id, &messages, prefix.is_none())
        });
        contexts.collect::<Result<_, _>>().map(Contexts::Several)
    }

    fn push_system(&self, messages: &mut Vec<Message>, document: &Arc<Dict>) -> Result<(), PromptError> {
        let description = self.fields.description(document)?;
        let text: Arc<str> = match (&self.system_instruction, description) {
            (None, None) => return Ok(()),
            (Some(instruction), None) => Arc::from(instruction.as_str()),
            (None, Some(description)) => description,
            (Some(instruction), Some(description)) => {
                join(instruction, &description, self.system_delimiter.get()?).into()
            }
        };
        messages.push(Message { role: Role::System, content: text, delimiter: Arc::default() });
        Ok(())
    }

    fn push_examples(
        &self,
        messages: &mut Vec<Message>,
        document: &Arc<Dict>,
        examples: &[usize],
    ) -> Result<(), PromptError> {
        let Some(pool) = self.pool.as_ref().filter(|_| !examples.is_empty()) else {
            return Ok(());
        };
        let fields = &self.fields;
        // Reference: the prefix of examples is rendered with the evaluated document.
        let prefix = if fields.dialect.example_prefix_of_example {
            None
        } else {
            fields.prefix(fields.example.prefix.as_deref(), document)?
        };
        for &index in examples {
            let example = pool.example(index, fields)?;
            let prefix = prefix.as_ref().or(example.prefix.as_ref());
            push_turn(
                messages,
                &example.question,
                example.answer.as_ref(),
                prefix,
                &self.example_delimiters,
            )?;
        }
        Ok(())
    }

    fn render(
        &self,
        doc_id: DocId,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Context, PromptError> {
        let Some(template) = &self.chat_template else {
            return Ok(Context::Text(messages_to_text(messages).into()));
        };
        let turns = if self.fewshot_as_multiturn {
            messages_to_turns(messages)
        } else {
            messages_to_single_turn(messages)
        };
        self.conversations.add(&turns, add_generation_prompt);
        template.apply_to((&self.name, doc_id), turns, add_generation_prompt).map_err(|error| {
            let message = "The chat template cannot render the conversation";
            PromptError::new(PromptErrorKind::ChatTemplate, message).caused_by(error)
        })
    }
}
