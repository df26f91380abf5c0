//! A violation as a picture: a row for each worker, from left to right the time. Holds are bars, waits are thin lines,
//! faults are shaded where they act, and the time of the violation is marked.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::conditions::Conditions;
use crate::expect::Expectations;
use crate::fault::Target;
use crate::history::History;
use crate::joined::{Ending, Entry, Joined, Outcome};
use crate::report::{Violation, seconds};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 88.0;
const LINE: f64 = 18.0;
const ROW: f64 = 46.0;
/// Of the bar of a hold.
const BAR: f64 = 22.0;
/// For the label of one more fault at the top.
const LABEL: f64 = 16.0;

const HELD: &str = "#2f6db3";
const MAYBE: &str = "#a9c7e8";
const LEFT_OVER: &str = "#e6effa";
const WAIT: &str = "#6b7280";
const FAULT: &str = "#f59e0b";
const WRONG: &str = "#d11a2a";

/// Draws a violation and the history that shows it, which is best [shortened](crate::shorten) before.
///
/// ```
/// use checker::{Check, Event, History, Violation, What, svg};
///
/// let history = History::new(vec![Event { at: 5, process: 3, what: What::Killed }]);
/// let violation = Violation {
///     check: Check::Stall, name: "a".into(), span: (0, 1), ops: Vec::new(), text: "free for <long>".into(),
/// };
/// assert!(svg(&history, &violation).contains("free for &lt;long&gt;"));
/// ```
pub fn svg(history: &History, violation: &Violation) -> String {
    Picture::new(history, violation).draw()
}

struct Picture<'a> {
    history: &'a History,
    violation: &'a Violation,
    joined: Joined<'a>,
    /// What the store may have of an entry, where the history says what is promised.
    conditions: Option<Conditions>,
    /// The title and what follows it.
    lines: Vec<String>,
    /// The rows, by process and worker.
    rows: BTreeMap<(u32, u32), usize>,
    from: u64,
    to: u64,
    top: f64,
    out: String,
}

impl<'a> Picture<'a> {
    fn new(history: &'a History, violation: &'a Violation) -> Self {
        let joined = Joined::new(history);
        let expected = history.run().map(Expectations::of_run);
        let conditions = expected.map(|expected| Conditions::new(&joined, &expected));
        let mut rows = BTreeMap::new();
        rows.extend(joined.entries.iter().map(|entry| ((entry.id.process, entry.worker), 0)));
        rows.values_mut().enumerate().for_each(|(place, row)| *row = place);
        let times = joined.entries.iter().flat_map(|entry| [Some(entry.called), entry.answered, entry.held]);
        let ends = joined.entries.iter().map(|entry| end(entry, 0));
        let times = times.flatten().chain(ends.filter(|at| *at > 0));
        let times: Vec<u64> = times.chain([violation.span.0, violation.span.1]).collect();
        let (from, to) = (*times.iter().min().unwrap_or(&0), *times.iter().max().unwrap_or(&1));
        let margin = ((to - from) / 40).max(1);
        let (from, to) = (from.saturating_sub(margin), to + margin);
        let lines = lines(history, violation);
        Self { history, violation, joined, conditions, lines, rows, from, to, top: TOP, out: String::new() }
    }

    fn x(&self, at: u64) -> f64 {
        let at = at.clamp(self.from, self.to) - self.from;
        LEFT + (WIDTH - LEFT - RIGHT) * at as f64 / (self.to - self.from) as f64
    }

    fn y(&self, row: usize) -> f64 {
        self.top + ROW * (row as f64 + 0.5)
    }

    fn bottom(&self) -> f64 {
        self.top + ROW * self.rows.len().max(1) as f64
    }

    fn rect(&mut self, span: (u64, u64), y: (f64, f64), style: &str) {
        let (left, right) = (self.x(span.0), self.x(span.1));
        let (width, height) = ((right - left).max(2.0), y.1 - y.0);
        let _ = writeln!(
            self.out,
            r#"<rect x="{left:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}" {style}/>"#,
            y.0
        );
    }

    fn text(&mut self, x: f64, y: f64, style: &str, text: &str) {
        let _ = writeln!(self.out, r#"<text x="{x:.1}" y="{y:.1}" {style}>{}</text>"#, escaped(text));
    }

    fn draw(mut self) -> String {
        let labels = self.fault_labels();
        let rows_of_labels = labels.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
        self.top = self.labels() + LABEL * rows_of_labels as f64;
        let height = self.bottom() + 76.0;
        let _ = writeln!(
            self.out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="DejaVu Sans, Helvetica, sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>"#
        );
        self.head();
        self.rows();
        self.faults(&labels);
        for at in 0..self.joined.entries.len() {
            self.entry(at);
        }
        self.violation();
        self.axis();
        self.legend();
        self.out + "</svg>\n"
    }

    /// Where the labels of the faults begin.
    fn labels(&self) -> f64 {
        TOP + LINE * self.lines.len().saturating_sub(3) as f64
    }

    fn head(&mut self) {
        for (place, line) in self.lines.clone().into_iter().enumerate() {
            let style = match place {
                0 => r#"font-size="16" font-weight="bold""#,
                _ => r##"fill="#444""##,
            };
            self.text(16.0, 26.0 + LINE * place as f64, style, &line);
        }
    }

    fn rows(&mut self) {
        for ((process, worker), row) in self.rows.clone() {
            let y = self.y(row);
            if row % 2 == 0 {
                self.rect((self.from, self.to), (y - ROW / 2.0, y + ROW / 2.0), r##"fill="#f4f5f7""##);
            }
            self.text(16.0, y + 4.0, "", &format!("process {process} · {worker}"));
        }
    }

    /// The faults that can be seen, each with a row for its label in which no other is in its way.
    fn fault_labels(&self) -> Vec<(usize, usize)> {
        let mut ends: Vec<f64> = Vec::new();
        let mut labels = Vec::new();
        for (at, fault) in self.joined.faults.iter().enumerate() {
            if fault.possible.1 < self.from || self.to < fault.possible.0 {
                continue;
            }
            let left = self.x(fault.possible.0);
            let right = left + 7.0 * format!("{} of {}", fault.class, fault.target).len() as f64 + 12.0;
            let row = ends.iter().position(|end| *end < left).unwrap_or(ends.len());
            if row == ends.len() {
                ends.push(right);
            } else {
                ends[row] = right;
            }
            labels.push((row, at));
        }
        labels
    }

    fn faults(&mut self, labels: &[(usize, usize)]) {
        for (row, at) in labels {
            let fault = self.joined.faults[*at].clone();
            let label = format!("{} of {}", fault.class, fault.target);
            let y = self.labels() + LABEL * *row as f64 - 6.0;
            let bottom = self.bottom();
            let style = format!(r#"fill="{FAULT}" fill-opacity="0.22""#);
            match fault.target {
                Target::Process(process) => {
                    let rows: Vec<usize> =
                        self.rows.iter().filter(|((of, _), _)| *of == process).map(|(_, row)| *row).collect();
                    for row in rows {
                        let y = self.y(row);
                        self.rect(fault.possible, (y - ROW / 2.0, y + ROW / 2.0), &style);
                    }
                }
                _ => {
                    let top = self.top;
                    self.rect(fault.possible, (top, bottom), &style);
                }
            }
            self.rect(fault.possible, (y + 3.0, y + 5.0), &format!(r#"fill="{FAULT}""#));
            let x = self.x(fault.possible.0).min(WIDTH - RIGHT - 7.0 * label.len() as f64).max(LEFT);
            self.text(x, y, r##"font-size="11" fill="#92400e""##, &label);
        }
    }

    fn entry(&mut self, at: usize) {
        let entry = self.joined.entries[at].clone();
        let row = self.rows[&(entry.id.process, entry.worker)];
        // An entry of an owner into its own hold is drawn inside of it.
        let is_inner = self.joined.entries[..at].iter().any(|outer| {
            outer.owner == entry.owner && outer.is_granted() && end(outer, self.joined.end) > entry.called
        });
        let half = if is_inner { BAR / 4.0 } else { BAR / 2.0 };
        let y = self.y(row);
        let gone = self.joined.processes.get(&entry.id.process).and_then(|process| process.end());
        let answered = entry.answered.or(gone).unwrap_or(self.joined.end);
        self.rect((entry.called, answered), (y - 1.0, y + 1.0), &format!(r#"fill="{WAIT}""#));
        let right = self.x(answered);
        let mark = match entry.outcome {
            Outcome::Granted => None,
            Outcome::Busy => Some("busy"),
            Outcome::TimedOut => Some("timed out"),
            Outcome::Failed => Some("failed"),
            Outcome::Unknown => Some("unknown"),
            Outcome::Pending if gone.is_some() => Some("killed"),
            Outcome::Pending => Some("still waits"),
        };
        if let Some(mark) = mark {
            let anchor = if right > WIDTH - 120.0 { r#"text-anchor="end""# } else { "" };
            self.text(right + 3.0, y - 5.0, &format!(r##"font-size="10" fill="#444" {anchor}"##), mark);
            return;
        }
        let over = end(&entry, gone.unwrap_or(self.joined.end));
        let left = self.conditions.as_ref().and_then(|known| known.occupied(&self.joined, &entry));
        if let Some((_, until)) = left.filter(|(_, until)| *until > over) {
            let style =
                format!(r##"fill="{LEFT_OVER}" stroke="{HELD}" stroke-width="0.5" stroke-dasharray="3 3""##);
            self.rect((over, until), (y - half, y + half), &style);
        }
        self.rect(
            (answered, over),
            (y - half, y + half),
            &format!(r##"fill="{MAYBE}" stroke="{HELD}" stroke-width="0.5""##),
        );
        if let Some(certain) = entry.certain() {
            let shade = if is_inner { "#1e4f8a" } else { HELD };
            self.rect(certain, (y - half, y + half), &format!(r#"fill="{shade}""#));
        }
        if let Some(at) = entry.not_held {
            self.rect((at, at), (y - half - 4.0, y + half + 4.0), r#"fill="black""#);
        }
        let label = match entry.fence {
            Some(fence) => format!("{} · {fence}", entry.id),
            None => entry.id.to_string(),
        };
        let below = y + half + 11.0;
        if !is_inner {
            let x = self.x(answered).min(WIDTH - RIGHT - 6.5 * label.len() as f64);
            self.text(x, below, r##"font-size="10" fill="#1f2937""##, &label);
        }
        let how = match entry.ending {
            Ending::Lost { .. } => "lost",
            Ending::Dropped { .. } => "dropped",
            Ending::Detached { .. } => "detached",
            Ending::Leaving { .. } => "release unknown",
            Ending::Open if gone.is_some() => "killed",
            _ => return,
        };
        let x = self.x(over) + 4.0;
        self.text(x.min(WIDTH - RIGHT - 50.0), y - half + 8.0, r##"font-size="10" fill="#444""##, how);
    }

    fn violation(&mut self) {
        let span = self.violation.span;
        let (top, bottom) = (self.top, self.bottom());
        self.rect(span, (top, bottom), &format!(r#"fill="{WRONG}" fill-opacity="0.16""#));
        let outline = format!(r#"fill="none" stroke="{WRONG}" stroke-width="1.5" stroke-dasharray="5 3""#);
        self.rect(span, (top, bottom), &outline);
    }

    fn axis(&mut self) {
        let bottom = self.bottom();
        let width = self.to - self.from;
        let rough = (width as f64 / 8.0).max(1.0);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough) as u64;
        let begin = self.history.events().first().map_or(self.from, |first| first.at);
        let first = self.from.saturating_sub(begin).div_ceil(step) * step + begin;
        for at in (first..=self.to).step_by(step.max(1) as usize) {
            let x = self.x(at);
            let (top, low) = (self.top, bottom + 5.0);
            let _ = writeln!(
                self.out,
                r##"<line x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{low:.1}" stroke="#9ca3af" stroke-width="0.5"/>"##
            );
            let label = if at == begin { "0".to_owned() } else { seconds(at - begin) };
            self.text(x, bottom + 20.0, r##"text-anchor="middle" font-size="11" fill="#444""##, &label);
        }
    }

    fn legend(&mut self) {
        let y = self.bottom() + 50.0;
        let parts = [
            (HELD, "held, says the guard"),
            (MAYBE, "may be held"),
            (LEFT_OVER, "may be left in the store"),
            ("black", "says not held"),
            (WAIT, "waits"),
            (FAULT, "fault"),
            (WRONG, "violation"),
        ];
        let mut x = LEFT;
        for (colour, label) in parts {
            let (width, height) = match colour {
                WAIT => (22.0, 2.0),
                "black" => (2.0, 14.0),
                _ => (22.0, 12.0),
            };
            let top = y - 5.0 - height / 2.0;
            let _ = writeln!(
                self.out,
                r#"<rect x="{x:.1}" y="{top:.1}" width="{width}" height="{height}" fill="{colour}"/>"#
            );
            self.text(x + width + 6.0, y, r##"font-size="11" fill="#444""##, label);
            x += width + 26.0 + 6.4 * label.len() as f64;
        }
    }
}

/// When an entry was over, as far as its worker knows.
fn end(entry: &Entry<'_>, otherwise: u64) -> u64 {
    let over = match entry.ending {
        Ending::Open => otherwise,
        Ending::Released { answered, .. } | Ending::Freed { answered } => answered,
        Ending::Leaving { called } => called,
        Ending::Lost { seen } => seen,
        Ending::Dropped { at } => at,
        Ending::Detached { until, .. } => until,
    };
    over.max(entry.held.unwrap_or(0))
}

/// What is written above the picture: the violation, and the seed and the faults of the run.
fn lines(history: &History, violation: &Violation) -> Vec<String> {
    let mut lines = vec![violation.to_string()];
    if let Some(run) = history.run() {
        lines.push(format!("{}, seed {}", run.store, run.seed));
        let plan = if run.plan.is_empty() { "none" } else { &run.plan };
        lines.extend(wrapped(&format!("planned faults: {plan}"), 170));
    }
    lines
}

/// Lines of at most so many characters, as far as words allow.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if last.chars().count() + 1 + word.chars().count() <= most => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
