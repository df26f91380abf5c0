//! Tables and colours for the terminal.

use std::io::{self, IsTerminal, Write, stdout};

/// Whether to colour standard output; respects <https://no-color.org>.
pub(crate) fn coloured() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Width of the terminal on standard output, if it is one; 80 if the terminal does not report it.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(if size.ws_col == 0 { 80 } else { usize::from(size.ws_col) })
}

/// Text style.
#[derive(Clone, Copy)]
pub(crate) enum Look {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

pub(crate) fn paint(text: &str, look: Look, coloured: bool) -> String {
    let code = match look {
        _ if !coloured || text.is_empty() => return text.to_owned(),
        Look::Plain => return text.to_owned(),
        Look::Bold => 1,
        Look::Dim => 2,
        Look::Red => 31,
        Look::Green => 32,
        Look::Yellow => 33,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// A table whose columns are as wide as their widest cell.
pub(crate) struct Table<const N: usize> {
    heads: [&'static str; N],
    looks: [Look; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heads: [&'static str; N], looks: [Look; N]) -> Self {
        Self { heads, looks, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    pub(crate) fn widths(&self) -> [usize; N] {
        let mut widths = self.heads.map(str::len);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    /// Cuts the cells of the first column to this width.
    pub(crate) fn cut_first(&mut self, width: usize) {
        for row in &mut self.rows {
            row[0] = cut_middle(&row[0], width);
        }
    }

    pub(crate) fn text(&self, coloured: bool) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let mut line = |cells: &[&str], looks: &[Look]| {
            let mut gap = 0;
            for ((cell, look), width) in cells.iter().zip(looks).zip(&widths) {
                if cell.is_empty() {
                    gap += width + 2;
                    continue;
                }
                text.push_str(&" ".repeat(gap));
                text.push_str(&paint(cell, *look, coloured));
                gap = width - cell.chars().count() + 2;
            }
            text.push('\n');
        };
        line(&self.heads, &[Look::Bold; N]);
        for row in &self.rows {
            line(&row.each_ref().map(String::as_str), &self.looks);
        }
        text
    }
}

/// Cuts the middle out of a text that is too long: the ends of names differ more often than their middles.
fn cut_middle(text: &str, width: usize) -> String {
    let n = text.chars().count();
    if n <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept - kept / 2, kept / 2);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(n - tail)).collect()
}

/// Writes to standard output. A closed pipe, as by `head`, is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_have_no_tail() {
        let mut table = Table::new(["NAME", "N", "NOTE"], [Look::Plain, Look::Plain, Look::Dim]);
        table.row(["übung".into(), "1".into(), String::new()]);
        table.row(["a".into(), String::new(), "x".into()]);
        assert_eq!(table.text(false), "NAME   N  NOTE\nübung  1\na         x\n");
        assert!(table.text(true).contains("\x1b[2mx\x1b[0m"));
    }
}
