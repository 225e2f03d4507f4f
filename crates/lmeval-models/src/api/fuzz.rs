//! Runs every answer parser on arbitrary bytes, for tests and fuzz targets.

use std::sync::Arc;

use lmeval_core::{Arguments, Context, Dialect};
use lmeval_pycompat::Dict;

use super::answer::parse;
use super::anthropic::AnthropicChat;
use super::chat::ChatCompletions;
use super::completions;
use super::gguf::Gguf;
use super::openai::OpenAiChat;
use super::protocol::{Protocol, Rules, Scored};
use super::scoring;
use super::sglang::Sglang;
use super::text::TextProtocol;
use super::textsynth::TextSynth;

/// Parses an answer with every protocol.
pub fn read_any(bytes: &[u8]) {
    let Ok(answer) = parse(bytes) else { return };
    let rules = Rules {
        model: Some("m".to_owned()),
        max_gen_toks: 8,
        seed: 1,
        end_of_text: None,
        think_end_token: Some("</think>".to_owned()),
        truncation: super::truncation::Side::Left,
        dialect: Dialect::default(),
    };
    let prompts = [
        Scored::new(vec![5, 6, 7], 1),
        Scored { text: Some("a b c".into()), ..Scored::new(vec![5, 6, 7], 2) },
    ];
    let protocols: [&dyn Protocol; 5] = [
        &completions::LOCAL,
        &Sglang { is_launched: false },
        &AnthropicChat,
        &ChatCompletions { reasons: false, is_launched: false },
        &OpenAiChat { reasons: None },
    ];
    // Any outcome is fine, an answer or an error.
    for protocol in protocols {
        let _ = protocol.read_generations(&answer, &rules);
        for scored in [&prompts[..1], &prompts[1..], &prompts] {
            let _ = protocol.read_scores(&answer, scored, &rules);
        }
    }
    scoring::read_any(&answer, &prompts[0]);
    let context = Context::from("a b");
    let requests = [
        Arguments::Loglikelihood { context: context.clone(), continuation: " c".into() },
        Arguments::Rolling { text: "a b c".into() },
        Arguments::Generate { context, kwargs: Arc::new(Dict::new()) },
    ];
    for request in &requests {
        let _ = Gguf.read(&answer, request);
        let _ = TextSynth { engine: "m".to_owned() }.read(&answer, request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_do_not_panic() {
        let samples: [&[u8]; 8] = [
            br#"{"choices": [{"index": 0, "logprobs": {"tokens": ["token_id:6"], "token_logprobs": [-0.1], "top_logprobs": [{"token_id:6": -0.1, "token_id:5": -3.5}]}}], "usage": {"prompt_tokens_details": {"cached_tokens": 16}}}"#,
            br#"{"choices": [{"index": 0, "logprobs": {"content": [{"token": "token_id:6", "logprob": -0.1, "top_logprobs": [{"token": "token_id:5", "logprob": -3.5}]}]}}]}"#,
            br#"{"prompt_logprobs": [null, {"6": {"logprob": -0.5}}, {"7": {"logprob": -0.25}, "5": {"logprob": -0.1}}]}"#,
            br#"{"choices": [{"index": 0, "text": "a b c", "finish_reason": "length", "logprobs": {"tokens": ["a", " b", " c"], "token_logprobs": [null, -1.5, -2.5], "top_logprobs": [null, {" b": -1.5}, {" d": -0.5}], "text_offset": [0, 1, 3]}}]}"#,
            br#"[{"text": "x", "meta_info": {"finish_reason": {"type": "stop"}, "input_token_logprobs": [[null, 5, null], [-1.5, 6, null], [-2.5, 7, null]], "input_top_logprobs": [null, [[-1.5, 6, null]], [[-0.5, 8, null]]]}}]"#,
            br#"{"content": [{"type": "text", "text": "<think>a</think>b"}], "stop_reason": "max_tokens", "usage": {"input_tokens": 3}}"#,
            br#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "a", "reasoning_content": "b"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}"#,
            br#"{"text": "a", "logprob": -1.5, "is_greedy": 1, "num_tokens": 2, "truncated_prompt": false}"#,
        ];
        lmeval_testkit::mutate(&samples, 3000, read_any);
    }
}
