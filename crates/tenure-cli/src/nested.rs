//! Commands inside commands: what the tenures around this one hold, so that none of them waits for itself.

use tenure::{Client, Error, Family, HoldId, Holder, Result};

use crate::people::{place, printable};

/// The holds that a command runs under, outermost first, with spaces between them.
pub(crate) const HOLDS: &str = "TENURE_HOLDS";

fn holds() -> String {
    std::env::var(HOLDS).unwrap_or_default()
}

/// What a command runs under that this process starts while it has one more.
pub(crate) fn holds_with(own: HoldId) -> String {
    format!("{} {own}", holds()).trim_start().to_owned()
}

/// Refuses to wait for a name that a tenure around this one holds: that one waits for this one to end.
pub(crate) async fn refuse_own(client: &Client, name: &str, permits: u32) -> Result<()> {
    let outer = holds();
    if outer.is_empty() {
        return Ok(());
    }
    // A look that fails is no reason to give up: waiting finds out what is wrong with the store.
    let Ok(Some(snapshot)) = client.show(name).await else { return Ok(()) };
    let is_outer = |holder: &&Holder| outer.split(' ').any(|id| id == holder.id);
    let ours: Vec<&Holder> = snapshot.holders.iter().filter(is_outer).collect();
    let Some(first) = ours.first() else { return Ok(()) };
    if snapshot.family == Family::Permit {
        let taken: u32 = ours.iter().map(|holder| holder.holds).sum();
        if snapshot.size.is_some_and(|size| size.saturating_sub(taken) >= permits) {
            return Ok(());
        }
    }
    let (name, place) = (printable(name), place(first));
    Err(Error::Config(format!(
        "{name} is held by the tenure that runs this command ({place}), which waits for it to end: waiting for {name} \
         here would never end"
    )))
}
