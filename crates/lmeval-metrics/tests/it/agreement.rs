//! Agreement and preference statistics compared with `krippendorff`, scikit-learn and statsmodels.

use lmeval_metrics::agreement::{Level, cohen_kappa, krippendorff_alpha};
use lmeval_metrics::preference::{length_controlled, win_rate};
use lmeval_pycompat::Value;

use crate::{field, load, number, numbers};

fn recorded(name: &str) -> Vec<Value> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/agreement.json"));
    field(&load(text), name).as_list().unwrap().to_vec()
}

fn ratings(value: &Value) -> Vec<Option<f64>> {
    value.as_list().unwrap().iter().map(Value::to_f64).collect()
}

fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}");
}

#[test]
fn alpha_equals_the_krippendorff_package() {
    let cases = recorded("alpha");
    assert_eq!(cases.len(), 6);
    for case in cases {
        let [table, nominal, interval] = case.as_list().unwrap() else { panic!("a case has three parts") };
        let table: Vec<Vec<Option<f64>>> = table.as_list().unwrap().iter().map(ratings).collect();
        for (level, expected) in [(Level::Nominal, nominal), (Level::Interval, interval)] {
            assert_near(krippendorff_alpha(&table, level).unwrap(), number(expected), 1e-12);
        }
    }
}

#[test]
fn kappa_equals_scikit_learn() {
    let cases = recorded("kappa");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let [first, second, expected] = case.as_list().unwrap() else { panic!("a case has three parts") };
        assert_near(cohen_kappa(&ratings(first), &ratings(second)).unwrap(), number(expected), 1e-12);
    }
}

#[test]
fn length_controlled_equals_a_binomial_regression_of_statsmodels() {
    let cases = recorded("length_controlled");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let [outcomes, differences, expected] = case.as_list().unwrap() else {
            panic!("a case has three parts")
        };
        let found = length_controlled(&numbers(outcomes), &numbers(differences)).unwrap();
        assert_near(found, number(expected), 1e-9);
    }
}

#[test]
fn intervals_equal_those_of_statsmodels() {
    for case in recorded("wilson") {
        let parts = numbers(&case);
        let outcomes: Vec<f64> =
            (0..parts[1] as usize).map(|index| f64::from((index as f64) < parts[0])).collect();
        let preference = win_rate(&outcomes);
        assert_near(preference.low, parts[2], 1e-12);
        assert_near(preference.high, parts[3], 1e-12);
    }
}
