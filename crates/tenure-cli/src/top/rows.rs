//! A frame of `tenure top`: one row per holder, as table cells or JSON, sorted as requested.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;
use tenure::backend::Liveness;
use tenure::{Client, Family, Fence, Holder, Name, Snapshot};

use crate::args::Column;
use crate::format::{location, printable, time_left};
use crate::inspect::{describe, liveness, mode_suffix};
use crate::table::{Look, Table};
use crate::times::{ago, human};

/// The result of one query.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Frame {
    store: &'static str,
    /// Where the store is.
    address: String,
    names: usize,
    waiters: usize,
    /// There are more names than the limit.
    more: bool,
    rows: Vec<Row>,
    #[serde(skip)]
    found: Vec<Snapshot>,
    #[serde(skip)]
    liveness: Liveness,
}

/// The shortest that a name is cut to, and how much of a note is kept in view.
const SHORTEST: usize = 12;
const NOTE: usize = 24;

/// A holder of a name, or a name without holders that has waiters or a count.
#[derive(Debug, Clone, Serialize)]
struct Row {
    name: Name,
    family: Family,
    waiters: usize,
    count: Option<i64>,
    size: Option<u32>,
    #[serde(flatten)]
    holder: Option<Holder>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unread: bool,
}

/// The sort order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    column: Column,
    reversed: bool,
}

impl Order {
    pub(crate) fn by(column: Column) -> Self {
        Self { column, reversed: false }
    }

    /// Sorts by another column, or reverses the order of the current one. Ignores unknown keys.
    pub(crate) fn press(&mut self, key: u8) {
        let column = match key {
            b'n' => Column::Name,
            b'k' => Column::Kind,
            b'p' => Column::Place,
            b'h' => Column::Held,
            b'l' => Column::Left,
            b'w' => Column::Waiters,
            b'f' => Column::Fence,
            _ => return,
        };
        *self = Self { column, reversed: self.column == column && !self.reversed };
    }
}

impl Frame {
    pub(crate) fn new(client: &Client, mut found: Vec<Snapshot>, limit: usize) -> Self {
        let more = found.len() > limit;
        found.truncate(limit);
        let waiters = found.iter().map(|s| s.waiters.len()).sum();
        let names = found.len();
        let info = client.backend().info();
        let rows = found.iter().cloned().flat_map(rows).collect();
        let (store, address) = (info.scheme, info.address.clone());
        Self { store, address, names, waiters, more, rows, found, liveness: liveness(client) }
    }

    pub(crate) fn title(&self) -> String {
        let Self { store, address, names, waiters, .. } = self;
        let more = if self.more { "more than " } else { "" };
        let s = if *names == 1 { "" } else { "s" };
        let store = format!("{store} {}", printable(address));
        format!("tenure top  {}  {more}{names} name{s} in use, {waiters} waiting", store.trim_end())
    }

    /// Which row each is: its name and its holder.
    pub(crate) fn keys(&self) -> Vec<RowKey> {
        self.rows.iter().map(|row| (row.name.clone(), row.holder.as_ref().map(|h| h.id.clone()))).collect()
    }

    /// All that is known about a name; `None` if it is no longer in use.
    pub(crate) fn details(&self, name: &Name) -> Option<String> {
        let snapshot = self.found.iter().find(|snapshot| snapshot.name == *name)?;
        Some(describe(snapshot, self.liveness, false))
    }

    /// Returns a copy sorted by `order`; equal rows are sorted by name.
    pub(crate) fn sorted(&self, order: Order) -> Self {
        let mut frame = self.clone();
        let rows = &mut frame.rows;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        match order.column {
            Column::Name => {}
            Column::Kind => rows.sort_by_key(|row| row.family.to_string()),
            Column::Place => rows.sort_by_key(Row::location),
            // Largest first for the columns below, except `Left`: what users most likely look for.
            Column::Held => rows.sort_by_key(|row| Reverse(row.held())),
            Column::Left => rows.sort_by_key(Row::left),
            Column::Waiters => rows.sort_by_key(|row| Reverse(row.waiters)),
            Column::Fence => rows.sort_by_key(|row| Reverse(row.fence())),
        }
        if order.reversed {
            rows.reverse();
        }
        frame
    }

    /// The table. In a terminal of `columns`, long names are cut so that the other columns are seen, the fence last.
    pub(crate) fn table(&self, columns: Option<usize>) -> Table<8> {
        let looks = [
            Look::Bold,
            Look::Plain,
            Look::Plain,
            Look::Plain,
            Look::Plain,
            Look::Plain,
            Look::Dim,
            Look::Dim,
        ];
        let heads = ["NAME", "KIND", "PLACE", "HELD", "LEFT", "WAITERS", "NOTE", "FENCE"];
        let mut table = Table::new(heads, looks);
        for row in &self.rows {
            let cell = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            table.row([
                printable(row.name.as_str()),
                row.kind(),
                row.location(),
                cell(row.held().map(human)),
                cell(row.holder.as_ref().map(|h| time_left(h, self.liveness))),
                if row.waiters == 0 { "-".into() } else { row.waiters.to_string() },
                row.holder.as_ref().and_then(|h| h.note.as_deref()).map(printable).unwrap_or_default(),
                cell(row.fence().map(|f| f.to_string())),
            ]);
        }
        if let Some(columns) = columns {
            let mut widths = table.widths();
            widths[6] = widths[6].min(NOTE);
            let others: usize = widths[1..7].iter().map(|width| width + 2).sum();
            table.cut_first(columns.saturating_sub(others).max(SHORTEST));
        }
        table
    }
}

/// A name, and the id of its holder if it has one.
pub(crate) type RowKey = (Name, Option<String>);

fn rows(snapshot: Snapshot) -> Vec<Row> {
    let Snapshot { name, family, holders, waiters, count, size, unread, .. } = snapshot;
    let (waiters, unread) = (waiters.len(), unread.is_some());
    let row = |holder| Row { name: name.clone(), family, waiters, count, size, holder, unread };
    match holders.is_empty() {
        true => vec![row(None)],
        false => holders.into_iter().map(|holder| row(Some(holder))).collect(),
    }
}

impl Row {
    fn kind(&self) -> String {
        if self.unread {
            return "could not be read".into();
        }
        let more = match (&self.holder, self.count, self.size) {
            (Some(holder), ..) => mode_suffix(holder),
            (None, Some(count), _) => format!(", {count}"),
            (None, None, Some(size)) => format!(", {size} free"),
            (None, None, None) => String::new(),
        };
        format!("{}{more}", self.family)
    }

    fn location(&self) -> String {
        match &self.holder {
            Some(holder) => location(holder),
            None => "-".into(),
        }
    }

    fn held(&self) -> Option<Duration> {
        self.holder.as_ref()?.since.map(ago)
    }

    /// Sort key of the remaining time. Holds that do not expire come last, and names without holders after them.
    fn left(&self) -> (bool, Duration) {
        (self.holder.is_none(), self.holder.as_ref().and_then(|h| h.left).unwrap_or(Duration::MAX))
    }

    fn fence(&self) -> Option<Fence> {
        self.holder.as_ref()?.fence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::testing::Store;

    fn names(frame: &Frame, order: Order) -> Vec<String> {
        frame.sorted(order).rows.iter().map(|row| row.name.to_string()).collect()
    }

    #[tokio::test]
    async fn each_column_sorts_and_sorts_back() {
        let store = Store::new();
        let (client, other) = (store.client(), store.client());
        let seconds = Duration::from_secs;
        let _b = client.lock("b").lease(seconds(60)).acquire().await.unwrap();
        let _c = client.rwlock("c").write().lease(seconds(10)).acquire().await.unwrap();
        let _a = client.lock("a").lease(seconds(30)).acquire().await.unwrap();
        client.latch("z").try_set_count(3).await.unwrap();
        let waiting = tokio::spawn(async move { other.lock("b").acquire().await });
        while client.lock("b").waiters().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let frame = Frame::new(&client, client.list("", 10).await.unwrap(), 10);
        for (key, sorted) in [
            (b'n', ["a", "b", "c", "z"]),
            (b'k', ["z", "a", "b", "c"]),
            (b'h', ["b", "c", "a", "z"]),
            (b'l', ["c", "a", "b", "z"]),
            (b'w', ["b", "a", "c", "z"]),
            (b'f', ["a", "c", "b", "z"]),
        ] {
            let mut order = Order::by(Column::Place);
            order.press(key);
            assert_eq!(names(&frame, order), sorted, "{}", key as char);
            order.press(b'?');
            assert_eq!(names(&frame, order), sorted, "a key that means nothing");
            order.press(key);
            let back: Vec<_> = sorted.into_iter().rev().collect();
            assert_eq!(names(&frame, order), back, "{} again", key as char);
        }
        waiting.abort();
    }

    #[tokio::test]
    async fn a_long_name_leaves_room_for_the_other_columns() {
        let client = Store::new().client();
        let long = format!("orders/{}/42", "x".repeat(200));
        let _held = client.lock(&long).note("nightly").acquire().await.unwrap();
        let frame = Frame::new(&client, client.list("", 10).await.unwrap(), 10);
        let lines: Vec<String> = frame.table(Some(100)).text(false).lines().map(str::to_owned).collect();
        assert!(lines[1].starts_with("orders/") && lines[1].contains("x…x"), "{lines:?}");
        assert!(lines[1].contains("/42  lock  "), "both ends are seen: {lines:?}");
        assert!(lines[0].find("NOTE").unwrap() + "nightly".len() <= 100, "{lines:?}");
        assert!(frame.table(None).text(false).contains(&long));
    }

    #[tokio::test]
    async fn a_frame_that_is_cut_says_so() {
        let client = Store::new().client();
        let _one = client.lock("a").acquire().await.unwrap();
        let _two = client.lock("b").acquire().await.unwrap();
        let found = client.list("", 10).await.unwrap();
        let frame = Frame::new(&client, found.clone(), 1);
        assert_eq!((frame.rows.len(), frame.more), (1, true));
        assert!(frame.title().contains("more than 1 name in use"), "{}", frame.title());
        assert!(!Frame::new(&client, found, 2).more);
    }
}
