//! TLS connections, and certificates that are wrong or missing. Each fails soon, with a message that names the cause.

use tenure_core::Error;
use tenure_zookeeper::{Options, Tls};
use testbed::{Certificates, ZooKeeperOptions, done, io_cause};

use super::harness::{Harness, LONG, client, options, wait_for, waiting};
use super::permissions::{NOBODY, is_config, refused};

fn secure(harness: &Harness, tls: Tls) -> Options {
    let mut options = options(harness.zk.secure_port(), LONG);
    options.tls = Some(tls);
    options
}

/// B9. A certificate of an unknown CA is refused with the reason, and nothing is sent to such a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = Certificates::generate(folder.path()).unwrap();
    let other = Certificates::generate(elsewhere.path()).unwrap();
    let harness = Harness::with(ZooKeeperOptions { tls: Some(files.clone()), ..ZooKeeperOptions::default() });
    let known = |ca: &std::path::Path| {
        let mut tls = Tls::default();
        tls.ca = Some(ca.to_owned());
        tls
    };
    let mine = client(secure(&harness, known(&files.ca))).await;
    let guard = mine.lock("x").acquire().await.unwrap();
    let next = wait_for(harness.client().await.lock("x"));
    waiting(&mine, "x", 1).await;
    guard.release().await.unwrap();
    done("the other", next).await.unwrap().release().await.unwrap();
    let error = refused(secure(&harness, known(&other.ca)), LONG).await;
    println!("{error}");
    is_config(&error, &["certificate"]);
    // TLS to a plain port.
    let mut plain = options(harness.zk.port(), LONG);
    plain.tls = Some(known(&files.ca));
    let error = refused(plain, NOBODY).await;
    println!("{error}");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    io_cause(&error);
    // Plain text to a TLS port.
    let error = refused(options(harness.zk.secure_port(), LONG), NOBODY).await;
    println!("{error}");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    io_cause(&error);
    let none = refused(secure(&harness, Tls::default()), LONG).await;
    is_config(&none, &["ca=FILE"]);
    let missing = refused(secure(&harness, known(&folder.path().join("missing.pem"))), LONG).await;
    is_config(&missing, &["missing.pem"]);
}

/// B9. Servers that require a client certificate refuse a client without one, with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_certificate_is_refused_where_one_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let files = Certificates::generate(folder.path()).unwrap();
    let harness = Harness::with(ZooKeeperOptions {
        tls: Some(files.clone()),
        client_certificates: true,
        ..ZooKeeperOptions::default()
    });
    let mut with = Tls::default();
    with.ca = Some(files.ca.clone());
    let without = with.clone();
    with.identity = Some((files.certificate.clone(), files.key.clone()));
    let mine = client(secure(&harness, with)).await;
    mine.lock("x").acquire().await.unwrap().release().await.unwrap();
    let error = refused(secure(&harness, without), LONG).await;
    println!("{error}");
    is_config(&error, &["certificate"]);
}

/// B9. Servers that enforce x509 without requesting a certificate in the handshake refuse the session afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_enforced_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = Certificates::generate(folder.path()).unwrap();
    let lines = ["enforce.auth.enabled=true", "enforce.auth.schemes=x509"].map(str::to_owned);
    let harness = Harness::with(ZooKeeperOptions {
        tls: Some(files.clone()),
        lines: [
            &lines[..],
            &["authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider".into()],
        ]
        .concat(),
        ..ZooKeeperOptions::default()
    });
    let mut without = Tls::default();
    without.ca = Some(files.ca.clone());
    let error = refused(secure(&harness, without), LONG).await;
    println!("{error}");
    is_config(&error, &["enforce.auth.schemes", "x509", "cert=FILE"]);
}
