use reqwest::Url;
use reqwest::header::HeaderMap;

use super::*;
use crate::http::connect::Transport;

fn endpoint(index: usize) -> Endpoint {
    let given = format!("http://host{index}/");
    Endpoint {
        url: Url::parse(&given).unwrap(),
        given,
        shown: format!("host{index}"),
        headers: HeaderMap::new(),
        transport: Transport::Reqwest(lmeval_net::http_client().no_proxy().build().unwrap()),
    }
}

fn balancer(count: usize) -> Balancer {
    Balancer::new((0..count).map(endpoint).collect(), Duration::from_millis(20), false)
}

/// A pool whose members are all serving.
fn pool(count: usize) -> Balancer {
    let balancer = Balancer::new(Vec::new(), Duration::from_millis(20), true);
    relist(&balancer, 0..count);
    for member in balancer.members() {
        balancer.set_standing(member.id, Standing::Serving, None);
    }
    balancer
}

fn relist(balancer: &Balancer, hosts: impl IntoIterator<Item = usize>) -> Changes {
    balancer.replace(hosts.into_iter().map(|host| (endpoint(host), 1.0)).collect())
}

fn avoiding(id: usize) -> Preference {
    Preference { avoid: Some(id), ..Preference::default() }
}

fn chosen(balancer: &Balancer, preference: Preference) -> Chosen<'_> {
    balancer.try_choose(preference).ok().unwrap()
}

fn preferring(affinity: u64) -> Preference {
    Preference { affinity: Some(affinity), ..Preference::default() }
}

#[test]
fn prefers_an_endpoint_until_it_has_many_more_calls() {
    let balancer = balancer(3);
    let held: Vec<Chosen> = (0..6).map(|_| chosen(&balancer, preferring(7))).collect();
    let ids: Vec<usize> = held.iter().map(|chosen| chosen.id).collect();
    assert!(ids[..5].iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_ne!(ids[5], ids[0]);
    let only = Preference { only: Some(1), ..Preference::default() };
    assert_eq!(chosen(&balancer, only).id, 1);
}

#[test]
fn departures_move_only_the_contexts_of_the_departed() {
    let balancer = pool(4);
    let homes = |balancer: &Balancer| -> Vec<usize> {
        (0..400).map(|affinity| chosen(balancer, preferring(affinity)).id).collect()
    };
    let before = homes(&balancer);
    for id in 0..4 {
        let share = before.iter().filter(|home| **home == id).count();
        assert!((50..=150).contains(&share), "member {id} has {share} of 400 contexts");
    }
    relist(&balancer, [0, 1, 3]);
    let after = homes(&balancer);
    for (before, after) in before.iter().zip(&after) {
        assert!(*after != 2 && (before == after || *before == 2));
    }
}

#[test]
fn chooses_the_least_loaded_endpoint() {
    let balancer = balancer(3);
    let mut held: Vec<Chosen> = (0..6).map(|_| chosen(&balancer, Preference::default())).collect();
    let ids: Vec<usize> = held.iter().map(|chosen| chosen.id).collect();
    assert_eq!(ids, [0, 1, 2, 0, 1, 2]);
    held.remove(4);
    assert_eq!(chosen(&balancer, Preference::default()).id, 1);
    assert_ne!(chosen(&balancer, avoiding(1)).id, 1);
}

#[test]
fn faster_and_heavier_members_get_more_calls() {
    let balancer = pool(2);
    for (id, milliseconds) in [(0, 400), (1, 100)] {
        let only = Preference { only: Some(id), ..Preference::default() };
        chosen(&balancer, only).answered(Duration::from_millis(milliseconds));
    }
    let held: Vec<Chosen> = (0..10).map(|_| chosen(&balancer, Preference::default())).collect();
    assert_eq!(held.iter().filter(|chosen| chosen.id == 1).count(), 8);
    let balancer = pool(2);
    balancer.replace(vec![(endpoint(0), 1.0), (endpoint(1), 3.0)]);
    let held: Vec<Chosen> = (0..8).map(|_| chosen(&balancer, Preference::default())).collect();
    assert_eq!(held.iter().filter(|chosen| chosen.id == 1).count(), 6);
}

#[test]
fn members_drain_before_they_are_forgotten() {
    let balancer = pool(2);
    let held = chosen(&balancer, Preference { only: Some(0), ..Preference::default() });
    let changes = relist(&balancer, [1]);
    assert_eq!((changes.left.len(), balancer.members().len(), balancer.lock().members.len()), (1, 1, 2));
    for _ in 0..4 {
        assert_eq!(chosen(&balancer, Preference::default()).id, 1);
    }
    assert!(matches!(balancer.try_choose(Preference { only: Some(0), ..Preference::default() }), Err(None)));
    held.answered(Duration::from_millis(5));
    drop(held);
    assert_eq!(balancer.lock().members.len(), 1);
    assert_eq!(balancer.tallies()["host0"].answered, 1);
    // It returns as a candidate.
    let changes = relist(&balancer, [0, 1]);
    assert_eq!((changes.joined[0].id, changes.joined[0].standing), (2, Standing::Candidate));
    assert!((0..4).all(|_| chosen(&balancer, Preference::default()).id == 1));
}

#[test]
fn unproven_members_do_not_get_calls_that_need_a_protocol() {
    let balancer = pool(2);
    let needing = Preference { needs: 1, ..Preference::default() };
    assert!(matches!(balancer.try_choose(needing), Err(None)));
    balancer.set_standing(1, Standing::Serving, Some(1));
    let held: Vec<Chosen> = (0..6).map(|_| chosen(&balancer, needing)).collect();
    assert!(held.iter().all(|chosen| chosen.id == 1));
    // A member that was unreachable may have been restarted.
    held[0].failed(true, None);
    assert!(matches!(balancer.try_choose(needing), Err(None)));
    assert_eq!(chosen(&balancer, Preference::default()).id, 0);
}

#[tokio::test]
async fn ejects_a_failed_endpoint_and_probes_it_once() {
    let balancer = balancer(2);
    chosen(&balancer, avoiding(1)).failed(true, None);
    for _ in 0..4 {
        assert_eq!(chosen(&balancer, Preference::default()).id, 1);
    }
    tokio::time::sleep(Duration::from_millis(25)).await;
    let probe = chosen(&balancer, Preference::default());
    assert_eq!((probe.id, probe.is_probe), (0, true));
    assert_eq!(chosen(&balancer, Preference::default()).id, 1, "one probe at a time");
    drop(probe);
    let probe = chosen(&balancer, Preference::default());
    assert!(probe.is_probe, "a dropped probe does not block the next one");
    probe.answered(Duration::ZERO);
    drop(probe);
    assert!(!chosen(&balancer, avoiding(1)).is_probe);
}

#[test]
fn treats_a_long_probe_as_a_slow_answer() {
    let balancer = balancer(1);
    chosen(&balancer, Preference::default()).failed(true, None);
    balancer.lock().members[0].ejected_until = Some(Instant::now());
    let probe = chosen(&balancer, Preference::default());
    assert!(probe.is_probe && balancer.try_choose(Preference::default()).is_err());
    balancer.lock().members[0].probed = Instant::now().checked_sub(SLOW_ANSWER);
    assert!(!chosen(&balancer, Preference::default()).is_probe);
    probe.failed(false, None);
    drop(probe);
    assert!(balancer.try_choose(Preference::default()).is_err(), "it failed after all");
}

#[tokio::test]
async fn stops_waiting_at_the_deadline() {
    let balancer = balancer(1);
    chosen(&balancer, Preference::default()).failed(true, Some(Duration::from_mins(1)));
    let deadline = Instant::now() + Duration::from_millis(10);
    let denied = balancer.choose(Preference::default(), || Some(deadline)).await;
    assert!(matches!(denied, Err(Denied::Deadline)));
}
