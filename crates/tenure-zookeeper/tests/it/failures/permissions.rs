//! Wrong logins, rights, paths and ports. Each fails soon, with a message that names the cause.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::time::Duration;

use tenure_core::{Client, Error, Kind, Settings};
use tenure_zookeeper::{Login, Options, ZooKeeper};
use testbed::{FAR, ZkAcl, ZkMode, done, io_cause, within};

use super::harness::{Harness, LONG, claim, client, open, options, wait_for, waiting};

/// The timeout for a server that does not answer.
pub(crate) const NOBODY: Duration = Duration::from_secs(1);

fn as_user(harness: &Harness, user: &str) -> Options {
    let mut options = options(harness.zk.port(), LONG);
    options.login = Some(Login::new(user, "secret"));
    options
}

/// Tries to open a store, and returns the error. The limit is short, since a session is waited for much longer.
pub(crate) async fn refused(mut options: Options, limit: Duration) -> Error {
    (options.timeout, options.session) = (limit, FAR);
    within("an answer", ZooKeeper::open(options)).await.expect_err("it is not to be opened")
}

pub(crate) fn is_config(error: &Error, words: &[&str]) {
    let text = error.to_string();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
}

/// B9. With a login, clients of the same user share locks, and other users can neither see, acquire nor release them.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_neither_sees_nor_frees_a_lock() {
    let harness = Harness::start();
    let (anna, same, otto) = (
        client(as_user(&harness, "anna")).await,
        client(as_user(&harness, "anna")).await,
        client(as_user(&harness, "otto")).await,
    );
    let guard = anna.lock("x").acquire().await.unwrap();
    let next = wait_for(same.lock("x"));
    waiting(&anna, "x", 1).await;
    is_config(&otto.lock("x").acquire().await.unwrap_err(), &["acquire x", "/x", "no right"]);
    is_config(&otto.lock("x").try_acquire().await.unwrap_err(), &["/x", "no right"]);
    is_config(&otto.show("x").await.unwrap_err(), &["inspect x", "/x", "no right"]);
    is_config(&otto.lock("x").revoke().await.unwrap_err(), &["/x", "no right"]);
    assert!(guard.is_held());
    guard.release().await.unwrap();
    done("the same user", next).await.unwrap().release().await.unwrap();
    // A name that is not in use is available to everyone.
    otto.lock("y").acquire().await.unwrap().release().await.unwrap();
}

/// B9. A release without the right to delete fails with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_to_delete_is_an_error() {
    let harness = Harness::start();
    let anna = client(as_user(&harness, "anna")).await;
    let mut raw = harness.raw();
    raw.add_auth("digest", "anna:secret").unwrap();
    let everything = ZkAcl { rights: 31, scheme: "auth".into(), id: String::new() };
    let look = ZkAcl { rights: 1, scheme: "world".into(), id: "anyone".into() };
    raw.create_with("/x", b"", ZkMode::Persistent, &[everything, look]).unwrap();
    let guard = anna.lock("x").acquire().await.unwrap();
    let otto = open(as_user(&harness, "otto")).await;
    let theirs = tenure_core::Claim { id: guard.id(), ..claim("x", Kind::Lock) };
    let error = tenure_core::Backend::release(&*otto, &theirs, 0).await.unwrap_err();
    is_config(&error, &["not the owner of /x/_c_", "no right to delete"]);
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// B9. A folder without the right to create: the message names it.
#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named() {
    let harness = Harness::start();
    // A transient error would be retried for much longer than a test waits.
    let mut settings = Settings::default();
    (settings.call_timeout, settings.outage) = (FAR, FAR);
    let mine = Client::with(open(options(harness.zk.port(), LONG)).await, settings);
    let look = ZkAcl { rights: 1, scheme: "world".into(), id: "anyone".into() };
    harness.raw().create_with("/shut", b"", ZkMode::Persistent, std::slice::from_ref(&look)).unwrap();
    for name in ["shut", "shut/below"] {
        let error = within(name, mine.lock(name).acquire()).await.unwrap_err();
        is_config(&error, &[&format!("acquire {name}"), &format!("/{name}"), "no right"]);
    }
    let error = within("permits", mine.semaphore("shut", 3).permits(1).acquire()).await.unwrap_err();
    is_config(&error, &["/shut", "no right"]);
    let error = within("a latch", mine.latch("shut").try_set_count(1)).await.unwrap_err();
    is_config(&error, &["/shut", "no right"]);
}

/// B9. A chroot that does not exist is named, and not created.
#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_is_not_there_is_named() {
    let harness = Harness::start();
    let mut wrong = options(harness.zk.port(), LONG);
    wrong.chroot = Some("/no/such".into());
    is_config(&refused(wrong.clone(), LONG).await, &["/no/such", "does not exist"]);
    let late = Client::new(ZooKeeper::new(wrong).unwrap());
    is_config(&late.lock("x").acquire().await.unwrap_err(), &["/no/such", "does not exist"]);
    assert!(!harness.children("/").contains(&"no".to_owned()));
}

/// B9. Servers that enforce an authentication scheme: the error of a client without it names what to configure.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheme_that_is_enforced_is_named() {
    for scheme in ["sasl", "digest"] {
        let lines = vec![
            format!("maxSessionTimeout={}", 2 * FAR.as_millis()),
            "enforce.auth.enabled=true".into(),
            format!("enforce.auth.schemes={scheme}"),
            "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider".into(),
        ];
        let harness = Harness::with(testbed::ZooKeeperOptions { lines, ..Default::default() });
        let error = refused(options(harness.zk.port(), LONG), LONG).await;
        println!("{error}");
        is_config(&error, &["enforce.auth.schemes", "cert=FILE", "user:password@host", "SASL"]);
        // A client that was created without connecting gets the error later.
        let late = Client::new(ZooKeeper::new(options(harness.zk.port(), LONG)).unwrap());
        is_config(
            &within("an answer", late.lock("x").acquire()).await.unwrap_err(),
            &["enforce.auth.schemes"],
        );
        if scheme == "digest" {
            let anna = client(as_user(&harness, "anna")).await;
            anna.lock("x").acquire().await.unwrap().release().await.unwrap();
        }
    }
}

/// B9. Ports without a server, with a server that does not answer, and with a server of another protocol.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_a_server_is_told_soon() {
    let nobody = testbed::free_port().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let strange = TcpListener::bind("127.0.0.1:0").unwrap();
    let (silent_port, strange_port) =
        (silent.local_addr().unwrap().port(), strange.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in strange.incoming() {
            let _ = stream
                .and_then(|mut s| s.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
        }
    });
    let kinds = [ErrorKind::ConnectionRefused, ErrorKind::TimedOut, ErrorKind::InvalidData];
    for (port, kind) in [nobody, silent_port, strange_port].into_iter().zip(kinds) {
        let error = refused(options(port, LONG), NOBODY).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        // A busy machine may be too slow for each of them.
        assert!([kind, ErrorKind::TimedOut].contains(&io_cause(&error)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("client port"), "{text}");
        println!("{text}");
    }
    drop(silent);
}
