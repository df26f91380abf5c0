//! Servers that are not what the address says: each message names the server and says what to do.

use testbed::{Certificates, Redis, RedisOptions};

use crate::common::Harness;

fn server(options: RedisOptions) -> Redis {
    Redis::start(options).unwrap()
}

#[track_caller]
fn says(url: &str, code: i32, words: &[&str]) {
    let done = Harness::at(url.to_owned()).run(&["run", "x", "--", "true"]);
    done.code(code).says("tenure: redis: cannot connect: 127.0.0.1:");
    for each in words {
        done.says(each);
    }
    assert!(!done.err.contains("secret"), "{done:?}");
}

#[test]
fn passwords_and_databases() {
    let open = server(RedisOptions::default());
    let closed = server(RedisOptions { password: Some("right".into()), ..RedisOptions::default() });
    let at =
        |login: &str, server: &Redis, rest: &str| format!("redis://{login}127.0.0.1:{}{rest}", server.port());
    says(
        &at("", &closed, ""),
        2,
        &["asks for a password", "redis://:PASSWORD@host", "password_file", "NOAUTH"],
    );
    says(&at(":secret@", &closed, ""), 2, &["rejects the login", "check user and password", "WRONGPASS"]);
    says(&at("me:secret@", &closed, ""), 2, &["rejects the login", "WRONGPASS"]);
    says(&at(":secret@", &open, ""), 2, &["has no password: remove it"]);
    says(&at("", &open, "/99"), 2, &["has no such database"]);
}

#[test]
fn other_deployments() {
    let open = server(RedisOptions::default());
    let address = format!("127.0.0.1:{}", open.port());
    says(&format!("redis+cluster://{address}"), 2, &["not part of a cluster: use redis://"]);
    says(&format!("redis+sentinel://{address}/main"), 2, &["not a sentinel: use redis://"]);
    // The other way round a node of a cluster redirects, and `doctor` says what is wrong.
    let lines = vec!["cluster-enabled yes".into()];
    let node = server(RedisOptions { lines, ..RedisOptions::default() });
    node.cmd(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    let done = Harness::at(node.url()).run(&["doctor"]);
    assert!(done.code(1).out.contains("use the address scheme redis+cluster://"), "{done:?}");
}

#[test]
fn tls_and_no_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = Certificates::generate(folder.path()).unwrap();
    let open = server(RedisOptions::default());
    let (ca, port) = (files.ca.display().to_string(), open.port());
    says(
        &format!("rediss://127.0.0.1:{port}?ca={ca}&timeout=2s"),
        69,
        &["does not answer in TLS", "use redis://"],
    );
    let encrypted = server(RedisOptions { tls: Some(files), ..RedisOptions::default() });
    let port = encrypted.port();
    says(&format!("redis://127.0.0.1:{port}"), 69, &["if the server speaks TLS, use rediss://"]);
    let other = tempfile::tempdir().unwrap();
    let stranger = Certificates::generate(other.path()).unwrap().ca.display().to_string();
    says(
        &format!("rediss://127.0.0.1:{port}?ca={stranger}"),
        2,
        &["no trusted CA has signed", "set ca to the file"],
    );
    Harness::at(format!("rediss://127.0.0.1:{port}?ca={ca}")).run(&["run", "x", "--", "true"]).code(0);
}
