//! Releases: nodes are deleted, with retries for as long as the session lives.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::backend::{Backoff, Released};
use tenure_core::{HoldId, Kind};

use crate::error::{RequestError, RequestResult};
use crate::recipe::Store;
use crate::recipe::claim_record::{ClaimRecord, node_folders};
use crate::recipe::node;
use crate::session::Session;
use crate::wire::ErrorCode;

/// The longest delay between retries.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

impl Store {
    /// Releases a claim of this client. If entries are `left`, only returns whether it is still held.
    pub(crate) async fn release(
        self: &Arc<Self>,
        record: &Arc<ClaimRecord>,
        left: u32,
    ) -> RequestResult<Released> {
        let mut attempt = record.attempt.lock().await;
        if left > 0 {
            let held = record.status().hold.as_ref().is_some_and(|h| h.is_valid());
            return Ok(if held { Released::Freed } else { Released::Gone });
        }
        attempt.is_released = true;
        attempt.wake_watch = None;
        let hold = {
            let mut status = record.status();
            status.queue_position = None;
            status.hold.take()
        };
        self.records.remove(record.id);
        let mut paths: Vec<String> = attempt.node.take().into_iter().map(|node| node.path).collect();
        let alone = hold.and_then(|mut hold| {
            paths.extend(std::mem::take(&mut hold.paths));
            hold.alone.take()
        });
        // The held node is usually the queue node itself; delete it once.
        paths.sort_unstable();
        paths.dedup();
        let Some(session) = attempt.session.take().filter(|session| !session.is_over()) else {
            return Ok(Released::Gone);
        };
        if attempt.search_on_release {
            self.delete_late_nodes(&session, record.path.clone(), record.kind, record.id);
        }
        let left = alone.zip(paths.first().cloned()).filter(|_| paths.len() == 1);
        let released = self.delete_nodes(&session, paths).await?;
        if let (Released::Freed, Some((folder, path))) = (&released, left) {
            self.empty_queues.insert(&session, &path, *folder);
        }
        Ok(released)
    }

    /// Deletes all nodes of this hold id, whichever process created them.
    pub(crate) async fn release_by_id(
        self: &Arc<Self>,
        path: &str,
        kind: Kind,
        id: HoldId,
    ) -> RequestResult<Released> {
        let session = self.sessions.get_or_connect().await?;
        session.client.sync().await?;
        let paths = self.nodes_of_hold(&session, path, kind, id).await?;
        let released = self.delete_nodes_of_others(&session, paths).await?;
        // So that later local claims are not refused because of it.
        if let Some(record) = self.records.get(id) {
            let mut status = record.status();
            status.queue_position = None;
            status.hold.iter_mut().for_each(|hold| hold.is_deleted = true);
        }
        Ok(released)
    }

    /// Deletes a node of another library.
    pub(crate) async fn release_by_node_name(
        self: &Arc<Self>,
        path: &str,
        kind: Kind,
        child: &str,
    ) -> RequestResult<Released> {
        let session = self.sessions.get_or_connect().await?;
        let folder = node_folders(path, kind).pop().unwrap_or_default();
        if child.contains('/') || node::Child::parse(child).is_none() {
            return Ok(Released::Gone);
        }
        self.delete_nodes_of_others(&session, vec![format!("{folder}/{child}")]).await
    }

    /// Deletes nodes of other sessions. They do not end with ours, so the end of our session does not mean that they are
    /// gone.
    async fn delete_nodes_of_others(
        self: &Arc<Self>,
        session: &Arc<Session>,
        paths: Vec<String>,
    ) -> RequestResult<Released> {
        match self.delete_nodes(session, paths).await? {
            Released::Gone if session.is_over() => {
                Err(RequestError::unknown("the session ended during the request"))
            }
            released => Ok(released),
        }
    }

    async fn nodes_of_hold(
        &self,
        session: &Session,
        path: &str,
        kind: Kind,
        id: HoldId,
    ) -> RequestResult<Vec<String>> {
        let prefix = node::prefix(id);
        let mut found = Vec::new();
        for folder in node_folders(path, kind) {
            let names = match session.client.list(&folder).await {
                Err(error) if error.is_no_node() => continue,
                names => names?,
            };
            let mine = names.iter().filter(|name| name.starts_with(&prefix));
            found.extend(mine.map(|name| format!("{folder}/{name}")));
        }
        Ok(found)
    }

    async fn delete_nodes(
        self: &Arc<Self>,
        session: &Arc<Session>,
        paths: Vec<String>,
    ) -> RequestResult<Released> {
        let answers = join_all(paths.iter().map(|path| session.client.delete(path, None))).await;
        let (mut released, mut failed) = (Released::Gone, None);
        for (path, answer) in paths.into_iter().zip(answers) {
            match answer {
                Ok(()) => released = Released::Freed,
                Err(error) if error.is_no_node() => {}
                Err(RequestError::SessionEnded(_)) => {}
                Err(RequestError::Refused(ErrorCode::NO_AUTH)) => {
                    failed = Some(RequestError::NotOwner(path));
                }
                Err(error) => {
                    self.delete_in_background(session, path);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(released), Err)
    }

    /// Deletes a node, in the background if it fails. Returns whether it is gone.
    pub(crate) async fn delete_or_retry(self: &Arc<Self>, session: &Arc<Session>, path: String) -> bool {
        let Err(error) = session.client.delete(&path, None).await else { return true };
        if should_retry_delete(&error) {
            self.delete_in_background(session, path);
        }
        error.is_no_node()
    }

    /// Deletes a node in the background, retrying while the session lives, since nobody else would. Until then no
    /// claim may use it, even one with its hold id.
    pub(crate) fn delete_in_background(self: &Arc<Self>, session: &Arc<Session>, path: String) {
        if !self.pending_deletes.lock().unwrap().insert(path.clone()) {
            return;
        }
        let (store, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            let mut backoff = Backoff::new(Duration::from_millis(20), LONGEST_DELAY);
            while session.client.delete(&path, None).await.is_err_and(|error| should_retry_delete(&error)) {
                tokio::time::sleep(backoff.failed()).await;
            }
            store.pending_deletes.lock().unwrap().remove(&path);
        });
    }

    pub(crate) fn is_delete_pending(&self, path: &str) -> bool {
        self.pending_deletes.lock().unwrap().contains(path)
    }

    /// Looks for nodes of a hold id whose creation was not answered, and deletes them. Repeated, because a request
    /// sent over a broken connection may be executed late.
    fn delete_late_nodes(self: &Arc<Self>, session: &Arc<Session>, path: String, kind: Kind, id: HoldId) {
        const LOOKS: [u64; 3] = [0, 1, 5];
        let (store, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            for seconds in LOOKS {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                let mut backoff = Backoff::new(Duration::from_millis(100), LONGEST_DELAY);
                loop {
                    let found = async {
                        session.client.sync().await?;
                        store.nodes_of_hold(&session, &path, kind, id).await
                    };
                    match found.await {
                        Ok(found) => {
                            found.into_iter().for_each(|path| store.delete_in_background(&session, path));
                            break;
                        }
                        Err(error) if should_retry_delete(&error) => {
                            tokio::time::sleep(backoff.failed()).await;
                        }
                        Err(_) => return,
                    }
                }
            }
        });
    }
}

/// Whether to retry after this error because the node may still exist: no answer, no connection, or a busy server.
fn should_retry_delete(error: &RequestError) -> bool {
    match error {
        RequestError::Unknown(_) | RequestError::NotSent(_) => true,
        RequestError::Refused(code) => !matches!(*code, ErrorCode::NO_NODE | ErrorCode::NO_AUTH),
        RequestError::SessionEnded(_) | RequestError::NotOwner(_) | RequestError::Config(_) => false,
    }
}
