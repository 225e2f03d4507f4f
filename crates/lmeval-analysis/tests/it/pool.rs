//! Gates over several tasks, by simulation.

use lmeval_analysis::compare::{Difference, Precision, means};
use lmeval_analysis::gate::{Gate, Verdict};
use lmeval_analysis::pool::{PooledGate, Rule, pool};
use lmeval_analysis::stats::{Sampled, independent_difference, moments};
use lmeval_testkit::Dice;

const RULES: [Rule; 4] = [Rule::Documents, Rule::Tasks, Rule::Worst, Rule::Fisher];

fn uniform(dice: &mut Dice) -> f64 {
    dice.roll(1 << 31) as f64 / (1u64 << 31) as f64
}

/// Right and wrong answers of a task: `gain` of its documents are right only in the new run, `loss` only in the base run.
fn task(dice: &mut Dice, count: usize, gain: f64, loss: f64) -> Difference {
    let (mut base, mut new) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let draw = uniform(dice);
        let (before, after) = if draw < gain {
            (0.0, 1.0)
        } else if draw < gain + loss {
            (1.0, 0.0)
        } else if draw < 0.6 {
            (1.0, 1.0)
        } else {
            (0.0, 0.0)
        };
        base.push(before);
        new.push(after);
    }
    means(&base, &new, None, &Precision::default())
}

/// How often each rule fails over eight tasks, and how often a single task would.
fn fails(seed: u64, runs: usize, gain: f64, loss: f64) -> ([f64; 4], f64) {
    let gate = Gate::parse("a:acc >= 0").unwrap();
    let mut dice = Dice::new(seed);
    let (mut failed, mut single) = ([0usize; 4], 0usize);
    for _ in 0..runs {
        let tasks: Vec<Difference> =
            (0..8).map(|index| task(&mut dice, 800 + 100 * index, gain, loss)).collect();
        let of: Vec<&Difference> = tasks.iter().collect();
        for (count, rule) in failed.iter_mut().zip(RULES) {
            *count += usize::from(pool(rule, &of, &gate, 0.95, 0.8).verdict == Verdict::Fail);
        }
        single += tasks.iter().filter(|one| gate.decide(one.interval) == Verdict::Fail).count();
    }
    (failed.map(|count| count as f64 / runs as f64), single as f64 / (8 * runs) as f64)
}

#[test]
fn a_model_that_lost_nothing_fails_as_rarely_as_promised() {
    let (failed, single) = fails(1, 4_000, 0.04, 0.04);
    // 2.5 % on the side of losses, and three standard errors of 4,000 simulations.
    for (rule, share) in RULES.iter().zip(failed) {
        assert!(share <= 0.025 + 0.0075, "{rule:?}: {share}");
    }
    assert!(single <= 0.032, "{single}");
}

#[test]
fn one_point_over_eight_tasks_is_found_that_no_task_shows() {
    let (failed, single) = fails(2, 1_000, 0.025, 0.035);
    let [documents, tasks, worst, fisher] = failed;
    assert!(single < 0.35, "{single}");
    assert!(documents > 0.9 && tasks > 0.9, "{failed:?}");
    assert!(fisher > 0.75 && fisher > worst, "{failed:?}");
}

#[test]
fn a_loss_in_one_task_of_eight_is_for_the_rule_of_the_worst() {
    let gate = Gate::parse("a:acc >= 0").unwrap();
    let mut dice = Dice::new(3);
    let mut tasks: Vec<Difference> = (0..7).map(|_| task(&mut dice, 1_000, 0.03, 0.03)).collect();
    tasks.push(task(&mut dice, 1_000, 0.01, 0.06));
    let of: Vec<&Difference> = tasks.iter().collect();
    let verdict = |rule| pool(rule, &of, &gate, 0.95, 0.8).verdict;
    assert_eq!(verdict(Rule::Worst), Verdict::Fail);
    assert_eq!(verdict(Rule::Fisher), Verdict::Fail);
    assert_eq!(verdict(Rule::Documents), Verdict::Inconclusive);
}

#[test]
fn margins_and_directions_are_respected() {
    let mut dice = Dice::new(4);
    let tasks: Vec<Difference> = (0..8).map(|_| task(&mut dice, 2_000, 0.02, 0.03)).collect();
    let of: Vec<&Difference> = tasks.iter().collect();
    let decide = |rule: &str, condition: &str| {
        let gate = PooledGate::parse(&format!("{rule}(a:acc, b:acc) {condition}")).unwrap().unwrap();
        pool(gate.rule, &of, &gate.of[0], 0.95, 0.8)
    };
    for rule in ["documents", "tasks", "worst", "fisher"] {
        assert_eq!(decide(rule, ">= -0.05").verdict, Verdict::Pass, "{rule}");
        assert_eq!(decide(rule, "<= 0.05").verdict, Verdict::Pass, "{rule}");
        assert_eq!(decide(rule, ">= 0.02").verdict, Verdict::Fail, "{rule}");
        assert_eq!(decide(rule, "<= -0.04").verdict, Verdict::Fail, "{rule}");
    }
    let unclear = decide("documents", ">= -0.0101");
    assert_eq!(unclear.verdict, Verdict::Inconclusive);
    assert!(unclear.needed > 16_000.0 && unclear.interval.low < -0.0101, "{unclear:?}");
    for wrong in ["tasks() >= 0", "tasks(a) >= 0", "tasks(a:acc) > 0", "fisher(a:acc", "worst(a:acc,) >= x"] {
        assert!(PooledGate::parse(wrong).unwrap().is_err(), "{wrong}");
    }
}

#[test]
fn intervals_of_independent_scores_cover_the_difference() {
    let mut dice = Dice::new(5);
    for (left, right, count) in [(0.5, 0.5, 100), (0.9, 0.95, 200), (0.02, 0.02, 150), (0.6, 0.7, 1_000)] {
        let mut sample = |share: f64| {
            let values: Vec<f64> =
                (0..count).map(|_| f64::from(u8::from(uniform(&mut dice) < share))).collect();
            let found = moments(&values);
            Sampled { value: found.mean, stderr: Some(found.stderr()), documents: Some(f64::from(count)) }
        };
        let covered = (0..2_000).filter(|_| {
            let (base, new) = (sample(left), sample(right));
            let interval = independent_difference(&base, &new, 0.95).unwrap();
            (interval.low..=interval.high).contains(&(right - left))
        });
        let coverage = covered.count() as f64 / 2_000.0;
        assert!((0.935..=0.985).contains(&coverage), "{left} {right} {count}: {coverage}");
    }
}
