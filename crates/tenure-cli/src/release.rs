//! `tenure release`: takes a name from its holders by force, or releases it by its token.

use std::io::{self, IsTerminal, Write, stderr, stdin};

use serde::Serialize;
use tenure::backend::Mode;
use tenure::{Client, Error, Family, Holder, Lock, Name, Result, Snapshot};

use crate::args::Release;
use crate::format::{self, describe_holders_now, printable};
use crate::inspect::json;
use crate::output;
use crate::report::Report;

/// Result of a forced release, as printed with `--json`.
#[derive(Serialize)]
struct Released<'a> {
    name: &'a Name,
    released: &'a [Holder],
}

/// Releases the name and returns the exit code: 0 if released, 1 if nobody held it or the user declined.
pub(crate) async fn release(client: &Client, release: &Release, report: Report) -> Result<u8> {
    let name = Name::new(&release.name)?;
    if let Some(token) = &release.token {
        return by_token(client, &name, token, report).await;
    }
    if !release.force {
        return Err(Error::Config(format!(
            "only its holder can release {}: end that process, use --token TOKEN if it has one, or use --force",
            printable(name.as_str())
        )));
    }
    let asked = !release.yes;
    if asked && !(stdin().is_terminal() && stderr().is_terminal()) {
        return Err(Error::Config(
            "cannot ask for confirmation without a terminal: use --yes to release without confirmation"
                .into(),
        ));
    }
    let mut found = client.show(name.as_str()).await?;
    if let (Some(snapshot), Some(hold)) = (&mut found, &release.hold) {
        snapshot.holders.retain(|h| h.id == *hold);
    }
    let Some(snapshot) = found.filter(|s| !s.holders.is_empty()) else {
        return nobody(release, &name, report);
    };
    if asked && !confirm(&snapshot).map_err(|e| Error::Config(format!("cannot ask for confirmation: {e}")))? {
        return Ok(1);
    }
    let released = take(client, &snapshot).await?;
    if released.is_empty() {
        return nobody(release, &name, report);
    }
    if report.json {
        output(&json(&Released { name: &name, released: &released }))?;
        return Ok(0);
    }
    for holder in &released {
        let who = format::describe_holder(holder);
        let note = holder.note.as_deref().map(|n| format!(" ({})", printable(n))).unwrap_or_default();
        output(&format!("released {}, which was held by {who}{note}\n", printable(name.as_str())))?;
    }
    Ok(0)
}

/// Result of a release by token, as printed with `--json`.
#[derive(Serialize)]
struct ByToken<'a> {
    name: &'a Name,
    token: &'a str,
    released: bool,
}

/// Releases the hold under this token, as its holder would. A hold under another token is not touched.
async fn by_token(client: &Client, name: &Name, token: &str, report: Report) -> Result<u8> {
    let released = client.lock(name.as_str()).release_by(token).await?;
    if report.json {
        output(&json(&ByToken { name, token, released }))?;
    } else if released {
        output(&format!("released {}\n", printable(name.as_str())))?;
    } else if !report.quiet {
        report.warn(format!("{} is not held with that token", printable(name.as_str())));
    }
    Ok(u8::from(!released))
}

fn nobody(release: &Release, name: &Name, report: Report) -> Result<u8> {
    if report.json {
        output(&json(&Released { name, released: &[] }))?;
    } else if !report.quiet {
        let name = printable(name.as_str());
        report.warn(match &release.hold {
            Some(hold) => format!("{name} has no hold {}", printable(hold)),
            None => format!("nobody holds {name}"),
        });
    }
    Ok(1)
}

fn confirm(snapshot: &Snapshot) -> io::Result<bool> {
    let (name, holders) = (printable(snapshot.name.as_str()), describe_holders_now(&snapshot.holders));
    write!(stderr(), "tenure: {name} is held by {holders}\ntenure: release it by force? [y/N] ")?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Releases the holds that were shown to the user, not newer ones. Returns those that were still held.
async fn take(client: &Client, snapshot: &Snapshot) -> Result<Vec<Holder>> {
    let mut released = Vec::new();
    for holder in &snapshot.holders {
        if held_as(client, snapshot, holder).release_from(holder).await? {
            released.push(holder.clone());
        }
    }
    Ok(released)
}

/// The kind of lock that the holder has: stores keep each kind in a layout of its own.
fn held_as(client: &Client, snapshot: &Snapshot, holder: &Holder) -> Lock {
    let name = snapshot.name.as_str();
    match (snapshot.family, holder.mode) {
        (Family::Permit, _) => client.semaphore(name, snapshot.size.unwrap_or(1).max(1)).permits(1),
        (Family::ReadWrite, Mode::Shared) => client.rwlock(name).read(),
        (Family::ReadWrite, _) => client.rwlock(name).write(),
        (Family::Fair, _) => client.lock(name).fair(),
        _ => client.lock(name),
    }
}
