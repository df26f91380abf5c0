//! `tenure top`: a live view of names and their holders.

mod rows;

use std::fs::File;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use tenure::{Client, Error, Result, Snapshot};
use tokio::time::{sleep, timeout};

use crate::args::Top;
use crate::format::printable;
use crate::inspect::json;
use crate::output;
use crate::report::{Report, fit};
use crate::screen::{Key, Screen, open_terminal, read_keys};
use crate::signals::{Disposition, Signals, listen};
use crate::table::{Look, coloured, paint, width};
use crate::times::{human, utc};
use rows::{Frame, Order, RowKey};

/// How long a query may take, beyond the refresh interval, before the view reports it.
const LATE: Duration = Duration::from_secs(2);
/// Redraw interval while nothing happens.
const REDRAW: Duration = Duration::from_secs(1);
const KEYS: &str = "↑↓ select  Enter details  sort: n k p h l w f  ? help  q quit";
const BACK: &str = "Esc back  q quit";
const HELP: &str = "\
One row per holder. LEFT is the time until the hold ends unless it is renewed:
`session` if it ends with the session of its holder, `never` if it does not
expire. A holder that belongs to another library is `foreign`.

  ↑ ↓      select a row
  Enter    everything about the selected name
  n        sort by name
  k        sort by kind
  p        sort by place: the host and the process of the holder
  h        sort by the time that it is held
  l        sort by the time that is left
  w        sort by the number of waiters
  f        sort by fence
           the same key again reverses the order
  ?        this help
  q        quit";

/// Runs `top` and returns the exit code.
pub(crate) async fn top(client: &Client, top: &Top, report: Report) -> Result<u8> {
    if top.once {
        let frame = Frame::new(client, fetch(client, top, Duration::ZERO).await?, top.limit);
        let order = Order::by(top.sort);
        return match report.json {
            true => output(&json(&frame.sorted(order))),
            false => {
                output(&format!("{}\n{}", frame.title(), frame.sorted(order).table(width()).text(coloured())))
            }
        }
        .map(|()| 0);
    }
    if report.json {
        return Err(Error::Config("--json needs --once".into()));
    }
    let tty = open_terminal()
        .ok_or_else(|| Error::Config("there is no terminal: use --once to print the table once".into()))?;
    match live(client, top, &tty).await {
        Ok(ended) => ended,
        Err(error) => Err(Error::Config(format!("cannot draw on the terminal: {error}"))),
    }
}

async fn fetch(client: &Client, top: &Top, after: Duration) -> Result<Vec<Snapshot>> {
    sleep(after).await;
    client.list(top.prefix.as_str(), top.limit.saturating_add(1)).await
}

/// What the screen shows.
#[derive(Clone, Copy, PartialEq)]
enum Page {
    Table,
    Details,
    Help,
}

/// State of the screen.
struct View {
    frame: Frame,
    order: Order,
    page: Page,
    /// The row that is selected; the first one if it is not there.
    selected: Option<RowKey>,
    /// When the store answered last, and after how long the next answer is overdue.
    answered: Instant,
    patience: Duration,
    /// The error of the last query, if it failed.
    error: Option<String>,
}

async fn live(client: &Client, top: &Top, tty: &File) -> io::Result<Result<u8>> {
    let mut signals = Signals::listen()?;
    let (mut resized, mut stops) = (listen(Signal::WINCH)?, listen(Signal::TSTP)?);
    let mut continued = listen(Signal::CONT)?;
    let mut keys = read_keys(tty.try_clone()?);
    let mut screen = Screen::enter(tty)?;
    let mut view = View::new(Frame::new(client, Vec::new(), top.limit), top);
    let mut fetching = pin!(fetch(client, top, Duration::ZERO));
    loop {
        screen.draw(&view.lines(screen.size()))?;
        tokio::select! {
            found = &mut fetching => {
                match found {
                    Ok(found) => view.update(Frame::new(client, found, top.limit)),
                    Err(error) if error.is_transient() => view.error = Some(error.to_string()),
                    Err(error) => return Ok(Err(error)),
                }
                fetching.set(fetch(client, top, top.every));
            }
            key = keys.recv() => match key {
                None | Some(Key::Char(b'q')) => return Ok(Ok(0)),
                Some(key) => view.press(key),
            },
            signal = signals.next_end() => return Ok(Ok(128 + signal.as_raw() as u8)),
            _ = resized.recv() => {}
            () = sleep(REDRAW) => {}
            _ = stops.recv() => {
                drop(screen);
                {
                    let _default = Disposition::default(Signal::TSTP);
                    kill_process(getpid(), Signal::TSTP)?;
                    // The kernel does not stop an orphaned process group, which nobody could continue; then go on after
                    // a moment.
                    let _ = timeout(Duration::from_millis(100), continued.recv()).await;
                }
                screen = Screen::enter(tty)?;
            }
        }
    }
}

impl View {
    /// Creates the view of a frame that was just fetched.
    fn new(frame: Frame, top: &Top) -> Self {
        Self {
            frame,
            order: Order::by(top.sort),
            page: Page::Table,
            selected: None,
            answered: Instant::now(),
            patience: top.every.saturating_add(LATE),
            error: None,
        }
    }

    fn update(&mut self, frame: Frame) {
        (self.frame, self.answered, self.error) = (frame, Instant::now(), None);
    }

    fn press(&mut self, key: Key) {
        match (self.page, key) {
            (Page::Help, Key::Char(b'?') | Key::Escape | Key::Enter) => self.page = Page::Table,
            (Page::Details, Key::Escape | Key::Enter) => self.page = Page::Table,
            (_, Key::Char(b'?')) => self.page = Page::Help,
            (Page::Table, Key::Enter) => {
                let rows = self.frame.sorted(self.order).keys();
                if let Some(row) = rows.get(self.position(&rows)) {
                    (self.selected, self.page) = (Some(row.clone()), Page::Details);
                }
            }
            (Page::Table, Key::Up | Key::Down) => {
                let rows = self.frame.sorted(self.order).keys();
                let at = self.position(&rows);
                let at = if key == Key::Up { at.saturating_sub(1) } else { at + 1 };
                self.selected = rows.into_iter().take(at + 1).last();
            }
            (Page::Table, Key::Char(char)) => self.order.press(char),
            _ => {}
        }
    }

    /// The index of the selected row.
    fn position(&self, rows: &[RowKey]) -> usize {
        self.selected.as_ref().and_then(|key| rows.iter().position(|row| row == key)).unwrap_or(0)
    }

    /// Describes what is wrong with the store; empty if nothing is.
    fn outage_line(&self) -> String {
        if self.error.is_none() && self.answered.elapsed() < self.patience {
            return String::new();
        }
        let silent = human(Duration::from_secs(self.answered.elapsed().as_secs().max(1)));
        let why = self.error.as_ref().map_or_else(String::new, |why| format!(": {}", printable(why)));
        format!("no answer from the store for {silent}, showing the last answer{why}")
    }

    /// Renders the view, clipped to the size of the terminal.
    fn lines(&self, size: (usize, usize)) -> Vec<String> {
        let (columns, rows) = size;
        let painted = |text: &str, look| paint(&fit(text, columns), look, coloured());
        let title = format!("{}  {}", self.frame.title(), utc(tenure::backend::wall_micros()));
        let mut text = vec![painted(&title, Look::Plain), painted(&self.outage_line(), Look::Red)];
        // Rows used by title, error line, blank line and key help.
        let room = rows.saturating_sub(4).max(1);
        let (body, keys) = match (self.page, &self.selected) {
            (Page::Help, _) => (plain_lines(HELP, columns), BACK),
            (Page::Details, Some((name, _))) => {
                let gone = || format!("{}: not in use any more", printable(name.as_str()));
                (plain_lines(&self.frame.details(name).unwrap_or_else(gone), columns), BACK)
            }
            _ => (self.table_lines((columns, room)), KEYS),
        };
        text.extend(body.into_iter().take(room));
        text.extend([String::new(), painted(keys, Look::Dim)]);
        text.truncate(rows);
        text
    }

    /// The heading, and the rows around the selected one.
    fn table_lines(&self, (columns, room): (usize, usize)) -> Vec<String> {
        let painted = |text: &str, look| paint(&fit(text, columns), look, coloured());
        let sorted = self.frame.sorted(self.order);
        let selected = self.position(&sorted.keys());
        let table = sorted.table(Some(columns.saturating_sub(GUTTER))).text(false);
        let mut lines = table.lines();
        let head = lines.next().unwrap_or_default();
        let (n, room) = (lines.clone().count(), room.saturating_sub(1).max(1));
        let shown = if n > room { room - 1 } else { n };
        let first = (selected + 1).saturating_sub(shown.max(1));
        let mut text = vec![painted(&format!("{:GUTTER$}{head}", ""), Look::Bold)];
        text.extend(lines.enumerate().skip(first).take(shown).map(|(at, line)| match at == selected {
            true => painted(&format!("> {line}"), Look::Bold),
            false => fit(&format!("  {line}"), columns),
        }));
        if n > shown {
            text.push(painted(&format!("… and {} more", n - shown), Look::Dim));
        }
        text
    }
}

/// Width of the mark before each row.
const GUTTER: usize = 2;

fn plain_lines(text: &str, columns: usize) -> Vec<String> {
    text.lines().map(|line| fit(line, columns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Column;
    use tenure::testing::Store;

    fn top() -> Top {
        let (prefix, every) = (String::new(), Duration::from_secs(1));
        Top { prefix, once: false, sort: Column::Name, every, limit: 1000 }
    }

    async fn view(n: usize) -> (View, Vec<tenure::Guard>) {
        let client = Store::new().client();
        let mut guards = Vec::new();
        for i in 0..n {
            guards.push(client.lock(format!("orders/{i}")).acquire().await.unwrap());
        }
        let found = client.list("", 1000).await.unwrap();
        let frame = Frame::new(&client, found, 1000);
        (View::new(frame, &top()), guards)
    }

    #[tokio::test]
    async fn a_frame_fits_its_terminal() {
        let (mut view, _guards) = view(30).await;
        view.error = Some("the store\x1b[2J is gone".repeat(20));
        for size in [(80, 24), (40, 10), (10, 6), (1, 1)] {
            let lines = view.lines(size);
            assert!(lines.len() <= size.1, "{size:?}: {lines:?}");
            assert!(lines.iter().all(|l| l.chars().count() <= size.0), "{size:?}: {lines:?}");
            assert!(!lines.concat().contains('\x1b'), "{lines:?}");
        }
        assert!(view.lines((80, 24)).contains(&"… and 12 more".to_owned()), "{:?}", view.lines((80, 24)));
        assert!(view.lines((80, 40)).iter().any(|l| l.starts_with("  orders/29")));
    }

    #[tokio::test]
    async fn a_row_is_selected_and_its_name_is_shown_in_full() {
        let (mut view, _guards) = view(30).await;
        let seen = |view: &View, text: &str| view.lines((100, 24)).iter().any(|line| line.contains(text));
        assert!(seen(&view, "> orders/0 ") && seen(&view, "Enter details"));
        for _ in 0..40 {
            view.press(Key::Down);
        }
        assert!(seen(&view, "> orders/9 "), "the last row, into view: {:#?}", view.lines((100, 24)));
        view.press(Key::Up);
        assert!(seen(&view, "> orders/8 "));
        view.press(Key::Enter);
        assert!(seen(&view, "orders/8: lock, held") && seen(&view, "hold ") && seen(&view, "Esc back"));
        view.press(Key::Char(b'?'));
        assert!(seen(&view, "sort by the number of waiters"));
        view.press(Key::Escape);
        assert!(seen(&view, "> orders/8 "));
        view.press(Key::Enter);
        let gone = Frame::new(&Store::new().client(), Vec::new(), 10);
        view.update(gone);
        assert!(seen(&view, "orders/8: not in use any more"));
    }

    #[tokio::test]
    async fn an_outage_is_a_line_above_what_was_seen_before() {
        let (mut view, _guards) = view(1).await;
        assert_eq!(view.lines((120, 24))[1], "");
        view.patience = Duration::ZERO;
        assert_eq!(view.lines((120, 24))[1], "no answer from the store for 1 s, showing the last answer");
        view.error = Some("connection refused".into());
        let lines = view.lines((120, 24));
        assert!(
            lines[1].contains("no answer from the store for") && lines[1].contains("connection refused"),
            "{lines:?}"
        );
        assert!(lines[3].starts_with("> orders/0"), "{lines:?}");
    }
}
