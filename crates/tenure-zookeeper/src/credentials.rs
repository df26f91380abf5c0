//! The login of a store, asked for at each connect, since passwords change while a program runs; and the logins of a
//! session.
//!
//! With the digest scheme the servers accept every password: user and password together are an identity, which the ACLs
//! of nodes name. So a session keeps the identities that it was given, as long as it lasts: the nodes that it created
//! before a change must stay its own. A new session has the current one only.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::Error;
use tenure_core::backend::{LoginCallback, Reason};
use tokio::time::timeout;

use crate::error::{RequestError, RequestResult, SCHEME};
use crate::options::{Login, Options};

/// How many logins a session keeps.
const MAX_LOGINS: usize = 8;

/// Where the logins of a store come from, and what is known about them.
#[derive(Debug)]
pub(crate) struct Credentials {
    source: Source,
    /// How long the source may take.
    limit: Duration,
    /// Whether the servers have accepted a login.
    is_accepted: AtomicBool,
    /// Whether a node was created with a login.
    is_proven: AtomicBool,
}

#[derive(Clone, Debug)]
enum Source {
    None,
    Fixed(Login),
    Callback(LoginCallback<Login>),
}

/// A user and a password, as the digest scheme has them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Digest(String);

impl Digest {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Credentials {
    pub(crate) fn new(options: &Options) -> Self {
        let source = match (&options.callback, &options.login) {
            (Some(callback), _) => Source::Callback(callback.clone()),
            (None, Some(login)) => Source::Fixed(login.clone()),
            (None, None) => Source::None,
        };
        // A session that is resumed must not expire meanwhile.
        let limit = options.timeout.min(options.session * 2 / 5);
        Self { source, limit, is_accepted: AtomicBool::new(false), is_proven: AtomicBool::new(false) }
    }

    /// Whether sessions log in.
    pub(crate) fn is_set(&self) -> bool {
        !matches!(self.source, Source::None)
    }

    /// Whether the login may be another one next time.
    pub(crate) fn may_change(&self) -> bool {
        match &self.source {
            Source::None => false,
            Source::Fixed(login) => login.password.may_change(),
            Source::Callback(_) => true,
        }
    }

    /// The login as it is now. Without one, nothing is sent: that is a permanent error only if there never was one.
    pub(crate) async fn current(&self) -> RequestResult<Option<Digest>> {
        let asked = async {
            let login = match &self.source {
                Source::None => return Ok(None),
                Source::Fixed(login) => login.clone(),
                Source::Callback(callback) => {
                    let login = callback.call().await;
                    login.map_err(|e| RequestError::not_sent(format!("no login: {e}")))?
                }
            };
            match login.password.read().await {
                Ok(password) => Ok(Some(Digest(format!("{}:{password}", login.user)))),
                Err(e) if self.is_accepted() => Err(RequestError::not_sent(format!("no login: {e}"))),
                Err(e) => Err(RequestError::Config(Error::Config(format!("{SCHEME}: no login: {e}")))),
            }
        };
        match timeout(self.limit, asked).await {
            Ok(login) => login,
            Err(_) => {
                let late = format!("no login: it was not provided within {:?}", self.limit);
                Err(RequestError::NotSent(Reason::timed_out(late)))
            }
        }
    }

    /// Whether the servers have accepted a login of this store.
    pub(crate) fn is_accepted(&self) -> bool {
        self.is_accepted.load(Relaxed)
    }

    /// Whether a login of this store had the right to create a node.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven.load(Relaxed)
    }
}

/// The logins of one session, the current one last.
#[derive(Debug)]
pub(crate) struct SessionLogins {
    credentials: Arc<Credentials>,
    digests: Mutex<Vec<Digest>>,
}

impl SessionLogins {
    /// Those of a new session.
    ///
    /// # Errors
    /// When there is no login, although there should be one.
    pub(crate) async fn ask(credentials: &Arc<Credentials>) -> RequestResult<Self> {
        let digests = credentials.current().await?.into_iter().collect();
        Ok(Self { credentials: credentials.clone(), digests: Mutex::new(digests) })
    }

    /// Whether the session logs in.
    pub(crate) fn is_set(&self) -> bool {
        self.credentials.is_set()
    }

    /// Asks for the login again. Returns whether it is a new one.
    pub(crate) async fn refresh(&self) -> RequestResult<bool> {
        if !self.credentials.may_change() {
            return Ok(false);
        }
        let Some(digest) = self.credentials.current().await? else { return Ok(false) };
        let mut digests = self.digests.lock().unwrap();
        if digests.last() == Some(&digest) {
            return Ok(false);
        }
        digests.retain(|known| *known != digest);
        digests.push(digest);
        if digests.len() > MAX_LOGINS {
            digests.remove(0);
        }
        Ok(true)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Digest> {
        self.digests.lock().unwrap().clone()
    }

    /// The current one, if it is not the one that was sent last.
    pub(crate) fn unsent(&self, sent: Option<&Digest>) -> Option<Digest> {
        if !self.credentials.may_change() {
            return None;
        }
        let digests = self.digests.lock().unwrap();
        digests.last().filter(|current| Some(*current) != sent).cloned()
    }

    /// Records that the servers have accepted a login.
    pub(crate) fn record_accepted(&self) {
        self.credentials.is_accepted.store(true, Relaxed);
    }

    /// Records that the servers refused one, and forgets all but the current one. Returns whether an earlier one was
    /// accepted, so that a later one may be.
    pub(crate) fn record_refused(&self) -> bool {
        let mut digests = self.digests.lock().unwrap();
        let current = digests.pop();
        *digests = current.into_iter().collect();
        self.credentials.is_accepted()
    }

    /// Records that a node was created.
    pub(crate) fn record_created(&self) {
        if self.is_set() && !self.credentials.is_proven() {
            self.credentials.is_proven.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn digests(logins: &SessionLogins) -> Vec<String> {
        logins.all().into_iter().map(|digest| digest.0).collect()
    }

    fn from_callback(login: impl Fn() -> Result<Login, &'static str> + Send + Sync + 'static) -> Credentials {
        Credentials::new(&Options::new(["unused"]).with_credentials(move || std::future::ready(login())))
    }

    #[tokio::test]
    async fn a_session_keeps_its_logins_and_the_next_one_has_the_current() {
        let asked = AtomicUsize::new(0);
        let login = move || Ok(Login::new("me", format!("word-{}", asked.fetch_add(1, SeqCst) / 2)));
        let credentials = Arc::new(from_callback(login));
        let session = SessionLogins::ask(&credentials).await.unwrap();
        assert!(!session.refresh().await.unwrap(), "not changed");
        assert!(session.refresh().await.unwrap());
        assert_eq!(digests(&session), ["me:word-0", "me:word-1"]);
        assert_eq!(digests(&SessionLogins::ask(&credentials).await.unwrap()), ["me:word-1"]);
        for _ in 0..3 * MAX_LOGINS {
            session.refresh().await.unwrap();
        }
        assert_eq!(session.all().len(), MAX_LOGINS);
        let current = session.unsent(None).unwrap();
        assert_eq!(session.unsent(Some(&current)), None);
        session.record_refused();
        assert_eq!(session.all(), [current]);
    }

    #[tokio::test]
    async fn a_file_that_is_missing_is_permanent_only_at_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let mut options = Options::new(["unused"]);
        options.login = Some(Login::new("me", tenure_core::backend::Secret::file(&path)));
        let credentials = Arc::new(Credentials::new(&options));
        assert!(credentials.may_change());
        let missing = credentials.current().await;
        let named = |why: &str| why.contains(path.to_str().unwrap());
        assert!(matches!(&missing, Err(RequestError::Config(e)) if named(&e.to_string())), "{missing:?}");
        std::fs::write(&path, "word\n").unwrap();
        let session = SessionLogins::ask(&credentials).await.unwrap();
        assert_eq!(digests(&session), ["me:word"]);
        session.record_accepted();
        std::fs::remove_file(&path).unwrap();
        let missing = credentials.current().await;
        assert!(matches!(&missing, Err(RequestError::NotSent(why)) if named(&why.text)), "{missing:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_callback_that_fails_or_hangs_is_no_permanent_error() {
        let sealed = from_callback(|| Err("the vault is sealed")).current().await;
        assert!(
            matches!(&sealed, Err(RequestError::NotSent(why)) if why.text == "no login: the vault is sealed")
        );
        let hangs = Options::new(["unused"]).with_credentials(std::future::pending::<Result<Login, &str>>);
        let late = Credentials::new(&hangs).current().await;
        assert!(
            matches!(&late, Err(RequestError::NotSent(why)) if why.text.contains("within 3s")),
            "{late:?}"
        );
    }

    #[tokio::test]
    async fn passwords_are_not_shown() {
        let credentials = Arc::new(from_callback(|| Ok(Login::new("me", "hunter2"))));
        let session = SessionLogins::ask(&credentials).await.unwrap();
        assert!(!format!("{session:?} {:?}", Login::new("me", "hunter2")).contains("hunter2"));
    }
}
