//! `tenure resize`: changes the stored size of a semaphore.

use serde::Serialize;
use tenure::{Client, Family, Name, Result};

use crate::args::Resize;
use crate::format::printable;
use crate::inspect::json;
use crate::output;
use crate::report::Report;

/// Result of a resize, as printed with `--json`.
#[derive(Serialize)]
struct Resized<'a> {
    name: &'a Name,
    size: u32,
    /// The size before; `null` if there was none.
    before: Option<u32>,
    in_use: u32,
}

/// Resizes the semaphore and returns exit code 0.
pub(crate) async fn resize(client: &Client, resize: &Resize, report: Report) -> Result<u8> {
    let (name, size) = (Name::new(&resize.name)?, resize.size);
    let found = client.show(name.as_str()).await?.filter(|found| found.family == Family::Permit);
    let before = found.as_ref().and_then(|found| found.size);
    let in_use: u32 = found.iter().flat_map(|found| &found.holders).map(|holder| holder.holds).sum();
    client.semaphore(name.as_str(), size).resize(size).await?;
    if report.json {
        output(&json(&Resized { name: &name, size, before, in_use }))?;
        return Ok(0);
    }
    let was = before.map_or_else(|| "none were stored".into(), |before| format!("before: {before}"));
    let s = if size == 1 { "" } else { "s" };
    output(&format!("{} has {size} permit{s} ({was})\n", printable(name.as_str())))?;
    if in_use > size && !report.quiet {
        report.warn(format!("{in_use} are in use: none is granted until fewer than {size} are"));
    }
    Ok(0)
}
