//! Why an encrypted connection fails. The client that we speak with says only that there is none, so one handshake more
//! is made to be told.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tenure_core::Error;

use crate::fault::SCHEME;
use crate::options::Tls;

/// How long a server may take to refuse after the handshake: with TLS 1.3 it looks at our certificate only then.
const SECOND_THOUGHTS: Duration = Duration::from_secs(1);

/// What is wrong with the certificates of the first server that says so. Blocks, for about `limit` in all.
pub(crate) fn why_not(files: &Tls, servers: &[String], limit: Duration) -> Option<Error> {
    let config = Arc::new(config(files)?);
    let limit = limit / u32::try_from(servers.len()).ok()?.max(1);
    let said = |server: &String| match shake(&config, server, limit)
        .err()?
        .downcast::<rustls::Error>()
        .ok()?
    {
        e @ rustls::Error::InvalidCertificate(_) => Some(format!(
            "{SCHEME}: {server} is not trusted: {e}; is its certificate signed by the one of ca=FILE, and for this host?"
        )),
        e @ rustls::Error::AlertReceived(_) => Some(format!(
            "{SCHEME}: {server} refuses the encryption: {e}; does it want a certificate of ours, cert=FILE and key=FILE?"
        )),
        _ => None,
    };
    servers.iter().find_map(said).map(Error::Config)
}

fn config(files: &Tls) -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_file_iter(files.ca.as_ref()?).ok()?.flatten());
    let config = ClientConfig::builder().with_root_certificates(roots);
    let Some((certificate, key)) = &files.identity else { return Some(config.with_no_client_auth()) };
    let chain = CertificateDer::pem_file_iter(certificate).ok()?.flatten().collect();
    config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).ok()?).ok()
}

fn shake(config: &Arc<ClientConfig>, server: &str, limit: Duration) -> io::Result<()> {
    let (host, _) = server.rsplit_once(':').ok_or(ErrorKind::InvalidInput)?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
    let mut tls = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let address = server.to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream)?;
    }
    stream.set_read_timeout(Some(SECOND_THOUGHTS.min(limit)))?;
    tls.complete_io(&mut stream).map(drop)
}
