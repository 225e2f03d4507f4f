//! `repr`, `str`, `float`, `int`, `sum`.

use lmeval_pycompat::datetime::{Date, DateTime};
use lmeval_pycompat::float::{parse_float, parse_int, sum};
use lmeval_pycompat::repr::{float_repr, repr, str};
use lmeval_pycompat::{Function, Value};
use num_bigint::BigInt;
use proptest::prelude::*;

use crate::vectors::{get, items, python, text};

fn from_hex(bits: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(bits, 16).unwrap())
}

#[test]
fn prints_floats_as_in_python() {
    let vectors = python("floats");
    for case in items(get(&vectors, "floats")) {
        let [bits, shown] = items(case) else { panic!() };
        assert_eq!(float_repr(from_hex(text(bits))), text(shown), "{}", text(bits));
    }
}

#[test]
fn parses_floats_as_in_python() {
    let vectors = python("float");
    for case in items(get(&vectors, "float")) {
        let [source, bits] = items(case) else { panic!() };
        let number = parse_float(text(source));
        let number = number.map(|number| if number.is_nan() { f64::NAN } else { number });
        assert_eq!(
            number.map(f64::to_bits),
            bits.as_str().map(|bits| from_hex(bits).to_bits()),
            "{source:?}"
        );
    }
}

#[test]
fn parses_integers_as_in_python() {
    let vectors = python("int");
    for case in items(get(&vectors, "int")) {
        let [source, base, hexadecimal] = items(case) else { panic!() };
        let base = u32::try_from(base.as_i64().unwrap()).unwrap();
        let number = parse_int(text(source), base).map(|number| match number {
            Value::BigInt(number) => format!("{:x}", *number),
            number => format!("{:x}", BigInt::from(number.as_i64().unwrap())),
        });
        assert_eq!(number.as_deref(), hexadecimal.as_str(), "{source:?} in base {base}");
    }
}

#[test]
fn adds_as_in_python() {
    let vectors = python("sums");
    for case in items(get(&vectors, "sums")) {
        let [numbers, plain, _] = items(case) else { panic!() };
        let numbers: Vec<f64> = items(numbers).iter().map(|n| parse_float(text(n)).unwrap()).collect();
        assert_eq!(float_repr(sum(numbers.iter().copied())), text(plain), "{numbers:?}");
    }
}

#[test]
fn prints_containers_and_constants() {
    let one = || Value::Int(1);
    for (value, expected) in [
        (Value::None, "None"),
        (Value::Bool(true), "True"),
        (Value::tuple([]), "()"),
        (Value::tuple([one()]), "(1,)"),
        (Value::tuple([one(), Value::str("a\n")]), r"(1, 'a\n')"),
        (Value::list([]), "[]"),
        (Value::set([]), "set()"),
        (Value::set([one(), Value::Int(2)]), "{1, 2}"),
        (Value::dict([("a", Value::list([Value::Float(1.0)]))]), "{'a': [1.0]}"),
        (Value::from_bigint(BigInt::from(1_u128 << 100)), "1267650600228229401496703205376"),
        (Value::Bytes(b"a'\x00\xff\t"[..].into()), r#"b"a'\x00\xff\t""#),
    ] {
        assert_eq!(repr(&value), expected);
        assert_eq!(str(&value), expected);
    }
    let function = Function { reference: "utils.process_docs".to_owned(), directory: String::new() };
    assert_eq!(repr(&Value::Function(function.into())), "<function process_docs>");
}

#[test]
fn prints_dates() {
    let date = Date::new(2020, 1, 31).unwrap();
    assert_eq!(repr(&Value::Date(date)), "datetime.date(2020, 1, 31)");
    assert_eq!(str(&Value::Date(date)), "2020-01-31");
    let shown = |time, microsecond, offset| {
        let value = Value::DateTime(DateTime::new(date, time, microsecond, offset).unwrap());
        (repr(&value), str(&value))
    };
    let both =
        |shown: &str, plain: &str| (format!("datetime.datetime(2020, 1, 31, {shown})"), plain.to_owned());
    assert_eq!(shown((0, 0, 0), 0, None), both("0, 0", "2020-01-31 00:00:00"));
    assert_eq!(shown((1, 2, 3), 0, None), both("1, 2, 3", "2020-01-31 01:02:03"));
    assert_eq!(shown((1, 2, 0), 40, None), both("1, 2, 0, 40", "2020-01-31 01:02:00.000040"));
    assert_eq!(
        shown((1, 2, 0), 0, Some(0)),
        both("1, 2, tzinfo=datetime.timezone.utc", "2020-01-31 01:02:00+00:00")
    );
    assert_eq!(
        shown((1, 2, 0), 0, Some(3600)),
        both("1, 2, tzinfo=datetime.timezone(datetime.timedelta(seconds=3600))", "2020-01-31 01:02:00+01:00")
    );
    assert_eq!(
        shown((1, 2, 0), 0, Some(-18000)),
        both(
            "1, 2, tzinfo=datetime.timezone(datetime.timedelta(days=-1, seconds=68400))",
            "2020-01-31 01:02:00-05:00"
        )
    );
}

proptest! {
    #[test]
    fn floats_round_trip(bits in any::<u64>()) {
        let number = f64::from_bits(bits);
        let read = parse_float(&float_repr(number)).unwrap();
        prop_assert!(read.to_bits() == bits || (number.is_nan() && read.is_nan()));
    }

    #[test]
    fn parsing_numbers_never_panics(text in "[0-9_.eExob+\\- nif१\u{a0}é]{0,12}", base in 0_u32..40) {
        parse_float(&text);
        parse_int(&text, base);
    }
}
