//! Malicious and damaged archives, and complete installations.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use fs_err as fs;
use lmeval::library::{Home, Installed};
use lmeval_core::{Diagnose as _, Diagnostic};
use lmeval_engine::EngineError;
use tempfile::TempDir;

use super::archive::{self, Contents};
use super::target::{Limits, Target};
use super::{Installation, Pull};

const PLAIN: u32 = 0o100_644;
const LINK: u32 = 0o120_777;

/// An error with its causes and hints.
fn full_message(error: &anyhow::Error) -> String {
    let hints = match (error.downcast_ref::<Diagnostic>(), error.downcast_ref::<EngineError>()) {
        (Some(error), _) => error.hints(),
        (_, Some(error)) => error.hints(),
        _ => Vec::new(),
    };
    format!("{error:#} {}", hints.join(" "))
}

/// A zip file built by hand, so that names can be anything: stored entries of (name, mode, content).
fn zip(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, mode, content) in entries {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let mut shared = Vec::new();
        for field in [20_u16, 0, 0, 0, 0x21] {
            shared.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), content.len() as u32, content.len() as u32] {
            shared.extend(field.to_le_bytes());
        }
        shared.extend((name.len() as u16).to_le_bytes());
        shared.extend(0_u16.to_le_bytes());
        let offset = archive.len() as u32;
        archive.extend(b"PK\x03\x04");
        archive.extend(&shared);
        archive.extend(name.as_bytes());
        archive.extend(*content);
        // Made on Unix, so that the upper half of the attributes is the mode.
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&shared);
        directory.extend([0_u8; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, size) = (archive.len() as u32, directory.len() as u32);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend((entries.len() as u16).to_le_bytes());
    archive.extend((entries.len() as u16).to_le_bytes());
    archive.extend(size.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend(0_u16.to_le_bytes());
    archive
}

/// A tar archive built by hand from (name, type, link target, content).
fn tar(entries: &[(&str, u8, &str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, kind, link, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(tar::EntryType::new(*kind));
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.extend(header.as_bytes());
        archive.extend(*content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.extend([0; 1024]);
    archive
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

const SMALL: Limits = Limits { files: 50, entries: 100, file_bytes: 1 << 20, total_bytes: 4 << 20 };

/// Unpacks an archive in a fresh folder and checks that nothing was written outside the target.
fn unpack(bytes: &[u8]) -> (TempDir, Result<Contents>) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    fs::write(&archive, bytes).unwrap();
    let mut target = Target::create(folder.path().join("a/b/c/target"), SMALL).unwrap();
    let result = archive::unpack(&archive, &mut target);
    let names = |path: &Path| -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(folder.path()), ["a", "archive"]);
    for (parent, child) in [("a", "b"), ("a/b", "c"), ("a/b/c", "target")] {
        assert_eq!(names(&folder.path().join(parent)), [child]);
    }
    (folder, result)
}

fn refusal(bytes: &[u8]) -> String {
    format!("{:#}", unpack(bytes).1.unwrap_err())
}

#[test]
fn unpacks_wheels_and_source_archives() {
    let wheel = zip(&[
        ("lm_eval/__init__.py", PLAIN, b"raise SystemExit"),
        ("lm_eval/tasks/", 0o040_755, b""),
        ("lm_eval/tasks/arc/arc.yaml", 0o100_755, b"task: arc"),
        ("lm_eval/tasks/arc/words.txt", 0, "müßig".as_bytes()),
        ("lm_eval-0.4.13.dist-info/METADATA", PLAIN, b"Name: lm_eval\nVersion: 0.4.13\n\nVersion: 9\n"),
    ]);
    let source = tar(&[
        ("lm_eval-0.4.12/", b'5', "", b""),
        ("lm_eval-0.4.12/PKG-INFO", b'0', "", b"Metadata-Version: 2.1\nVersion: 0.4.12\n"),
        ("lm_eval-0.4.12/link", b'2', "/etc", b""),
        ("lm_eval-0.4.12/lm_eval/tasks/arc/arc.yaml", b'0', "", b"task: arc"),
        ("lm_eval-0.4.12/lm_eval/tasks/arc/words.txt", 0, "", "müßig".as_bytes()),
    ]);
    for (bytes, version) in [(wheel, "0.4.13"), (gzip(&source), "0.4.12"), (source, "0.4.12")] {
        let (folder, contents) = unpack(&bytes);
        assert_eq!(contents.unwrap().version.unwrap().as_str(), version);
        let target = folder.path().join("a/b/c/target");
        assert_eq!(fs::read_to_string(target.join("arc/arc.yaml")).unwrap(), "task: arc");
        assert_eq!(fs::read_to_string(target.join("arc/words.txt")).unwrap(), "müßig");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(target.join("arc/arc.yaml")).unwrap().permissions().mode() & 0o111, 0);
        }
    }
}

#[test]
fn rejects_unsafe_names() {
    for name in [
        "../evil",
        "lm_eval/tasks/../../../../evil",
        "/tmp/lm-eval-evil",
        "lm_eval/tasks//evil",
        "C:\\evil",
        "C:/evil",
        "lm_eval/tasks/..\\..\\evil",
        "lm_eval/tasks/\u{0}evil",
        "lm_eval/tasks/./evil",
    ] {
        let good: (&str, u32, &[u8]) = ("lm_eval/tasks/a.yaml", PLAIN, b"task: a");
        assert!(refusal(&zip(&[good, (name, PLAIN, b"evil")])).contains("unsafe name"), "{name:?}");
        if !name.contains('\0') {
            let good: (&str, u8, &str, &[u8]) = ("lm_eval/tasks/a.yaml", b'0', "", b"task: a");
            assert!(refusal(&tar(&[good, (name, b'0', "", b"evil")])).contains("unsafe name"), "{name:?}");
        }
    }
    assert!(!Path::new("/tmp/lm-eval-evil").exists());
}

#[test]
fn rejects_links_and_devices() {
    let through = zip(&[("lm_eval/tasks/out", LINK, b"/tmp"), ("lm_eval/tasks/out/evil", PLAIN, b"evil")]);
    assert!(refusal(&through).contains("link or a device"));
    assert!(refusal(&zip(&[("lm_eval/tasks/fifo", 0o010_644, b"")])).contains("link or a device"));
    for kind in *b"123467S" {
        let evil = tar(&[
            ("lm_eval/tasks/out", kind, "../../../..", b""),
            ("lm_eval/tasks/out/evil", b'0', "", b"evil"),
        ]);
        let message = refusal(&evil);
        assert!(message.contains("link or a device"), "{}: {message}", kind as char);
    }
}

#[test]
fn rejects_a_file_that_is_also_a_folder() {
    let both = tar(&[("lm_eval/tasks/a", b'0', "", b"x"), ("lm_eval/tasks/a/b", b'0', "", b"x")]);
    assert!(unpack(&both).1.is_err());
}

#[test]
fn rejects_duplicate_names() {
    let twice: (&str, u32, &[u8]) = ("lm_eval/tasks/a.yaml", PLAIN, b"x");
    assert!(refusal(&zip(&[twice, twice])).contains("twice"));
    let twice: (&str, u8, &str, &[u8]) = ("lm_eval/tasks/a.yaml", b'0', "", b"x");
    assert!(refusal(&tar(&[twice, twice])).contains("twice"));
    let dotted: (&str, u8, &str, &[u8]) = ("./lm_eval/tasks/a.yaml", b'0', "", b"x");
    assert!(refusal(&tar(&[twice, dotted])).contains("twice"));
    let other: (&str, u32, &[u8]) = ("other/lm_eval/tasks/b.yaml", PLAIN, b"x");
    assert!(refusal(&zip(&[("lm_eval/tasks/a.yaml", PLAIN, b"x"), other])).contains("several task folders"));
}

#[test]
fn stops_at_bombs() {
    // Deflated: three megabytes of zeros in a few kilobytes, with an honest header.
    let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    let deflated =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    writer.start_file("lm_eval/tasks/bomb", deflated).unwrap();
    writer.write_all(&vec![0; 3 << 20]).unwrap();
    let honest = writer.finish().unwrap().into_inner();
    assert!(honest.len() < 20_000);
    assert!(refusal(&honest).contains("larger than"));
    // The same with headers that claim ten bytes.
    let size = (3_u32 << 20).to_le_bytes();
    let mut lying = honest;
    for start in 0..lying.len() - 4 {
        if lying[start..start + 4] == size {
            lying[start..start + 4].copy_from_slice(&10_u32.to_le_bytes());
        }
    }
    assert!(unpack(&lying).1.is_err());

    // Many files that are each small enough.
    let block = vec![0; 1 << 20];
    let names: Vec<String> = (0..8).map(|number| format!("lm_eval/tasks/{number}")).collect();
    let entries: Vec<(&str, u8, &str, &[u8])> =
        names.iter().map(|name| (name.as_str(), b'0', "", block.as_slice())).collect();
    assert!(unpack(&gzip(&tar(&entries))).1.is_err());
    // Large entries elsewhere are not written, but must not be read without limit either.
    let elsewhere = tar(&[("big", b'0', "", &vec![0; 8 << 20]), ("lm_eval/tasks/a", b'0', "", b"x")]);
    assert!(refusal(&gzip(&elsewhere)).contains("exceeds the size limit"));
    // An endless name.
    let name = tar(&[("././@LongLink", b'L', "", &vec![b'a'; 2 << 20]), ("a", b'0', "", b"")]);
    assert!(refusal(&gzip(&name)).contains("longer than"));
}

#[test]
fn stops_at_too_many_entries() {
    let names: Vec<String> = (0..60).map(|number| format!("lm_eval/tasks/{number}")).collect();
    let entries: Vec<(&str, u32, &[u8])> =
        names.iter().map(|name| (name.as_str(), PLAIN, &b""[..])).collect();
    assert!(refusal(&zip(&entries)).contains("more than 50 files"));
    let names: Vec<String> = (0..101).map(|number| format!("elsewhere/{number}")).collect();
    let entries: Vec<(&str, u32, &[u8])> =
        names.iter().map(|name| (name.as_str(), PLAIN, &b""[..])).collect();
    assert!(refusal(&zip(&entries)).contains("more than 100 entries"));
    let entries: Vec<(&str, u8, &str, &[u8])> =
        names.iter().map(|name| (name.as_str(), b'0', "", &b""[..])).collect();
    assert!(refusal(&tar(&entries)).contains("more than 100 entries"));
}

#[test]
fn checks_long_names() {
    let long = format!("lm_eval/tasks/{}/x.yaml", "long".repeat(40));
    let gnu = tar(&[("././@LongLink", b'L', "", format!("{long}\0").as_bytes()), ("short", b'0', "", b"x")]);
    let record = |name: &str| {
        let body = format!(" path={name}\n");
        let length =
            (1..9).find(|digits| format!("{}{body}", body.len() + digits).len() == body.len() + digits);
        format!("{}{body}", body.len() + length.unwrap())
    };
    let pax = tar(&[("pax", b'x', "", record(&long).as_bytes()), ("short", b'0', "", b"x")]);
    for archive in [gnu, pax] {
        let (folder, contents) = unpack(&archive);
        contents.unwrap();
        assert!(folder.path().join("a/b/c/target").join("long".repeat(40)).join("x.yaml").is_file());
    }
    let gnu = tar(&[("././@LongLink", b'L', "", b"lm_eval/tasks/../../evil\0"), ("short", b'0', "", b"x")]);
    let pax = tar(&[("pax", b'x', "", record("/evil").as_bytes()), ("short", b'0', "", b"x")]);
    let nul = tar(&[("././@LongLink", b'L', "", b"lm_eval/tasks/a\0b\0"), ("short", b'0', "", b"x")]);
    for archive in [gnu, pax, nul] {
        assert!(refusal(&archive).contains("unsafe name"));
    }
    let sized = tar(&[("pax", b'x', "", b"10 size=9\n"), ("lm_eval/tasks/a", b'0', "", b"x")]);
    assert!(refusal(&sized).contains("extended header"));
}

#[test]
fn truncated_and_garbled_archives_do_not_panic() {
    let wheel =
        zip(&[("lm_eval/tasks/a.yaml", PLAIN, b"task: a"), ("lm_eval/tasks/b.yaml", PLAIN, b"task: b")]);
    let source = tar(&[("x/lm_eval/tasks/a.yaml", b'0', "", &[b'a'; 700]), ("x/b", b'0', "", b"b")]);
    let packed = gzip(&source);
    for length in 0..wheel.len() {
        assert!(unpack(&wheel[..length]).1.is_err(), "zip cut at {length}");
    }
    for length in (0..packed.len()).step_by(7) {
        assert!(unpack(&packed[..length]).1.is_err(), "gzip cut at {length}");
    }
    for length in (0..2560).step_by(61).chain([512, 1024, 1536, 2048]) {
        assert!(unpack(&source[..length]).1.is_err(), "tar cut at {length}");
    }
    for archive in [&wheel, &source, &packed] {
        for position in (0..archive.len().min(1200)).step_by(3) {
            let mut garbled = archive.clone();
            garbled[position] ^= 0x55;
            let _ = unpack(&garbled);
        }
    }
    assert!(refusal(b"").contains("Not a wheel"));
    assert!(refusal(b"<html>Not found</html>").contains("Not a wheel"));
    assert!(refusal(&zip(&[("other/file", PLAIN, b"x")])).contains("No `lm_eval/tasks` folder"));
    assert!(refusal(&zip(&[])).contains("No `lm_eval/tasks` folder"));
}

fn small_wheel(version: &str) -> Vec<u8> {
    let folder = format!("lm_eval-{version}.dist-info/METADATA");
    let metadata = format!("Name: lm_eval\nVersion: {version}\n");
    zip(&[("lm_eval/tasks/a.yaml", PLAIN, b"task: a"), (&folder, PLAIN, metadata.as_bytes())])
}

fn pull(home: &Home, version: Option<&str>, from: &Path, force: bool) -> Result<Installation> {
    Pull::new(version, Some(from.to_owned()), None, force)?.run(home, &mut |_| {})
}

fn installed(home: &Home) -> Vec<String> {
    let name = |library: Installed| format!("{}{}", library.version, if library.default { "*" } else { "" });
    home.installed().unwrap().into_iter().map(name).collect()
}

#[test]
fn installs_from_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(&folder.path().join("home")).unwrap();
    let wheel = folder.path().join("download.bin");
    fs::write(&wheel, small_wheel("0.4.13")).unwrap();
    let Installation::New { library, files } = pull(&home, None, &wheel, false).unwrap() else {
        panic!("not new")
    };
    assert_eq!((library.version.as_str(), library.default, files), ("0.4.13", true, 1));
    let error = full_message(&pull(&home, None, &wheel, false).unwrap_err());
    assert!(error.contains("already installed") && error.contains("--force"), "{error}");
    pull(&home, None, &wheel, true).unwrap();
    pull(&home, Some("mine"), &wheel, false).unwrap();
    assert_eq!(installed(&home), ["mine*", "0.4.13"]);

    let nameless = folder.path().join("nameless.zip");
    fs::write(&nameless, zip(&[("lm_eval/tasks/a.yaml", PLAIN, b"task: a")])).unwrap();
    assert!(
        pull(&home, None, &nameless, false).unwrap_err().to_string().contains("does not state its version")
    );
    let named = folder.path().join("lm_eval-0.4.2.zip");
    fs::copy(&nameless, &named).unwrap();
    pull(&home, None, &named, false).unwrap();
    assert_eq!(installed(&home), ["mine", "0.4.2*", "0.4.13"]);
    assert!(pull(&home, None, &folder.path().join("missing.whl"), false).is_err());
}

#[test]
fn failed_pull_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path()).unwrap();
    let wheel = folder.path().join("lm_eval-0.4.13-py3-none-any.whl");
    fs::write(&wheel, small_wheel("0.4.13")).unwrap();
    let Installation::New { library, .. } = pull(&home, None, &wheel, false).unwrap() else {
        panic!("not new")
    };
    let whole = small_wheel("0.4.13");
    fs::write(&wheel, &whole[..whole.len() - 30]).unwrap();
    assert!(pull(&home, None, &wheel, true).is_err());
    let evil = zip(&[("lm_eval/tasks/b.yaml", PLAIN, b"task: b"), ("../evil", PLAIN, b"")]);
    fs::write(&wheel, evil).unwrap();
    assert!(pull(&home, None, &wheel, true).is_err());
    assert_eq!(fs::read_to_string(library.path.join("a.yaml")).unwrap(), "task: a");
    assert!(!library.path.join("b.yaml").exists());
    let mut names: Vec<String> = fs::read_dir(folder.path().join("libraries"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, [".lock", "0.4.13", "default"]);
}

#[test]
fn installs_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(&folder.path().join("home")).unwrap();
    let tasks = folder.path().join("my tasks/group");
    fs::create_dir_all(&tasks).unwrap();
    fs::write(tasks.join("a.yaml"), "task: a").unwrap();
    fs::write(tasks.join("data.jsonl"), "{}").unwrap();
    let Installation::New { library, files } =
        pull(&home, None, &folder.path().join("my tasks"), false).unwrap()
    else {
        panic!("not new")
    };
    assert_eq!((library.version.as_str(), files), ("my-tasks", 2));
    assert!(library.path.join("group/data.jsonl").is_file());
    assert!(pull(&home, None, folder.path(), false).unwrap_err().to_string().contains("contains the folder"));
}

/// A stand-in for Python that records its arguments and acts as `pip download`.
#[cfg(unix)]
fn fake_python(folder: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let python = folder.join("python3");
    fs::write(
        &python,
        format!("#!/bin/sh\nhere=$(dirname \"$0\")\necho \"$@\" > \"$here/arguments\"\n{script}\n"),
    )
    .unwrap();
    fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    python
}

#[cfg(unix)]
#[test]
fn downloads_with_pip() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(&folder.path().join("home")).unwrap();
    fs::write(folder.path().join("wheel"), small_wheel("0.4.13")).unwrap();
    let python = fake_python(
        folder.path(),
        "for dest; do :; done\npwd > \"$here/where\"\ncp \"$here/wheel\" \"$dest/lm_eval-0.4.13-py3-none-any.whl\"",
    );
    let pull = |version: Option<&str>, force| {
        let pull = Pull::new(version, None, Some(python.clone()), force)?;
        pull.run(&home, &mut |_| {})
    };
    let Installation::New { library, files } = pull(Some("0.4.13"), false).unwrap() else {
        panic!("not new")
    };
    assert_eq!((library.version.as_str(), files), ("0.4.13", 1));
    let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
    let expected = "-m pip download lm_eval==0.4.13 --no-deps --only-binary :all: --ignore-requires-python \
                    --disable-pip-version-check --quiet --dest ";
    assert!(arguments.starts_with(expected), "{arguments}");
    let working_directory = fs::read_to_string(folder.path().join("where")).unwrap();
    assert!(working_directory.contains("libraries/.work-"), "{working_directory}");

    fs::remove_file(folder.path().join("arguments")).unwrap();
    assert!(matches!(pull(Some("0.4.13"), false).unwrap(), Installation::AlreadyInstalled(_)));
    assert!(!folder.path().join("arguments").exists(), "nothing to download");
    assert!(matches!(pull(None, false).unwrap(), Installation::AlreadyInstalled(_)));
    assert!(
        fs::read_to_string(folder.path().join("arguments"))
            .unwrap()
            .starts_with("-m pip download lm_eval --no")
    );
    assert!(matches!(pull(None, true).unwrap(), Installation::New { .. }));
}

#[cfg(unix)]
#[test]
fn quotes_the_output_of_a_failing_pip() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(&folder.path().join("home")).unwrap();
    let message = |script: &str| {
        let python = fake_python(folder.path(), script);
        let pull = Pull::new(Some("9.9"), None, Some(python), false).unwrap();
        full_message(&pull.run(&home, &mut |_| {}).unwrap_err())
    };
    let text = message("echo 'ERROR: No matching distribution found for lm_eval==9.9' >&2; exit 1");
    assert!(
        text.contains("could not download `lm_eval==9.9`") && text.contains("no wheel of this version"),
        "{text}"
    );
    assert!(
        text.contains("  ERROR: No matching distribution found") && text.contains("--from PATH"),
        "{text}"
    );
    assert!(message("echo 'python3: No module named pip' >&2; exit 1").contains("has no `pip`"));
    assert!(message("exit 0").contains("left 0 wheels"));
    assert!(message("kill -9 $$").contains("signal"));
    assert!(home.installed().unwrap().is_empty());
    assert_eq!(
        fs::read_dir(folder.path().join("home/libraries")).unwrap().count(),
        1,
        "only the lock remains"
    );
}
