//! Parts that the addresses of all servers have: hosts, escapes, files.

use std::path::PathBuf;

use tenure_core::{Error, Result};

use super::Address;

/// Files for encrypted connections.
pub(super) struct Files {
    pub(super) ca: Option<PathBuf>,
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

impl Address {
    /// `ca`, `cert` and `key`, which only make sense with `secure`, the scheme of encrypted connections.
    pub(super) fn files(&mut self, tls: bool, secure: &str) -> Result<Option<Files>> {
        let scheme = self.scheme.clone();
        let files = [self.take("ca"), self.take("cert"), self.take("key")];
        if !tls {
            return match files.iter().any(Option::is_some) {
                true => Err(Error::Config(format!("{scheme}: ca, cert and key are for {secure} only"))),
                false => Ok(None),
            };
        }
        let [ca, cert, key] = files.map(|file| file.map(PathBuf::from));
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(Error::Config(format!(
                    "{scheme}: cert and key are given together or not at all"
                )));
            }
        };
        Ok(Some(Files { ca, identity }))
    }
}

/// `host`, `host:port` or `[v6]:port`. No host at all means this machine, as with other clients.
pub(super) fn host_and_port(text: &str, port: u16) -> std::result::Result<(String, u16), String> {
    let number = |p: &str| p.parse::<u16>().map_err(|_| format!("{p:?} is not a port"));
    let (host, port) = if let Some(v6) = text.strip_prefix('[') {
        let (host, rest) = v6.split_once(']').ok_or_else(|| format!("{text:?} has no closing bracket"))?;
        let port = match rest.strip_prefix(':') {
            Some(p) => number(p)?,
            None if rest.is_empty() => port,
            None => return Err(format!("{rest:?} after {host:?} is not understood")),
        };
        (host, port)
    } else {
        match text.rsplit_once(':') {
            Some((host, p)) => (host, number(p)?),
            None => (text, port),
        }
    };
    Ok((if host.is_empty() { "localhost".to_owned() } else { host.to_owned() }, port))
}

/// Takes percent signs out.
pub(super) fn decoded(text: &str) -> Result<String> {
    let wrong = || Error::Config(format!("{text:?} is not percent-encoded text"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = after.get(..2).and_then(|h| std::str::from_utf8(h).ok()).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(hex, 16).map_err(|_| wrong())?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
