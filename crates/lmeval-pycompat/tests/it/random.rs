//! `random.Random`.

use lmeval_pycompat::Value;
use lmeval_pycompat::random::Random;
use proptest::prelude::*;

use crate::vectors::{get, items, load, python, size};

fn indices(positions: &[usize]) -> Value {
    Value::list(positions.iter().map(|&position| Value::Int(i64::try_from(position).unwrap())))
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

#[test]
fn draws_match_recordings() {
    let golden = load("golden/units/python_random.json");
    assert!(!items(&golden).is_empty());
    for case in items(&golden) {
        // One generator draws all fields in order.
        let mut random = Random::from_seed_value(get(case, "seed")).unwrap();
        for (field, recorded) in case.as_dict().unwrap().iter() {
            let mut repeat = |draw: fn(&mut Random) -> Value| {
                Value::list((0..items(recorded).len()).map(|_| draw(&mut random)))
            };
            let drawn = match field.as_str().unwrap() {
                "seed" | "gauss" => continue,
                "random" => repeat(|random| Value::Float(random.random())),
                "getrandbits_32" => {
                    repeat(|random| Value::Int(i64::try_from(random.getrandbits(32)).unwrap()))
                }
                "randrange_10" => repeat(|random| Value::Int(random.randrange(0, 10, 1).unwrap())),
                "randint_0_2e32" => repeat(|random| Value::Int(random.randint(0, 1 << 32).unwrap())),
                "sample_5_of_24" => repeat(|random| indices(&random.sample_indices(24, 5).unwrap())),
                "choices_7_of_9" => repeat(|random| indices(&random.choices_indices(9, 7).unwrap())),
                "sample_21_of_22" => indices(&random.sample_indices(22, 21).unwrap()),
                "sample_3_of_1000" => indices(&random.sample_indices(1000, 3).unwrap()),
                "shuffle_8" => {
                    let mut shuffled: Vec<usize> = (0..8).collect();
                    random.shuffle(&mut shuffled);
                    indices(&shuffled)
                }
                "choice_13" => Value::Int(i64::try_from(random.choice_index(13).unwrap()).unwrap()),
                other => panic!("no test for `{other}`"),
            };
            assert_eq!(&drawn, recorded, "{field:?} of seed {:?}", get(case, "seed"));
        }
    }
}

#[test]
fn sequential_draws_match_recordings() {
    let vectors = python("random");
    for case in items(get(&vectors, "random")) {
        let mut random = Random::from_seed_value(get(case, "seed")).unwrap();
        let (length, count) = (size(get(case, "length")), size(get(case, "count")));
        let mut shuffled: Vec<usize> = (0..length.min(30)).collect();
        random.shuffle(&mut shuffled);
        assert_eq!(&indices(&shuffled), get(case, "shuffle"));
        let population: Vec<usize> = (0..length).collect();
        assert_eq!(&indices(&random.sample(&population, count).unwrap()), get(case, "sample"));
        assert_eq!(&indices(&random.choices_indices(length, count).unwrap()), get(case, "choices"));
        let weights: Vec<f64> = items(get(case, "weights")).iter().map(|w| w.to_f64().unwrap()).collect();
        assert_eq!(&indices(&random.weighted_indices(&weights, count).unwrap()), get(case, "weighted"));
        assert_eq!(*random.choice(&population).unwrap(), size(get(case, "choice")));
        assert_eq!(&Value::Float(random.random()), get(case, "random"));
        assert_eq!(&Value::Float(random.uniform(-1.5, 7.25)), get(case, "uniform"));
        for draw in items(get(case, "bits")) {
            let [bits, drawn] = items(draw) else { panic!() };
            assert_eq!(&random.getrandbits_big(size(bits)), drawn);
        }
        for draw in items(get(case, "randrange")) {
            let [arguments, drawn] = items(draw) else { panic!() };
            let [start, stop, step] = items(arguments) else { panic!() };
            let got = random.randrange(integer(start), integer(stop), integer(step)).unwrap();
            assert_eq!(got, integer(drawn));
        }
        for draw in items(get(case, "randint")) {
            let [arguments, drawn] = items(draw) else { panic!() };
            let [low, high] = items(arguments) else { panic!() };
            assert_eq!(random.randint(integer(low), integer(high)).unwrap(), integer(drawn));
        }
    }
}

proptest! {
    #[test]
    fn both_getrandbits_agree(seed in any::<i64>(), bits in 0_u32..=64) {
        let small = Random::from_seed(seed).getrandbits(bits);
        let big = Random::from_seed(seed).getrandbits_big(bits as usize);
        prop_assert_eq!(big, Value::from_bigint(small.into()));
    }

    #[test]
    fn samples_are_distinct(seed in any::<i64>(), length in 0_usize..300, part in 0.0..=1.0) {
        let count = (length as f64 * part) as usize;
        let mut sample = Random::from_seed(seed).sample_indices(length, count).unwrap();
        prop_assert!(sample.iter().all(|&index| index < length));
        sample.sort_unstable();
        sample.dedup();
        prop_assert_eq!(sample.len(), count);
    }

    #[test]
    fn randrange_stays_in_range(seed in any::<i64>(), start: i64, stop: i64, step: i64) {
        if let Ok(drawn) = Random::from_seed(seed).randrange(start, stop, step) {
            let (low, high) = if step > 0 { (start, stop - 1) } else { (stop + 1, start) };
            prop_assert!((low..=high).contains(&drawn));
            prop_assert_eq!((i128::from(drawn) - i128::from(start)) % i128::from(step), 0);
        }
    }
}
