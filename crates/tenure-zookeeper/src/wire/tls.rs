//! Loads the files for TLS.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use tenure_core::{Error, Result};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::error::SCHEME;
use crate::options::Tls;

pub(crate) fn connector(files: &Tls) -> Result<TlsConnector> {
    let file_error =
        |path: &Path, why: &dyn Display| Error::Config(format!("{SCHEME}: {}: {why}", path.display()));
    let read = |path: &Path| {
        let all =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
        match all {
            Ok(all) if all.is_empty() => Err(file_error(path, &"the file contains no certificate")),
            all => all.map_err(|e| file_error(path, &e)),
        }
    };
    let Some(ca) = &files.ca else {
        return Err(Error::Config(format!(
            "{SCHEME}: the CA of the servers' certificates is missing: give its file, as in ?ca=FILE"
        )));
    };
    let mut roots = RootCertStore::empty();
    for certificate in read(ca)? {
        roots.add(certificate).map_err(|e| file_error(ca, &e))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Config(format!("{SCHEME}: {e}")))?
        .with_root_certificates(roots);
    let config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| file_error(key, &e))?;
            builder.with_client_auth_cert(read(chain)?, secret).map_err(|e| file_error(chain, &e))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
