//! Parsing that all server stores share: the list of addresses, TLS.

use std::path::PathBuf;

use tenure_core::Result;

use crate::config::raw::{Given, Setting};

/// The servers in a list of addresses.
pub(super) struct Line {
    pub(super) hosts: Vec<(String, u16)>,
    /// Whether the scheme of one of them asks for TLS.
    pub(super) tls: bool,
    /// The path after the last address, without the slash.
    pub(super) path: Option<String>,
}

/// How addresses of a type of store are written.
pub(super) struct Written {
    /// The scheme that each address may have.
    pub(super) scheme: &'static str,
    /// The scheme for TLS.
    pub(super) secure: &'static str,
    pub(super) port: u16,
}

/// Files for TLS.
pub(super) struct Files {
    pub(super) ca: Option<PathBuf>,
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

impl Written {
    /// Parses a list as in the settings of a Java service: `h1:1,h2:1`, `redis://h1:1, redis://h2:1`,
    /// `h1:1,h2:1/path`.
    pub(super) fn line(&self, nodes: &Setting) -> Result<Line> {
        let mut line = Line { hosts: Vec::new(), tls: false, path: None };
        for node in nodes.text.split(',').map(str::trim) {
            let host = match node.split_once("://") {
                None => node,
                Some((scheme, host)) if scheme == self.scheme => host,
                Some((scheme, host)) if scheme == self.secure => {
                    line.tls = true;
                    host
                }
                Some((scheme, _)) => {
                    return Err(nodes.wrong(format!("{scheme}:// is not the address of such a store")));
                }
            };
            // First, so that no other error quotes the login.
            if host.contains('@') {
                return Err(nodes.wrong("a login does not belong there: set user and password"));
            }
            if line.path.is_some() {
                return Err(nodes.wrong("only the last address can have a path"));
            }
            let (host, path) = host.split_once('/').unwrap_or((host, ""));
            line.path = Some(path.to_owned()).filter(|path| !path.is_empty());
            if host.is_empty() {
                return Err(nodes.wrong("an address is empty"));
            }
            line.hosts.push(host_and_port(host, self.port).map_err(|why| nodes.wrong(why))?);
        }
        Ok(line)
    }
}

impl Given {
    /// Takes the key `nodes`. `kind` is the setting of the type, for the error.
    pub(super) fn nodes(&mut self, kind: &Setting) -> Result<Setting> {
        self.take("nodes").ok_or_else(|| {
            kind.from
                .wrong("nodes", format!("missing: where is the {} store? as in \"h1,h2:1234\"", kind.text))
        })
    }

    /// Takes `tls`, and `ca`, `cert` and `key`, which are valid only with TLS.
    pub(super) fn files(&mut self, line: bool, written: &Written) -> Result<Option<Files>> {
        let secure = written.secure;
        let tls = match self.take("tls") {
            None => line,
            Some(tls) => match tls.flag()? {
                false if line => return Err(tls.wrong(format!("false, but nodes say {secure}://"))),
                tls => tls,
            },
        };
        let files = [self.take("ca"), self.take("cert"), self.take("key")];
        if !tls {
            return match files.into_iter().flatten().next() {
                Some(file) => Err(file
                    .wrong(format!("for encrypted connections only: set tls, or {secure}:// in an address"))),
                None => Ok(None),
            };
        }
        let [ca, cert, key] = files;
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert.text.into(), key.text.into())),
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                return Err(one.wrong("cert and key are given together or not at all"));
            }
        };
        Ok(Some(Files { ca: ca.map(|ca| ca.text.into()), identity }))
    }
}

/// `host`, `host:port` or `[v6]:port`. An empty host means localhost, as in other clients.
fn host_and_port(text: &str, port: u16) -> std::result::Result<(String, u16), &'static str> {
    // An invalid port may be part of a password, so the error does not quote it.
    let number = |p: &str| p.parse::<u16>().map_err(|_| "what comes after a host's colon is not a port");
    let (host, port) = if let Some(v6) = text.strip_prefix('[') {
        let (host, rest) = v6.split_once(']').ok_or("a host has no closing bracket")?;
        let port = match rest.strip_prefix(':') {
            Some(p) => number(p)?,
            None if rest.is_empty() => port,
            None => return Err("what comes after a closing bracket is not understood"),
        };
        (host, port)
    } else {
        match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => return Err("an IPv6 address stands in brackets"),
            Some((host, p)) => (host, number(p)?),
            None => (text, port),
        }
    };
    Ok((if host.is_empty() { "localhost".to_owned() } else { host.to_owned() }, port))
}
