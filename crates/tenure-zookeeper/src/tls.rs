//! Files for encrypted connections.

use std::path::Path;

use tenure_core::{Error, Result};
use zookeeper_client::TlsOptions;

use crate::fault::SCHEME;
use crate::options::Tls;

pub(crate) fn options(files: &Tls) -> Result<TlsOptions> {
    // Where a program has more than one provider compiled in, rustls wants to be told which. The first word stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wrong = |path: &Path, why: String| Error::Config(format!("{SCHEME}: {}: {why}", path.display()));
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| wrong(path, e.to_string()));
    let mut options = TlsOptions::default();
    match &files.ca {
        Some(path) => options = options.with_pem_ca(&read(path)?).map_err(|e| wrong(path, e.to_string()))?,
        None => {
            return Err(Error::Config(format!(
                "{SCHEME}: who signs the servers' certificates must be said, as in ?ca=FILE"
            )));
        }
    }
    if let Some((certificate, key)) = &files.identity {
        let identity = options.with_pem_identity(&read(certificate)?, &read(key)?);
        options = identity.map_err(|e| wrong(certificate, e.to_string()))?;
    }
    Ok(options)
}
