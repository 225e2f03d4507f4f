//! Damaged files of every kind give an error or rows, never a panic.

use lmeval_pycompat::Value;
use lmeval_testkit::{Dice, fuzz_seed, mutate};

use crate::saved::stream;
use crate::support::{load_in, printed, request, write};

#[test]
fn damaged_files_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let parquet: &[u8] = include_bytes!("numbers.parquet");
    let json =
        b"{\"a\": [1, 2.5, {\"b\": \"x\\u00e9\"}], \"c\": null}\n{\"a\": [], \"c\": true}\n[{\"a\": 1e5}]";
    let csv = "a,b\n1,\"x\"\"y\n\"\n2.5,é\r\ntrue,\n".as_bytes();
    let zip = b"PK\x03\x04\x14\0\0\0\x08\0";
    let arrow = stream(&[&[1, 2], &[3]]);
    let samples: [(&str, &[u8]); 7] = [
        ("json", json),
        ("csv", csv),
        ("text", csv),
        ("parquet", parquet),
        ("json", zip),
        ("csv", b"\x1f\x8b\x08"),
        ("arrow", &arrow),
    ];
    let mut dice = Dice::new(fuzz_seed(11));
    for (loader, sample) in samples {
        mutate(&[sample], 150, |content| {
            write(folder.path(), "x", content);
            let mut kwargs = vec![("data_files", Value::str("x"))];
            if loader == "json" && dice.roll(4) == 0 {
                kwargs.push(("field", "a".into()));
            }
            if let Ok(data) = load_in(folder.path(), &request(loader, &["train"], &kwargs)) {
                drop(printed(data.get("train").unwrap()));
            }
        });
    }
}
