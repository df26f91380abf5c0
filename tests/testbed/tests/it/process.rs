//! What is started ends, in every way there is; what is stopped goes on; what is restarted is where it was.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use testbed::{Error, Redis, RedisOptions, Resp, wait_until, wait_until_true};

fn redis() -> Redis {
    Redis::start(RedisOptions::default()).unwrap()
}

/// A zombie is gone, too: whoever has inherited it has not looked yet.
fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_dropped_server_is_gone_with_its_folder() {
    let redis = redis();
    let (pid, port, folder) = (redis.pid(), redis.port(), redis.instance().folder().to_owned());
    assert!(is_alive(pid) && folder.exists());
    drop(redis);
    assert!(!is_alive(pid) && !folder.exists());
    assert!(Resp::connect(port).is_err());
}

#[test]
fn the_process_is_the_server_itself() {
    let redis = redis();
    assert_eq!(redis.info("server").unwrap()["process_id"], redis.pid().to_string());
    let program = std::fs::read_to_string(format!("/proc/{}/comm", redis.pid())).unwrap();
    assert!(program.starts_with("redis"), "{program}");
}

#[test]
fn servers_end_with_a_killed_test() {
    let mut test = Command::new(env!("CARGO_BIN_EXE_testbed-hold"));
    let mut test = test.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(test.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let [pid, port, folder] = line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
    let (pid, port): (u32, u16) = (pid.parse().unwrap(), port.parse().unwrap());
    // The thread that started it has ended, and it still serves.
    assert_eq!(Resp::connect(port).unwrap().cmd(&["PING"]).unwrap().text(), "PONG");
    test.kill().unwrap();
    test.wait().unwrap();
    wait_until_true("the server is gone", || !is_alive(pid));
    wait_until_true("its folder is gone", || !std::path::Path::new(folder).exists());
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let redis = std::thread::spawn(redis).join().unwrap();
    assert_eq!(redis.cmd(&["PING"]).unwrap().text(), "PONG");
    assert!(redis.is_running());
}

#[test]
fn a_stopped_server_keeps_its_connections_and_goes_on() {
    let redis = redis();
    let mut client = redis.client().unwrap();
    redis.stop().unwrap();
    assert!(redis.is_running());
    client.send(&["PING"]).unwrap();
    assert_eq!(client.receive_within(Duration::from_millis(100)).unwrap(), None);
    redis.resume().unwrap();
    assert_eq!(client.receive().unwrap().text(), "PONG");
}

#[test]
fn a_restart_is_on_the_same_port_with_the_same_files() {
    let redis = Redis::start(RedisOptions { append_only: true, ..RedisOptions::default() }).unwrap();
    let (pid, run, port) = (redis.pid(), redis.run_id().unwrap(), redis.port());
    redis.cmd(&["SET", "a", "1"]).unwrap();
    redis.kill().unwrap();
    assert!(!redis.is_running() && !is_alive(pid));
    assert!(redis.stop().unwrap_err().to_string().contains("signal 9"));
    redis.restart().unwrap();
    assert_eq!(redis.port(), port);
    assert_ne!((redis.pid(), redis.run_id().unwrap()), (pid, run));
    assert_eq!(redis.cmd(&["GET", "a"]).unwrap().text(), "1");
    redis.terminate().unwrap();
    assert!(!redis.is_running());
    redis.restart_empty().unwrap();
    assert!(redis.cmd(&["GET", "a"]).unwrap().is_nil());
}

#[test]
fn a_stopped_server_can_be_terminated_and_dropped() {
    let redis = redis();
    redis.stop().unwrap();
    redis.terminate().unwrap();
    redis.restart().unwrap();
    let pid = redis.pid();
    redis.stop().unwrap();
    drop(redis);
    assert!(!is_alive(pid));
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let options = RedisOptions { lines: vec!["no-such-option 1".into()], ..RedisOptions::default() };
    let error = Redis::start(options).unwrap_err().to_string();
    assert!(error.contains("no-such-option 1") && error.contains("exit status: 1"), "{error}");
}

#[test]
fn another_server_on_the_port_is_not_mistaken_for_this_one() {
    let redis = redis();
    redis.kill().unwrap();
    // Somebody else is there for a while.
    let other = std::net::TcpListener::bind(("127.0.0.1", redis.port())).unwrap();
    let (redis, restarted) = {
        let redis = std::sync::Arc::new(redis);
        let again = redis.clone();
        (redis, std::thread::spawn(move || again.restart()))
    };
    let tried = || redis.log().contains("Address already in use").then_some(());
    wait_until("the server has tried", tried);
    drop(other);
    restarted.join().unwrap().unwrap();
    assert_eq!(redis.info("server").unwrap()["process_id"], redis.pid().to_string());
}

#[test]
fn error_replies_are_errors() {
    let redis = redis();
    let error = redis.cmd(&["NO-SUCH-COMMAND"]).unwrap_err();
    assert!(matches!(&error, Error::Reply(text) if text.contains("unknown command")), "{error}");
    redis.kill().unwrap();
    assert!(matches!(redis.client(), Err(Error::Io(_))));
}
