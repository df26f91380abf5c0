//! Nodes that are slow or stand still, what is left on them, and what others share.

use super::*;

/// D10. A node that stands still holds up neither opening nor holding nor closing: its calls would take half an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_delays_nobody() {
    let servers = Servers::start(3);
    servers.0[0].stop().unwrap();
    let options = "restart_delay=off&node_timeout=2s&timeout=30m&lease=30m&max_lease=1h&close_timeout=1h";
    let address = servers.address(options);
    for round in 0..2 {
        let client = within("opened", tenure::connect(&address)).await.unwrap();
        let guard = within("held", client.lock(format!("x{round}")).acquire()).await.unwrap();
        within("released", guard.release()).await.unwrap();
        within("closed", client.close()).await.unwrap();
    }
    servers.0[0].resume().unwrap();
    let client = within("opened", tenure::connect(&address)).await.unwrap();
    until("it votes", || async {
        let guard = client.lock("probe").acquire().await.unwrap();
        let there = servers.0[0].cmd(&["EXISTS", "probe"]).unwrap().int() == Some(1);
        guard.release().await.unwrap();
        there
    })
    .await;
    until("nothing is left", || async { servers.having("x0") + servers.having("x1") == 0 }).await;
}

/// D11. A node that was not reached in time has the hold as soon as it answers, long before a renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_answers_late_has_the_hold_too() {
    let servers = Servers::start(3);
    servers.0[0].stop().unwrap();
    let options = "restart_delay=off&node_timeout=5s&timeout=30m&lease=30m&max_lease=1h";
    let client = within("opened", tenure::connect(&servers.address(options))).await.unwrap();
    let (held, released) = (client.lock("held"), client.lock("released"));
    let guard = within("held", held.acquire()).await.unwrap();
    within("held", released.acquire()).await.unwrap().release().await.unwrap();
    servers.0[0].resume().unwrap();
    until("all have it", || async { servers.having("held") == 3 }).await;
    assert_eq!(servers.having("released"), 0, "what was released is given to nobody");
    guard.release().await.unwrap();
    until("none has it", || async { servers.having("held") == 0 }).await;
}

/// On how many of the servers that answer somebody waits for a name.
fn waited_for(servers: &[Redis], name: &str) -> usize {
    let key = format!("tenure_waiters:{{{name}}}");
    servers.iter().filter(|s| s.cmd(&["ZCARD", &key]).unwrap().int() != Some(0)).count()
}

/// D12. A node stands still for longer than a lease while somebody waits, who then leaves: no place is left there.
#[tokio::test(flavor = "multi_thread")]
async fn places_go_though_a_node_stood_still_for_longer_than_a_lease() {
    let servers = Servers::start(3);
    let options = "restart_delay=off&node_timeout=5s&timeout=1s&lease=1s&poll=30m";
    let client = servers.hasty_client(options).await;
    let other = servers.client_for(FAR, &format!("{FRESH}&max_lease=1h")).await;
    let held = other.lock("x").acquire().await.unwrap();
    let lock = client.lock("x");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits there", || async { waited_for(&servers.0[..1], "x") == 1 }).await;
    servers.0[0].stop().unwrap();
    // Its rounds go on, and each leaves something to undo.
    tokio::time::sleep(Duration::from_secs(3)).await;
    waiting.abort();
    tokio::time::sleep(Duration::from_secs(2)).await;
    servers.0[0].resume().unwrap();
    until("nobody waits anywhere", || async { waited_for(&servers.0, "x") == 0 }).await;
    held.release().await.unwrap();
}

/// D12. Nothing is left on any node that answers when `close` says that it is done.
#[tokio::test(flavor = "multi_thread")]
async fn close_leaves_no_places() {
    let servers = Servers::start(3);
    let other = servers.client(FRESH).await;
    for attempt in 0..5 {
        let client = servers.client(&format!("{FRESH}&close_timeout=1h")).await;
        let names: Vec<String> = (0..10).map(|i| format!("x{attempt}-{i}")).collect();
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for name in &names {
            held.push(other.lock(name).acquire().await.unwrap());
            let lock = client.lock(name);
            waiting.push(tokio::spawn(async move { lock.acquire().await }));
        }
        for name in &names {
            // Of a node that is slower than most a round takes its leave at once.
            until("it waits", || async { waited_for(&servers.0, name) >= 2 }).await;
        }
        waiting.iter().for_each(|task| task.abort());
        within("closed", client.close()).await.unwrap();
        let left: usize = names.iter().map(|name| waited_for(&servers.0, name)).sum();
        assert_eq!(left, 0, "places are left");
    }
}

/// D13. While most nodes are young nobody is told that it is busy: neither at once nor after a wait.
#[tokio::test(flavor = "multi_thread")]
async fn not_ready_is_not_busy() {
    let servers = Servers::start(3);
    let client = tenure::connect(&servers.address("max_lease=1h&node_timeout=5s")).await.unwrap();
    let now = client.lock("x").try_acquire().await.unwrap_err();
    let lock = client.lock("x");
    // On a busy machine its time may be over before there is any answer.
    let after_a_wait = async || {
        loop {
            let tried = lock.try_acquire_for(Duration::from_millis(300)).await;
            let later = tried.expect_err("nobody holds it");
            assert!(later.is_transient(), "{later}");
            if later.retry_after().is_some() {
                return later;
            }
        }
    };
    let both = async { tokio::join!(after_a_wait(), after_a_wait()) };
    let (one, two) = within("told when they will be ready", both).await;
    for later in [one, two] {
        assert_eq!(std::mem::discriminant(&later), std::mem::discriminant(&now));
    }
}

/// D14. What others wrote there is a lock that somebody holds, and ours is one to them.
#[tokio::test(flavor = "multi_thread")]
async fn the_layout_is_the_one_that_others_share() {
    let servers = Servers::start(3);
    let client = servers.client(FRESH).await;
    let set = |server: &Redis| {
        !server.cmd(&["SET", "x", "kFzRkUcd4ZyT1e3E6bqpZg==", "NX", "PX", "600000"]).unwrap().is_nil()
    };
    assert!(servers.0[..2].iter().all(set));
    assert!(client.lock("x").try_acquire().await.unwrap().is_none(), "busy");
    servers.0.iter().for_each(|s| drop(s.cmd(&["DEL", "x"]).unwrap()));
    let guard = client.lock("x").acquire().await.unwrap();
    until("all have it", || async { servers.having("x") == 3 }).await;
    assert!(!servers.0.iter().any(set), "taken");
    guard.release().await.unwrap();
}

/// A token of the caller's own stands on every node, and is enough to renew and release from elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_ones_own_is_enough_on_a_quorum() {
    let servers = Servers::start(3);
    let (client, other) = (servers.renewing(FRESH).await, servers.client(FRESH).await);
    let token = "10.0.0.7:worker-3";
    let guard = client.lock("x").token(token).acquire().await.unwrap();
    until("all have it", || async { servers.having("x") == 3 }).await;
    for server in &servers.0 {
        assert_eq!(server.cmd(&["GET", "x"]).unwrap().text(), token);
    }
    assert!(
        client.lock("x").token(token).try_acquire().await.unwrap().is_none(),
        "another hold of that token"
    );
    assert!(guard.is_held(), "whose undo does not touch the first");
    assert_eq!(servers.having("x"), 3);
    assert!(!other.lock("x").release_by("somebody else").await.unwrap());
    assert!(other.lock("x").renew_by(token).await.unwrap());
    assert!(other.lock("x").release_by(token).await.unwrap());
    let lost = within("told", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(!other.lock("x").release_by(token).await.unwrap(), "it is gone already");
    // A token used again is renewed like any other.
    let again = client.lock("x").token(token).acquire().await.unwrap();
    renewed(&again).await;
    again.release().await.unwrap();
    until("none has it", || async { servers.having("x") == 0 }).await;
}
