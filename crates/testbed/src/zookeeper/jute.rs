//! How ZooKeeper writes numbers, texts and what it knows of a node: big-endian, with lengths in front.

use crate::{Error, Result};

/// What is sent, as it grows.
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

    /// What was written after this.
    pub(super) fn then(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// All of it, with its length in front.
    pub(super) fn frame(self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}

fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

/// What came, as it is read.
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

    /// Nothing is as good as an empty one.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = usize::try_from(self.int()?).unwrap_or(0);
        self.take(length).map(<[u8]>::to_vec)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// Several of something.
    pub(super) fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.int()?).map(|_| one(self)).collect()
    }

    pub(super) fn stat(&mut self) -> Result<ZkStat> {
        // In this order, and so read in this order.
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

/// What ZooKeeper knows of a node, by its own names.
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
    /// The session that it goes with, or 0.
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub children: i32,
    pub pzxid: i64,
}

/// Who may do what with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZkAcl {
    /// Read 1, write 2, create 4, delete 8, admin 16, added up.
    pub rights: i32,
    /// For instance `world` or `digest`.
    pub scheme: String,
    /// For instance `anyone`.
    pub id: String,
}

impl ZkAcl {
    /// Everything for everybody.
    pub fn open() -> Vec<Self> {
        vec![Self { rights: 31, scheme: "world".into(), id: "anyone".into() }]
    }

    /// Everything for who has made the node, and nothing for others.
    pub fn creator() -> Vec<Self> {
        vec![Self { rights: 31, scheme: "auth".into(), id: String::new() }]
    }
}
