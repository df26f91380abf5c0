//! The requests of the protocol, and their answers.

use std::io;

use futures_util::future::join;
use tenure_core::Error;

use super::client::Client;
use super::jute::{Decoder, Encoder, protocol_error};
use super::multi::Part;
use super::request_queue::Answer;
use super::watch_registry::{WatchTarget, Watcher};
use crate::error::{RequestError, RequestResult, SCHEME};

const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const CREATE: i32 = 15;
const CREATE_CONTAINER: i32 = 19;

/// All rights: read, write, create, delete, administer.
const ALL: i32 = 31;
const ANY_VERSION: i32 = -1;

/// The largest data of a node, in bytes. A server closes the connection if a request has a megabyte, and answers in
/// flight are lost; the difference is for the rest of the request.
pub(crate) const LARGEST: usize = 900_000;

/// The lifetime of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Persistent = 0,
    /// Deleted with its session.
    Ephemeral = 1,
    /// Deleted with its session, and with a sequence number appended to its name.
    EphemeralSequential = 3,
    /// Deleted by the server once it is empty again.
    Container = 4,
}

/// Who may change a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acl {
    Anyone,
    /// Clients with the same login.
    Creator,
}

/// Metadata of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// When it was created, in milliseconds, by the leader's clock.
    pub(crate) ctime: i64,
    pub(crate) version: i32,
    /// The session that it belongs to; 0 if it is not ephemeral.
    pub(crate) owner: i64,
}

/// A node that was created.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) path: String,
    pub(crate) czxid: i64,
    /// The session that it belongs to; 0 if it is not ephemeral.
    pub(crate) owner: i64,
}

impl Created {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }
}

impl Stat {
    pub(super) fn read(from: &mut Decoder<'_>) -> io::Result<Self> {
        let (czxid, _mzxid, ctime, _mtime) = (from.long()?, from.long()?, from.long()?, from.long()?);
        let (version, _cversion, _aversion) = (from.int()?, from.int()?, from.int()?);
        let owner = from.long()?;
        let (_length, _children, _pzxid) = (from.int()?, from.int()?, from.long()?);
        Ok(Self { czxid, ctime, version, owner })
    }
}

impl Client {
    /// Creates a node.
    pub(crate) async fn create(&self, path: &str, data: &[u8], mode: Mode) -> RequestResult<Created> {
        self.create_as(path, data, mode, None).await
    }

    /// Creates a node of a queue, in one transaction with others that wait to be sent at the same moment. Is rolled back
    /// if one of those is refused.
    pub(crate) async fn create_together(&self, path: &str, data: &[u8]) -> RequestResult<Created> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        self.create_as(path, data, Mode::EphemeralSequential, Some(Part::Create { folder })).await
    }

    async fn create_as(
        &self,
        path: &str,
        data: &[u8],
        mode: Mode,
        part: Option<Part>,
    ) -> RequestResult<Created> {
        check_size(path, data)?;
        let op = if mode == Mode::Container { CREATE_CONTAINER } else { CREATE };
        let (scheme, id) = match self.0.acl {
            Acl::Anyone => ("world", "anyone"),
            Acl::Creator => ("auth", ""),
        };
        let full = self.full_path(path);
        let write = |out: Encoder| {
            out.bytes(&*full).bytes(data).int(1).int(ALL).bytes(scheme).bytes(id).int(mode as i32)
        };
        let answer = self.0.requests.send_as(op, part, write).await?;
        self.0.logins.record_created();
        read(&answer, |body| {
            let full = body.string()?;
            let path = self.strip_chroot(&full).ok_or_else(|| protocol_error("a path outside the chroot"))?;
            let path = path.to_owned();
            // In a transaction there is only the path.
            if body.is_empty() {
                return Ok(Created { path, czxid: answer.zxid, owner: self.0.id });
            }
            let Stat { czxid, owner, .. } = Stat::read(body)?;
            Ok(Created { path, czxid, owner })
        })
    }

    pub(crate) async fn delete(&self, path: &str, version: Option<i32>) -> RequestResult<()> {
        let full = self.full_path(path);
        let write = |out: Encoder| out.bytes(&*full).int(version.unwrap_or(ANY_VERSION));
        // At a certain version it may well be refused, which must not concern others.
        let part = version.is_none().then_some(Part::Delete);
        match self.0.requests.send_as(DELETE, part, write).await {
            Err(error) if error.is_rolled_back() => self.0.requests.send(DELETE, write).await.map(drop),
            answer => answer.map(drop),
        }
    }

    pub(crate) async fn read(&self, path: &str) -> RequestResult<(Vec<u8>, Stat)> {
        self.get_data(path, false).await
    }

    /// Reads data that is not older than this call: our server may lag behind the leader. Sync and read are sent at
    /// once.
    pub(crate) async fn read_latest(&self, path: &str) -> RequestResult<(Vec<u8>, Stat)> {
        let (synced, read) = join(self.sync(), self.read(path)).await;
        synced?;
        read
    }

    /// Reads and watches a node. Sets no watch if the node does not exist.
    pub(crate) async fn read_and_watch(&self, path: &str) -> RequestResult<(Vec<u8>, Stat, Watcher)> {
        let watcher = self.register_watch(WatchTarget::Node, path, false);
        let (data, stat) = self.get_data(path, true).await?;
        watcher.record_set(false);
        Ok((data, stat, watcher))
    }

    async fn get_data(&self, path: &str, watch: bool) -> RequestResult<(Vec<u8>, Stat)> {
        let answer = self.call_on_path(GET_DATA, path, watch).await?;
        read(&answer, |answer| Ok((answer.bytes()?.to_vec(), Stat::read(answer)?)))
    }

    pub(crate) async fn stat(&self, path: &str) -> RequestResult<Option<Stat>> {
        self.exists(path, false).await
    }

    pub(crate) async fn stat_and_watch(&self, path: &str) -> RequestResult<(Option<Stat>, Watcher)> {
        let watcher = self.register_watch(WatchTarget::Node, path, true);
        let stat = self.exists(path, true).await?;
        watcher.record_set(stat.is_none());
        Ok((stat, watcher))
    }

    async fn exists(&self, path: &str, watch: bool) -> RequestResult<Option<Stat>> {
        match self.call_on_path(EXISTS, path, watch).await {
            Ok(answer) => read(&answer, |answer| Stat::read(answer).map(Some)),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn list(&self, folder: &str) -> RequestResult<Vec<String>> {
        let answer = self.call_on_path(GET_CHILDREN, folder, false).await?;
        read(&answer, |answer| answer.strings())
    }

    pub(crate) async fn list_and_watch(&self, folder: &str) -> RequestResult<(Vec<String>, Watcher)> {
        let watcher = self.register_watch(WatchTarget::Children, folder, true);
        let answer = self.call_on_path(GET_CHILDREN, folder, true).await?;
        watcher.record_set(false);
        Ok((read(&answer, |answer| answer.strings())?, watcher))
    }

    pub(crate) async fn write(&self, path: &str, data: &[u8], version: Option<i32>) -> RequestResult<()> {
        check_size(path, data)?;
        let full = self.full_path(path);
        let write = |out: Encoder| out.bytes(&*full).bytes(data).int(version.unwrap_or(ANY_VERSION));
        self.0.requests.send(SET_DATA, write).await.map(drop)
    }

    /// Waits for an answer from the leader: later reads are not older than this call.
    pub(crate) async fn sync(&self) -> RequestResult<()> {
        let full = self.full_path("/");
        self.0.requests.send(SYNC, |out| out.bytes(&*full)).await.map(drop)
    }

    async fn call_on_path(&self, op: i32, path: &str, watch: bool) -> RequestResult<Answer> {
        let full = self.full_path(path);
        self.0.requests.send(op, |out| out.bytes(&*full).boolean(watch)).await
    }
}

fn check_size(path: &str, data: &[u8]) -> RequestResult<()> {
    if data.len() <= LARGEST {
        return Ok(());
    }
    Err(RequestError::Config(Error::Config(format!(
        "{SCHEME}: {path}: {} bytes of data exceed the {LARGEST} that servers accept; is there a long note?",
        data.len()
    ))))
}

/// Parses an answer. The outcome of an unreadable answer is unknown.
fn read<T>(answer: &Answer, how: impl FnOnce(&mut Decoder<'_>) -> io::Result<T>) -> RequestResult<T> {
    how(&mut Decoder(&answer.body)).map_err(|e| RequestError::Unknown(e.into()))
}
