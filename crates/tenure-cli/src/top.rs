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
use crate::screen::{Screen, open_terminal, read_keys};
use crate::signals::{Disposition, Signals, listen};
use crate::table::{Look, coloured, paint};
use crate::times::{human, utc};
use rows::{Frame, Order};

/// How long a query may take, beyond the refresh interval, before the view reports it.
const LATE: Duration = Duration::from_secs(2);
/// Redraw interval while nothing happens.
const REDRAW: Duration = Duration::from_secs(1);
const KEYS: &str = "sort by: n name  k kind  p place  h held  l left  w waiters  f fence   q quit";

/// Runs `top` and returns the exit code.
pub(crate) async fn top(client: &Client, top: &Top, report: Report) -> Result<u8> {
    if top.once {
        let frame = Frame::new(client, fetch(client, top, Duration::ZERO).await?, top.limit);
        let order = Order::by(top.sort);
        return match report.json {
            true => output(&json(&frame.sorted(order))),
            false => output(&format!("{}\n{}", frame.title(), frame.sorted(order).table().text(coloured()))),
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

/// State of the screen.
struct View {
    frame: Frame,
    order: Order,
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
                    Ok(found) => {
                        let order = view.order;
                        view = View { order, ..View::new(Frame::new(client, found, top.limit), top) };
                    }
                    Err(error) if error.is_transient() => view.error = Some(error.to_string()),
                    Err(error) => return Ok(Err(error)),
                }
                fetching.set(fetch(client, top, top.every));
            }
            key = keys.recv() => match key {
                None | Some(b'q') => return Ok(Ok(0)),
                Some(key) => view.order.press(key),
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
        let patience = top.every.saturating_add(LATE);
        Self { frame, order: Order::by(top.sort), answered: Instant::now(), patience, error: None }
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
    fn lines(&self, (columns, rows): (usize, usize)) -> Vec<String> {
        let painted = |text: &str, look| paint(&fit(text, columns), look, coloured());
        let title = format!("{}  {}", self.frame.title(), utc(tenure::backend::wall_micros()));
        let table = self.frame.sorted(self.order).table().text(false);
        let mut lines = table.lines();
        let head = lines.next().unwrap_or_default();
        // Rows used by title, error line, heading, blank line and key help.
        let room = rows.saturating_sub(5).max(1);
        let n = lines.clone().count();
        let shown = if n > room { room - 1 } else { n };
        let mut text = vec![
            painted(&title, Look::Plain),
            painted(&self.outage_line(), Look::Red),
            painted(head, Look::Bold),
        ];
        text.extend(lines.take(shown).map(|line| fit(line, columns)));
        if n > shown {
            text.push(painted(&format!("… and {} more", n - shown), Look::Dim));
        }
        text.extend([String::new(), painted(KEYS, Look::Dim)]);
        text.truncate(rows);
        text
    }
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
        assert!(view.lines((80, 40)).iter().any(|l| l.starts_with("orders/29")));
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
        assert!(lines[3].starts_with("orders/0"), "{lines:?}");
    }
}
