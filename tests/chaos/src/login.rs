//! How workers log in: as a user whose password, in a file, may change.

use std::path::PathBuf;
use std::sync::Mutex;

use testbed::{Redis, Result};

pub(crate) const USER: &str = "worker";

/// Both are accepted by a server that has just been started.
const PASSWORDS: [&str; 2] = ["one", "two"];

/// A user, and the file with its password.
pub(crate) struct Login {
    folder: tempfile::TempDir,
    /// Which is in the file.
    current: Mutex<usize>,
}

impl Login {
    pub(crate) fn create() -> Result<Self> {
        let login = Self { folder: tempfile::tempdir()?, current: Mutex::new(0) };
        login.write(0)?;
        Ok(login)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    fn write(&self, which: usize) -> Result<()> {
        let new = self.folder.path().join("new");
        std::fs::write(&new, PASSWORDS[which])?;
        Ok(std::fs::rename(new, self.file())?)
    }

    /// A line for the configuration of a server.
    pub(crate) fn user(&self) -> String {
        format!("user {USER} on >{} >{} ~* &* +@all", PASSWORDS[0], PASSWORDS[1])
    }

    /// Options for an address.
    pub(crate) fn options(&self) -> String {
        format!("password_file={}", self.file().display())
    }

    /// Changes the password, and closes all connections.
    ///
    /// # Errors
    /// When a server does not answer.
    pub(crate) fn rotate(&self, nodes: &[Redis]) -> Result<()> {
        let mut current = self.current.lock().expect("no panic");
        let new = PASSWORDS[1 - *current];
        for node in nodes {
            node.cmd(&["ACL", "SETUSER", USER, &format!(">{new}")])?;
        }
        self.write(1 - *current)?;
        for node in nodes {
            node.cmd(&["ACL", "SETUSER", USER, "resetpass", &format!(">{new}")])?;
            node.cmd(&["CLIENT", "KILL", "USER", USER])?;
        }
        *current = 1 - *current;
        Ok(())
    }
}
