//! Requests that the server refuses.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use lmeval_view::{Listen, Server, Viewer};

use crate::{Fixture, STAMP, four, request, write_run};

#[test]
fn only_own_names_are_answered() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let address = fixture.server.address();
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "10.1.2.3", "a@localhost"] {
        for path in ["/", "/api/runs", "/app.js"] {
            let reply = request(address, "GET", path, &[("Host", host)]);
            assert_eq!(reply.status, 421, "{host}{path}");
        }
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]:9"] {
        assert_eq!(request(address, "GET", "/api/runs", &[("Host", host)]).status, 200, "{host}");
    }
}

#[test]
fn only_get_is_answered() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let reply = request(fixture.server.address(), method, "/api/runs", &[("Content-Length", "0")]);
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    let head = request(fixture.server.address(), "HEAD", "/api/runs", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn every_answer_has_the_policy() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    for path in ["/", "/app.js", "/app.css", "/api/runs", "/nothing", "/api/run?run=x"] {
        let reply = request(fixture.server.address(), "GET", path, &[("Origin", "http://evil.example")]);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[test]
fn the_front_end_is_served_plain_and_compressed() {
    let fixture = Fixture::new(|_| {});
    let plain = request(fixture.server.address(), "GET", "/", &[]);
    assert_eq!(plain.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(String::from_utf8(plain.body).unwrap().contains("<div id=\"app\">"));
    let packed = request(fixture.server.address(), "GET", "/app.js", &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.body[..2], [0x1f, 0x8b]);
}

#[test]
fn paths_outside_cannot_be_read() {
    let outside = tempfile::tempdir().unwrap();
    write_run(outside.path(), "secret", &four());
    let secret = outside.path().join("secret");
    let fixture = Fixture::new(|folder| {
        write_run(folder, "m", &four());
        // Links to files, to folders, and from the samples of a run that may be read.
        symlink(&secret, folder.join("linked")).unwrap();
        symlink(
            secret.join(format!("results_{STAMP}.json")),
            folder.join("m/results_2026-11-15T02-46-59.json"),
        )
        .unwrap();
        symlink(
            secret.join(format!("samples_quiz_{STAMP}.jsonl")),
            folder.join("m").join(format!("samples_other_{STAMP}.jsonl")),
        )
        .unwrap();
        symlink(
            secret.join(format!("samples_quiz_{STAMP}.jsonl")),
            folder.join("samples_x_2026-11-15T02-46-50.jsonl"),
        )
        .unwrap();
    });
    let list = fixture.get("/api/runs");
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    let run = fixture.run();
    assert_eq!(fixture.refused(&format!("/api/samples?run={run}&task=other")).0, 404);
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/../../etc/passwd",
        "/api/run?run=../../../etc/passwd",
        "/api/samples?run=%2Fetc%2Fpasswd&task=x",
        "//etc/passwd",
    ] {
        let reply = request(fixture.server.address(), "GET", path, &[]);
        assert_eq!(reply.status, 404, "{path}");
    }
}

#[test]
fn a_link_that_is_replaced_later_is_refused() {
    let outside = tempfile::tempdir().unwrap();
    write_run(outside.path(), "secret", &four());
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let run = fixture.run();
    let samples = fixture.path().join("m").join(format!("samples_quiz_{STAMP}.jsonl"));
    fs_err::remove_file(&samples).unwrap();
    symlink(outside.path().join("secret").join(format!("samples_quiz_{STAMP}.jsonl")), &samples).unwrap();
    let reply = request(fixture.server.address(), "GET", &format!("/api/samples?run={run}&task=quiz"), &[]);
    assert_ne!(reply.status, 200);
}

#[test]
fn a_host_needs_the_token() {
    let folder = tempfile::tempdir().unwrap();
    write_run(folder.path(), "m", &four());
    let viewer = Arc::new(Viewer::new(&[folder.path().to_owned()]).unwrap());
    let server = Server::start(viewer, &Listen { host: Some("0.0.0.0".to_owned()), port: Some(0) }).unwrap();
    let token = server.url().split_once("?token=").unwrap().1.to_owned();
    assert_eq!(token.len(), 32);
    let port = server.address().port();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    for path in ["/", "/app.js", "/api/runs", "/api/runs?token=", "/?token=0123"] {
        let reply = request(address, "GET", path, &[]);
        assert_eq!(reply.status, 401, "{path}");
    }
    let wrong = format!("/?token={}", "0".repeat(32));
    assert_eq!(request(address, "GET", &wrong, &[]).status, 401);
    let entered = request(address, "GET", &format!("/?token={token}"), &[]);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(request(address, "GET", "/api/runs", &[("Cookie", cookie)]).status, 200);
    assert_eq!(request(address, "GET", &format!("/api/runs?token={token}"), &[]).status, 200);
    assert_eq!(request(address, "GET", "/api/runs", &[("Cookie", "lm_eval=1")]).status, 401);
    assert_eq!(
        request(address, "GET", "/api/runs", &[("Cookie", cookie), ("Host", "evil.example")]).status,
        421
    );
}

#[test]
fn a_given_file_opens_nothing_else_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    write_run(folder.path(), "m", &four());
    let other = folder.path().join("m/results_2026-11-16T02-46-50.json");
    fs_err::copy(folder.path().join(format!("m/results_{STAMP}.json")), &other).unwrap();
    let server = crate::serve(Viewer::new(&[folder.path().join(format!("m/results_{STAMP}.json"))]).unwrap());
    let list = request(server.address(), "GET", "/api/runs", &[]).json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["runs"][0]["has_samples"], true);
}

#[test]
fn a_missing_path_is_an_error_with_its_name() {
    let Err(error) = Viewer::new(&["no/such/folder".into()]) else { panic!("It exists") };
    assert!(error.to_string().contains("no/such/folder"));
}

#[test]
fn a_taken_port_is_an_error() {
    let fixture = Fixture::new(|_| {});
    let port = fixture.server.address().port();
    let viewer = Arc::new(Viewer::new(&[]).unwrap());
    let Err(error) = Server::start(viewer, &Listen { host: None, port: Some(port) }) else {
        panic!("The port was free")
    };
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[test]
fn pages_of_other_sites_are_refused() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let address = fixture.server.address();
    let own = format!("http://{address}");
    for (header, value, status) in [
        ("Origin", own.as_str(), 200),
        ("Sec-Fetch-Site", "same-origin", 200),
        ("Sec-Fetch-Site", "none", 200),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://127.0.0.1:1", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
    ] {
        let reply = request(address, "GET", "/api/runs", &[(header, value)]);
        assert_eq!(reply.status, status, "{header}: {value}");
    }
    // A link to the viewer on another site opens it.
    assert_eq!(request(address, "GET", "/", &[("Sec-Fetch-Site", "cross-site")]).status, 200);
}

#[test]
fn expensive_expressions_are_refused() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let path = format!("/api/samples?run={}&task=quiz&where=", fixture.run());
    let (status, error) = fixture.refused(&format!("{path}range(2000000)%7Clist%7Clength%3E0"));
    assert_eq!(status, 400);
    assert!(error.contains("too many steps"), "{error}");
    assert_eq!(fixture.get(&format!("{path}range(1000)%7Clist%7Clength%3E0"))["matched"], 4);
}

#[test]
fn slow_clients_keep_out_only_each_other() {
    use std::io::Write as _;
    use std::net::TcpStream;

    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let address = fixture.server.address();
    // More than the server keeps open, each with a request that it never ends.
    let slow: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // The server may have closed it already.
            let _ = stream.write_all(b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-");
            stream
        })
        .collect();
    assert_eq!(request(address, "GET", "/api/runs", &[]).status, 200);
    drop(slow);
}
