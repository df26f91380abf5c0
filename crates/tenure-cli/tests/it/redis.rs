//! All commands on a Redis server, and holders of another library in its layout.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{PATIENCE, Redis, RedisOptions, wait_until};

use crate::common::{Harness, Running, until_dead};
use crate::pty::{Pty, session};

/// As Redisson names a thread, and one of an asynchronous call.
const THREAD: &str = "4f3c2b1a-0000-4000-8000-000000000001:42";
const CALL: &str = "4f3c2b1a-0000-4000-8000-000000000001:-5";

fn server() -> Redis {
    Redis::start(RedisOptions::default()).unwrap()
}

fn harness(server: &Redis) -> Harness {
    Harness::at(format!("{}?lease=60s", server.url()))
}

/// Holds a lock as Redisson does, to the end of the test.
fn hold(server: &Redis, name: &str, owner: &str) {
    server.cmd(&["HSET", name, owner, "1"]).unwrap();
    server.cmd(&["PEXPIRE", name, "1800000"]).unwrap();
}

#[test]
fn run_ls_show_and_release() {
    let server = server();
    let harness = harness(&server);
    harness.runs_shows_and_releases(|_| ());

    // By --url as well, and a prefix is a world of its own.
    let url = format!("{}?prefix=app:", server.url());
    let mut elsewhere = harness.tenure(["--url", &url, "run", "demo", "--", "true"]);
    elsewhere.env("TENURE_URL", "redis://localhost:1");
    Running::captured(elsewhere).done().code(0);
}

#[test]
fn every_kind_is_held_listed_and_released() {
    let server = server();
    harness(&server).holds_every_kind("fair");
}

#[test]
fn a_foreign_holder_is_called_so() {
    let server = server();
    let harness = harness(&server);
    hold(&server, "jvm", CALL);
    let listed = harness.run(&["ls"]).code(0).out.clone();
    assert!(listed.contains("  foreign 4f3c2b1a…:-5  -  "), "{listed}");
    assert_eq!(harness.json(&["ls"], 0)[0]["holders"][0]["foreign"], true);
    let shown = harness.run(&["show", "jvm"]).code(0).out.clone();
    assert!(shown.contains("holder   foreign 4f3c2b1a…:-5\n"), "{shown}");
    assert!(shown.contains(&format!("hold {CALL}\n")), "{shown}");

    let busy = harness.run(&["run", "jvm", "--no-wait", "--", "true"]);
    busy.code(75).says("tenure: jvm is busy, held by another library (4f3c2b1a…:-5)\n");
    let waiting = harness.start(&["run", "jvm", "--", "true"]);
    let told = "tenure: waiting for jvm, held by another library (4f3c2b1a…:-5)\n";
    wait_until(told, || waiting.said().contains(told).then_some(()));
    waiting.send(Signal::TERM);
    waiting.done().code(143);
    let events = harness.run(&["run", "jvm", "--no-wait", "--json", "--", "true"]).events();
    assert_eq!(events[0]["holders"][0]["foreign"], true, "{events:?}");
}

#[test]
fn a_foreign_holder_is_released_by_force_and_waiters_hear_it() {
    for (owner, short) in [(THREAD, "4f3c2b1a…:42"), (CALL, "4f3c2b1a…:-5")] {
        let server = server();
        // Whoever is not told would look again after half an hour.
        let harness = Harness::at(format!("{}?poll=30m", server.url()));
        hold(&server, "jvm", owner);
        let mut ear = server.psubscribe(&["redisson_lock__channel:{jvm}"]).unwrap();
        let waiter = harness.start(&["run", "jvm", "--", "true"]);
        harness.until_waiters("jvm", 1);
        let released = harness.run(&["release", "jvm", "--force", "--yes"]);
        assert_eq!(
            released.code(0).out,
            format!("released jvm, which was held by another library ({short})\n")
        );
        assert_eq!(ear.next_within(PATIENCE).unwrap().unwrap().text(), "0");
        waiter.done().code(0);
        harness.run(&["release", "jvm", "--force", "--yes"]).code(1).says("nobody holds jvm");
    }
}

#[test]
fn one_of_several_holders_is_released_by_its_words() {
    let server = server();
    let harness = harness(&server);
    // Two permits of Redisson out of three, which have no words but bytes.
    let end = i64::try_from(tenure_now_ms() + 1_800_000).unwrap().to_string();
    server.cmd(&["SET", "seats", "1"]).unwrap();
    for permit in [[7_u8; 16], [9; 16]] {
        server.cmd(&[b"ZADD", b"{seats}:timeout".as_slice(), end.as_bytes(), &permit]).unwrap();
    }
    let mine = "07".repeat(16);
    harness
        .run(&["release", "seats", "--force", "--yes", "--hold", "nobody"])
        .code(1)
        .says("seats has no hold nobody");
    let released = harness.json(&["release", "seats", "--force", "--yes", "--hold", &mine], 0);
    assert_eq!(released["released"][0]["id"], mine.as_str());
    assert_eq!(server.cmd(&["GET", "seats"]).unwrap().text(), "2");
    let left = harness.show("seats");
    assert_eq!((left["holders"].as_array().unwrap().len(), &left["size"]), (1, &3.into()), "{left}");
}

fn tenure_now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}

#[test]
fn doctor_finds_what_is_wrong_and_says_so_by_its_code() {
    let server = Redis::start(RedisOptions { append_only: true, ..RedisOptions::default() }).unwrap();
    let harness = harness(&server);
    let well = harness.run(&["doctor"]);
    assert!(well.code(0).out.ends_with("\nno problems found\n"), "{well:?}");
    assert!(
        well.out.starts_with(&format!("127.0.0.1:{}\n  ok       server       Redis ", server.port())),
        "{well:?}"
    );

    server.cmd(&["CONFIG", "SET", "maxmemory", "100mb"]).unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let ill = harness.run(&["doctor"]);
    assert!(ill.code(1).out.contains("  warning  eviction     at 100 MB it evicts any key"), "{ill:?}");
    assert!(
        ill.out.contains("\n                        > CONFIG SET maxmemory-policy noeviction"),
        "{ill:?}"
    );
    assert!(ill.out.ends_with("\n1 warning\n"), "{ill:?}");
    let quiet = harness.run(&["doctor", "--quiet"]).code(1).out.clone();
    assert_eq!(quiet.lines().count(), 3, "{quiet}");

    let found = harness.json(&["doctor"], 1);
    let warnings: Vec<&Value> =
        found.as_array().unwrap().iter().filter(|f| f["level"] == "warning").collect();
    assert_eq!((warnings.len(), &warnings[0]["check"]), (1, &"eviction".into()), "{found}");
    assert_eq!(warnings[0]["place"], format!("127.0.0.1:{}", server.port()));
}

#[test]
fn missing_rights_to_inspect_do_not_change_the_exit_code() {
    let users = vec!["limited on >secret ~app:* ~*{app:* &*app:* +@all -config -info".to_owned()];
    let server = Redis::start(RedisOptions { users, ..RedisOptions::default() }).unwrap();
    let url = server.url().replace("//", "//limited:secret@") + "?prefix=app:";
    let done = Harness::at(url.clone()).run(&["doctor"]);
    assert!(done.code(0).out.contains("  unknown  persistence  not checked: NOPERM"), "{done:?}");
    assert!(done.out.contains("> allow CONFIG GET to have it checked"), "{done:?}");
    assert!(done.out.contains("checks could not be run\n"), "{done:?}");
    Harness::at(url.replace("secret", "wrong")).run(&["doctor"]).code(2).says("WRONGPASS");
    server.kill().unwrap();
    wait_until("the end of the server", || (!server.is_running()).then_some(()));
    Harness::at(url).run(&["doctor"]).code(69).says("cannot connect");
}

#[test]
fn top_bears_an_outage_and_goes_on() {
    let server = server();
    let harness = harness(&server);
    let pty = Pty::new();
    let session = session(&harness, &pty, "\"$0\" top --every 100ms; echo code-$?");
    pty.until_seen("0 names in use");
    server.kill().unwrap();
    pty.until_seen("no answer from the store for ");
    server.restart().unwrap();
    wait_until("the end of the outage", || {
        let seen = pty.seen();
        let frame = seen.rsplit("\x1b[H").next()?;
        (frame.contains("q quit") && !frame.contains("no answer")).then_some(())
    });
    pty.write("q");
    pty.until_seen("code-0");
    session.done().code(0);
}

#[test]
fn a_leader_whose_store_fails_ends_its_command_and_leads_again_later() {
    let server = server();
    let harness = Harness::at(format!("{}?lease=3s", server.url()));
    let script = "echo $$ >> terms; until [ -e end ]; do sleep 0.02; done; exit 7";
    let leader = harness.start(&["elect", "cron", "-c", script]);
    let term = |n: usize| {
        wait_until("a term", || {
            harness.read("terms")?.split_inclusive('\n').nth(n)?.trim_end().parse::<u64>().ok()
        })
    };
    let first = term(0);
    server.kill().unwrap();
    until_dead(first);
    server.restart().unwrap();
    assert_ne!(term(1), first);
    harness.touch("end");
    leader.done().code(7).says("cron is lost: ");
}

#[test]
fn a_token_is_what_stands_in_the_store() {
    let server = server();
    let harness = Harness::at(format!("{}?layout=plain&lease=60s", server.url()));
    let holder = harness.hold("order", &["--token", "request-7"]);
    assert_eq!(server.cmd(&["GET", "order"]).unwrap().text(), "request-7");
    // Whoever asks again under the same token is another one, as with SET NX.
    harness.run(&["run", "order", "--token", "request-8", "--no-wait", "--", "true"]).code(75);
    harness
        .run(&["release", "order", "--token", "request-8"])
        .code(1)
        .says("order is not held with that token");
    assert_eq!(harness.json(&["release", "order", "--token", "request-8"], 1)["released"], false);
    assert_eq!(harness.run(&["release", "order", "--token", "request-7"]).code(0).out, "released order\n");
    assert!(server.cmd(&["GET", "order"]).unwrap().is_nil());
    harness.run(&["release", "order", "--token", "request-7"]).code(1);
    harness.touch("end");
    holder.done().code(76);
    // A lock of somebody who writes it by hand is released as well.
    server.cmd(&["SET", "order", "by-hand", "NX", "PX", "60000"]).unwrap();
    harness.run(&["release", "order", "--token", "by-hand"]).code(0);

    let hashes = Harness::at(server.url());
    hashes.run(&["run", "order", "--token", "t", "--", "true"]).code(2).says("layout=plain");
    hashes.run(&["release", "order", "--token", "t"]).code(2).says("layout=plain");
}

#[test]
fn another_kind_on_the_name_is_named() {
    let server = server();
    let harness = harness(&server);
    let store = format!("redis 127.0.0.1:{}: ", server.port());
    harness.run(&["run", "seats", "--limit", "2", "--", "true"]).code(0);
    for (kind, is) in
        [(&[][..], "a lock"), (&["--fair"], "a fair lock"), (&["--shared"], "a read/write lock")]
    {
        let done = harness.run(&[&["run", "seats"][..], kind, &["--", "true"]].concat());
        done.code(2)
            .says(&format!("{store}seats is in use as a semaphore and cannot be {is} too: use another name"));
    }
    harness.run(&["elect", "seats", "--", "true"]).code(2).says("seats is in use as a semaphore");
    let _lock = harness.hold("lock", &[]);
    let done = harness.run(&["run", "lock", "--limit", "2", "--", "true"]);
    done.code(2).says(&format!("{store}lock is in use as a lock and cannot be a semaphore too"));
    server.cmd(&["RPUSH", "list", "x"]).unwrap();
    for kind in [&[][..], &["--limit", "2"]] {
        let done = harness.run(&[&["run", "list"][..], kind, &["--", "true"]].concat());
        done.code(2).says("the key \"list\" is a list of another program; use another name");
        assert!(!done.err.contains("WRONGTYPE"), "{done:?}");
    }
    server.cmd(&["SET", "text", "x"]).unwrap();
    harness
        .run(&["run", "text", "--", "true"])
        .code(2)
        .says("a lock of the plain layout, or not a lock at all");
}

/// A port that closes this many connections at once, and lets the others through to a server.
fn closing_first(closed: usize, target: u16) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if count.fetch_add(1, SeqCst) < closed {
                continue;
            }
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { return };
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (port, accepted)
}

#[test]
fn the_wait_covers_connecting() {
    let server = server();
    let (port, accepted) = closing_first(3, server.port());
    let harness = Harness::at(format!("redis://127.0.0.1:{port}?lease=60s"));
    harness.run(&["run", "demo", "--wait", "30m", "-c", "echo held"]).code(0).says("waiting: ");
    assert!(accepted.load(SeqCst) > 3);

    // Not reached in all that time, and not busy.
    let (port, _) = closing_first(usize::MAX, 0);
    let harness = Harness::at(format!("redis://127.0.0.1:{port}"));
    let done = harness.run(&["run", "demo", "--wait", "300ms", "--", "touch", "ran"]);
    assert!(done.code(69).took >= Duration::from_millis(300), "{done:?}");
    harness.run(&["run", "demo", "--", "touch", "ran"]).code(69);
    harness.run(&["run", "demo", "--no-wait", "--", "touch", "ran"]).code(69);
    assert!(harness.read("ran").is_none());
}
