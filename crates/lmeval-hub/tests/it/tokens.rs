//! The token is sent to the hub's origin only.

use std::fmt::Write as _;

use lmeval_core::Diagnose as _;
use lmeval_hub::Kind;
use lmeval_testkit::{HubFault, StandInHub};

use crate::{ID, large, open, read, settings};

#[test]
fn token_is_not_sent_to_other_hosts() {
    let (hub, cache) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add_model(ID, "main", &[("small", b"x"), ("model.safetensors", &large())]);
    hub.require_token("hf_secret");
    let mut settings = settings(&hub, cache.path());
    settings.token = Some("hf_secret".to_owned().into());
    // Large files redirect to storage on another port, which is another origin.
    hub.fail("GET /storage", &[HubFault::Cut(100), HubFault::Status(403, vec![])]);
    let error = read(&settings, "model.safetensors").unwrap_err();
    let mut shown = format!("{error} {error:?} {:?} {settings:?}", error.hints());
    write!(shown, "{:?}", open(&settings, Kind::Model).unwrap()).unwrap();
    assert!(!shown.contains("hf_secret") && !shown.contains("signature"), "{shown}");
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
    assert_eq!(read(&settings, "small").unwrap(), b"x");
    assert!(hub.requests("/storage").len() >= 3);
    assert!(hub.requests("/storage").iter().all(|seen| seen.token.is_none()));
    for path in ["/api", "/org/name/resolve"] {
        let sent = hub.requests(path);
        assert!(!sent.is_empty() && sent.iter().all(|seen| seen.token.is_some()), "{path}");
    }
}

/// The `Link` header of a file list may point to any host.
#[test]
fn token_is_not_sent_to_a_next_page_on_another_host() {
    let (hub, elsewhere, cache) = (StandInHub::new(), StandInHub::new(), tempfile::tempdir().unwrap());
    let commit = hub.add_model(ID, "main", &[("a", b"1")]);
    elsewhere.add_model(ID, "main", &[("b", b"2")]);
    let host = elsewhere.endpoint().replace("http://", "http://user:password@");
    let next = format!("<{host}/api/models/org/name/revision/main?signature=hidden>; rel=\"next\"");
    let next: &'static str = next.leak();
    hub.fail(&format!("tree/{commit}"), &[HubFault::Headers(vec![("Link", next)])]);
    let mut settings = settings(&hub, cache.path());
    settings.token = Some("hf_secret".to_owned().into());
    // That page is not a list of files.
    let error = open(&settings, Kind::Model).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("expected a list of files"), "{shown}");
    assert!(!shown.contains("password") && !shown.contains("hidden"), "{shown}");
    let sent = elsewhere.requests("");
    assert!(
        !sent.is_empty() && sent.iter().all(|seen| seen.token.as_deref() != Some("Bearer hf_secret")),
        "{sent:?}"
    );
}
