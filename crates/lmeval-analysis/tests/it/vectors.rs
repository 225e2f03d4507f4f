//! The arithmetic equals scipy and statsmodels on recorded vectors.

use lmeval_analysis::stats::{
    ClusterCorrection, benjamini_hochberg, clustered_stderr, holm, mcnemar, normal_quantile, sign_flip,
    student_cdf, student_quantile,
};
use serde_json::Value;

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/statistics.json"));

fn recorded(name: &str) -> Vec<Vec<Value>> {
    let mut all: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    serde_json::from_value(all[name].take()).expect("rows")
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|item| item.as_f64().expect("a number")).collect()
}

#[track_caller]
fn close(got: f64, expected: f64, what: &dyn std::fmt::Debug) {
    let scale = expected.abs().max(1e-300);
    assert!((got - expected).abs() <= 1e-9 * scale, "{what:?}: {got} instead of {expected}");
}

#[test]
fn mcnemar_equals_binomtest() {
    for row in recorded("mcnemar") {
        let count = |index: usize| row[index].as_u64().expect("a count");
        close(mcnemar(count(0), count(1)), row[2].as_f64().expect("p"), &row);
        close(mcnemar(count(1), count(0)), row[2].as_f64().expect("p"), &row);
    }
}

#[test]
fn sign_flip_equals_the_exact_permutation_test() {
    for row in recorded("sign_flip") {
        close(sign_flip(&floats(&row[0]), 1).p_value, row[1].as_f64().expect("p"), &row);
    }
}

#[test]
fn adjustments_equal_multipletests() {
    for row in recorded("adjust") {
        let p_values = floats(&row[0]);
        for (got, expected) in [(holm(&p_values), &row[1]), (benjamini_hochberg(&p_values), &row[2])] {
            for (got, expected) in got.iter().zip(floats(expected)) {
                close(*got, expected, &row);
            }
        }
    }
    assert!(holm(&[0.01, f64::NAN])[1].is_nan());
    assert_eq!(holm(&[0.01, f64::NAN])[0], 0.01);
}

#[test]
fn clustered_errors_equal_the_sandwich_estimator() {
    for row in recorded("clustered") {
        let values = floats(&row[0]);
        let clusters: Vec<u32> = floats(&row[1]).into_iter().map(|label| label as u32).collect();
        let count = clusters.iter().max().map_or(0, |last| *last as usize + 1);
        for (correction, expected) in
            [(ClusterCorrection::SmallSample, &row[2]), (ClusterCorrection::None, &row[3])]
        {
            close(
                clustered_stderr(&values, &clusters, count, correction),
                expected.as_f64().expect("a number"),
                &row,
            );
        }
    }
}

#[test]
fn distributions_equal_scipy() {
    for row in recorded("normal_quantile") {
        let row: Vec<f64> = row.iter().map(|item| item.as_f64().expect("a number")).collect();
        if row[1] != 0.0 {
            close(normal_quantile(row[0]), row[1], &row);
        }
    }
    for row in recorded("student_quantile") {
        let row: Vec<f64> = row.iter().map(|item| item.as_f64().expect("a number")).collect();
        if row[2].abs() > 1e-12 {
            close(student_quantile(row[0], row[1]), row[2], &row);
        }
    }
    for row in recorded("student_cdf") {
        let row: Vec<f64> = row.iter().map(|item| item.as_f64().expect("a number")).collect();
        close(student_cdf(row[0], row[1]), row[2], &row);
    }
    assert_eq!(normal_quantile(0.5), 0.0);
    assert!(student_quantile(0.5, 7.0).abs() < 1e-12);
    assert!(normal_quantile(1.5).is_nan() && student_quantile(0.0, 3.0).is_nan());
}
