//! ZooKeeper's serialization of numbers, strings and node stats: big-endian, length-prefixed.

use crate::{Error, Result};

/// Builds a request.
#[derive(Debug, Default)]
pub(super) struct Out(Vec<u8>);

impl Out {
    pub(super) fn int(mut self, n: i32) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, n: i64) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, is: bool) -> Self {
        self.0.push(u8::from(is));
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut out = self.int(length(bytes));
        out.0.extend(bytes);
        out
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn acl(self, entries: &[ZkAcl]) -> Self {
        let count = i32::try_from(entries.len()).unwrap_or(i32::MAX);
        entries.iter().fold(self.int(count), |out, e| out.int(e.rights).text(&e.scheme).text(&e.id))
    }

    /// Appends another request body.
    pub(super) fn then(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// Returns everything with a length prefix.
    pub(super) fn frame(self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}

fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

/// Parses a reply.
#[derive(Debug)]
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::failed("a reply is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn int(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Null is read as empty.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = usize::try_from(self.int()?).unwrap_or(0);
        self.take(length).map(<[u8]>::to_vec)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// Reads a list.
    pub(super) fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.int()?).map(|_| one(self)).collect()
    }

    pub(super) fn stat(&mut self) -> Result<ZkStat> {
        // Field order is the wire order.
        Ok(ZkStat {
            czxid: self.long()?,
            mzxid: self.long()?,
            ctime: self.long()?,
            mtime: self.long()?,
            version: self.int()?,
            cversion: self.int()?,
            aversion: self.int()?,
            ephemeral_owner: self.long()?,
            data_length: self.int()?,
            children: self.int()?,
            pzxid: self.long()?,
        })
    }

    pub(super) fn acl(&mut self) -> Result<Vec<ZkAcl>> {
        self.list(|i| Ok(ZkAcl { rights: i.int()?, scheme: i.text()?, id: i.text()? }))
    }
}

/// Stat of a node, with ZooKeeper's own field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ZkStat {
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    /// The session of an ephemeral node, else 0.
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub children: i32,
    pub pzxid: i64,
}

/// An entry of a node's ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZkAcl {
    /// Sum of read 1, write 2, create 4, delete 8, admin 16.
    pub rights: i32,
    /// For instance `world` or `digest`.
    pub scheme: String,
    /// For instance `anyone`.
    pub id: String,
}

impl ZkAcl {
    /// All permissions for everybody.
    pub fn open() -> Vec<Self> {
        vec![Self { rights: 31, scheme: "world".into(), id: "anyone".into() }]
    }

    /// All permissions for the creator of the node, none for others.
    pub fn creator() -> Vec<Self> {
        vec![Self { rights: 31, scheme: "auth".into(), id: String::new() }]
    }
}
