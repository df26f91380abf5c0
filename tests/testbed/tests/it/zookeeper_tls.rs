//! ZooKeeper over TLS: who trusts whom.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use testbed::{Certificates, Ensemble, Error, PATIENCE, Result, ZkClient, ZooKeeper, ZooKeeperOptions};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// What the server answers to `srvr` over TLS, when it is trusted by `ca`, and the client has a certificate or none.
fn ask(port: u16, ca: &Certificates, own: Option<&Certificates>) -> Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&ca.ca).unwrap()).unwrap();
    // Said in words: the workspace has more than one provider.
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(&own.certificate).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&own.key).unwrap()).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
    stream.write_all(b"srvr")?;
    let mut said = Vec::new();
    let read = stream.read_to_end(&mut said);
    // The server does not always say goodbye.
    if said.is_empty() { read.map(|_| String::new()).map_err(Error::from) } else { Ok(shown(&said)) }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn certificates(folder: &tempfile::TempDir) -> Certificates {
    Certificates::generate(folder.path()).unwrap()
}

#[test]
fn clients_trust_the_server_by_its_authority() {
    let [folder, elsewhere] = [0; 2].map(|_| tempfile::tempdir().unwrap());
    let (files, others) = (certificates(&folder), certificates(&elsewhere));
    let options = ZooKeeperOptions { tls: Some(files.clone()), ..ZooKeeperOptions::default() };
    let zookeeper = ZooKeeper::start(options).unwrap();
    let port = zookeeper.secure_port();
    assert!(ask(port, &files, None).unwrap().contains("Mode: standalone"));
    assert!(ask(port, &others, None).is_err());
    // Plain text has a port of its own, and is not understood here.
    assert!(ZkClient::connect(port, PATIENCE).is_err());
    zookeeper.client().unwrap().children("/").unwrap();
    zookeeper.restart().unwrap();
    assert!(ask(port, &files, None).unwrap().contains("Mode: standalone"));
}

#[test]
fn the_server_trusts_clients_by_its_authority() {
    let [folder, elsewhere] = [0; 2].map(|_| tempfile::tempdir().unwrap());
    let (files, others) = (certificates(&folder), certificates(&elsewhere));
    let tls = Some(files.clone());
    let options = ZooKeeperOptions { tls, client_certificates: true, ..ZooKeeperOptions::default() };
    let zookeeper = ZooKeeper::start(options).unwrap();
    let port = zookeeper.secure_port();
    assert!(ask(port, &files, Some(&files)).unwrap().contains("Mode: standalone"));
    for wrong in [None, Some(&others)] {
        let refused = ask(port, &files, wrong);
        assert!(!refused.as_ref().is_ok_and(|said| said.contains("Mode")), "{wrong:?}: {refused:?}");
    }
}

#[test]
fn each_member_of_an_ensemble_serves_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(&folder);
    let options = ZooKeeperOptions { tls: Some(files.clone()), ..ZooKeeperOptions::default() };
    let ensemble = Ensemble::start_with(options).unwrap();
    for server in ensemble.servers() {
        let said = ask(server.secure_port(), &files, None).unwrap();
        assert!(said.contains(&format!("Mode: {}", server.mode().unwrap())), "{said}");
    }
}
