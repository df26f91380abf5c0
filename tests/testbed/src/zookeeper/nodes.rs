//! Operations on nodes.

use super::ZkClient;
use super::jute::{In, Out, ZkAcl, ZkStat};
use crate::Result;

/// The create mode of a node, with its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZkMode {
    /// Stays.
    Persistent = 0,
    /// Deleted with the session.
    Ephemeral = 1,
    /// Stays, and gets a sequence number appended to its name.
    PersistentSequential = 2,
    /// Deleted with the session, and gets a sequence number appended to its name.
    EphemeralSequential = 3,
    /// Deleted after its last child.
    Container = 4,
}

impl ZkClient {
    /// Creates a node that is open to everybody, and returns its path.
    ///
    /// # Errors
    /// `Reply` when the server refuses; `Io` when it does not answer.
    pub fn create(&mut self, path: &str, data: &[u8], mode: ZkMode) -> Result<String> {
        self.create_with(path, data, mode, &ZkAcl::open())
    }

    /// Creates a node with this ACL, and returns its path.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn create_with(&mut self, path: &str, data: &[u8], mode: ZkMode, acl: &[ZkAcl]) -> Result<String> {
        let kind = if mode == ZkMode::Container { 19 } else { 1 };
        let what = Out::default().text(path).bytes(data).acl(acl).int(mode as i32);
        In(&self.call(kind, what)?).text()
    }

    /// Deletes a node, at this version or at any.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn delete(&mut self, path: &str, version: Option<i32>) -> Result<()> {
        self.call(2, Out::default().text(path).int(version.unwrap_or(-1))).map(drop)
    }

    /// Returns the stat of a node, if it exists.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn exists(&mut self, path: &str) -> Result<Option<ZkStat>> {
        self.look(path, false)
    }

    /// Returns the stat of a node, if it exists, and sets a watch. See [`ZkClient::event_within`].
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn watch(&mut self, path: &str) -> Result<Option<ZkStat>> {
        self.look(path, true)
    }

    fn look(&mut self, path: &str, watch: bool) -> Result<Option<ZkStat>> {
        match self.call(3, Out::default().text(path).flag(watch)) {
            Ok(reply) => In(&reply).stat().map(Some),
            Err(e) if e.reply() == Some("NoNode") => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the data and stat of a node.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn get(&mut self, path: &str) -> Result<(Vec<u8>, ZkStat)> {
        let reply = self.call(4, Out::default().text(path).flag(false))?;
        let mut reply = In(&reply);
        Ok((reply.bytes()?, reply.stat()?))
    }

    /// Replaces the data of a node, at this version or at any.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn set(&mut self, path: &str, data: &[u8], version: Option<i32>) -> Result<ZkStat> {
        let what = Out::default().text(path).bytes(data).int(version.unwrap_or(-1));
        In(&self.call(5, what)?).stat()
    }

    /// Lists the names of a node's children, sorted.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn children(&mut self, path: &str) -> Result<Vec<String>> {
        let reply = self.call(8, Out::default().text(path).flag(false))?;
        let mut names = In(&reply).list(In::text)?;
        names.sort();
        Ok(names)
    }

    /// Returns the ACL of a node.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn acl(&mut self, path: &str) -> Result<Vec<ZkAcl>> {
        In(&self.call(6, Out::default().text(path))?).acl()
    }

    /// Replaces the ACL of a node.
    ///
    /// # Errors
    /// As [`ZkClient::create`].
    pub fn set_acl(&mut self, path: &str, acl: &[ZkAcl]) -> Result<()> {
        self.call(7, Out::default().text(path).acl(acl).int(-1)).map(drop)
    }
}
