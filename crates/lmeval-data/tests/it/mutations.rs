//! Damaged files of every kind: an error or rows, and never a panic.

use lmeval_pycompat::Value;

use crate::saved::stream;
use crate::support::{load_in, printed, request, write};

/// Small numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

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
    let mut numbers = Numbers(7);
    for round in 0..700 * rounds() {
        let (loader, sample) = samples[round % samples.len()];
        let mut content = sample.to_vec();
        for _ in 0..=numbers.below(3) {
            let place = numbers.below(content.len());
            match numbers.below(4) {
                0 => content.truncate(place),
                1 if !content.is_empty() => content[place] = numbers.below(256) as u8,
                2 => content.insert(place, b"{}[]\",:\\\n\r\0\xff"[numbers.below(12)]),
                _ if !content.is_empty() => {
                    content.remove(place);
                }
                _ => {}
            }
        }
        write(folder.path(), "x", &content);
        let mut kwargs = vec![("data_files", Value::str("x"))];
        if loader == "json" && numbers.below(4) == 0 {
            kwargs.push(("field", "a".into()));
        }
        if let Ok(data) = load_in(folder.path(), &request(loader, &["train"], &kwargs)) {
            drop(printed(data.get("train").unwrap()));
        }
    }
}

/// More rounds than by default, for a longer search by hand.
fn rounds() -> usize {
    std::env::var("LMEVAL_DATA_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}
