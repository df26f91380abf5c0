//! Ways to connect: sockets in the file system, log-in, databases, encryption.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tenure_core::Error;

use super::count;
use super::server::{Server, command, free_port};
use crate::transport::{Failure, To, Transport, Value};
use crate::{Address, Options, Tls, Topology};

#[tokio::test]
async fn through_a_unix_socket() {
    let server = Server::start();
    let options = Options::new(Topology::Standalone(Address::Unix(server.socket())));
    let transport = Transport::open(options).await.unwrap();
    assert_eq!(transport.call(count(&[b"k"], &[b"1"])).await.unwrap().value, Value::Int(1));
}

#[tokio::test]
async fn log_in_and_databases() {
    let server = Server::with(&["--requirepass", "open sesame"]);
    let refused = Transport::open(server.options()).await;
    assert!(matches!(&refused, Err(Error::Config(why)) if why.starts_with("NOAUTH")), "{refused:?}");
    let wrong = Options { password: Some("x".into()), ..server.options() };
    let refused = Transport::open(wrong).await;
    assert!(matches!(&refused, Err(Error::Config(why)) if why.starts_with("WRONGPASS")), "{refused:?}");
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
        ..Options::new(Topology::Standalone(Address::tcp(host, port)))
    };
    let transport = Transport::open(trusting("localhost", &papers, true)).await.unwrap();
    for i in 1..=50 {
        assert_eq!(transport.call(count(&[b"k"], &[b"1"])).await.unwrap().value, Value::Int(i));
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
    // Longer than the socket takes at once, so that encryption keeps some of it back.
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
