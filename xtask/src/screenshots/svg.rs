//! Draws cells as SVG.

use super::screen::{Cell, Look, REST, Row, width};

/// Width and height of a cell, in tenths of a pixel: whole numbers are printed the same everywhere.
const CELL: (usize, usize) = (84, 190);
/// From the top of a cell to the line that letters stand on.
const BASE: usize = 140;
const MARGIN: usize = 160;
const FONT: &str =
    "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Noto Sans Mono CJK SC',monospace";

/// A picture as large as what is on the page.
pub(super) fn picture(page: &[Row], title: &str) -> String {
    let used = |row: &Row| row.iter().rposition(|cell| cell.char != ' ').map_or(0, |at| at + 1);
    let columns = page.iter().map(used).max().unwrap_or(0);
    let rows = page.iter().rposition(|row| used(row) > 0).map_or(0, |at| at + 1);
    let wide = pixels(columns * CELL.0 + 2 * MARGIN);
    let high = pixels(rows * CELL.1 + 2 * MARGIN);
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\" \
         role=\"img\" aria-label=\"{title}\">\n  <title>{title}</title>\n  \
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"#0d1117\" stroke=\"#30363d\"/>\n  \
         <g font-family=\"{FONT}\" font-size=\"14\" fill=\"#d0d7de\">\n",
        pixels(columns * CELL.0 + 2 * MARGIN - 10),
        pixels(rows * CELL.1 + 2 * MARGIN - 10),
    );
    for (y, row) in page[..rows].iter().enumerate() {
        for (x, run) in runs(row) {
            svg.push_str(&drawn(x, y, run));
        }
    }
    svg + "  </g>\n</svg>\n"
}

/// The parts of a row that are drawn at once, each with its column. No part has two blanks in a row, which SVG would
/// make one, or characters of two widths, which a font may not have as two columns and one.
fn runs(row: &[Cell]) -> Vec<(usize, &[Cell])> {
    let mut runs = Vec::new();
    let mut begin = 0;
    let is_blank = |at: usize| row.get(at).is_none_or(|cell| cell.char == ' ');
    let is_wide = |at: usize| row[at].char == REST || width(row[at].char) == 2;
    while begin < row.len() {
        if is_blank(begin) {
            begin += 1;
            continue;
        }
        let more = |end: &usize| {
            let end = *end;
            let gap = is_blank(end) && (is_blank(end + 1) || row[end + 1].look != row[begin].look);
            !gap && row[end].look == row[begin].look && is_wide(end) == is_wide(begin)
        };
        let end = (begin + 1..row.len()).take_while(more).last().unwrap_or(begin) + 1;
        runs.push((begin, &row[begin..end]));
        begin = end;
    }
    runs
}

/// The width is given, so that columns stand where they do in the terminal whatever the font is.
fn drawn(x: usize, y: usize, run: &[Cell]) -> String {
    let text: String = run.iter().map(|cell| cell.char).filter(|char| *char != REST).collect();
    // A blank at the end has no width in SVG.
    let columns = run.len() - (text.len() - text.trim_end().len());
    format!(
        "    <text x=\"{}\" y=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>\n",
        pixels(MARGIN + x * CELL.0),
        pixels(MARGIN + y * CELL.1 + BASE),
        pixels(columns * CELL.0),
        style(run[0].look),
        escaped(text.trim_end()),
    )
}

fn style(look: Look) -> String {
    let colour = match look {
        Look { colour: Some(31), .. } => "#ff7b72",
        Look { colour: Some(32), .. } => "#3fb950",
        Look { colour: Some(_), .. } => "#d29922",
        Look { dim: true, .. } => "#8b949e",
        Look { bold: true, .. } => "#ffffff",
        _ => "",
    };
    let colour = if colour.is_empty() { String::new() } else { format!(" fill=\"{colour}\"") };
    format!("{colour}{}", if look.bold { " font-weight=\"bold\"" } else { "" })
}

fn pixels(tenths: usize) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::screen::read;
    use super::*;

    fn texts(sent: &str) -> Vec<String> {
        let svg = picture(&read(sent, (40, 3)).unwrap(), "t");
        svg.lines().filter(|line| line.contains("<text")).map(|line| line.trim().to_owned()).collect()
    }

    fn text(x: &str, y: &str, length: &str, more: &str) -> String {
        format!(
            "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\"{more}</text>"
        )
    }

    #[test]
    fn columns_are_drawn_one_by_one() {
        let expected = [
            text("16", "30", "25.2", ">a b"),
            text("66.4", "30", "8.4", ">c"),
            text("24.4", "49", "8.4", ">d"),
        ];
        assert_eq!(texts("a b   c\r\n d"), expected);
    }

    #[test]
    fn markup_in_a_text_is_text() {
        assert_eq!(texts("<a>&\"b\""), [text("16", "30", "58.8", ">&lt;a&gt;&amp;&quot;b&quot;")]);
        let svg = picture(&[], "\"<&");
        assert!(
            svg.contains("aria-label=\"&quot;&lt;&amp;\"") && svg.contains("<title>&quot;&lt;&amp;</title>")
        );
    }

    #[test]
    fn looks_are_colours_and_weights() {
        let plain = text("16", "30", "8.4", ">a");
        let red = text("24.4", "30", "8.4", " fill=\"#ff7b72\">b");
        let bold = text("32.8", "30", "8.4", " fill=\"#ffffff\" font-weight=\"bold\">c");
        let dim = text("49.6", "30", "8.4", " fill=\"#8b949e\">d");
        assert_eq!(texts("a\x1b[31mb\x1b[0;1mc\x1b[0m \x1b[2md"), [plain, red, bold, dim]);
    }

    #[test]
    fn wide_characters_are_drawn_apart_at_twice_the_width() {
        let expected = [
            text("16", "30", "8.4", ">a"),
            text("24.4", "30", "33.6", ">分布"),
            text("58", "30", "8.4", ">b"),
        ];
        assert_eq!(texts("a分布b"), expected);
    }

    #[test]
    fn a_picture_is_as_large_as_what_is_on_it() {
        let svg = picture(&read("1234567890\r\n\r\n", (40, 3)).unwrap(), "t");
        assert!(svg.contains("width=\"116\" height=\"51\""), "{svg}");
        assert!(picture(&read("", (40, 3)).unwrap(), "t").contains("width=\"32\" height=\"32\""));
    }
}
