//! A quorum of servers, as the command sees it.

use testbed::{Redis, RedisOptions};

use crate::common::Harness;

#[test]
fn rounds_that_are_used_up_are_busy() {
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start(RedisOptions::default()).unwrap()).collect();
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let options = "restart_delay=off&node_timeout=5s&tries=3&retry_delay=1ms-5ms";
    let harness = Harness::at(format!("redlock://{}?{options}", hosts.join(",")));
    let holder = harness.hold("demo", &[]);
    harness.run(&["run", "demo", "--", "touch", "ran"]).code(75).says("gave up");
    harness.run(&["run", "demo", "--busy-code", "9", "--", "touch", "ran"]).code(9);
    assert!(harness.read("ran").is_none());
    harness.touch("end");
    holder.done().code(0);
}
