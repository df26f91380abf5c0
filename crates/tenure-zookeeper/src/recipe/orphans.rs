//! Orphans: nodes of this client and its session that belong to no claim. Servers restored from a backup bring back
//! nodes that were released since; if they resume the session, nobody else would ever delete them.

use std::sync::Arc;

use tenure_core::ClientId;

use crate::error::RequestResult;
use crate::recipe::Store;
use crate::recipe::queue::Queue;
use crate::session::Session;

impl Store {
    /// Deletes the orphans before the node at `at`. Returns whether any is gone now.
    pub(crate) async fn delete_orphans(
        self: &Arc<Self>,
        session: &Arc<Session>,
        folder: &str,
        queue: &Queue,
        at: usize,
        client: ClientId,
    ) -> RequestResult<bool> {
        let mut any = false;
        for child in queue.strangers_ahead(at, client, |id| self.records.get(id).is_some()) {
            let path = format!("{folder}/{}", child.name);
            if self.is_delete_pending(&path) {
                continue;
            }
            match session.client.read(&path).await {
                Ok((_, stat)) if stat.owner == session.id => any |= self.delete_or_retry(session, path).await,
                // A node of an earlier session ends with that session.
                Ok(_) => {}
                // Deleted since it was listed.
                Err(error) if error.is_no_node() => any = true,
                Err(error) => return Err(error),
            }
        }
        Ok(any)
    }
}
