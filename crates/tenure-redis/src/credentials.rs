//! Credentials. Passwords change while a program runs, so a file is read, or a callback called, at each connect.

use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

/// A password that is not shown in `Debug` output, or the file that contains it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Literal(String),
    File(PathBuf),
}

impl Secret {
    /// Reads the password from this file at each connect. A newline at its end is ignored.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    async fn read(&self) -> Result<String, String> {
        let path = match &self.0 {
            Source::Literal(word) => return Ok(word.clone()),
            Source::File(path) => path.clone(),
        };
        let wrong = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let file = path.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await;
        let text = read.unwrap_or_else(|e| Err(io::Error::other(e))).map_err(|e| wrong(&e))?;
        let word = text.strip_suffix('\n').unwrap_or(&text);
        let word = word.strip_suffix('\r').unwrap_or(word);
        if word.is_empty() {
            return Err(wrong(&"the file is empty"));
        }
        Ok(word.to_owned())
    }
}

impl<S: Into<String>> From<S> for Secret {
    fn from(word: S) -> Self {
        Self(Source::Literal(word.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Literal(_) => f.write_str("***"),
            Source::File(path) => write!(f, "*** in {}", path.display()),
        }
    }
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The user; the server's default user if `None`.
    pub user: Option<String>,
    /// The password.
    pub password: Secret,
}

impl Login {
    /// Creates a login of the server's default user.
    pub fn new(password: impl Into<Secret>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Creates a login of this user.
    pub fn user(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }
}

type LoginFuture = Pin<Box<dyn Future<Output = Result<Login, Box<dyn Error + Send + Sync>>> + Send>>;

/// Provides a login at each connect.
#[derive(Clone)]
pub(crate) struct Callback(Arc<dyn Fn() -> LoginFuture + Send + Sync>);

impl Callback {
    pub(crate) fn new<F, A, E>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Login, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move || {
            let login = ask();
            Box::pin(async move { login.await.map_err(Into::into) })
        }))
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("called at each connect")
    }
}

/// The source of logins.
#[derive(Clone, Debug, Default)]
pub(crate) enum Logins {
    #[default]
    None,
    Fixed(Login),
    Callback(Callback),
}

/// Why there is no login.
pub(crate) enum LoginError {
    /// The password file cannot be read or is empty.
    Permanent(String),
    /// The callback failed; it may succeed later.
    Temporary(String),
}

impl Logins {
    pub(crate) fn fixed(user: &Option<String>, password: &Option<Secret>) -> Self {
        match password {
            None => Self::None,
            Some(password) => Self::Fixed(Login { user: user.clone(), password: password.clone() }),
        }
    }

    /// The user and password for a connect now.
    pub(crate) async fn current(&self) -> Result<Option<(Option<String>, String)>, LoginError> {
        let login = match self {
            Self::None => return Ok(None),
            Self::Fixed(login) => login.clone(),
            Self::Callback(callback) => {
                (callback.0)().await.map_err(|e| LoginError::Temporary(e.to_string()))?
            }
        };
        let password = login.password.read().await.map_err(LoginError::Permanent)?;
        Ok(Some((login.user, password)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_each_time_without_its_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let secret = Secret::file(&path);
        let told = secret.read().await.unwrap_err();
        assert!(told.starts_with(&format!("{}: ", path.display())), "{told}");
        for (text, word) in [("a", "a"), ("b\n", "b"), ("c\r\n", "c"), (" d \n\n", " d \n")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(secret.read().await.as_deref(), Ok(word));
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(secret.read().await.unwrap_err().ends_with("the file is empty"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?} {:?}", Login::user("me", "hunter2"), Secret::file("/run/word"));
        assert!(!shown.contains("hunter2") && shown.contains("/run/word"), "{shown}");
    }
}
