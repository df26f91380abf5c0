//! Ways to connect: Unix sockets, login, databases, TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tenure_core::Error;
use testbed::until;

use super::count;
use super::server::{Server, command, free_port, patient};
use crate::transport::{Failure, To, Transport, Value};
use crate::{Address, Login, Nat, Options, Route, Secret, Tls, Topology};

#[tokio::test]
async fn through_a_unix_socket() {
    let server = Server::start();
    let options = patient(Options::new(Topology::Standalone(Address::Unix(server.socket()))));
    let transport = Transport::open(options).await.unwrap();
    assert_eq!(transport.call(count(&[b"k"], &[b"1"])).await.unwrap(), Value::Int(1));
}

#[tokio::test]
async fn log_in_and_databases() {
    let server = Server::with(&["--requirepass", "open sesame"]);
    let refused = Transport::open(server.options()).await;
    assert!(matches!(&refused, Err(Error::Config(why)) if why.contains("NOAUTH")), "{refused:?}");
    let wrong = Options { password: Some("x".into()), ..server.options() };
    let refused = Transport::open(wrong).await;
    assert!(matches!(&refused, Err(Error::Config(why)) if why.contains("WRONGPASS")), "{refused:?}");
    let options = Options { password: Some("open sesame".into()), db: 3, ..server.options() };
    let transport = Transport::open(options.clone()).await.unwrap();
    command(&transport, &["SET", "k", "v"]).await;
    assert!(command(&transport, &["INFO", "keyspace"]).await.text().unwrap().contains("db3:keys=1"));
    command(&transport, &["ACL", "SETUSER", "narrow", "on", ">pw", "~*", "+get", "&allowed"]).await;
    let narrow = Options { user: Some("narrow".into()), password: Some("pw".into()), db: 0, ..options };
    let narrow = Transport::open(narrow).await.expect("a user with few rights can connect");
    assert_eq!(narrow.command(To::Key(b"k"), &[b"GET", b"none"]).await, Ok(Value::Nil));
    let refused = narrow.subscribe(b"secret", b"").await;
    assert!(matches!(&refused, Err(Failure::Refused(reply)) if reply.code == "NOPERM"), "{refused:?}");
}

async fn admin(server: &Server, password: &str) -> Arc<Transport> {
    let options = Options {
        client_name: "admin".into(),
        password: Some(password.to_owned().into()),
        ..server.options()
    };
    Transport::open(options).await.unwrap()
}

/// Sets a new password, and disconnects clients that used the old one.
async fn rotate(admin: &Arc<Transport>, password: &str) {
    command(admin, &["CONFIG", "SET", "requirepass", password]).await;
    command(admin, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    command(admin, &["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"]).await;
}

/// Calls and subscriptions fail temporarily, not permanently.
async fn locked_out(transport: &Arc<Transport>) {
    // The first failure may be a broken connection.
    let mut outcomes = Vec::new();
    until("told", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_err() }).await;
    for _ in 0..3 {
        outcomes.push(transport.call(count(&[b"k"], &[b"1"])).await.map(drop));
        outcomes.push(transport.subscribe(b"c", b"k").await.map(drop));
    }
    for outcome in outcomes {
        assert!(
            matches!(&outcome, Err(Failure::NotExecuted(why)) if why.text.contains("WRONGPASS")),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_password_that_was_right_once_is_not_wrong_for_good() {
    let server = Server::with(&["--requirepass", "old"]);
    let admin = admin(&server, "old").await;
    let options = Options { password: Some("old".into()), ..server.options() };
    let transport = Transport::open(options).await.unwrap();
    rotate(&admin, "new").await;
    locked_out(&transport).await;
    rotate(&admin, "old").await;
    until("let in again", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
}

#[tokio::test]
async fn a_password_file_is_read_at_each_connect() {
    let server = Server::with(&["--requirepass", "old"]);
    let admin = admin(&server, "old").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let options = Options { password: Some(Secret::file(&file)), ..server.options() };
    let refused = Transport::open(options.clone()).await;
    let named = |why: &str| why.contains(file.to_str().unwrap());
    assert!(matches!(&refused, Err(Error::Config(why)) if named(why)), "{refused:?}");
    std::fs::write(&file, "old\n").unwrap();
    let transport = Transport::open(options).await.unwrap();
    rotate(&admin, "new").await;
    locked_out(&transport).await;
    std::fs::write(&file, "new\n").unwrap();
    until("let in again", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
    assert!(transport.subscribe(b"c", b"k").await.is_ok());
}

#[tokio::test]
async fn a_callback_is_asked_at_each_connect() {
    let server = Server::with(&["--requirepass", "old"]);
    let admin = admin(&server, "old").await;
    command(&admin, &["ACL", "SETUSER", "app-1", "on", ">one", "~*", "&*", "+@all"]).await;
    let (login, asked) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let options = {
        let (login, asked) = (login.clone(), asked.clone());
        server.options().with_credentials(move || {
            asked.fetch_add(1, SeqCst);
            let login: Option<Login> = login.lock().unwrap().clone();
            async move { login.ok_or("the vault is sealed") }
        })
    };
    let refused = Transport::open(options.clone()).await;
    let sealed = |why: &str| why.contains("the vault is sealed");
    assert!(matches!(&refused, Err(Error::Unavailable { reason, .. }) if sealed(reason)), "{refused:?}");
    *login.lock().unwrap() = Some(Login::user("app-1", "one"));
    let transport = Transport::open(options).await.unwrap();
    assert_eq!(command(&transport, &["ACL", "WHOAMI"]).await.text(), Some("app-1"));
    let before = asked.load(SeqCst);
    command(&transport, &["PING"]).await;
    assert_eq!(asked.load(SeqCst), before, "not for each call");
    // The server closes the connections of a deleted user.
    command(&admin, &["ACL", "SETUSER", "app-2", "on", ">two", "~*", "&*", "+@all"]).await;
    command(&admin, &["ACL", "DELUSER", "app-1"]).await;
    locked_out(&transport).await;
    *login.lock().unwrap() = None;
    let closed = transport.call(count(&[b"k"], &[b"1"])).await;
    assert!(matches!(&closed, Err(Failure::NotExecuted(why)) if sealed(&why.text)), "{closed:?}");
    *login.lock().unwrap() = Some(Login::user("app-2", "two"));
    until("let in again", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
}

/// A server that has no leader, is starting, or has too many clients.
#[tokio::test]
async fn a_server_that_closes_at_once_is_away_and_not_wrong() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let goodbyes = [&b""[..], b"+O", b"-ERR max number of clients reached\r\n"];
    std::thread::spawn(move || {
        for (mut client, goodbye) in listener.incoming().flatten().zip(goodbyes.iter().cycle()) {
            let _ = client.write_all(goodbye);
        }
    });
    let transport =
        Transport::new(&patient(Options::new(Topology::Standalone(Address::tcp("127.0.0.1", port)))))
            .unwrap();
    for _ in 0..6 {
        let reached = transport.reach().await;
        assert!(matches!(&reached, Err(Error::Unavailable { .. })), "{reached:?}");
        let called = transport.call(count(&[b"k"], &[b"1"])).await;
        assert!(matches!(&called, Err(Failure::NotExecuted(_))), "{called:?}");
        let heard = transport.subscribe(b"c", b"k").await;
        assert!(matches!(&heard, Err(Failure::NotExecuted(_))), "{heard:?}");
    }
}

/// A certificate authority, and a server's certificate from it.
struct Papers {
    folder: tempfile::TempDir,
}

impl Papers {
    fn new(host: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "the authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        write("ca.pem", ca.pem());
        write("server.pem", server.pem());
        write("server.key", key.serialize_pem());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn server(&self, port: u16, clients: &str) -> Server {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (ca, cert, key) =
            (text(&self.path("ca.pem")), text(&self.path("server.pem")), text(&self.path("server.key")));
        Server::with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            clients,
        ])
    }
}

#[tokio::test]
async fn encrypted() {
    let (papers, others, port) = (Papers::new("localhost"), Papers::new("localhost"), free_port());
    let _server = papers.server(port, "yes");
    let trusting = |host: &str, ca: &Papers, identity: bool| Options {
        tls: Some(Tls {
            ca: Some(ca.path("ca.pem")),
            identity: identity.then(|| (papers.path("server.pem"), papers.path("server.key"))),
        }),
        ..patient(Options::new(Topology::Standalone(Address::tcp(host, port))))
    };
    let transport = Transport::open(trusting("localhost", &papers, true)).await.unwrap();
    for i in 1..=50 {
        assert_eq!(transport.call(count(&[b"k"], &[b"1"])).await.unwrap(), Value::Int(i));
    }
    let tasks = (0..16).map(|_| {
        let transport = transport.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Longer than the socket takes at once, so that TLS buffers a part of it.
    let long = vec![b'x'; 4 << 20];
    transport.command(To::Key(b"long"), &[b"SET", b"long", &long]).await.unwrap();
    assert_eq!(transport.command(To::Key(b"long"), &[b"GET", b"long"]).await, Ok(Value::Bulk(long)));
    for wrong in [trusting("localhost", &others, true), trusting("127.0.0.1", &papers, true)] {
        let refused = Transport::open(wrong).await;
        assert!(matches!(&refused, Err(Error::Config(_))), "{refused:?}");
    }
    let refused = Transport::open(trusting("localhost", &papers, false)).await;
    assert!(matches!(&refused, Err(Error::Config(_))), "the server asks for a certificate: {refused:?}");
}

/// The certificate is for a name of the inside, which nobody outside resolves.
#[tokio::test]
async fn the_name_in_a_certificate_is_that_of_the_mapped_address() {
    let (inner, outer) = (Papers::new("node-5.internal"), Papers::new("localhost"));
    let (inner_port, outer_port) = (free_port(), free_port());
    let (_inner, _outer) = (inner.server(inner_port, "no"), outer.server(outer_port, "no"));
    let announced = Address::tcp("10.0.0.5", 7001);
    let mapped = |papers: &Papers, route: Route| Options {
        tls: Some(Tls { ca: Some(papers.path("ca.pem")), identity: None }),
        nat: Nat::table([(announced.clone(), route)]),
        ..patient(Options::new(Topology::Standalone(announced.clone())))
    };
    let (to_inner, to_outer) = (Address::tcp("localhost", inner_port), Address::tcp("localhost", outer_port));
    let named = mapped(&inner, Route::named(to_inner.clone(), "node-5.internal"));
    let by_host = mapped(&outer, Route::new(to_outer.clone()));
    for options in [named, by_host] {
        let transport = Transport::open(options).await.unwrap();
        assert_eq!(transport.call(count(&[b"k"], &[b"1"])).await.unwrap(), Value::Int(1));
        transport.subscribe(b"c", b"k").await.unwrap();
    }
    let both = format!("10.0.0.5:7001 via localhost:{inner_port}");
    for (papers, route) in
        [(&inner, Route::new(to_inner.clone())), (&outer, Route::named(to_outer, "node-5.internal"))]
    {
        let refused = Transport::open(mapped(papers, route)).await;
        let says =
            |why: &str| why.contains("certificate is for another name") && why.contains("HOST:PORT/NAME");
        assert!(matches!(&refused, Err(Error::Config(why)) if says(why)), "{refused:?}");
    }
    let refused = Transport::open(mapped(&inner, Route::new(to_inner))).await;
    assert!(matches!(&refused, Err(Error::Config(why)) if why.contains(&both)), "{refused:?}");
}

/// Forwards everything, until more than `most` bytes arrive at once from a client.
fn cuts_what_is_long(server: u16, most: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)) else { return };
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || {
                let (mut buffer, mut long) = (vec![0; 64 << 10], 0);
                while let Ok(n @ 1..) = client.read(&mut buffer) {
                    long = if n > 8 << 10 { long + n } else { 0 };
                    if long > most || server.write_all(&buffer[..n]).is_err() {
                        break;
                    }
                }
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    port
}

/// The stream fails in the middle, and does not say how much was sent by then.
#[tokio::test]
async fn requests_sent_before_a_cut_are_not_called_unsent() {
    let (papers, port) = (Papers::new("localhost"), free_port());
    let server = papers.server(port, "no");
    let options = Options {
        tls: Some(Tls { ca: Some(papers.path("ca.pem")), identity: None }),
        ..patient(Options::new(Topology::Standalone(Address::tcp(
            "localhost",
            cuts_what_is_long(port, 256 << 10),
        ))))
    };
    let (transport, direct) = (Transport::open(options).await.unwrap(), server.open().await);
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    let long = vec![b'x'; 16 << 20];
    for _ in 0..5 {
        let before = direct.call(count(&[b"k"], &[b"1"])).await.unwrap().int().unwrap();
        let calls = vec![count(&[b"k"], &[b"1"]), count(&[b"long"], &[b"1", &long])];
        let outcomes = transport.call_all(calls).await;
        let after = direct.call(count(&[b"k"], &[b"0"])).await.unwrap().int().unwrap();
        assert!(after <= before + 1, "executed twice: {before}, {after}");
        match &outcomes[0] {
            Ok(_) => assert_eq!(after, before + 1),
            Err(failure) => assert!(matches!(failure, Failure::Unknown(_)) || after == before, "{failure:?}"),
        }
        assert!(outcomes[1].is_err());
    }
}
