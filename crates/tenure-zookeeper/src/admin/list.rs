//! Lists names in use, in order, reading no more of the tree than is needed for the limit.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use tenure_core::backend::Snapshot;

use crate::admin::inspect::{MAX_IN_FLIGHT, empty_snapshot};
use crate::error::{RequestError, RequestResult};
use crate::recipe::Store;
use crate::recipe::node::Child;
use crate::recipe::path::{COUNTERS, LEASES, LOCKS};
use crate::session::Session;
use crate::wire::ErrorCode;

/// The part of the tree that is known so far.
#[derive(Default)]
struct Tree {
    /// Folders not visited yet, by the name that each would be. Everything below a folder sorts after it.
    folders: BTreeMap<String, String>,
    /// Names in use that may still sort after names in an unvisited folder.
    found: BTreeMap<String, Snapshot>,
    /// The first names in order; final.
    first: Vec<Snapshot>,
}

impl Tree {
    /// Takes the first unvisited folders.
    fn next(&mut self, n: usize) -> Vec<(String, String)> {
        std::iter::from_fn(|| self.folders.pop_first()).take(n).collect()
    }

    /// Moves names that nothing can precede any more to the final ones.
    fn settle(&mut self) {
        while let Some(next) = self.found.first_entry() {
            if self.folders.first_key_value().is_some_and(|(folder, _)| folder < next.key()) {
                break;
            }
            self.first.push(next.remove());
        }
    }
}

impl Store {
    /// The first names in use with this prefix, in order, and idle ones if wanted. An unreadable one is included, with
    /// the reason.
    pub(crate) async fn names(
        &self,
        session: &Session,
        prefix: &str,
        limit: usize,
        idle: bool,
    ) -> RequestResult<Vec<Snapshot>> {
        let mut tree = Tree { folders: BTreeMap::from([self.paths.folder_of(prefix)]), ..Tree::default() };
        // Doubles the batch while folders turn out not to be names, which cannot be known without visiting them.
        let mut batch = 1;
        while tree.first.len() < limit && !tree.folders.is_empty() {
            let wanted = (limit - tree.first.len()).clamp(batch, MAX_IN_FLIGHT);
            let looks = stream::iter(tree.next(wanted))
                .map(|(full_name, path)| self.visit_folder(session, prefix, full_name, path));
            let (mut looks, mut any) = (looks.buffered(MAX_IN_FLIGHT), false);
            while let Some(seen) = looks.next().await {
                let (full_name, seen, below) = seen?;
                any |= seen.is_some();
                let listed = seen.filter(|seen| idle || !seen.is_idle());
                tree.found.extend(listed.map(|seen| (full_name, seen)));
                tree.folders.extend(below);
            }
            batch = if any { 1 } else { (batch * 2).min(MAX_IN_FLIGHT) };
            tree.settle();
        }
        tree.first.truncate(limit);
        Ok(tree.first)
    }

    /// Visits a folder: its snapshot if it is a name, and the folders in it that may be names or contain some.
    async fn visit_folder(
        &self,
        session: &Session,
        prefix: &str,
        full_name: String,
        path: String,
    ) -> RequestResult<(String, Option<Snapshot>, Vec<(String, String)>)> {
        let folder = if path.is_empty() { "/" } else { &path };
        let listed = session.client.list(folder).await;
        let name = self.paths.name(&path).filter(|name| name.as_str().starts_with(prefix));
        let (children, seen) = match (listed, &name) {
            (Err(error), _) if error.is_no_node() => (Vec::new(), Ok(None)),
            (Err(error), Some(_)) => (Vec::new(), Err(error)),
            // The requested names may all be below this folder.
            (Err(error), None) => return Err(RequestError::Config(error.into_error("list", folder))),
            (Ok(children), None) => (children, Ok(None)),
            (Ok(children), Some(name)) => {
                let seen = self.snapshot(session, name, &path, &children).await;
                (children, seen)
            }
        };
        let seen = match (seen, name) {
            // A name that we may not read does not hide the others.
            (
                Err(error @ (RequestError::Refused(ErrorCode::NO_AUTH) | RequestError::Config(_))),
                Some(name),
            ) if !session.is_over() => {
                let mut seen = empty_snapshot(name);
                seen.unread = Some(error.into_error("read", &path).to_string());
                Some(seen)
            }
            (seen, _) => seen?,
        };
        // There are no recipes in the root: each child is a name, or a folder of names.
        let deeper = children.iter().filter(|child| match path.is_empty() {
            true => *child != "zookeeper",
            false => !is_of_a_recipe(child),
        });
        let below = deeper.filter_map(|child| self.paths.in_folder(&path, child, prefix)).collect();
        Ok((full_name, seen, below))
    }
}

/// Whether a child belongs to a recipe, and so is not a name.
fn is_of_a_recipe(child: &str) -> bool {
    Child::parse(child).is_some() || [LOCKS, LEASES, COUNTERS].contains(&child)
}
