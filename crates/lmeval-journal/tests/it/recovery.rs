//! Truncated and damaged files.

use lmeval_core::ModelIdentity;
use lmeval_journal::{Journal, compact, export, list, verify};
use lmeval_testkit::Dice;

use crate::support::{entry, filled, identity, is_answered};

#[test]
fn cut_at_any_byte_keeps_complete_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let mut ends = Vec::new();
    let (journal, model) = filled(&path, 0);
    ends.push(fs_err::metadata(&path).unwrap().len());
    for number in 0..4 {
        journal.append_blocking(entry(model, number)).unwrap();
        ends.push(fs_err::metadata(&path).unwrap().len());
    }
    journal.close().unwrap();
    let whole = fs_err::read(&path).unwrap();
    for length in 0..=whole.len() {
        fs_err::write(&path, &whole[..length]).unwrap();
        let complete = ends.iter().filter(|end| **end <= length as u64).count().saturating_sub(1);
        let (journal, opened) = Journal::open(&path).unwrap();
        assert_eq!((opened.answers, opened.failures), (complete, 0), "{length}");
        assert!(opened.damage.is_empty());
        let is_clean = ends.contains(&(length as u64)) || length == 16 || length == 0;
        assert_eq!(opened.repaired_bytes.is_none(), is_clean, "{length}");
        assert_eq!(journal.register_model(&identity("a")).unwrap(), model);
        for number in 0..4 {
            assert_eq!(is_answered(&journal, model, number), number < complete);
        }
        (complete..4).for_each(|number| journal.append_blocking(entry(model, number)).unwrap());
        journal.close().unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), whole, "{length}");
        assert!(verify(&path).unwrap().is_sound());
    }
}

#[test]
fn flipped_bytes_never_change_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 12);
    journal.close().unwrap();
    let whole = fs_err::read(&path).unwrap();
    let mut dice = Dice::new(7);
    for round in 0..100 {
        let mut damaged = whole.clone();
        for _ in 0..=dice.roll(4) {
            let at = 16 + dice.roll(whole.len() - 16);
            damaged[at] ^= 1 + dice.roll(255) as u8;
        }
        fs_err::write(&path, &damaged).unwrap();
        let verification = verify(&path).unwrap();
        assert!(!verification.is_sound() || damaged == whole);
        list(&path).unwrap();
        export(&path, &mut Vec::new()).unwrap();
        let (journal, opened) = Journal::open(&path).unwrap();
        assert_eq!(opened.answers, verification.answers);
        assert!(opened.answers >= 8, "{round}: {opened:?}");
        let answered = (0..12).filter(|number| is_answered(&journal, model, *number)).count();
        assert_eq!(answered, opened.answers, "{round}");
        journal.register_model(&identity("a")).unwrap();
        (0..12).for_each(|number| journal.append_blocking(entry(model, number)).unwrap());
        journal.close().unwrap();
        compact(&path).unwrap();
        assert!(verify(&path).unwrap().is_sound());
        let (journal, opened) = Journal::open(&path).unwrap();
        assert_eq!((opened.answers, opened.damage.len()), (12, 0));
        assert!((0..12).all(|number| is_answered(&journal, model, number)));
    }
}

#[test]
fn survives_random_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 3);
    journal.close().unwrap();
    let whole = fs_err::read(&path).unwrap();
    let mut dice = Dice::new(11);
    for _ in 0..100 {
        // Random bytes with many markers among them.
        let noise: Vec<u8> =
            (0..dice.roll(200)).map(|_| [0xf5, b'J', 0xff, 0xfa, 0, 1, 40][dice.roll(7)]).collect();
        let at = 16 + dice.roll(whole.len() - 16);
        let damaged = [&whole[..at], &noise, &whole[at..]].concat();
        fs_err::write(&path, damaged).unwrap();
        let (journal, opened) = Journal::open(&path).unwrap();
        assert!(opened.answers >= 2, "{opened:?}");
        let answered = (0..3).filter(|number| is_answered(&journal, model, *number)).count();
        assert_eq!(answered, opened.answers);
    }
}

#[test]
fn reports_damage_and_keeps_later_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 5);
    let start = fs_err::metadata(&path).unwrap().len();
    journal.append_blocking(entry(model, 5)).unwrap();
    let end = fs_err::metadata(&path).unwrap().len();
    (6..9).for_each(|number| journal.append_blocking(entry(model, number)).unwrap());
    journal.close().unwrap();
    let mut bytes = fs_err::read(&path).unwrap();
    bytes[start as usize + 20] ^= 1;
    fs_err::write(&path, &bytes).unwrap();

    let (journal, opened) = Journal::open(&path).unwrap();
    assert_eq!((opened.answers, opened.repaired_bytes), (8, None));
    assert_eq!(opened.damage.len(), 1);
    assert_eq!((opened.damage[0].offset, opened.damage[0].bytes), (start, end - start));
    assert!((0..9).all(|number| is_answered(&journal, model, number) == (number != 5)));
    journal.append_blocking(entry(model, 5)).unwrap();
    journal.close().unwrap();
    let problems: Vec<String> = verify(&path).unwrap().problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, [format!("{} damaged bytes at offset {start}", end - start)]);
    let compacted = compact(&path).unwrap();
    assert_eq!((compacted.answers, compacted.damaged, compacted.dropped), (9, 1, 0));
    assert_eq!(compacted.bytes_after, fs_err::metadata(&path).unwrap().len());
    assert!(verify(&path).unwrap().is_sound());
}

#[test]
fn damaged_header_loses_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 5);
    journal.close().unwrap();
    let whole = fs_err::read(&path).unwrap();
    let flips = (0..128).map(|bit| {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    let zeros = [vec![0; 16], whole[16..].to_vec()].concat();
    for (round, damaged) in flips.chain([zeros]).enumerate() {
        fs_err::write(&path, &damaged).unwrap();
        let verification = verify(&path).unwrap();
        assert_eq!(verification.answers, 5, "{round}");
        let problems: Vec<String> = verification.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["16 damaged bytes at offset 0"], "{round}");
        assert_eq!(list(&path).unwrap().models[0].answered, 5);
        assert_eq!(export(&path, &mut Vec::new()).unwrap().answers, 5);
        assert_eq!(compact(&path).unwrap().damaged, 1);
        assert_eq!(fs_err::read(&path).unwrap(), whole, "{round}");
        fs_err::write(&path, &damaged).unwrap();
        let (journal, opened) = Journal::open(&path).unwrap();
        assert_eq!((opened.answers, opened.damage.len()), (5, 1));
        assert!((0..5).all(|number| is_answered(&journal, model, number)));
        journal.close().unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), whole, "the header is repaired");
    }
}

#[test]
fn remembers_last_used_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let server = |name: Option<&str>, address: &str| {
        let mut facts: Vec<(&str, String)> =
            name.map(|name| ("serves", name.to_owned())).into_iter().collect();
        facts.push(("server", address.to_owned()));
        ModelIdentity { backend: "test".into(), facts }
    };
    let (journal, _) = Journal::open(&path).unwrap();
    let unknown = server(None, "here");
    assert_eq!(journal.last_model(&unknown), None);
    let first = journal.register_model(&server(Some("x"), "here")).unwrap();
    journal.register_model(&server(Some("y"), "here")).unwrap();
    journal.register_model(&server(Some("z"), "elsewhere")).unwrap();
    assert_eq!(journal.last_model(&unknown).unwrap().fact("serves"), Some("y"));
    // Used again, so it is the most recent one from now on.
    assert_eq!(journal.register_model(&server(Some("x"), "here")).unwrap(), first);
    journal.register_model(&server(Some("z"), "elsewhere")).unwrap();
    journal.close().unwrap();
    for _ in 0..2 {
        let (journal, _) = Journal::open(&path).unwrap();
        assert_eq!(journal.register(journal.last_model(&unknown).unwrap()).unwrap(), first);
        assert_eq!(journal.last_model(&server(None, "unknown")), None);
        journal.register_model(&server(Some("z"), "elsewhere")).unwrap();
        journal.close().unwrap();
        compact(&path).unwrap();
    }
}
