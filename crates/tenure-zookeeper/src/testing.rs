//! The parsers of what a server sends, for fuzzing: bytes in, and no panic whatever they are. Behind the feature
//! `testing`, so that no release build has it.

use tenure_core::{ClientId, Family, Kind, Name};

use crate::recipe::path::Paths;
use crate::recipe::queue::Queue;
pub use crate::wire::testing::read_frames;

/// Reads these as the children of a name, in the order in which a server lists them. Returns how many are nodes of a
/// recipe.
///
/// ```
/// use tenure_zookeeper::testing::read_children;
///
/// assert_eq!(read_children(&["lock-0000000001".to_owned(), "other".to_owned()]), 1);
/// ```
pub fn read_children(children: &[String]) -> usize {
    let queue = Queue::new(children.iter().cloned());
    queue.holder_count();
    if let Ok(name) = Name::new("orders/42") {
        let _ = queue.check_family(&name, Family::Lock);
    }
    for (at, child) in queue.children.iter().enumerate() {
        drop((child.process(), child.id(), child.is_last_number(), child.digits().len()));
        for kind in [Kind::Lock, Kind::Read { under_write: None }, Kind::Write] {
            queue.blocker(at, &kind);
        }
        queue.holds_ahead(at, ClientId::new()).count();
    }
    let paths = Paths::new("app/".to_owned());
    for child in children {
        paths.name(&format!("/app/{child}"));
        paths.in_folder("/app", child, "or");
    }
    queue.children.len()
}
