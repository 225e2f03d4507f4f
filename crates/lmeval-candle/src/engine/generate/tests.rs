//! Batched generation against single requests and against `transformers`.

use super::*;
use crate::engine::fixture::{Draws, engine, scarce};

fn all(engine: &Engine, requests: &[GenerationRequest]) -> Vec<Generated> {
    let mut made = vec![None; requests.len()];
    // Token 7 is the end token.
    let is_done = |_: usize, added: &[u32]| added.last() == Some(&7);
    engine
        .generate(requests, &is_done, &mut |index, generated| {
            assert!(made[index].replace(generated.unwrap()).is_none(), "{index} was delivered twice");
        })
        .unwrap();
    made.into_iter().map(Option::unwrap).collect()
}

fn requests(count: usize, sampling: &Sampling, vocabulary: usize) -> Vec<GenerationRequest> {
    let mut draws = Draws(11);
    let examples = draws.tokens(20, vocabulary);
    (0..count)
        .map(|index| {
            let length = 1 + draws.below(12);
            let own = draws.tokens(length, vocabulary);
            let tokens = if index % 3 == 0 { own } else { [examples.clone(), own].concat() };
            let sampling = Sampling { seed: index as u64, ..sampling.clone() };
            GenerationRequest { tokens, source: 0, limit: 1 + draws.below(50), sampling }
        })
        .collect()
}

#[test]
fn batched_results_equal_single_results() {
    let warm = Sampling { temperature: 0.8, top_k: 20, top_p: 0.95, ..Sampling::default() };
    let penalised = Sampling { repetition_penalty: 1.3, ..Sampling::default() };
    let all_settings = [Sampling::default(), warm, penalised];
    let cases = [("llama", 100, &all_settings[..]), ("qwen3_next", 60, &all_settings[..1])];
    for (name, vocabulary, settings) in cases {
        for sampling in settings {
            let mut requests = requests(8, sampling, vocabulary);
            // The same prompt twice.
            requests.push(requests[1].clone());
            let single = engine(name, 1024, Some(1));
            let alone = |request| all(&single, std::slice::from_ref(request))[0].clone();
            let alone: Vec<Generated> = requests.iter().map(alone).collect();
            for (rows, sequences) in [(1024, None), (32, Some(4)), (1024, Some(1))] {
                let engine = engine(name, rows, sequences);
                assert_eq!(all(&engine, &requests), alone, "{name}, {rows} rows, {sequences:?} sequences");
                engine.check_free();
            }
            assert!(alone.iter().any(|made| made.is_cut));
            assert!(alone.iter().zip(&requests).all(|(made, asked)| made.tokens.len() <= asked.limit));
        }
    }
}

#[test]
fn decoders_continue_shared_sources() {
    let mut draws = Draws(4);
    let sources: Vec<Vec<u32>> = (1..5).map(|length| draws.tokens(6 * length, 60)).collect();
    let warm = Sampling { temperature: 0.8, top_k: 20, ..Sampling::default() };
    let requests: Vec<GenerationRequest> = (0..10)
        .map(|index| {
            let source = &sources[index % sources.len()];
            let tokens = [source.as_slice(), &[0]].concat();
            let sampling = Sampling { seed: index as u64, prompt: 1, ..warm.clone() };
            GenerationRequest { tokens, source: source.len(), limit: 5 + 3 * index, sampling }
        })
        .collect();
    let single = engine("encoders/t5", 1024, Some(1));
    let alone = |request| all(&single, std::slice::from_ref(request))[0].clone();
    let alone: Vec<Generated> = requests.iter().map(alone).collect();
    for (rows, sequences) in [(1024, None), (16, Some(3))] {
        let engine = engine("encoders/t5", rows, sequences);
        assert_eq!(all(&engine, &requests), alone, "{rows} rows, {sequences:?} sequences");
        engine.check_free();
    }
}

#[test]
fn recomputes_like_the_reference_beyond_a_length() {
    // Recorded from `generate` of `transformers`, one prompt at a time; rotations change beyond 24 tokens.
    let long: [(&[u32], [u32; 32]); 3] = [
        (
            &[106, 83, 80, 68, 113, 19],
            [
                16, 16, 112, 112, 24, 46, 117, 72, 110, 23, 70, 73, 76, 24, 19, 26, 76, 64, 61, 85, 78, 35,
                31, 40, 95, 24, 45, 16, 100, 119, 120, 48,
            ],
        ),
        (
            &[44, 110, 103, 12, 113, 110, 44, 77, 14, 103, 65, 96, 27, 43, 110, 119, 13, 64, 111, 116],
            [
                61, 4, 80, 16, 49, 67, 81, 67, 65, 19, 116, 73, 19, 60, 22, 73, 10, 65, 106, 4, 73, 16, 54,
                19, 48, 14, 80, 6, 61, 33, 19, 75,
            ],
        ),
        (
            &[
                93, 105, 96, 40, 77, 24, 120, 49, 34, 100, 125, 8, 83, 33, 30, 60, 59, 98, 62, 107, 92, 12,
                71, 5,
            ],
            [
                55, 102, 112, 2, 72, 105, 67, 19, 58, 90, 16, 48, 14, 16, 73, 10, 112, 26, 49, 122, 28, 9,
                25, 29, 42, 19, 64, 58, 105, 104, 122, 112,
            ],
        ),
    ];
    let dynamic: [(&[u32], [u32; 32]); 2] = [
        (
            &[121, 30, 117, 87, 10, 112],
            [
                108, 108, 110, 67, 68, 93, 93, 68, 1, 27, 5, 49, 68, 104, 112, 93, 11, 24, 64, 1, 91, 31, 91,
                41, 57, 61, 5, 11, 24, 65, 24, 93,
            ],
        ),
        (
            &[45, 36, 75, 97, 28, 88, 86, 18, 11, 115, 12, 28, 78, 39, 44, 101, 48, 95, 85, 77],
            [
                65, 97, 77, 102, 15, 80, 65, 67, 68, 2, 24, 51, 52, 117, 91, 31, 1, 57, 34, 91, 31, 2, 24,
                51, 52, 117, 24, 87, 64, 68, 2, 24,
            ],
        ),
    ];
    let cases = [("phi3_longrope", long.as_slice()), ("llama_rope_dynamic", dynamic.as_slice())];
    for (name, recorded) in cases {
        let asked: Vec<GenerationRequest> = recorded
            .iter()
            .map(|(tokens, _)| GenerationRequest {
                tokens: tokens.to_vec(),
                source: 0,
                limit: 32,
                sampling: Sampling::default(),
            })
            .collect();
        for (rows, sequences) in [(1024, None), (16, Some(2))] {
            let engine = engine(name, rows, sequences);
            let mut found = vec![Vec::new(); asked.len()];
            engine
                .generate(&asked, &|_, _| false, &mut |index, made| {
                    found[index] = made.unwrap().tokens;
                })
                .unwrap();
            for ((prompt, expected), found) in recorded.iter().zip(&found) {
                assert_eq!(found, expected, "{name}, {} tokens, {rows} rows", prompt.len());
            }
        }
    }
}

#[test]
fn shrinks_batches_when_memory_runs_out() {
    let warm = Sampling { temperature: 0.8, top_k: 20, ..Sampling::default() };
    let mut asked = requests(40, &warm, 100);
    asked.push(GenerationRequest {
        tokens: Draws(1).tokens(400, 100),
        source: 0,
        limit: 5,
        sampling: Sampling::default(),
    });
    let expected = all(&engine("llama", 1024, None), &asked);
    for rows in [200, 130, 7] {
        let scarce = scarce("llama", rows);
        let mut made = asked.iter().map(|_| None).collect::<Vec<_>>();
        let is_done = |_: usize, added: &[u32]| added.last() == Some(&7);
        scarce
            .generate(&asked, &is_done, &mut |index, generated| {
                assert!(made[index].replace(generated).is_none(), "{index} was delivered twice");
            })
            .unwrap();
        let mut failed = 0;
        for ((made, expected), asked) in made.into_iter().zip(&expected).zip(&asked) {
            match made.unwrap() {
                Ok(made) => assert_eq!(made, *expected, "{rows} rows"),
                Err(error) => {
                    // Only prompts that are too large on their own fail.
                    assert!(error.to_string().contains("Not enough memory"), "{error}");
                    assert!(rows == 7 && asked.tokens.len() > 7, "{rows} rows");
                    failed += 1;
                }
            }
        }
        assert_eq!(failed > 0, rows == 7);
        assert_eq!(scarce.rows(), 128);
    }
}
