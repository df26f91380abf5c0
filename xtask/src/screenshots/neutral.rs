//! Replaces what differs from machine to machine and from run to run: places, ids, times, the path of the store. So a
//! picture changes only if `top` does, and names no machine.

use super::screen::{Row, cells, text};

/// A process on the screen, and what a picture shows for it.
pub(super) struct Role {
    pub(super) pid: u32,
    /// As `host:pid`.
    pub(super) place: &'static str,
    /// Seconds since it came.
    pub(super) age: u64,
}

const STORE: &str = "/var/lib/app/locks.db";
/// The clock of the pictures, and the same in seconds since 1970.
const HOUR: &str = "2026-11-15 21:";
const CLOCK: (u64, u64) = (40, 3);
const EPOCH: u64 = 1_794_778_803;
/// The lease of the store, and after how many seconds it is renewed.
const LEASE: (u64, u64) = (30, 10);

/// # Errors
/// When a row names none of the processes.
pub(super) fn hide(page: &mut [Row], roles: &[Role], store: &str) -> Result<(), String> {
    if let Some(title) = page.first_mut() {
        replace(title, store, "", STORE);
        replace(title, "  20", " UTC", &format!("  {}", time(0)));
    }
    let is_heading = |row: &Row| text(row).contains("  PLACE  ");
    match page.iter().position(is_heading) {
        Some(at) => {
            let n = page[at..].iter().take_while(|row| !text(row).trim().is_empty()).count();
            table(&mut page[at..at + n], roles)
        }
        None => details(page, roles),
    }
}

fn table(rows: &mut [Row], roles: &[Role]) -> Result<(), String> {
    let found = rows[1..].iter().map(|row| {
        let role = roles.iter().find(|role| place(&text(row), role).is_some());
        role.ok_or_else(|| format!("not one of our processes: {}", text(row).trim()))
    });
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let mut all = |head: &str, new: &dyn Fn(&Role) -> String| {
        column(rows, head, found.iter().map(|role| new(role)).collect());
    };
    all("PLACE", &|role| role.place.into());
    all("HELD", &|role| human(role.age));
    all("LEFT", &|role| human(left(role)));
    all("FENCE", &|role| fence(role).to_string());
    Ok(())
}

/// Replaces the cells below a heading, and makes the column as wide as `top` would.
fn column(rows: &mut [Row], head: &str, new: Vec<String>) {
    let heading = text(&rows[0]);
    let Some(at) = heading.find(head) else { return };
    let after = at + head.len();
    let next = heading[after..].find(|char| char != ' ').map(|gap| after + gap);
    let width = new.iter().map(String::len).max().unwrap_or(0).max(head.len());
    for (row, new) in rows.iter_mut().zip([head.to_owned()].into_iter().chain(new)) {
        let look = row[at].look;
        row.splice(at..next.unwrap_or(row.len()), cells(&format!("{new:width$}  "), look));
    }
}

fn details(page: &mut [Row], roles: &[Role]) -> Result<(), String> {
    let named = |row: &Row| roles.iter().find(|role| place(&text(row), role).is_some());
    // The first one holds the name; its fence comes before it.
    let mut of = page.iter().find_map(named).ok_or("none of our processes is on the screen")?;
    for row in page.iter_mut().skip(1) {
        of = named(row).unwrap_or(of);
        if let Some(found) = place(&text(row), of) {
            replace(row, &found, "", of.place);
        }
        replace(row, "since 20", ")", &format!("since {} ({})", time(of.age), human(of.age)));
        replace(row, "), ", " left", &format!("), {} left", human(left(of))));
        match text(row).trim_start() {
            line if line.starts_with("fence ") => replace_last_word(row, &fence(of).to_string()),
            line if line.starts_with("hold ") => replace_last_word(row, &hold(of)),
            _ => {}
        }
    }
    Ok(())
}

/// `host:pid` of the process, if the line has it.
fn place(line: &str, role: &Role) -> Option<String> {
    let pid = format!(":{}", role.pid);
    let words = line.split(' ').map(|word| word.trim_end_matches(','));
    // The time of day has two colons.
    words.into_iter().find(|word| word.ends_with(&pid) && word.matches(':').count() == 1).map(str::to_owned)
}

/// Replaces the first text from `begin` to the next `end`.
fn replace(row: &mut Row, begin: &str, end: &str, new: &str) {
    let line = text(row);
    let Some(at) = line.find(begin) else { return };
    let after = at + begin.len();
    let Some(end) = line[after..].find(end).map(|found| after + found + end.len()) else { return };
    put(row, &line, at..end, new);
}

fn replace_last_word(row: &mut Row, new: &str) {
    let line = text(row);
    let end = line.trim_end().len();
    let at = line[..end].rfind(' ').map_or(0, |blank| blank + 1);
    put(row, &line, at..end, new);
}

fn put(row: &mut Row, line: &str, bytes: std::ops::Range<usize>, new: &str) {
    let columns = |text: &str| cells(text, row[0].look).len();
    let (from, to) = (columns(&line[..bytes.start]), columns(&line[..bytes.end]));
    let look = row[from].look;
    row.splice(from..to, cells(new, look));
}

fn time(age: u64) -> String {
    let seconds = (CLOCK.0 * 60 + CLOCK.1).saturating_sub(age);
    format!("{HOUR}{:02}:{:02} UTC", seconds / 60, seconds % 60)
}

/// As `tenure` says it.
fn human(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, s) => format!("{s} s"),
        (min, 0) => format!("{min} min"),
        (min, s) => format!("{min} min {s} s"),
    }
}

fn left(role: &Role) -> u64 {
    LEASE.0 - 1 - role.age % LEASE.1
}

/// The time of the grant in microseconds; the pid stands for the part below a second.
fn fence(role: &Role) -> u64 {
    let pid: u64 = role.place.rsplit(':').next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
    (EPOCH - role.age) * 1_000_000 + pid * 7919 % 1_000_000
}

fn hold(role: &Role) -> String {
    let part = fence(role) & 0xffff_ffff;
    format!("{part:08x}-7b42-4d19-9c86-2e8d41a7b0f3:1")
}

#[cfg(test)]
mod tests {
    use super::super::screen::read;
    use super::*;

    const ROLES: [Role; 2] =
        [Role { pid: 17, place: "web-1:4107", age: 95 }, Role { pid: 170, place: "db-1:812", age: 5 }];

    fn hidden(lines: &[&str]) -> Result<Vec<String>, String> {
        let mut page = read(&lines.join("\r\n"), (120, 12)).unwrap();
        hide(&mut page, &ROLES, "/tmp/x/locks.db")?;
        Ok(page.iter().map(|row| text(row).trim_end().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    const TITLE: &str = "tenure top  sqlite /tmp/x/locks.db  2 names in use  2027-01-02 03:04:05 UTC";
    const TITLED: &str = "tenure top  sqlite /var/lib/app/locks.db  2 names in use  2026-11-15 21:40:03 UTC";

    #[test]
    fn columns_of_a_table_are_as_wide_as_their_new_cells() {
        for host in ["a", "a-very-long-name.example"] {
            let heading =
                format!("  NAME  PLACE{:1$}  HELD    LEFT  NOTE  FENCE", "", (host.len() + 4).max(5) - 5);
            let row = |name: &str, pid| format!("{name}     {host}:{pid:<3}  964 ms  29 s  n     7951");
            let (first, second) = (row("> a", "17"), row("  b", "170"));
            let found = hidden(&[TITLE, "", &heading, &first, &second, "", "keys"]).unwrap();
            assert_eq!(
                found,
                [
                    TITLED,
                    "  NAME  PLACE       HELD        LEFT  NOTE  FENCE",
                    "> a     web-1:4107  1 min 35 s  24 s  n     1794778708523333",
                    "  b     db-1:812    5 s         24 s  n     1794778798430228",
                    "keys",
                ]
            );
        }
    }

    #[test]
    fn details_keep_their_words() {
        let found = hidden(&[
            TITLE,
            "a: fair lock, held",
            "  fence    1795036294091649",
            "  holder   vm:17, 2 permits",
            "           note 20 (x), left",
            "           since 2027-01-02 03:04:17 UTC (1 s), 28 s left unless renewed",
            "           hold 3cdc1db3-fc02-4a6a-a0ef-0f7e07d22010:1",
            "  waiter   vm:170 since 2027-01-02 03:04:17 UTC (994 ms) (refund)",
        ]);
        assert_eq!(
            found.unwrap(),
            [
                TITLED,
                "a: fair lock, held",
                "  fence    1794778708523333",
                "  holder   web-1:4107, 2 permits",
                "           note 20 (x), left",
                "           since 2026-11-15 21:38:28 UTC (1 min 35 s), 24 s left unless renewed",
                "           hold 7b5f3945-7b42-4d19-9c86-2e8d41a7b0f3:1",
                "  waiter   db-1:812 since 2026-11-15 21:39:58 UTC (5 s) (refund)",
            ]
        );
    }

    #[test]
    fn a_process_that_is_not_ours_is_refused() {
        assert!(hidden(&[TITLE, "  NAME  PLACE  HELD  FENCE", "  a     vm:18  1 s   7"]).is_err());
        assert!(hidden(&[TITLE, "a: lock, held", "  holder   vm:18"]).is_err());
    }
}
