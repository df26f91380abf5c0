//! Parses what all stores on servers have: the list of addresses and the files for TLS.

use std::path::PathBuf;

use tenure_core::Result;
use tenure_core::backend::Secret;

use crate::config::raw::{RawConfig, Setting};

/// The servers in a list of addresses.
pub(super) struct ServerList {
    pub(super) hosts: Vec<(String, u16)>,
    /// Whether the scheme of one of them asks for TLS.
    pub(super) tls: bool,
    /// The path after the last address, without the slash.
    pub(super) path: Option<String>,
}

/// How addresses of a type of store are written.
pub(super) struct AddressFormat {
    /// The scheme that each address may have.
    pub(super) scheme: &'static str,
    /// The scheme for TLS.
    pub(super) tls_scheme: &'static str,
    pub(super) port: u16,
}

/// The files for TLS.
pub(super) struct TlsFiles {
    pub(super) ca: Option<PathBuf>,
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

impl AddressFormat {
    /// Parses a list as in the settings of a Java service: `h1:1,h2:1`, `redis://h1:1, redis://h2:1`,
    /// `h1:1,h2:1/path`.
    pub(super) fn parse(&self, nodes: &Setting) -> Result<ServerList> {
        let mut servers = ServerList { hosts: Vec::new(), tls: false, path: None };
        for node in nodes.value.split(',').map(str::trim) {
            let host = match node.split_once("://") {
                None => node,
                Some((scheme, host)) if scheme == self.scheme => host,
                Some((scheme, host)) if scheme == self.tls_scheme => {
                    servers.tls = true;
                    host
                }
                Some((scheme, _)) => {
                    return Err(nodes.error(format!("{scheme}:// is not an address of this type of store")));
                }
            };
            // First, so that no other error quotes the login.
            if host.contains('@') {
                return Err(
                    nodes.error("an address in nodes cannot contain a login: set user and password instead")
                );
            }
            if servers.path.is_some() {
                return Err(nodes.error("only the last address can have a path"));
            }
            let (host, path) = host.split_once('/').unwrap_or((host, ""));
            servers.path = Some(path.to_owned()).filter(|path| !path.is_empty());
            if host.is_empty() {
                return Err(nodes.error("an address is empty"));
            }
            servers.hosts.push(host_and_port(host, self.port).map_err(|why| nodes.error(why))?);
        }
        Ok(servers)
    }
}

impl RawConfig {
    /// Takes the key `nodes`. `kind` is the setting of the type, for the error.
    pub(super) fn take_nodes(&mut self, kind: &Setting) -> Result<Setting> {
        self.take("nodes").ok_or_else(|| {
            kind.origin.error(
                "nodes",
                format!("missing: set the addresses of the {} servers, such as \"h1,h2:1234\"", kind.value),
            )
        })
    }

    /// Takes a password, or the file that contains it.
    pub(super) fn take_password(&mut self, password: &str, file: &str) -> Result<Option<Secret>> {
        match (self.take(password), self.take(file)) {
            (Some(_), Some(file)) => Err(file.error(format!("set either {password} or this key, not both"))),
            (Some(secret), None) => Ok(Some(Secret::from(secret.value))),
            (None, Some(file)) => Ok(Some(Secret::file(file.value))),
            (None, None) => Ok(None),
        }
    }

    /// Takes `tls`, and `ca`, `cert` and `key`, which are valid only with TLS.
    pub(super) fn take_tls_files(
        &mut self,
        tls_by_scheme: bool,
        format: &AddressFormat,
    ) -> Result<Option<TlsFiles>> {
        let tls_scheme = format.tls_scheme;
        let tls = match self.take("tls") {
            None => tls_by_scheme,
            Some(tls) => match tls.flag()? {
                false if tls_by_scheme => {
                    return Err(tls.error(format!("is false, but nodes use {tls_scheme}://")));
                }
                tls => tls,
            },
        };
        let files = [self.take("ca"), self.take("cert"), self.take("key")];
        if !tls {
            return match files.into_iter().flatten().next() {
                Some(file) => {
                    Err(file
                        .error(format!("needs TLS: set tls = true, or use {tls_scheme}:// in the address")))
                }
                None => Ok(None),
            };
        }
        let [ca, cert, key] = files;
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert.value.into(), key.value.into())),
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                return Err(one.error("cert and key must both be set"));
            }
        };
        Ok(Some(TlsFiles { ca: ca.map(|ca| ca.value.into()), identity }))
    }
}

/// `host`, `host:port` or `[v6]:port`. An empty host means localhost, as in other clients.
fn host_and_port(text: &str, port: u16) -> std::result::Result<(String, u16), &'static str> {
    // An invalid port may be part of a password, so the error does not quote it.
    let number = |p: &str| p.parse::<u16>().map_err(|_| "the part after the colon of a host is not a port");
    let (host, port) = if let Some(v6) = text.strip_prefix('[') {
        let (host, rest) = v6.split_once(']').ok_or("a host has no closing bracket")?;
        let port = match rest.strip_prefix(':') {
            Some(p) => number(p)?,
            None if rest.is_empty() => port,
            None => return Err("expected a colon and a port after the closing bracket of a host"),
        };
        (host, port)
    } else {
        match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => return Err("write an IPv6 address in brackets"),
            Some((host, p)) => (host, number(p)?),
            None => (text, port),
        }
    };
    Ok((if host.is_empty() { "localhost".to_owned() } else { host.to_owned() }, port))
}
