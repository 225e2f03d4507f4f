//! Values cross the connection unchanged.

use lmeval_pycompat::datetime::{Date, DateTime};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value, float};
use lmeval_scoring::Host;
use proptest::prelude::*;

use crate::support::{Folder, document};

/// Strings whose `repr` does not depend on Python's Unicode version.
const TEXT: &str = "[ -~\\n\\t\u{0}\u{7f}éß€語\u{1f600}]{0,12}";

fn any_value() -> impl Strategy<Value = Value> {
    let date = (1_u32..=9999, 1_u32..=12, 1_u32..=28)
        .prop_map(|(year, month, day)| Date::new(year, month, day).unwrap());
    let moment = (date.clone(), 0_u32..24, 0_u32..1_000_000, proptest::option::of(-86_340_i32..86_340));
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        "-?[1-9][0-9]{18,60}".prop_map(|digits| float::parse_int(&digits, 10).unwrap()),
        any::<f64>().prop_map(Value::Float),
        Just(Value::Float(f64::NAN)),
        TEXT.prop_map(Value::from),
        Just(Value::str("$")),
        proptest::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Bytes(bytes.into())),
        date.prop_map(Value::Date),
        moment.prop_map(|(date, hour, micro, offset)| {
            Value::DateTime(DateTime::new(date, (hour, 59, 1), micro, offset).unwrap())
        }),
    ];
    let key = prop_oneof![
        TEXT.prop_map(Value::from),
        Just(Value::str("$")),
        any::<i64>().prop_map(Value::Int),
        any::<(bool, i64)>().prop_map(|(one, two)| Value::tuple([Value::Bool(one), Value::Int(two)])),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let entries = proptest::collection::vec((key.clone(), inner.clone()), 0..5);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(inner, 0..5).prop_map(Value::tuple),
            entries.prop_map(|entries| Value::from(entries.into_iter().collect::<Dict>())),
        ]
    })
}

#[test]
fn values_round_trip() {
    let folder =
        Folder::new("def same(doc):\n    return doc['v']\ndef shown(doc):\n    return repr(doc['v'])\n");
    let (same, shown) = (folder.function("utils.same"), folder.function("utils.shown"));
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(value in any_value())| {
        let document = document([("v", value.clone())]);
        let back = folder.host.call(&same, &document).unwrap();
        prop_assert_eq!(repr(&back), repr(&value));
        // Python sees the same value: its `repr` equals ours.
        let text = folder.host.call(&shown, &document).unwrap();
        prop_assert_eq!(text.as_str().unwrap(), repr(&value));
    });
}

#[test]
fn strings_round_trip() {
    let folder = Folder::new("def same(doc):\n    return [doc['v'], {doc['v']: 1}]\n");
    let same = folder.function("utils.same");
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(text in any::<String>())| {
        let back = folder.host.call(&same, &document([("v", Value::str(text.as_str()))])).unwrap();
        prop_assert_eq!(back, Value::list([Value::str(text.as_str()), Value::dict([(text.as_str(), Value::Int(1))])]));
    });
}

#[test]
fn floats_are_bit_exact() {
    let folder = Folder::new("def same(doc):\n    return doc['v']\n");
    let same = folder.function("utils.same");
    for bits in [0, 1 << 63, 1, 0x7fef_ffff_ffff_ffff, 0x7ff0_0000_0000_0000, 0x3fb9_9999_9999_999a_u64] {
        let value = folder.host.call(&same, &document([("v", Value::Float(f64::from_bits(bits)))])).unwrap();
        let Value::Float(back) = value else { panic!("{value:?}") };
        assert_eq!(back.to_bits(), bits);
    }
}

#[test]
fn converts_subclasses_to_plain_types() {
    let folder = Folder::new(
        "import collections, enum, decimal
class Text(str): pass
class Number(enum.IntEnum):
    ONE = 1
Pair = collections.namedtuple('Pair', 'a b')
def kin(doc):
    counts = collections.OrderedDict(b=1, a=Pair(Text('x'), Number.ONE))
    return [counts, collections.defaultdict(list, k=[1]), {1}, frozenset([2]), range(2), map(str, [3]), bytearray(b'z'),
            decimal.Decimal('1.50')]
",
    );
    let value = folder.host.call(&folder.function("utils.kin"), &document([])).unwrap();
    let expected = "[{'b': 1, 'a': ('x', 1)}, {'k': [1]}, {1}, {2}, [0, 1], ['3'], b'z', '1.50']";
    assert_eq!(repr(&value), expected);
}
