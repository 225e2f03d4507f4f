//! Downloads from arbitrary URLs.

use lmeval_hub::{Client, Error, fetch_address};
use lmeval_testkit::{HubFault, StandInHub};

use crate::{ID, large, settings};

#[test]
fn downloads_a_url_once() {
    let (hub, home) = (StandInHub::new(), tempfile::tempdir().unwrap());
    let commit = hub.add(ID, "main", &[("small.csv", b"a,b\n")]);
    let url = format!("{}/datasets/org/name/resolve/{commit}/small.csv?key=hidden", hub.endpoint());
    let mut settings = settings(&hub, &home.path().join("hub"));
    settings.offline = true;
    let error = fetch_address(&Client::new(&settings).unwrap(), &url).unwrap_err();
    assert!(matches!(error, Error::Offline { .. }) && !error.to_string().contains("hidden"), "{error}");
    settings.offline = false;
    let client = Client::new(&settings).unwrap();
    let path = fetch_address(&client, &url).unwrap();
    assert_eq!(fs_err::read(&path).unwrap(), b"a,b\n");
    assert!(path.starts_with(home.path().join("datasets/downloads")));
    assert_eq!(fetch_address(&client, &url).unwrap(), path);
    assert_eq!(hub.requests("").len(), 1);
}

#[test]
fn refuses_downloads_of_unknown_length() {
    let (hub, home) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("small.csv", b"a,b\n")]);
    let url = format!("{}/datasets/org/name/resolve/main/small.csv", hub.endpoint());
    let client = Client::new(&settings(&hub, &home.path().join("hub"))).unwrap();
    hub.fail("small.csv", &[HubFault::Unframed(2)]);
    let error = fetch_address(&client, &url).unwrap_err();
    assert!(error.to_string().contains("the response has no length"), "{error}");
    assert_eq!(fs_err::read(fetch_address(&client, &url).unwrap()).unwrap(), b"a,b\n");
}

/// Nothing pins the content of a URL: a partial old version must not be completed with a newer one.
#[test]
fn does_not_mix_versions() {
    let (hub, home) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("big.csv", &large())]);
    let url = format!("{}/datasets/org/name/resolve/main/big.csv", hub.endpoint());
    let mut settings = settings(&hub, &home.path().join("hub"));
    settings.attempts = 1;
    let client = Client::new(&settings).unwrap();
    hub.fail("GET /storage", &[HubFault::Cut(700), HubFault::Close, HubFault::Close]);
    fetch_address(&client, &url).unwrap_err();
    let newer = large().to_ascii_uppercase();
    hub.add(ID, "main", &[("big.csv", &newer)]);
    hub.fail("GET /storage", &[]);
    assert_eq!(fs_err::read(fetch_address(&client, &url).unwrap()).unwrap(), newer);

    // Within a run, the download is resumed only if the server confirms that the content is the same.
    let again = tempfile::tempdir().unwrap();
    settings.cache = again.path().join("hub");
    settings.attempts = 3;
    let client = Client::new(&settings).unwrap();
    hub.fail("GET /storage", &[HubFault::Cut(700), HubFault::Cut(100)]);
    let before = hub.requests("GET /storage").len();
    assert_eq!(fs_err::read(fetch_address(&client, &url).unwrap()).unwrap(), newer);
    let ranges: Vec<_> = hub.requests("GET /storage")[before..]
        .iter()
        .map(|seen| (seen.range.clone(), seen.if_range.clone()))
        .collect();
    let etag = Some("\"other\"".to_owned());
    assert_eq!(
        ranges,
        [(None, None), (Some("bytes=700-".into()), etag.clone()), (Some("bytes=800-".into()), etag)]
    );
}
