//! Seeded simulations: false alarms of comparisons of a model with itself, and coverage of intervals.

use lmeval_analysis::stats::{
    ClusterCorrection, Interval, clustered_stderr, mcnemar, moments, paired_proportions, sign_flip, student,
};
use lmeval_testkit::Dice;

/// Simulated experiments. The Monte Carlo error of a share of 0.05 is then 0.5 points.
const EXPERIMENTS: usize = 2_000;

/// Three standard errors of a share of 0.05 over [`EXPERIMENTS`].
const SLACK: f64 = 0.0147;

fn uniform(dice: &mut Dice) -> f64 {
    dice.roll(1 << 31) as f64 / (1u64 << 31) as f64
}

/// Two normal draws from two uniform ones (Box–Muller).
fn normal(dice: &mut Dice) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(dice)).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform(dice)).cos()
}

/// How often `experiment` is true.
fn share(seed: u64, mut experiment: impl FnMut(&mut Dice) -> bool) -> f64 {
    let mut dice = Dice::new(seed);
    (0..EXPERIMENTS).filter(|_| experiment(&mut dice)).count() as f64 / EXPERIMENTS as f64
}

#[track_caller]
fn covers(seed: u64, what: &str, experiment: impl FnMut(&mut Dice) -> bool) {
    let coverage = share(seed, experiment);
    assert!((0.93..=0.97).contains(&coverage), "{what}: a 95 % interval covers {coverage}");
}

fn contains(interval: Interval, truth: f64) -> bool {
    (interval.low..=interval.high).contains(&truth)
}

/// Counts of documents right only in the new run (share `gain`) and only in the base run (share `loss`).
fn discordant(dice: &mut Dice, count: usize, gain: f64, loss: f64) -> (u64, u64) {
    let (mut won, mut lost) = (0, 0);
    for _ in 0..count {
        let draw = uniform(dice);
        won += u64::from(draw < gain);
        lost += u64::from((gain..gain + loss).contains(&draw));
    }
    (won, lost)
}

/// Differences of clusters of five documents that share half of their variance.
fn clusters(dice: &mut Dice, count: usize, mean: f64) -> (Vec<f64>, Vec<u32>) {
    let labels: Vec<u32> = (0..count).map(|index| (index / 5) as u32).collect();
    let shared: Vec<f64> = (0..count / 5).map(|_| normal(dice)).collect();
    let values = labels.iter().map(|&label| mean + shared[label as usize] + normal(dice)).collect();
    (values, labels)
}

fn cluster_sums(values: &[f64], labels: &[u32], count: usize) -> Vec<f64> {
    let mut sums = vec![0.0; count];
    for (value, &label) in values.iter().zip(labels) {
        sums[label as usize] += value;
    }
    sums
}

#[test]
fn comparing_a_model_with_itself_rarely_alarms() {
    for (seed, count) in [(1, 50), (2, 500), (3, 5_000)] {
        let zero_one = share(seed, |dice| {
            let (won, lost) = discordant(dice, count, 0.1, 0.1);
            mcnemar(won, lost) <= 0.05
        });
        assert!(zero_one <= 0.05 + SLACK, "0/1, n = {count}: {zero_one}");
    }
    for (seed, count) in [(4, 50), (5, 200)] {
        let mut dice = Dice::new(seed);
        let alarms = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..count).map(|_| normal(&mut dice)).collect();
                sign_flip(&values, dice.roll(usize::MAX) as u64).p_value <= 0.05
            })
            .count() as f64
            / 400.0;
        assert!(alarms <= 0.05 + 3.0 * 0.0109, "real-valued, n = {count}: {alarms}");
        let alarms = (0..400)
            .filter(|_| {
                let (values, labels) = clusters(&mut dice, count, 0.0);
                sign_flip(&cluster_sums(&values, &labels, count / 5), dice.roll(usize::MAX) as u64).p_value
                    <= 0.05
            })
            .count() as f64
            / 400.0;
        assert!(alarms <= 0.05 + 3.0 * 0.0109, "clustered, n = {count}: {alarms}");
    }
}

#[test]
fn intervals_cover_what_they_promise() {
    for (seed, count) in [(11, 50), (12, 500), (13, 5_000)] {
        for (gain, loss) in [(0.1, 0.1), (0.15, 0.05), (0.3, 0.2)] {
            covers(seed, &format!("0/1, n = {count}, {gain} and {loss}"), |dice| {
                let (won, lost) = discordant(dice, count, gain, loss);
                contains(paired_proportions(won, lost, count as u64, 0.95), gain - loss)
            });
        }
        covers(seed, &format!("real-valued, n = {count}"), |dice| {
            // Skewed: the square of a normal variable has mean 1.
            let values: Vec<f64> = (0..count).map(|_| 0.2 * normal(dice).powi(2) + normal(dice)).collect();
            let found = moments(&values);
            contains(student(found.mean, found.stderr(), (count - 1) as f64, 0.95), 0.2)
        });
        covers(seed, &format!("clustered, n = {count}"), |dice| {
            let (values, labels) = clusters(dice, count, 0.4);
            let stderr = clustered_stderr(&values, &labels, count / 5, ClusterCorrection::SmallSample);
            contains(student(moments(&values).mean, stderr, (count / 5 - 1) as f64, 0.95), 0.4)
        });
    }
}

#[test]
fn identical_runs_have_an_interval_around_zero() {
    let interval = paired_proportions(0, 0, 100, 0.95);
    assert!(interval.low < 0.0 && interval.high > 0.0 && interval.high < 0.05, "{interval:?}");
    assert_eq!(sign_flip(&[0.0; 30], 1).p_value, 1.0);
    assert!(sign_flip(&[f64::NAN, 1.0], 1).p_value.is_nan());
}
