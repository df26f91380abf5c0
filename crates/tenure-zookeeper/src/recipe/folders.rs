//! The folders above a node. They are containers, which the server deletes some time after they become empty, so any of
//! them may vanish while its children are created.

use tenure_core::Error;

use crate::error::{RequestError, RequestResult, SCHEME};
use crate::recipe::Store;
use crate::session::Session;
use crate::wire::{ErrorCode, Mode};

/// How often a folder may vanish while its path is created.
const MAX_TRIES: usize = 64;

impl Store {
    /// Creates `folder` and its parents.
    pub(crate) async fn make_folders(&self, session: &Session, folder: &str) -> RequestResult<()> {
        let mut path = folder;
        let mut below = Vec::new();
        for _ in 0..MAX_TRIES {
            match session.client.create(path, b"", Mode::Container).await {
                Ok(_) | Err(RequestError::Refused(ErrorCode::NODE_EXISTS)) => match below.pop() {
                    Some(next) => path = next,
                    None => return Ok(()),
                },
                Err(error) if error.is_no_node() => match path.rsplit_once('/') {
                    Some((above, _)) if !above.is_empty() => {
                        below.push(path);
                        path = above;
                    }
                    _ => return Err(RequestError::Config(self.missing_chroot())),
                },
                Err(error) => return Err(error),
            }
        }
        Err(RequestError::not_sent(format!("{path} was deleted by the server each time it was created")))
    }

    pub(crate) fn missing_chroot(&self) -> Error {
        let chroot = self.sessions.options().chroot.as_deref().unwrap_or("/");
        Error::Config(format!(
            "{SCHEME}: the chroot {chroot} does not exist on these servers: create it first"
        ))
    }
}
