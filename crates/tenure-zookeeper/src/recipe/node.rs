//! The nodes of a recipe: how their names are built and parsed.
//!
//! `_c_<client uuid>-<n>-<pid>@<host>-lock-<sequence>`. Curator's protection id is the client id; hold and process
//! follow it. Curator sorts only by what follows the marker.

use tenure_core::{ClientId, HoldId, Process};

/// The type of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    Lock,
    Latch,
    Read,
    Write,
    Lease,
}

const MARKERS: [Marker; 5] = [Marker::Lock, Marker::Latch, Marker::Read, Marker::Write, Marker::Lease];

impl Marker {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lock => "lock-",
            Self::Latch => "latch-",
            Self::Read => "__READ__",
            Self::Write => "__WRIT__",
            Self::Lease => "lease-",
        }
    }
}

/// A parsed node name. Cheap to create: of a thousand nodes in a list, few are looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) marker: Marker,
    pub(crate) sequence: i32,
}

impl Child {
    /// Returns `None` for a node that no recipe creates.
    pub(crate) fn parse(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let (stem, sequence) = sequence(&name)?;
        let marker = MARKERS.into_iter().find(|marker| stem.ends_with(marker.text()))?;
        Some(Self { marker, sequence, name })
    }

    /// Whether its number does not define an order: after the largest number, the server assigns it again and again.
    pub(crate) fn is_last_number(&self) -> bool {
        self.sequence == i32::MAX || self.sequence < 0
    }

    /// The sequence number as the server appended it.
    pub(crate) fn digits(&self) -> &str {
        sequence(&self.name).map_or("", |(stem, _)| &self.name[stem.len()..])
    }

    /// The hold, if this library created the node.
    pub(crate) fn id(&self) -> Option<HoldId> {
        Some(self.parse_own()?.0)
    }

    /// The process that created it, if this library did.
    pub(crate) fn process(&self) -> Option<Process> {
        let (pid, host) = self.parse_own()?.1.split_once('@')?;
        let host = host.strip_suffix(self.marker.text())?.strip_suffix('-')?;
        Some(Process { host: host.to_owned(), pid: pid.parse().ok()? })
    }

    fn parse_own(&self) -> Option<(HoldId, &str)> {
        let rest = sequence(&self.name)?.0.strip_prefix("_c_")?;
        let (n, process) = rest.get(36..)?.strip_prefix('-')?.split_once('-')?;
        let n = n.parse().ok()?;
        Some((HoldId { client: rest.get(..36)?.parse().ok()?, n }, process))
    }
}

/// The prefix of all nodes of a client, and of no others.
pub(crate) fn client_prefix(client: ClientId) -> String {
    format!("_c_{client}-")
}

/// The prefix of all nodes of a hold, and of no others.
pub(crate) fn prefix(id: HoldId) -> String {
    format!("{}{}-", client_prefix(id.client), id.n)
}

/// The name of a node without its sequence number, which the server appends.
pub(crate) fn stem(id: HoldId, marker: Marker, process: &Process) -> String {
    let host: String = process.host.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
    format!("{}{}@{host}-{}", prefix(id), process.pid, marker.text())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// The text after the last marker, if there is one.
pub(crate) fn after_marker(name: &str) -> Option<&str> {
    let (marker, at) = last_marker(name)?;
    Some(&name[at + marker.text().len()..])
}

fn last_marker(name: &str) -> Option<(Marker, usize)> {
    MARKERS.iter().filter_map(|m| Some((*m, name.rfind(m.text())?))).max_by_key(|(m, at)| at + m.text().len())
}

/// Splits off the sequence number: ten digits, or eleven characters after the counter has overflowed.
fn sequence(name: &str) -> Option<(&str, i32)> {
    let at = name.len().checked_sub(10).filter(|at| name.is_char_boundary(*at))?;
    let (stem, digits) = name.split_at(at);
    if !digits.strip_prefix('-').unwrap_or(digits).bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Markers may end in a dash, too: only a second dash belongs to a negative number.
    match stem.strip_suffix('-') {
        Some(stem) if MARKERS.iter().any(|marker| stem.ends_with(marker.text())) => {
            Some((stem, name[at - 1..].parse().ok()?))
        }
        _ => Some((stem, digits.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_node_names_contain_hold_and_process() {
        let id: HoldId = "4f3c2b1a-0000-4000-8000-000000000001:42".parse().unwrap();
        let process = Process { host: "web-1.lock-x".into(), pid: 77 };
        let name = format!("{}0000000003", stem(id, Marker::Lock, &process));
        assert_eq!(name, "_c_4f3c2b1a-0000-4000-8000-000000000001-42-77@web-1.lock-x-lock-0000000003");
        let child = Child::parse(&*name).unwrap();
        assert_eq!((child.marker, child.sequence, child.id()), (Marker::Lock, 3, Some(id)));
        assert_eq!((child.process(), child.name.starts_with(&prefix(id))), (Some(process), true));
        assert!(!child.name.starts_with(&prefix(HoldId { n: 4, ..id })));
    }

    #[test]
    fn curator_nodes_are_parsed_and_foreign_ones_are_not() {
        let child = Child::parse("_c_4f3c2b1a-0000-4000-8000-000000000001-__WRIT__0000000012").unwrap();
        assert_eq!((child.marker, child.sequence, child.id()), (Marker::Write, 12, None));
        assert_eq!(child.digits(), "0000000012");
        let gone_round = Child::parse("x-lock--2147483648").unwrap();
        assert_eq!((gone_round.sequence, gone_round.digits()), (i32::MIN, "-2147483648"));
        assert_eq!(Child::parse("x-lock--000000001").unwrap().sequence, -1);
        for stray in ["", "foo", "lock-", "lock-9", "lock-zzz", "007", "lock-99999999999", "lock-ü", "locks"]
        {
            assert_eq!(Child::parse(stray), None, "{stray}");
        }
    }
}
