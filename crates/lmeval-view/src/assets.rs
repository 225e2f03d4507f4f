//! The front end: built from `web/` and committed, so that `cargo build` needs no Node.

use std::io::Write as _;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// The page of the server, which loads the two files below.
pub(crate) const PAGE: &str = include_str!("../dist/index.html");

/// One ES module with all of the front end's code.
pub(crate) const SCRIPT: &str = include_str!("../dist/app.js");

/// The style sheet.
pub(crate) const STYLE: &str = include_str!("../dist/app.css");

/// A file with its compressed form, which is computed when it is first asked for.
pub(crate) struct Asset {
    pub(crate) kind: &'static str,
    pub(crate) content: &'static str,
    compressed: OnceLock<Vec<u8>>,
}

impl Asset {
    const fn new(kind: &'static str, content: &'static str) -> Self {
        Self { kind, content, compressed: OnceLock::new() }
    }

    /// The content, compressed with gzip.
    pub(crate) fn compressed(&self) -> &[u8] {
        self.compressed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory cannot fail.
            let _ = encoder.write_all(self.content.as_bytes());
            encoder.finish().unwrap_or_default()
        })
    }
}

/// The file at a path of the server.
pub(crate) fn asset(path: &str) -> Option<&'static Asset> {
    static FILES: [(&str, Asset); 3] = [
        ("/", Asset::new("text/html; charset=utf-8", PAGE)),
        ("/app.js", Asset::new("text/javascript; charset=utf-8", SCRIPT)),
        ("/app.css", Asset::new("text/css; charset=utf-8", STYLE)),
    ];
    FILES.iter().find(|(known, _)| *known == path).map(|(_, asset)| asset)
}

/// The hash of an inline script or style, as a Content-Security-Policy names it.
pub(crate) fn policy_hash(content: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(content.as_bytes())))
}
