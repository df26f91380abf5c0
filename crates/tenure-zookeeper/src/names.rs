//! Which names are in use, in their order: no more of the tree is looked at than it takes to find as many as were asked
//! for.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use tenure_core::backend::Snapshot;

use crate::fault::Fault;
use crate::inspect::{AT_ONCE, nothing_of};
use crate::node::Child;
use crate::path::{LEASES, LOCKS, NUMBERS};
use crate::session::{Answer, Session};
use crate::store::Store;
use crate::wire::Refusal;

/// What is known of the tree so far.
#[derive(Default)]
struct Tree {
    /// Folders that were not looked at yet, by the name that each would be. What is below a folder sorts after it.
    folders: BTreeMap<String, String>,
    /// Names in use, of which some may come after names in a folder that is left.
    found: BTreeMap<String, Snapshot>,
    /// The first names of all, for certain.
    first: Vec<Snapshot>,
}

impl Tree {
    /// The first folders that are left.
    fn next(&mut self, n: usize) -> Vec<(String, String)> {
        std::iter::from_fn(|| self.folders.pop_first()).take(n).collect()
    }

    /// Moves those to the first of all that nothing can come before any more.
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
    /// The first names in use that begin so, in order. One that cannot be read is among them, with the reason.
    pub(crate) async fn names(&self, session: &Session, prefix: &str, limit: usize) -> Answer<Vec<Snapshot>> {
        let mut tree = Tree { folders: BTreeMap::from([self.paths.folder_of(prefix)]), ..Tree::default() };
        // Of folders that are no names, which nobody can tell from others before, more and more are looked at together.
        let mut fruitless = 1;
        while tree.first.len() < limit && !tree.folders.is_empty() {
            let wanted = (limit - tree.first.len()).clamp(fruitless, AT_ONCE);
            let looks =
                stream::iter(tree.next(wanted)).map(|(whole, path)| self.look(session, prefix, whole, path));
            let (mut looks, mut any) = (looks.buffered(AT_ONCE), false);
            while let Some(seen) = looks.next().await {
                let (whole, seen, below) = seen?;
                any |= seen.is_some();
                tree.found.extend(seen.map(|seen| (whole, seen)));
                tree.folders.extend(below);
            }
            fruitless = if any { 1 } else { (fruitless * 2).min(AT_ONCE) };
            tree.settle();
        }
        tree.first.truncate(limit);
        Ok(tree.first)
    }

    /// A folder as a name, and the folders in it that may be names or have some below.
    async fn look(
        &self,
        session: &Session,
        prefix: &str,
        whole: String,
        path: String,
    ) -> Answer<(String, Option<Snapshot>, Vec<(String, String)>)> {
        let folder = if path.is_empty() { "/" } else { &path };
        let listed = session.list(folder).await;
        let name = self.paths.name(&path).filter(|name| name.as_str().starts_with(prefix));
        let (children, seen) = match (listed, &name) {
            (Err(fault), _) if fault.is_missing() => (Vec::new(), Ok(None)),
            (Err(fault), Some(_)) => (Vec::new(), Err(fault)),
            // What is asked for may all be below.
            (Err(fault), None) => return Err(Fault::Config(fault.into_error("list", folder))),
            (Ok(children), None) => (children, Ok(None)),
            (Ok(children), Some(name)) => {
                let seen = self.snapshot(session, name, &path, &children).await;
                (children, seen)
            }
        };
        let seen = match (seen, name) {
            // One that is not for us does not hide the others.
            (Err(fault @ (Fault::Refused(Refusal::NO_AUTH) | Fault::Config(_))), Some(name))
                if !session.is_over() =>
            {
                let unread = Some(fault.into_error("read", &path).to_string());
                Some(Snapshot { unread, ..nothing_of(name) })
            }
            (seen, _) => seen?,
        };
        // At the top there are no recipes: whatever is there is a name, or a folder of names.
        let deeper = children.iter().filter(|child| match path.is_empty() {
            true => *child != "zookeeper",
            false => !is_of_a_recipe(child),
        });
        let below = deeper.filter_map(|child| self.paths.in_folder(&path, child, prefix)).collect();
        Ok((whole, seen, below))
    }
}

/// Whether a child is no name of its own.
fn is_of_a_recipe(child: &str) -> bool {
    Child::parse(child).is_some() || [LOCKS, LEASES, NUMBERS].contains(&child)
}
