//! Names of locks, restricted to what every store can represent, and validated once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::{Error, Result};

/// The name of a lock, semaphore, latch or election: UTF-8, 1 to 512 bytes, no NUL.
///
/// Cheap to clone. Backends map names injectively, so two names never share a lock.
///
/// ```
/// use tenure_core::Name;
/// let name: Name = "orders/42".parse()?;
/// assert_eq!(name, Name::new("orders/42")?);
/// assert_eq!(name.as_str(), "orders/42");
/// assert!(Name::new("").is_err());
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name in bytes.
    pub const MAX: usize = 512;

    /// Creates a name, if it is valid.
    ///
    /// # Errors
    /// `Config` when it is empty, longer than [`Name::MAX`] bytes or contains NUL.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        let wrong = if name.is_empty() {
            "a name must not be empty".to_owned()
        } else if name.len() > Self::MAX {
            let start: String = name.chars().take(24).collect();
            format!("a name has at most {} bytes, this one has {} ({start:?}…)", Self::MAX, name.len())
        } else if name.contains('\0') {
            format!("a name must not contain NUL: {name:?}")
        } else {
            return Ok(Self(name.into()));
        };
        Err(Error::Config(wrong))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Name {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::new(name)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert!(Name::new("ü{a}/b:c d").is_ok());
        assert!(Name::new("x".repeat(512)).is_ok());
        for (bad, says) in
            [(String::new(), "empty"), ("x".repeat(1 << 20), "1048576"), ("a\0b".into(), "NUL")]
        {
            let error = Name::new(&bad).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert!(error.len() < 200, "the message does not repeat a huge name");
        }
    }
}
