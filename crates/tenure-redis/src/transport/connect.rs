//! From an address to a connection that is logged in: names resolved anew each time, encryption, log-in, database,
//! and who it is that answers.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::failure::{Failure, Reply, Verdict, judge};
use super::resp::{Value, request};
use super::stream::{Stream, Wire};
use crate::{Address, Options, Secret, Sentinels, Tls, Topology};

/// How to connect and log in.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Option<TlsConnector>,
    user: Option<String>,
    password: Option<Secret>,
    db: u32,
    name: String,
    /// Whether the other end shall say what role it has.
    ask_role: bool,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("user", &self.user).field("tls", &self.tls.is_some()).finish()
    }
}

/// Who answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hello {
    /// New at each start of a server. `None` where the user may not ask for it.
    pub(crate) run_id: Option<String>,
    pub(crate) role: Option<String>,
    /// What kind of server it is, as it says itself.
    pub(crate) mode: Option<String>,
    /// For how long the server had been up, and when that was asked.
    pub(crate) up: Option<(Duration, Instant)>,
}

impl Connector {
    /// To the servers.
    pub(crate) fn new(options: &Options) -> tenure_core::Result<Self> {
        Ok(Self {
            tls: options.tls.as_ref().map(tls).transpose()?,
            user: options.user.clone(),
            password: options.password.clone(),
            db: options.db,
            name: options.client_name.clone(),
            ask_role: matches!(options.topology, Topology::Sentinel(_)),
        })
    }

    pub(crate) fn to_sentinels(sentinels: &Sentinels, options: &Options) -> tenure_core::Result<Self> {
        Ok(Self {
            user: sentinels.user.clone(),
            password: sentinels.password.clone(),
            db: 0,
            ask_role: false,
            ..Self::new(options)?
        })
    }

    /// The same without a log-in.
    pub(crate) fn anonymous(&self) -> Self {
        Self { user: None, password: None, db: 0, ..self.clone() }
    }

    /// Connects and logs in. Whatever goes wrong, nothing was executed.
    pub(crate) async fn connect(&self, to: &Address, limit: Duration) -> Result<(Wire, Hello), Failure> {
        let until = Instant::now() + limit;
        let shaken = async {
            let mut wire = Wire::new(self.open(to, until).await?);
            let hello = self.greet(&mut wire, to).await?;
            Ok((wire, hello))
        };
        match tokio::time::timeout(limit, shaken).await {
            Ok(result) => result,
            Err(_) => Err(Failure::NotExecuted(format!("{to}: no connection within {limit:?}"))),
        }
    }

    async fn open(&self, to: &Address, until: Instant) -> Result<Stream, Failure> {
        let trouble = |e| trouble(to, &e);
        let (host, port) = match to {
            #[cfg(unix)]
            Address::Unix(path) => {
                return tokio::net::UnixStream::connect(path).await.map(Stream::Unix).map_err(trouble);
            }
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(trouble(io::ErrorKind::Unsupported.into())),
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let stream = dial(host, port, until).await.map_err(trouble)?;
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp(stream)) };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| Failure::Refused(Reply::new(&format!("TLS {to}: {e}"))))?;
        tls.connect(name, stream).await.map(|stream| Stream::Tls(Box::new(stream))).map_err(trouble)
    }

    /// All in one round trip: a log-in that fails makes the rest fail too.
    async fn greet(&self, wire: &mut Wire, to: &Address) -> Result<Hello, Failure> {
        let mut out = Vec::new();
        let mut asked: Vec<&str> = Vec::new();
        let db = self.db.to_string();
        let mut ask = |what, words: &[&[u8]]| {
            asked.push(what);
            request(&mut out, words);
        };
        if let Some(password) = &self.password {
            let password = password.reveal().as_bytes();
            match &self.user {
                Some(user) => ask("auth", &[b"AUTH", user.as_bytes(), password]),
                None => ask("auth", &[b"AUTH", password]),
            }
        }
        ask("name", &[b"CLIENT", b"SETNAME", self.name.as_bytes()]);
        if self.db != 0 {
            ask("select", &[b"SELECT", db.as_bytes()]);
        }
        if self.ask_role {
            ask("role", &[b"ROLE"]);
        }
        ask("info", &[b"INFO", b"server"]);
        let mut hello = Hello::default();
        wire.write(&out).await.map_err(|e| trouble(to, &e))?;
        for what in asked {
            let reply = wire.read().await.map_err(|e| trouble(to, &e))?;
            match (what, &reply) {
                (_, Value::Error(reply)) => {
                    let verdict = judge(reply, to);
                    if matches!(verdict, Verdict::NotExecuted { .. }) {
                        return Err(Failure::NotExecuted(format!("{to}: {}", reply.message)));
                    }
                    // A user may lack the right to name the connection or to ask who the server is.
                    if matches!(what, "auth" | "select" | "role")
                        || matches!(reply.code.as_str(), "NOAUTH" | "DENIED")
                    {
                        return Err(Failure::Refused(reply.clone()));
                    }
                }
                ("role", value) => {
                    let role = value.array().and_then(|a| a.first()).and_then(Value::text);
                    hello.role = role.map(str::to_owned);
                }
                ("info", value) => {
                    let text = value.text().unwrap_or_default();
                    let line = |name: &str| text.lines().find_map(|l| l.strip_prefix(name));
                    hello.run_id = line("run_id:").map(str::to_owned);
                    // Valkey has a word of its own for it.
                    hello.mode = line("redis_mode:").or_else(|| line("server_mode:")).map(str::to_owned);
                    // Of a server whose clock was set back it may be less than nothing.
                    let seconds = line("uptime_in_seconds:").and_then(|s| s.parse::<i64>().ok());
                    let up = seconds.map(|s| Duration::from_secs(s.max(0).unsigned_abs()));
                    hello.up = up.map(|up| (up, Instant::now()));
                }
                _ => {}
            }
        }
        Ok(hello)
    }
}

/// Certificates and names that one end does not accept are no matter of time. A client's own may be refused only after
/// the handshake. All else may be a server that is about to start or to end.
fn trouble(to: &Address, e: &io::Error) -> Failure {
    use rustls::Error::*;
    let tls = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    if matches!(
        tls,
        Some(InvalidCertificate(_) | NoCertificatesPresented | UnsupportedNameType | AlertReceived(_))
    ) {
        return Failure::Refused(Reply::new(&format!("TLS {to}: {e}")));
    }
    Failure::NotExecuted(format!("{to}: {e}"))
}

/// Tries each address that the name stands for, each with its share of the time.
async fn dial(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<_> = match host.parse() {
        Ok(ip) => vec![std::net::SocketAddr::new(ip, port)],
        Err(_) => tokio::net::lookup_host((host, port)).await?.collect(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let share = until.saturating_duration_since(Instant::now()) / left;
        left -= 1;
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                let alive = socket2::TcpKeepalive::new()
                    .with_time(Duration::from_secs(10))
                    .with_interval(Duration::from_secs(5));
                socket2::SockRef::from(&stream).set_tcp_keepalive(&alive)?;
                return Ok(stream);
            }
            Ok(Err(e)) => last = e,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer")),
        }
    }
    Err(last)
}

fn tls(options: &Tls) -> tenure_core::Result<TlsConnector> {
    let config = |why: String| tenure_core::Error::Config(why);
    let mut roots = RootCertStore::empty();
    match &options.ca {
        Some(path) => {
            let wrong = |e: &dyn std::fmt::Display| config(format!("{}: {e}", path.display()));
            for certificate in CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))? {
                roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"no certificate in it"));
            }
        }
        None => {
            let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                return Err(config(
                    "the system has no certificates to trust: name a file of them".to_owned(),
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| config(e.to_string()))?
        .with_root_certificates(roots);
    let client = match &options.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let wrong = |e: &dyn std::fmt::Display| config(format!("{}: {e}", chain.display()));
            let chain = CertificateDer::pem_file_iter(chain)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|e| wrong(&e))?;
            let key =
                PrivateKeyDer::from_pem_file(key).map_err(|e| config(format!("{}: {e}", key.display())))?;
            builder.with_client_auth_cert(chain, key).map_err(|e| wrong(&e))?
        }
    };
    Ok(TlsConnector::from(Arc::new(client)))
}
