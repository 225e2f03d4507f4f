//! A running evaluation over server-sent events.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lmeval_view::{Live, LiveState, Viewer};
use serde_json::Value as Json;

/// Counts its calls and is finished after three.
struct Counting(AtomicUsize);

impl Live for Counting {
    fn state(&self) -> LiveState {
        let calls = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let model = "</script>\nm".to_owned();
        LiveState { elapsed: calls as f64, finished: calls >= 3, model, ..LiveState::default() }
    }
}

#[test]
fn states_arrive_until_the_run_is_finished() {
    let viewer = Viewer::new(&[]).unwrap().with_live(Arc::new(Counting(AtomicUsize::new(0))));
    let server = crate::serve(viewer);
    let list = crate::request(server.address(), "GET", "/api/runs", &[]).json();
    assert_eq!(list["live"], true);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut states = Vec::new();
    for line in BufReader::new(stream).lines() {
        if let Some(data) = line.unwrap().strip_prefix("data: ") {
            states.push(serde_json::from_str::<Json>(data).unwrap());
        }
    }
    let elapsed: Vec<f64> = states.iter().map(|state| state["elapsed"].as_f64().unwrap()).collect();
    assert_eq!(elapsed, [1.0, 2.0, 3.0]);
    assert_eq!(states[0]["model"], "</script>\nm");
    assert!(!server.is_watched());
}
