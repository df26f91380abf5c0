//! Opens connections: maps the address, resolves the name each time, sets up TLS, logs in, selects the database, and
//! identifies the server.
//!
//! A name may resolve to several servers, of which one may be down or hang: it accepts connections and never answers.
//! So each address is tried up to the handshake, and the next one is started while it is pending.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};
use std::{fmt, io};

use tenure_core::backend::Reason;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::advice::{MAYBE_TLS, mapping_advice, refused, timeout_advice, tls_advice};
use super::failure::{ErrorClass, ErrorReply, Failure, classify};
use super::wire::{Framed, Stream, Value, write_command};
use crate::credentials::{LoginError, Logins};
use crate::nat::Place;
use crate::{Address, Nat, Options, Route, Sentinels, Tls, Topology};

/// How long an address is tried before the next one is started as well.
const HEAD_START: Duration = Duration::from_millis(250);

/// The code of errors of the TLS handshake.
const TLS: &str = "TLS";

/// The user and the password of one connect.
type Login = Option<(Option<String>, String)>;

/// How to connect and log in.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Option<TlsConnector>,
    logins: Logins,
    resolver: Resolver,
    nat: Nat,
    /// The addresses that are configured; servers announce all others.
    configured: Arc<[Address]>,
    db: u32,
    name: String,
    /// Whether to ask the server for its role.
    asks_role: bool,
    /// Whether any connect has succeeded.
    worked: Arc<AtomicBool>,
    /// Whether any connect to an address that a server announces, and that is not mapped, has succeeded.
    reached_announced: Arc<AtomicBool>,
    /// Whether the last one that was started is in its TLS handshake.
    in_tls: Arc<AtomicBool>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("logins", &self.logins).field("tls", &self.tls.is_some()).finish()
    }
}

/// A server to connect to.
struct Target<'a> {
    known_as: &'a Address,
    /// How it is reached, if it is mapped.
    route: Option<Route>,
    place: Place,
}

impl Target<'_> {
    fn address(&self) -> &Address {
        self.route.as_ref().map_or(self.known_as, |route| &route.address)
    }

    /// The name that the certificate of the server at `host` must have.
    fn tls_name<'a>(&'a self, host: &'a str) -> &'a str {
        self.route.as_ref().and_then(|route| route.tls_name.as_deref()).unwrap_or(host)
    }
}

/// What the server says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ServerInfo {
    /// Changes with each start of the server. `None` if the user may not ask for it.
    pub(crate) run_id: Option<String>,
    pub(crate) role: Option<String>,
    /// The server's mode: standalone, sentinel or cluster.
    pub(crate) mode: Option<String>,
    /// The server's uptime, and when it was asked for.
    pub(crate) uptime: Option<(Duration, Instant)>,
}

impl Connector {
    /// A connector to the Redis servers.
    pub(crate) fn new(options: &Options) -> tenure_core::Result<Self> {
        Ok(Self {
            tls: options.tls.as_ref().map(tls).transpose()?,
            logins: options.logins(),
            resolver: options.resolver.clone(),
            nat: options.nat.clone(),
            configured: options.topology.addresses().into(),
            db: options.db,
            name: options.client_name.clone(),
            asks_role: matches!(options.topology, Topology::Sentinel(_)),
            worked: Arc::default(),
            reached_announced: Arc::default(),
            in_tls: Arc::default(),
        })
    }

    pub(crate) fn to_sentinels(sentinels: &Sentinels, options: &Options) -> tenure_core::Result<Self> {
        Ok(Self {
            logins: Logins::fixed(&sentinels.user, &sentinels.password),
            db: 0,
            asks_role: false,
            ..Self::new(options)?
        })
    }

    /// A copy without a login.
    pub(crate) fn anonymous(&self) -> Self {
        Self { logins: Logins::None, db: 0, worked: Arc::default(), ..self.clone() }
    }

    fn target<'a>(&self, to: &'a Address) -> Target<'a> {
        let route = self.nat.route(to);
        Target { known_as: to, place: Place::new(to, route.as_ref()), route }
    }

    /// This server as errors and findings show it.
    pub(crate) fn place(&self, of: &Address) -> Place {
        self.target(of).place
    }

    fn is_announced(&self, address: &Address) -> bool {
        !self.configured.contains(address)
    }

    /// Connects and logs in. If this fails, nothing was executed.
    pub(crate) async fn connect(
        &self,
        to: &Address,
        limit: Duration,
    ) -> Result<(Framed, ServerInfo), Failure> {
        let target = self.target(to);
        let connected = match tokio::time::timeout(limit, self.try_all(&target, limit)).await {
            Ok(connected) => connected,
            Err(_) => Err(self.late(&target)),
        };
        match connected {
            Ok(connected) => {
                self.worked.store(true, Relaxed);
                if target.route.is_none() && self.is_announced(to) {
                    self.reached_announced.store(true, Relaxed);
                }
                Ok(connected)
            }
            // The login worked before, so it is probably being changed, on the server or here: not a permanent error.
            Err(Failure::Refused(reply)) if self.worked.load(Relaxed) => {
                Err(Failure::not_executed(reply.message))
            }
            Err(failure) => Err(failure),
        }
    }

    /// The failure of a connect that takes too long.
    pub(crate) fn timed_out(&self, to: &Address) -> Failure {
        self.late(&self.target(to))
    }

    fn late(&self, to: &Target<'_>) -> Failure {
        let advice = timeout_advice(self.in_tls.load(Relaxed));
        let why = Reason::timed_out(format!("no connection in time{advice}")).at(&to.place);
        self.unreachable(to, why)
    }

    /// The failure to reach a server. Says so if it is one that may have to be mapped.
    fn unreachable(&self, to: &Target<'_>, why: Reason) -> Failure {
        let may_be_missing = self.nat.is_set() || !self.reached_announced.load(Relaxed);
        if to.route.is_some() || !may_be_missing || !self.is_announced(to.known_as) {
            return Failure::NotExecuted(why);
        }
        let advice = mapping_advice(self.nat.is_set());
        Failure::NotExecuted(Reason { text: format!("{}; {advice}", why.text), ..why })
    }

    /// The first to answer of all addresses that the name resolves to.
    async fn try_all(&self, to: &Target<'_>, limit: Duration) -> Result<(Framed, ServerInfo), Failure> {
        let place = &to.place;
        let login = self.logins.current().await.map_err(|error| match error {
            LoginError::Permanent(why) => {
                Failure::Refused(ErrorReply { code: "LOGIN".to_owned(), message: format!("{place}: {why}") })
            }
            LoginError::Temporary(why) => Failure::not_executed(format!("{place}: no login: {why}")),
        })?;
        let failed = |e: io::Error| self.unreachable(to, Reason::from(e).at(place));
        let (host, port) = match to.address() {
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await.map_err(failed)?;
                return self.handshake(Stream::Unix(stream), to, &login).await;
            }
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(failed(io::ErrorKind::Unsupported.into())),
            Address::Tcp { host, port } => (host, *port),
        };
        let all = self.resolver.addresses(host, port).await.map_err(failed)?;
        let several = all.len() > 1;
        let head_start = HEAD_START.min(limit / (all.len() as u32 + 1));
        let login = &login;
        let tries = all.into_iter().map(|at| async move {
            let tried = async {
                let stream = open_tcp(at).await.map_err(failed)?;
                self.handshake(self.encrypt(stream, to, host).await?, to, login).await
            };
            tried.await.map_err(|failure| (several.then_some(at), failure))
        });
        staggered(tries.collect(), head_start).await.map_err(all_failed)
    }

    /// Adds TLS, if it is set.
    async fn encrypt(&self, stream: TcpStream, to: &Target<'_>, host: &str) -> Result<Stream, Failure> {
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp(stream)) };
        let name = ServerName::try_from(to.tls_name(host).to_owned()).map_err(|e| {
            Failure::Refused(ErrorReply { code: TLS.to_owned(), message: format!("{}: {e}", to.place) })
        })?;
        self.in_tls.store(true, Relaxed);
        let encrypted = tls.connect(name, stream).await;
        self.in_tls.store(false, Relaxed);
        encrypted.map(|stream| Stream::Tls(Box::new(stream))).map_err(|e| self.io_failure(to, e))
    }

    /// Sends the whole handshake in one round trip: if the login fails, the rest fails too.
    async fn handshake(
        &self,
        stream: Stream,
        to: &Target<'_>,
        login: &Login,
    ) -> Result<(Framed, ServerInfo), Failure> {
        let (is_plain, place) = (matches!(stream, Stream::Tcp(_)), &to.place);
        let mut framed = Framed::new(stream);
        let mut out = Vec::new();
        let mut asked: Vec<&str> = Vec::new();
        let db = self.db.to_string();
        let mut ask = |what, words: &[&[u8]]| {
            asked.push(what);
            write_command(&mut out, words);
        };
        match login {
            Some((Some(user), password)) => ask("auth", &[b"AUTH", user.as_bytes(), password.as_bytes()]),
            Some((None, password)) => ask("auth", &[b"AUTH", password.as_bytes()]),
            None => {}
        }
        ask("name", &[b"CLIENT", b"SETNAME", self.name.as_bytes()]);
        if self.db != 0 {
            ask("select", &[b"SELECT", db.as_bytes()]);
        }
        if self.asks_role {
            ask("role", &[b"ROLE"]);
        }
        ask("info", &[b"INFO", b"server"]);
        let mut info = ServerInfo::default();
        framed.write(&out).await.map_err(|e| self.io_failure(to, e))?;
        for (n, what) in asked.into_iter().enumerate() {
            let reply = framed.read().await.map_err(|e| match is_plain && n == 0 {
                true => {
                    let text = format!("{place}: {e} {MAYBE_TLS}");
                    self.unreachable(to, Reason { text, cause: Some(e.into()) })
                }
                false => self.io_failure(to, e),
            })?;
            match (what, &reply) {
                (_, Value::Error(reply)) => {
                    let class = classify(reply, to.known_as);
                    if matches!(class, ErrorClass::NotExecuted(_)) {
                        return Err(Failure::not_executed(format!("{place}: {}", reply.message)));
                    }
                    // A user may lack the permission to name the connection or to run `INFO`.
                    if matches!(what, "auth" | "select" | "role")
                        || matches!(reply.code.as_str(), "NOAUTH" | "DENIED")
                    {
                        return Err(refused(place, reply));
                    }
                }
                ("role", value) => {
                    let role = value.array().and_then(|a| a.first()).and_then(Value::text);
                    info.role = role.map(str::to_owned);
                }
                ("info", value) => {
                    let text = value.text().unwrap_or_default();
                    let line = |name: &str| text.lines().find_map(|l| l.strip_prefix(name));
                    info.run_id = line("run_id:").map(str::to_owned);
                    // Valkey has another name for it.
                    info.mode = line("redis_mode:").or_else(|| line("server_mode:")).map(str::to_owned);
                    // Negative if the server's clock was set back.
                    let seconds = line("uptime_in_seconds:").and_then(|s| s.parse::<i64>().ok());
                    let uptime = seconds.map(|s| Duration::from_secs(s.max(0).unsigned_abs()));
                    info.uptime = uptime.map(|uptime| (uptime, Instant::now()));
                }
                _ => {}
            }
        }
        Ok((framed, info))
    }

    /// Maps an I/O error. Some TLS errors are permanent, unless TLS worked before. Anything else may be a server that is
    /// starting or stopping.
    fn io_failure(&self, to: &Target<'_>, e: io::Error) -> Failure {
        let place = &to.place;
        let may_be_mapped = to.route.is_some() || self.is_announced(to.known_as);
        let Some(advice) = tls_advice(&e, may_be_mapped) else {
            return Failure::NotExecuted(Reason::from(e).at(place));
        };
        let message = format!("{place}: {advice} ({e})");
        if self.worked.load(Relaxed) {
            return Failure::NotExecuted(Reason { text: message, cause: Some(e.into()) });
        }
        Failure::Refused(ErrorReply { code: TLS.to_owned(), message })
    }
}

/// The error if all addresses failed. A server that refuses says more than those that do not answer.
fn all_failed(mut failures: Vec<(Option<SocketAddr>, Failure)>) -> Failure {
    if let Some(refused) = failures.iter().position(|(_, failure)| matches!(failure, Failure::Refused(_))) {
        return failures.swap_remove(refused).1;
    }
    let said = failures.into_iter().map(|(at, failure)| match (at, Reason::from(failure)) {
        (Some(at), why) => Reason { text: format!("{why} ({at})"), ..why },
        (None, why) => why,
    });
    Failure::NotExecuted(Reason::all(said))
}

async fn open_tcp(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    let alive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5));
    socket2::SockRef::from(&stream).set_tcp_keepalive(&alive)?;
    Ok(stream)
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
                return Err(wrong(&"the file contains no certificate"));
            }
        }
        None => {
            let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                return Err(config(
                    "the system has no trusted CA certificates: specify a file with them".to_owned(),
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

type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The system's resolver, unless another one is given.
#[derive(Clone, Default)]
pub(crate) struct Resolver(pub(crate) Option<Arc<Lookup>>);

impl Resolver {
    /// All addresses, in random order: this spreads the load, and a server that is down is not always tried first.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let mut all = match &self.0 {
            Some(lookup) => lookup(host, port)?,
            None => tokio::net::lookup_host((host, port)).await?.collect(),
        };
        if all.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name resolves to no address"));
        }
        fastrand::shuffle(&mut all);
        Ok(all)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "custom" } else { "system" })
    }
}

/// The first success; all failures if there is none. A future starts when an earlier one has failed, or `head_start`
/// after the last start; those started keep running. The other futures are dropped.
pub(crate) async fn staggered<F, T, E>(work: Vec<F>, head_start: Duration) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = work.into_iter();
    let mut running: Vec<Pin<Box<F>>> = Vec::new();
    let mut failures = Vec::new();
    let mut timer = pin!(tokio::time::sleep(head_start));
    let mut begin = true;
    poll_fn(|cx| {
        loop {
            if std::mem::take(&mut begin)
                && let Some(next) = waiting.next()
            {
                running.push(Box::pin(next));
                timer.as_mut().reset(tokio::time::Instant::now() + head_start);
            }
            let mut i = 0;
            while i < running.len() {
                match running[i].as_mut().poll(cx) {
                    Poll::Ready(Ok(first)) => return Poll::Ready(Ok(first)),
                    Poll::Ready(Err(failure)) => {
                        failures.push(failure);
                        drop(running.swap_remove(i));
                        begin = true;
                    }
                    Poll::Pending => i += 1,
                }
            }
            if waiting.len() == 0 {
                let over = running.is_empty();
                return if over { Poll::Ready(Err(std::mem::take(&mut failures))) } else { Poll::Pending };
            }
            begin |= timer.as_mut().poll(cx).is_ready();
            if !begin {
                return Poll::Pending;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(n: u32) -> Result<u32, u32> {
        match n {
            0 => std::future::pending().await,
            n if n < 10 => Err(n),
            n => Ok(n),
        }
    }

    /// With a head start longer than the test, only failures start the next one.
    #[tokio::test]
    async fn the_next_begins_when_one_fails_or_takes_its_time() {
        let (never, soon) = (Duration::from_secs(1800), Duration::from_millis(1));
        let tried = |work: &[u32], head_start| {
            let work = work.iter().map(|n| answer(*n)).collect();
            async move { staggered(work, head_start).await }
        };
        assert_eq!(tried(&[1, 2, 11], never).await, Ok(11));
        assert_eq!(tried(&[1, 2], never).await, Err(vec![1, 2]));
        assert_eq!(tried(&[], never).await, Err(vec![]));
        assert_eq!(tried(&[0, 0, 1, 12, 13], soon).await, Ok(12));
        assert_eq!(tried(&[11, 12], never).await, Ok(11));
    }
}
