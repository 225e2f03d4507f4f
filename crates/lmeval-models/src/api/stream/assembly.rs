//! From the events of a stream to the answer that the server would have sent as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, json};

use crate::api::chat::REASONING;

/// What a stream has brought so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    pub(super) choices: BTreeMap<i64, Choice>,
    usage: Option<Value>,
    /// An error that the server has sent in place of the rest.
    error: Option<Value>,
    /// Why an event cannot be read.
    problem: Option<String>,
    is_done: bool,
    is_chat: bool,
}

/// One generation.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The tokens of the whole text, if the server returns them. Some of their text may not have arrived: servers hold it back
    /// while it could be the beginning of a stop string.
    pub(super) ids: Vec<u32>,
    refusal: String,
    has_tool_calls: bool,
    finish: Option<Arc<str>>,
    /// The number of tokens, as far as events show it.
    pub(super) tokens: usize,
    /// The tokens of this attempt that the server has counted, if it does so with each event.
    counted: usize,
    /// Tokens of an earlier attempt, which the server counts as those of the prompt.
    earlier: usize,
}

impl Choice {
    /// What an interrupted generation has brought, of which the server is asked for the rest.
    pub(super) fn resumed(text: &str, tokens: usize, ids: Vec<u32>) -> Self {
        Self { text: text.to_owned(), tokens, earlier: tokens, ids, ..Self::default() }
    }

    /// Whether the server has returned each token.
    pub(super) fn has_ids(&self) -> bool {
        self.tokens > 0 && self.ids.len() == self.tokens
    }

    /// Adds what an event brings; `count` is the number of all tokens of this attempt, if the server says so. Returns the number
    /// of new tokens.
    fn add(&mut self, text: &str, reasoning: &str, count: Option<usize>, ids: &[u32]) -> usize {
        self.text.push_str(text);
        self.reasoning.push_str(reasoning);
        self.ids.extend_from_slice(ids);
        let new = match count {
            Some(count) => count.saturating_sub(std::mem::replace(&mut self.counted, count)),
            None if ids.is_empty() => usize::from(!text.is_empty() || !reasoning.is_empty()),
            None => ids.len(),
        };
        self.tokens += new;
        new
    }
}

impl Assembly {
    /// Adds an event. Returns the number of new tokens.
    pub(super) fn add(&mut self, data: &[u8]) -> usize {
        if data == b"[DONE]" {
            self.is_done = true;
            return 0;
        }
        let parsed = str::from_utf8(data).ok().and_then(|text| json::loads(text).ok());
        let Some(Value::Dict(event)) = parsed else {
            self.problem.get_or_insert_with(|| "an event of the stream is not a JSON object".to_owned());
            return 0;
        };
        if let Some(error) = event.get_str("error").filter(|error| error.is_truthy()) {
            self.error = Some(error.clone());
            return 0;
        }
        let usage = event.get_str("usage").filter(|usage| usage.is_truthy());
        let choices = event.get_str("choices").and_then(Value::as_list).unwrap_or_default();
        let count = usage.and_then(|usage| usage.as_dict()?.get_str("completion_tokens")?.as_i64());
        // The usage of several choices is that of all of them.
        let count = count.and_then(|count| usize::try_from(count).ok()).filter(|_| choices.len() == 1);
        let mut new = 0;
        for choice in choices.iter().filter_map(Value::as_dict) {
            new += self.add_choice(choice, count.filter(|_| self.choices.len() <= 1));
        }
        if let Some(usage) = usage {
            self.usage = Some(usage.clone());
        }
        new
    }

    fn add_choice(&mut self, event: &Dict, count: Option<usize>) -> usize {
        let index = event.get_str("index").and_then(Value::as_i64).unwrap_or(0);
        let delta = event.get_str("delta").and_then(Value::as_dict);
        self.is_chat |= delta.is_some();
        let ids = event.get_str("token_ids").and_then(Value::as_list).unwrap_or_default();
        let ids = ids.iter().filter_map(|id| u32::try_from(id.as_i64()?).ok());
        let ids: Vec<u32> = ids.collect();
        let choice = self.choices.entry(index).or_default();
        if let Some(Value::Str(reason)) = event.get_str("finish_reason") {
            choice.finish = Some(Arc::clone(reason));
        }
        let Some(delta) = delta else { return choice.add(text(event, "text"), "", count, &ids) };
        choice.refusal += text(delta, "refusal");
        choice.has_tool_calls |= delta.get_str("tool_calls").is_some_and(Value::is_truthy);
        let reasoning = REASONING.iter().map(|name| text(delta, name)).find(|text| !text.is_empty());
        choice.add(text(delta, "content"), reasoning.unwrap_or_default(), count, &ids)
    }

    /// The answer as the server would have sent it as a whole, or what is wrong with the stream.
    pub(super) fn to_answer(&self) -> Result<Value, String> {
        if let Some(error) = &self.error {
            return Ok(Value::dict([("error", error.clone())]));
        }
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let is_finished =
            !self.choices.is_empty() && self.choices.values().all(|choice| choice.finish.is_some());
        if !is_finished && !self.is_done {
            return Err("the stream ended before the answer was complete".to_owned());
        }
        let mut answer = Dict::new();
        answer.insert(
            "choices",
            Value::list(self.choices.iter().map(|(index, choice)| self.whole(*index, choice))),
        );
        if let Some(usage) = self.usage.as_ref().and_then(Value::as_dict) {
            answer.insert("usage", self.with_earlier(usage));
        }
        Ok(answer.into())
    }

    fn whole(&self, index: i64, choice: &Choice) -> Value {
        let mut whole = Dict::new();
        whole.insert("index", index);
        if self.is_chat {
            let is_empty = choice.text.is_empty() && choice.finish.is_none();
            let mut message = Dict::new();
            message.insert("role", "assistant");
            message.insert("content", if is_empty { Value::None } else { Value::str(choice.text.as_str()) });
            for (name, text) in [("reasoning_content", &choice.reasoning), ("refusal", &choice.refusal)] {
                if !text.is_empty() {
                    message.insert(name, text.as_str());
                }
            }
            if choice.has_tool_calls {
                message.insert("tool_calls", true);
            }
            whole.insert("message", message);
        } else {
            whole.insert("text", choice.text.as_str());
        }
        whole.insert("finish_reason", choice.finish.clone().map_or(Value::None, Value::Str));
        whole.into()
    }

    /// The usage of all attempts: what one has brought is a part of the next one's prompt.
    fn with_earlier(&self, usage: &Dict) -> Value {
        let earlier: usize = self.choices.values().map(|choice| choice.earlier).sum();
        let mut usage = usage.clone();
        for (name, more) in [("completion_tokens", earlier as i64), ("prompt_tokens", -(earlier as i64))] {
            if let Some(count) = usage.get_str(name).and_then(Value::as_i64).filter(|_| earlier > 0) {
                usage.insert(name, (count + more).max(0));
            }
        }
        usage.into()
    }
}

/// A string of an event; empty if it has none.
fn text<'d>(event: &'d Dict, name: &str) -> &'d str {
    event.get_str(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(events: &[&str]) -> Assembly {
        let mut assembly = Assembly::default();
        for event in events {
            assembly.add(event.as_bytes());
        }
        assembly
    }

    fn answer(events: &[&str]) -> Result<String, String> {
        assembled(events).to_answer().map(|answer| json::dumps(&answer, &json::Options::default()).unwrap())
    }

    #[test]
    fn completions_equal_whole_answers() {
        let events = [
            r#"{"choices": [{"index": 1, "text": "b"}]}"#,
            r#"{"choices": [{"index": 0, "text": "He"}, {"index": 1, "text": "c", "finish_reason": "length"}]}"#,
            r#"{"choices": [{"index": 0, "text": "llo", "finish_reason": "stop"}]}"#,
            r#"{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}"#,
            "[DONE]",
        ];
        let expected = r#"{"choices": [{"index": 0, "text": "Hello", "finish_reason": "stop"}, {"index": 1, "text": "bc", "finish_reason": "length"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}"#;
        assert_eq!(answer(&events).unwrap(), expected);
        assert!(answer(&events[..2]).unwrap_err().contains("before the answer was complete"));
    }

    #[test]
    fn chat_messages_keep_reasoning_apart() {
        let events = [
            r#"{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {"reasoning": "h"}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {"reasoning_content": "m"}}]}"#,
            r#"{"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}]}"#,
        ];
        let found = assembled(&events);
        let choice = &found.choices[&0];
        assert_eq!((choice.reasoning.as_str(), choice.text.as_str(), choice.tokens), ("hm", "A", 3));
        let expected = r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "A", "reasoning_content": "hm"}, "finish_reason": "stop"}]}"#;
        assert_eq!(answer(&events).unwrap(), expected);
    }

    #[test]
    fn tokens_are_counted_by_what_the_server_says() {
        let choice = |events: &[&str]| assembled(events).choices[&0].clone();
        let counted = choice(&[
            r#"{"choices": [{"index": 0, "text": "ab"}], "usage": {"completion_tokens": 2}}"#,
            r#"{"choices": [{"index": 0, "text": "c"}], "usage": {"completion_tokens": 3}}"#,
            r#"{"choices": [{"index": 0, "text": ""}], "usage": {"completion_tokens": 4}}"#,
        ]);
        assert_eq!((counted.tokens, counted.has_ids()), (4, false));
        let listed = choice(&[
            r#"{"choices": [{"index": 0, "text": "", "token_ids": [5, 6]}]}"#,
            r#"{"choices": [{"index": 0, "text": "abc", "token_ids": [7]}]}"#,
        ]);
        assert_eq!((listed.tokens, listed.has_ids(), listed.ids), (3, true, vec![5, 6, 7]));
        assert_eq!(choice(&[r#"{"choices": [{"index": 0, "text": "ab"}]}"#]).tokens, 1);
    }

    #[test]
    fn a_resumed_generation_counts_as_one() {
        let mut assembly = Assembly::default();
        assembly.choices.insert(0, Choice::resumed("Hel", 2, Vec::new()));
        assembly.add(br#"{"choices": [{"index": 0, "text": "lo", "finish_reason": "stop"}]}"#);
        assembly.add(br#"{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}"#);
        let answer = assembly.to_answer().unwrap();
        let answer = json::dumps(&answer, &json::Options::default()).unwrap();
        assert!(answer.contains(r#""text": "Hello""#), "{answer}");
        assert!(answer.contains(r#""usage": {"prompt_tokens": 5, "completion_tokens": 3}"#), "{answer}");
    }

    #[test]
    fn errors_and_garbage_are_reported() {
        assert!(answer(&[r#"{"error": {"message": "no"}}"#]).unwrap().contains("no"));
        for garbage in ["", "{", "[1]", "\u{0}", "1e999"] {
            assert!(answer(&[garbage, "[DONE]"]).unwrap_err().contains("JSON"), "{garbage}");
        }
        assert!(answer(&[]).is_err());
        lmeval_testkit::mutate(
            &[br#"{"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}"#],
            2000,
            |bytes| {
                let mut assembly = Assembly::default();
                assembly.add(bytes);
                assembly.add(bytes);
                let _ = assembly.to_answer();
            },
        );
    }
}
