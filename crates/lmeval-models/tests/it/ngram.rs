//! `ngram` and `uniform`.

use std::sync::{Arc, LazyLock};

use lmeval_core::{ChatMessage, Context, Diagnose as _, Finish, Model, ModelErrorKind, Response, Role};
use proptest::prelude::*;

use crate::local::{answers, ask, generate, identity, loglikelihood, model, rolling, score, text};

#[test]
fn prefers_likely_continuations() {
    let model = model("ngram", "{}").unwrap();
    let good = score(&*model, loglikelihood("The old man looked at", " the river"));
    let bad = score(&*model, loglikelihood("The old man looked at", " xqz vvkj"));
    assert!(good.0 > bad.0 + 20.0, "{good:?} {bad:?}");
    assert!(!bad.1);
    // English is far below eight bits per byte, even for an unseen string.
    let unseen =
        "Two boats came down the river in the evening, and a dog sat on the bridge and looked at them.";
    let bits = -score(&*model, rolling(unseen)).0 / std::f64::consts::LN_2 / unseen.len() as f64;
    assert!((1.5..3.5).contains(&bits), "{bits}");
}

#[test]
fn matches_independently_computed_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs_err::write(&path, "the cat sat on the mat\n<|endoftext|>\nthe naïve cat\n").unwrap();
    let args = format!(r#"{{"corpus": {:?}, "order": 4}}"#, path.display().to_string());
    let model = model("ngram", &args).unwrap();
    // The first two numbers were computed from the formula by another program.
    assert_eq!(score(&*model, rolling("the cat sat on the naïve mat")).0, -23.135966472436344);
    assert_eq!(score(&*model, loglikelihood("the c", "at sat")).0, -4.603609136485126);
    assert_eq!(text(&*model, generate("the c", r#"{"max_gen_toks": 11}"#)), "at on the c");
    let drawn = |repeat| {
        let mut request = generate("the ", r#"{"temperature": 1.5, "max_gen_toks": 12}"#);
        request.repeat = repeat;
        text(&*model, request)
    };
    assert_eq!([drawn(0), drawn(1)], ["\u{1e}_e", "ahɉײ|meyG"]);
}

#[test]
fn generation_respects_its_settings() {
    let model = model("ngram", "{}").unwrap();
    let whole = text(&*model, generate("Question: What", r#"{"max_gen_toks": 60}"#));
    assert_eq!(whole.len(), 60);
    let stopped = text(&*model, generate("Question: What", r#"{"max_gen_toks": 60, "until": ["e"]}"#));
    assert!(whole.starts_with(&stopped) && !stopped.contains('e'), "`{stopped}` of `{whole}`");
    assert_eq!(text(&*model, generate("Question: What", r#"{"max_gen_toks": 0}"#)), "");
    let answers = answers(
        &*model,
        vec![
            generate("Question: What", r#"{"max_gen_toks": 60}"#),
            generate("Question: What", r#"{"until": ["e"]}"#),
            generate("Question: What", r#"{"until": 7}"#),
        ],
    );
    assert_eq!(answers[0].as_ref().unwrap().finish, Finish::CutOff);
    assert_eq!(answers[0].as_ref().unwrap().usage.completion_tokens, 60);
    assert_eq!(answers[1].as_ref().unwrap().finish, Finish::Complete);
    assert_eq!(answers[2].as_ref().unwrap_err().kind(), ModelErrorKind::Request);
    // Even an absurd limit ends.
    assert!(text(&*model, generate("a", r#"{"max_gen_toks": 1e15}"#)).len() <= 1 << 14);
}

#[test]
fn never_splits_a_character() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs_err::write(&path, "日本の箱 ".repeat(20)).unwrap();
    for order in [1, 2, 6] {
        let args = format!(r#"{{"corpus": {:?}, "order": {order}}}"#, path.display().to_string());
        let model = model("ngram", &args).unwrap();
        for limit in 0..12 {
            let kwargs = format!(r#"{{"max_gen_toks": {limit}}}"#);
            assert!(text(&*model, generate("日", &kwargs)).len() <= limit);
            let kwargs = format!(r#"{{"max_gen_toks": {limit}, "temperature": 3}}"#);
            assert!(text(&*model, generate("日", &kwargs)).len() <= limit);
        }
    }
}

#[test]
fn renders_chat_messages_as_lines() {
    let model = model("ngram", "{}").unwrap();
    let template = model.chat_template(None).unwrap();
    let messages = vec![ChatMessage::new(Role::User, "Is it open?")];
    let context = template.template.apply(messages.clone(), true).unwrap();
    assert_eq!(context, "user: Is it open?\nassistant:".into());
    let whole = generate(Context::Messages(messages.into()), "{}");
    assert_eq!(text(&*model, whole), text(&*model, generate(context, "{}")));
}

#[test]
fn reads_corpora() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs_err::write(at("b.txt"), "bbbb").unwrap();
    fs_err::write(at("a.txt"), "aaaa").unwrap();
    fs_err::write(at("c.md"), "cccc").unwrap();
    fs_err::write(at("empty.md"), " \n").unwrap();
    let create = |corpus: String, more: &str| model("ngram", &format!(r#"{{"corpus": {corpus:?}{more}}}"#));
    let hash = |corpus: String, more: &str| identity(&*create(corpus, more).unwrap()).facts[1].1.clone();
    let both = hash(folder.path().display().to_string(), "");
    assert_eq!(both, hash(format!("{};{}", at("a.txt"), at("b.txt")), ""));
    assert_ne!(both, hash(at("a.txt"), ""));
    assert_eq!(hash(at("a.txt"), ""), hash(folder.path().display().to_string(), r#", "corpus_limit": 4"#));
    for (corpus, more, message) in [
        (at("none.txt"), "", "none.txt"),
        (at("empty.md"), "", "is empty"),
        (";".to_owned(), "", "does not name a file"),
        (at("a.txt"), r#", "order": 9"#, "`order` must be between 1 and 8"),
        (at("a.txt"), r#", "corpus_limit": 0"#, "corpus_limit"),
        (at("a.txt"), r#", "oder": 3"#, "no argument `oder`"),
    ] {
        let error = create(corpus, more).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.kind(), ModelErrorKind::Configuration);
    }
    let hints = create(at("a.txt"), r#", "oder": 3"#).unwrap_err().hints();
    assert_eq!(hints, ["Did you mean `order`?"]);
    let large = at("large.txt");
    fs_err::File::create(&large).unwrap().set_len((32 << 20) + 1).unwrap();
    assert!(create(large, "").unwrap_err().to_string().contains("exceeds 33554432 bytes"));
}

#[test]
fn uniform_scores_at_chance_level() {
    for name in [r#"{"seed": 1}"#, r#"{"seed": 2}"#] {
        let model = model("uniform", name).unwrap();
        let options = ["a", "a rather long option, much longer than the others", "an option", "of these"];
        let (mut raw, mut normalised) = ([0; 4], [0; 4]);
        for question in 0..2000 {
            let context = format!("Question {question}");
            let requests = options.iter().map(|option| loglikelihood(&context, option)).collect();
            let scores: Vec<f64> = answers(&*model, requests)
                .into_iter()
                .map(|answer| match answer.unwrap().response {
                    Response::Loglikelihood { logprob, is_greedy: false } => logprob,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert!(scores.iter().all(|score| *score > -1.0 && *score < 0.0));
            let best = |scores: &[f64]| {
                (0..4).max_by(|left, right| scores[*left].total_cmp(&scores[*right])).unwrap()
            };
            raw[best(&scores)] += 1;
            let shares: Vec<f64> =
                scores.iter().zip(options).map(|(score, option)| score / option.len() as f64).collect();
            normalised[best(&shares)] += 1;
        }
        for count in raw.into_iter().chain(normalised) {
            assert!((420..580).contains(&count), "{raw:?} {normalised:?}");
        }
    }
}

#[test]
fn uniform_bytes_have_eight_bits() {
    let uniform = model("uniform", "{}").unwrap();
    let bits = |logprob: f64| -logprob / std::f64::consts::LN_2;
    assert_eq!(bits(score(&*uniform, rolling("naïve")).0), 48.0);
    let bytes = model("uniform", r#"{"bytes": true}"#).unwrap();
    assert_eq!(bits(score(&*bytes, loglikelihood("x", "four")).0), 32.0);
    let word = text(&*uniform, generate("x", "{}"));
    assert!(!word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase()));
    assert_eq!(word, text(&*uniform, generate("x", "{}")));
    assert_eq!(text(&*uniform, generate("x", r#"{"max_gen_toks": 0}"#)), "");
}

/// The model of the embedded corpus.
static EMBEDDED: LazyLock<Arc<dyn Model>> = LazyLock::new(|| model("ngram", "{}").unwrap());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn log_likelihoods_add_up(context in "\\PC{0,20}", first in "\\PC{0,10}", second in "\\PC{0,10}") {
        let model = &*EMBEDDED;
        let whole = score(&**model, loglikelihood(&context, &format!("{first}{second}"))).0;
        let parts = score(&**model, loglikelihood(&context, &first)).0
            + score(&**model, loglikelihood(&format!("{context}{first}"), &second)).0;
        prop_assert!((whole - parts).abs() <= 1e-12 * whole.abs().max(1.0));
        let from_start = score(&**model, rolling(&first)).0;
        prop_assert_eq!(from_start, score(&**model, loglikelihood("", &first)).0);
    }

    #[test]
    fn greedy_generations_score_as_greedy(context in "[a-zé? ]{0,12}", limit in 0_usize..30) {
        let model = &*EMBEDDED;
        let kwargs = format!(r#"{{"max_gen_toks": {limit}}}"#);
        let generated = text(&**model, generate(context.as_str(), &kwargs));
        let (_, is_greedy) = score(&**model, loglikelihood(&context, &generated));
        prop_assert!(is_greedy);
        let (_, is_greedy) = score(&**model, loglikelihood(&context, &format!("{generated}\u{1}")));
        prop_assert!(!is_greedy);
    }

    #[test]
    fn sampling_depends_only_on_the_request(context in "\\PC{0,12}", repeat in 0_usize..3) {
        let model = &*EMBEDDED;
        let mut request = generate(context.as_str(), r#"{"temperature": 1.0, "max_gen_toks": 8}"#);
        request.repeat = repeat;
        let batch = vec![generate("other", r#"{"temperature": 1.0, "max_gen_toks": 5}"#), request.clone(), request.clone()];
        let given: Vec<_> = answers(&**model, batch).into_iter().map(|answer| answer.unwrap().response).collect();
        prop_assert_eq!(&given[1], &given[2]);
        let again = ask(&**model, request).unwrap();
        prop_assert_eq!(&given[1], &again);
    }
}
