//! Verdicts on claims: error rates by simulation, and the forms of claims.

use lmeval_analysis::stats::{Sampled, moments};
use lmeval_claims::claim::{Claim, Claims, Verdict, judge, judge_interval};
use lmeval_testkit::Dice;

const SIMULATIONS: usize = 10_000;

fn uniform(dice: &mut Dice) -> f64 {
    dice.roll(1 << 31) as f64 / (1u64 << 31) as f64
}

/// The score of a run on `count` documents, of which a share is right.
fn run(dice: &mut Dice, share: f64, count: usize) -> Sampled {
    let values: Vec<f64> = (0..count).map(|_| f64::from(u8::from(uniform(dice) < share))).collect();
    let found = moments(&values);
    Sampled { value: found.mean, stderr: Some(found.stderr()), documents: Some(count as f64) }
}

/// How often each verdict is given: REPRODUCED, CANNOT TELL, DIFFERENT.
fn rates(seed: u64, claimed: f64, measured: f64, count: usize, margin: f64) -> [f64; 3] {
    let mut dice = Dice::new(seed);
    let mut counts = [0usize; 3];
    for index in 0..SIMULATIONS {
        let (claim, run) = (run(&mut dice, claimed, count), run(&mut dice, measured, count));
        // Claims come with a standard error, with documents alone, or with neither.
        let claim = match index % 3 {
            0 => claim,
            1 => Sampled { stderr: None, ..claim },
            _ => Sampled { stderr: None, documents: None, ..claim },
        };
        counts[judge(claim, run, margin).verdict as usize] += 1;
    }
    counts.map(|count| count as f64 / SIMULATIONS as f64)
}

/// 5 %, and three standard errors of 10,000 simulations.
const ALPHA: f64 = 0.05 + 0.0066;

#[test]
fn equal_models_are_rarely_different() {
    for (seed, share, count) in [(1, 0.5, 300), (2, 0.9, 200), (3, 0.05, 400)] {
        let [_, _, different] = rates(seed, share, share, count, 0.01);
        assert!(different <= ALPHA, "{share} of {count}: {different}");
    }
}

#[test]
fn models_that_differ_by_the_margin_are_rarely_reproduced() {
    for (seed, share, count) in [(4, 0.5, 1_500), (5, 0.8, 1_000)] {
        let [reproduced, _, different] = rates(seed, share, share + 0.06, count, 0.06);
        assert!(reproduced <= ALPHA, "{share} of {count}: {reproduced}");
        assert!(different > 0.8, "{share} of {count}: {different}");
    }
}

#[test]
fn enough_documents_reproduce_what_is_equal() {
    let [reproduced, _, different] = rates(6, 0.6, 0.6, 3_000, 0.05);
    assert!(reproduced > 0.9 && different < 0.05, "{reproduced} {different}");
}

#[test]
fn the_documents_needed_decide() {
    let share = |value: f64, documents: f64| Sampled { value, stderr: None, documents: Some(documents) };
    let unclear = judge(share(0.54, 10_000.0), share(0.55, 400.0), 0.03);
    assert_eq!(unclear.verdict, Verdict::CannotTell);
    let needed = unclear.needed.unwrap();
    assert!(needed > 400.0, "{needed}");
    let again = judge(share(0.54, 10_000.0), share(0.55, 1.02 * needed), 0.03);
    assert_ne!(again.verdict, Verdict::CannotTell, "{again:?}");
    // The claim itself is of too few documents.
    let hopeless = judge(share(0.54, 100.0), share(0.55, 400.0), 0.03);
    assert_eq!((hopeless.verdict, hopeless.needed), (Verdict::CannotTell, None));
    // Without any sampling error, nothing can be told.
    let alone = |value| Sampled { value, stderr: None, documents: None };
    assert_eq!(judge(alone(11.2), alone(11.2), 0.3).verdict, Verdict::CannotTell);
    let perplexity = |value| Sampled { value, stderr: Some(0.01), documents: Some(60.0) };
    assert_eq!(judge(alone(11.2), perplexity(11.21), 0.3).verdict, Verdict::Reproduced);
    assert_eq!(judge(alone(11.2), perplexity(11.9), 0.3).verdict, Verdict::Different);
}

#[test]
fn paired_intervals_are_judged_the_same_way() {
    let interval = |low, high| lmeval_analysis::stats::Interval { low, high };
    let judge = |difference, low, high| judge_interval(difference, interval(low, high), 1_000.0, 0.03);
    assert_eq!(judge(0.0, -0.02, 0.02).verdict, Verdict::Reproduced);
    // Plainly not zero, and plainly without importance.
    assert_eq!(judge(0.01, 0.005, 0.015).verdict, Verdict::Reproduced);
    assert_eq!(judge(0.05, 0.02, 0.08).verdict, Verdict::Different);
    let unclear = judge(0.01, -0.04, 0.06);
    assert_eq!(unclear.verdict, Verdict::CannotTell);
    assert!((unclear.needed.unwrap() - 6_250.0).abs() < 2.0, "{unclear:?}");
}

#[test]
fn claims_are_read_from_words_and_files() {
    let claim = Claim::parse("mmlu::law=acc=69.4+/-0.5@14042").unwrap();
    assert_eq!(
        (claim.task.as_str(), claim.metric.as_str(), claim.filter.as_deref()),
        ("mmlu::law", "acc", None)
    );
    assert_eq!(claim.score, Sampled { value: 69.4, stderr: Some(0.5), documents: Some(14_042.0) });
    for wrong in [
        "",
        "a=0.5",
        "a=acc=",
        "=acc=1",
        "a==1",
        "a=acc=x",
        "a=acc=1±",
        "a=acc=1±-1",
        "a=acc=1@0",
        "a=acc,=1",
    ] {
        assert!(Claim::parse(wrong).is_err(), "{wrong}");
    }
    let of_recipe = Claims::open("demo", Some("ngram")).unwrap();
    assert_eq!(of_recipe.claims.len(), 2);
    assert_eq!(of_recipe.claims[0].task, "demo_capitals:2");
    let error = Claims::open("demo", Some("gpt2")).unwrap_err();
    assert!(error.hints[0].contains("`ngram`"), "{error:?}");
    assert!(Claims::open("no-such-thing", Some("x")).unwrap_err().message.contains("There is no recipe"));
}
