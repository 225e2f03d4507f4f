//! Time stamps equal Python's local time.

use lmeval_pycompat::Value;
use lmeval_report::{Moment, TimeZone};

use crate::reference::{ask, question};

#[test]
fn stamps_are_local_time() {
    let zones = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/St_Johns",
        "Asia/Kolkata",
        "Asia/Tehran",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Pacific/Apia",
        "EST5EDT",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<-03>3<-02>,M10.3.0/0,M2.3.0/0",
        "XXX4YYY,J60/1:30,300/-1",
        "IST-5:30",
        "NoSuchZone",
        "posix/Asia/Tokyo",
        "europe/berlin",
        "/usr/share/zoneinfo/Asia/Tokyo",
        ":Asia/Tokyo",
        "",
    ];
    // Every eleven days and some hours, from 1971 to 2090.
    let seconds: Vec<i64> = (0..3900).map(|step| 31_536_000 + step * (11 * 86_400 + 17_123)).collect();
    let questions: Vec<Value> = zones
        .iter()
        .map(|zone| {
            let seconds = Value::list(seconds.iter().copied().map(Value::Int));
            question("stamps", [("zone", Value::str(*zone)), ("seconds", seconds)])
        })
        .collect();
    let Some(answers) = ask(&questions) else { return };
    for (name, answer) in zones.iter().zip(answers) {
        let answer = answer.unwrap();
        let zone = TimeZone::local(Some(name));
        for (second, stamp) in seconds.iter().zip(answer.as_list().unwrap()) {
            let ours = Moment::from_micros(second * 1_000_000).stamp(&zone);
            assert_eq!(Some(ours.as_str()), stamp.as_str(), "{name}, {second}");
        }
    }
}
