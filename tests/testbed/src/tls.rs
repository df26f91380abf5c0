//! Certificates for tests: a CA, and a certificate signed by it for 127.0.0.1 and localhost.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rcgen::{KeyUsagePurpose, SanType};

use crate::{Error, Result};

/// Paths of PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The CA certificate.
    pub ca: PathBuf,
    /// A certificate signed by it, for servers and clients.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
}

impl Certificates {
    /// Generates new ones in `folder`.
    ///
    /// # Errors
    /// When they cannot be made or written.
    pub fn generate(folder: &Path) -> Result<Self> {
        let wrong = |e: rcgen::Error| Error::failed(format!("no certificate: {e}"));
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "Testbed authority");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_key = KeyPair::generate().map_err(wrong)?;
        let ca_certificate = ca.self_signed(&ca_key).map_err(wrong)?;

        let mut server = CertificateParams::new(vec!["localhost".to_owned()]).map_err(wrong)?;
        server.distinguished_name.push(DnType::CommonName, "localhost");
        server.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(wrong)?;
        let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key)).map_err(wrong)?;

        let written = |name: &str, text: String| -> Result<PathBuf> {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        Ok(Self {
            ca: written("ca.pem", ca_certificate.pem())?,
            certificate: written("certificate.pem", certificate.pem())?,
            key: written("key.pem", key.serialize_pem())?,
        })
    }
}
