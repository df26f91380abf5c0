//! Credentials that change while a program runs: a secret in a file, which is read again each time, and a callback that
//! is asked for a login. For stores that log in.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use super::error::{Error, Result};

/// A password that is not shown in `Debug` output, or the file that contains it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// use tenure_core::backend::Secret;
///
/// let word = Secret::from("hunter2");
/// assert_eq!(format!("{word:?}"), "***");
/// assert_eq!(word.read().await?, "hunter2");
///
/// let file = Secret::file("/run/secrets/none");
/// assert!(file.may_change() && !word.may_change());
/// assert!(file.read().await.unwrap_err().to_string().starts_with("/run/secrets/none: "));
/// # Ok(()) }
/// ```
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

    /// Whether a later [`read`](Self::read) may return another password.
    pub fn may_change(&self) -> bool {
        matches!(self.0, Source::File(_))
    }

    /// Returns the password as it is now.
    ///
    /// # Errors
    /// `Config` with the file, when it cannot be read or is empty.
    pub async fn read(&self) -> Result<String> {
        let path = match &self.0 {
            Source::Literal(word) => return Ok(word.clone()),
            Source::File(path) => path.clone(),
        };
        let wrong = |why: &dyn fmt::Display| Error::Config(format!("{}: {why}", path.display()));
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

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type LoginFuture<L> = Pin<Box<dyn Future<Output = std::result::Result<L, BoxError>> + Send>>;

/// A function of the program's that provides a login of type `L` at each connect.
///
/// ```
/// # use tenure_core::backend::LoginCallback;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let vault = LoginCallback::new(|| async { Ok::<_, std::io::Error>("fetched anew".to_owned()) });
/// assert_eq!(vault.call().await.unwrap(), "fetched anew");
///
/// let sealed = LoginCallback::<String>::new(|| async { Err("the vault is sealed") });
/// assert_eq!(sealed.call().await.unwrap_err().to_string(), "the vault is sealed");
/// # }
/// ```
pub struct LoginCallback<L>(Arc<dyn Fn() -> LoginFuture<L> + Send + Sync>);

impl<L: 'static> LoginCallback<L> {
    /// Wraps the function.
    pub fn new<F, A, E>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = std::result::Result<L, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self(Arc::new(move || {
            let login = ask();
            Box::pin(async move { login.await.map_err(Into::into) })
        }))
    }

    /// Asks for the login.
    ///
    /// # Errors
    /// That of the function.
    pub async fn call(&self) -> std::result::Result<L, BoxError> {
        (self.0)().await
    }
}

// Derived, it would require the same of `L`.
impl<L> Clone for LoginCallback<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L> fmt::Debug for LoginCallback<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("called at each connect")
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
        let told = secret.read().await.unwrap_err().to_string();
        assert!(told.starts_with(&format!("{}: ", path.display())), "{told}");
        for (text, word) in [("a", "a"), ("b\n", "b"), ("c\r\n", "c"), (" d \n\n", " d \n")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(secret.read().await.unwrap(), word);
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(secret.read().await.unwrap_err().to_string().ends_with("the file is empty"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?} {:?}", Secret::from("hunter2"), Secret::file("/run/word"));
        assert_eq!(shown, "*** *** in /run/word");
    }
}
