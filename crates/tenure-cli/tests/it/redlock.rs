//! A quorum of servers, as the command sees it.

use testbed::{Redis, RedisOptions, wait_until_true};

use crate::common::Harness;

fn quorum(options: &str) -> (Vec<Redis>, Harness) {
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start(RedisOptions::default()).unwrap()).collect();
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let url = format!("redlock://{}?restart_delay=off&node_timeout=5s&{options}", hosts.join(","));
    (servers, Harness::at(url))
}

#[test]
fn rounds_that_are_used_up_are_busy() {
    let (_servers, harness) = quorum("tries=3&retry_delay=1ms-5ms");
    let holder = harness.hold("demo", &[]);
    harness.run(&["run", "demo", "--", "touch", "ran"]).code(75).says("gave up");
    harness.run(&["run", "demo", "--busy-code", "9", "--", "touch", "ran"]).code(9);
    assert!(harness.read("ran").is_none());
    harness.touch("end");
    holder.done().code(0);
}

/// I31. What has the token is released on every node, and nothing else is.
#[test]
fn a_token_is_what_stands_on_each_node() {
    let (servers, harness) = quorum("lease=60s");
    let all_have = |token: Option<&str>| {
        servers.iter().all(|server| {
            let value = server.cmd(&["GET", "order"]).unwrap();
            token.map_or(value.is_nil(), |token| !value.is_nil() && value.text() == token)
        })
    };
    let holder = harness.hold("order", &["--token", "request-7"]);
    // A majority is enough for the grant; the third node may get it a moment later.
    wait_until_true("each node has the token", || all_have(Some("request-7")));
    // Another hold, even with the token of the first.
    for token in ["request-7", "request-8"] {
        harness.run(&["run", "order", "--token", token, "--no-wait", "--", "true"]).code(75);
    }
    harness
        .run(&["release", "order", "--token", "request-8"])
        .code(1)
        .says("order is not held with that token");
    assert!(all_have(Some("request-7")));
    assert_eq!(harness.run(&["release", "order", "--token", "request-7"]).code(0).out, "released order\n");
    wait_until_true("no node has it", || all_have(None));
    harness.run(&["release", "order", "--token", "request-7"]).code(1);
    harness.touch("end");
    holder.done().code(76);
}

#[test]
fn doctor_looks_at_the_nodes_that_answer() {
    let (servers, harness) = quorum("timeout=1s");
    let places =
        |out: &str| servers.iter().filter(|s| out.contains(&format!("127.0.0.1:{}\n", s.port()))).count();
    servers[1].kill().unwrap();
    let done = harness.run(&["doctor"]);
    assert!(done.code(1).out.contains("  warning  node         does not answer: "), "{done:?}");
    servers[2].kill().unwrap();
    let done = harness.run(&["doctor"]);
    let out = &done.code(1).out;
    assert!(out.contains("1 of 3 nodes answer, 2 needed: nothing can be locked"), "{out}");
    assert_eq!((places(out), out.matches("does not answer: ").count()), (3, 2), "{out}");
    assert!(out.contains("  ok       role "), "the one that answers was looked at: {out}");
    servers[0].kill().unwrap();
    harness.run(&["doctor"]).code(69).says("none of 3 nodes answers");
}

/// D13. While most nodes are young nobody holds the name: it is not called busy, neither at once nor after a wait.
#[test]
fn young_nodes_are_not_busy() {
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start(RedisOptions::default()).unwrap()).collect();
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let url = format!("redlock://{}?max_lease=1h&node_timeout=5s", hosts.join(","));
    let harness = Harness::at(url);
    for wait in [&["--no-wait"][..], &["--wait", "2s"]] {
        let words = [&["run", "demo"], wait, &["--", "touch", "ran"]].concat();
        harness.run(&words).code(69);
    }
    assert!(harness.read("ran").is_none());
}
