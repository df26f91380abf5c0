//! `tenure release --force`: take a name from whoever holds it.

use std::io::{self, IsTerminal, Write, stderr, stdin};

use serde::Serialize;
use tenure::backend::Mode;
use tenure::{Claim, Client, Error, Family, Holder, Kind, Name, Result, Snapshot};

use crate::args::Release;
use crate::inspect::json;
use crate::output;
use crate::people::{holders_now, place, printable};
use crate::report::Report;

/// What was released, for programs.
#[derive(Serialize)]
struct Released<'a> {
    name: &'a Name,
    released: &'a [Holder],
}

/// The exit code: 0 released, 1 nobody held it or the answer was no.
pub(crate) async fn release(client: &Client, release: &Release, report: Report) -> Result<u8> {
    let name = Name::new(&release.name)?;
    if !release.force {
        return Err(Error::Config(format!(
            "only its holder can release {}: end that process, or take it away with --force",
            printable(name.as_str())
        )));
    }
    let asked = !release.yes;
    if asked && !(stdin().is_terminal() && stderr().is_terminal()) {
        return Err(Error::Config(
            "there is no terminal to ask at: say --yes to release it all the same".into(),
        ));
    }
    let found = client.show(name.as_str()).await?.filter(|s| !s.holders.is_empty());
    let Some(snapshot) = found else { return nobody(&name, report) };
    if asked && !confirm(&snapshot).map_err(|e| Error::Config(format!("cannot ask: {e}")))? {
        return Ok(1);
    }
    if snapshot.holders.iter().all(|h| h.hold_id().is_none()) {
        let holders = holders_now(&snapshot.holders);
        return Err(Error::Config(format!(
            "{name} is held by another library, which must release it: {holders}"
        )));
    }
    let released = take(client, &snapshot).await?;
    if released.is_empty() {
        return nobody(&name, report);
    }
    if report.json {
        output(&json(&Released { name: &name, released: &released }))?;
        return Ok(0);
    }
    for holder in &released {
        let who = place(holder.host.as_deref(), holder.pid, &holder.id);
        let note = holder.note.as_deref().map(|n| format!(" ({})", printable(n))).unwrap_or_default();
        output(&format!("released {}, held by {who}{note}\n", printable(name.as_str())))?;
    }
    Ok(0)
}

fn nobody(name: &Name, report: Report) -> Result<u8> {
    if report.json {
        output(&json(&Released { name, released: &[] }))?;
    } else if !report.quiet {
        report.warn(format!("nobody holds {}", printable(name.as_str())));
    }
    Ok(1)
}

fn confirm(snapshot: &Snapshot) -> io::Result<bool> {
    let (name, holders) = (printable(snapshot.name.as_str()), holders_now(&snapshot.holders));
    write!(stderr(), "tenure: {name} is held by {holders}\ntenure: take it away? [y/N] ")?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Takes it from those who were shown, and from nobody who came in since. Those who had it until now.
async fn take(client: &Client, snapshot: &Snapshot) -> Result<Vec<Holder>> {
    let mut released = Vec::new();
    for holder in &snapshot.holders {
        let Some(id) = holder.hold_id() else { continue };
        let claim = Claim::of(id, snapshot.name.clone(), kind(snapshot, holder));
        if client.backend().release(&claim, 0).await? == tenure::backend::Released::Freed {
            released.push(holder.clone());
        }
    }
    Ok(released)
}

/// Stores keep each kind in its own way.
fn kind(snapshot: &Snapshot, holder: &Holder) -> Kind {
    match (snapshot.family, holder.mode) {
        (Family::Permit, _) => Kind::Permit { n: holder.holds, limit: snapshot.size.unwrap_or(holder.holds) },
        (Family::ReadWrite, Mode::Shared) => Kind::Read { under_write: None },
        (Family::ReadWrite, _) => Kind::Write,
        (Family::Fair, _) => Kind::FairLock,
        (Family::Leader, _) => Kind::Leader,
        _ => Kind::Lock,
    }
}
