//! What to do about a server that refuses a connection, added to what it says.

use std::io;

use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use super::failure::{ErrorReply, Failure};
use crate::nat::Place;

/// An error reply while connecting, with the server's address and advice.
pub(super) fn refused(to: &Place, reply: &ErrorReply) -> Failure {
    let message = match advice(&reply.message) {
        Some(advice) => format!("{to}: {advice} ({})", reply.message),
        None => format!("{to}: {}", reply.message),
    };
    Failure::Refused(ErrorReply { code: reply.code.clone(), message })
}

fn advice(message: &str) -> Option<&'static str> {
    const ADVICE: &[(&str, &str)] = &[
        (
            "NOAUTH",
            "the server asks for a password: add it to the address, as in redis://:PASSWORD@host, or set password or \
             password_file",
        ),
        ("WRONGPASS", "the server rejects the login: check user and password"),
        ("ERR invalid password", "the server rejects the login: check the password"),
        ("ERR AUTH", "the server has no password: remove it from the address or the configuration"),
        (
            "ERR Client sent AUTH",
            "the server has no password: remove it from the address or the configuration",
        ),
        (
            "ERR DB index",
            "the server has no such database: use another db, or raise `databases` in its configuration",
        ),
        ("ERR invalid DB index", "the server has no such database: use another db"),
        (
            "ERR This instance has cluster support disabled",
            "the server is not part of a cluster: use redis:// (type redis) for a single server",
        ),
        (
            "ERR unknown command 'SENTINEL'",
            "the server is not a sentinel: use redis:// (type redis) for a single server, or name the sentinels",
        ),
        (
            "ERR unknown command `SENTINEL`",
            "the server is not a sentinel: name the sentinels, or use redis://",
        ),
    ];
    ADVICE.iter().find(|(start, _)| message.starts_with(start)).map(|(_, advice)| *advice)
}

/// Advice for a TLS error that a retry would not change: certificates and names that one side rejects, and a server
/// without TLS. A client certificate may be rejected only after the handshake. `may_be_mapped`: whether it is mapped, or
/// announced by a server, so that another name cannot just be configured.
pub(super) fn tls_advice(e: &io::Error, may_be_mapped: bool) -> Option<&'static str> {
    use rustls::Error::*;
    Some(match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>())? {
        InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "no trusted CA has signed the server's certificate: set ca to the file of its CA"
        }
        InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => match may_be_mapped {
            true => {
                "the server's certificate is for another name: map the address with nat to a name that it lists, as \
                 HOST:PORT or HOST:PORT/NAME"
            }
            false => "the server's certificate is for another name: use a name that it lists",
        },
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired: renew it"
        }
        InvalidCertificate(_) | NoCertificatesPresented | UnsupportedNameType => {
            "the server's certificate is not accepted"
        }
        AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a client certificate: set cert and key"
        }
        AlertReceived(_) => "the server rejects the connection: check ca, cert and key",
        InvalidMessage(_) => {
            "the server does not speak TLS on this port: use redis:// instead of rediss://, or its TLS port"
        }
        _ => return None,
    })
}

/// Advice for a server that does not answer in time. One without TLS waits for more when a TLS handshake begins.
pub(super) fn timeout_advice(in_tls: bool) -> &'static str {
    match in_tls {
        true => {
            ": it accepts connections, but does not answer in TLS; if it does not speak TLS, use redis://"
        }
        false => "",
    }
}

/// Advice for a server that cannot be reached at the address that servers announce.
pub(super) fn mapping_advice(is_set: bool) -> &'static str {
    match is_set {
        true => "the servers announce this address, and nat has no entry for it",
        false => {
            "the servers announce this address: if it is reached at another one from here, map it with nat"
        }
    }
}

/// Advice for a connection without TLS that ended before the first answer.
pub(super) const MAYBE_TLS: &str = "before the first answer; if the server speaks TLS, use rediss://";
