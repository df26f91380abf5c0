//! Plots as SVG: bars, and lines over a logarithmic axis.

use std::fmt::Write;

use crate::table::number;

/// Ours in the first, bare references in grey, others in between.
const COLORS: [&str; 8] =
    ["#1b6e8c", "#d1495b", "#edae49", "#66a182", "#8d6a9f", "#8c8c8c", "#4f772d", "#30638e"];
const OURS: &str = "#1b6e8c";
const OTHERS: &str = "#c9b79c";
const BARE: &str = "#b9b9b9";
const FONT: &str = "font-family=\"Helvetica, Arial, sans-serif\"";

/// One group of bars: its title, and a value for each name, the largest first.
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<(String, f64)>,
}

/// Groups of horizontal bars, one below the other, each with its own scale.
pub(crate) fn bars(title: &str, groups: &[Group]) -> String {
    const LEFT: f64 = 190.0;
    const LENGTH: f64 = 420.0;
    const ROW: f64 = 18.0;
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = 44.0 + groups.len() as f64 * 40.0 + rows as f64 * ROW;
    let mut svg = open(720.0, height, title);
    let mut y = 44.0;
    for group in groups {
        text(&mut svg, (20.0, y + 14.0), 13.0, "start", "bold", &group.title);
        y += 24.0;
        let most = group.bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
        for (name, value) in &group.bars {
            let color = match name.split([' ', ',']).next() {
                Some("Tenure" | "tenure") => OURS,
                Some("bare") => BARE,
                _ => OTHERS,
            };
            let length = (value / most * LENGTH).max(1.0);
            text(&mut svg, (LEFT - 8.0, y + 12.0), 12.0, "end", "normal", name);
            let _ = writeln!(
                svg,
                r#"<rect x="{LEFT}" y="{:.1}" width="{length:.1}" height="13" fill="{color}"/>"#,
                y + 2.0
            );
            text(&mut svg, (LEFT + length + 6.0, y + 12.0), 12.0, "start", "normal", &number(*value));
            y += ROW;
        }
        y += 16.0;
    }
    svg + "</svg>\n"
}

/// A line: its name and its points.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How an axis goes, and its label.
pub(crate) struct Axis<'a> {
    pub(crate) label: &'a str,
    pub(crate) logarithmic: bool,
}

/// Lines in one frame, with a legend beside it.
pub(crate) fn lines(title: &str, x: &Axis<'_>, y: &Axis<'_>, lines: &[Line]) -> String {
    const FRAME: (f64, f64, f64, f64) = (70.0, 66.0, 420.0, 300.0);
    let (left, top, width, height) = FRAME;
    let mut svg = open(860.0, 424.0, title);
    let points = || lines.iter().flat_map(|line| &line.points);
    let xs = Scale::of(points().map(|point| point.0), x.logarithmic);
    let ys = Scale::of(points().map(|point| point.1), y.logarithmic);
    let place =
        |point: &(f64, f64)| (left + xs.part(point.0) * width, top + height - ys.part(point.1) * height);
    for tick in xs.ticks() {
        let at = left + xs.part(tick) * width;
        rule(&mut svg, (at, top), (at, top + height));
        text(&mut svg, (at, top + height + 16.0), 11.0, "middle", "normal", &label(tick));
    }
    for tick in ys.ticks() {
        let at = top + height - ys.part(tick) * height;
        rule(&mut svg, (left, at), (left + width, at));
        text(&mut svg, (left - 6.0, at + 4.0), 11.0, "end", "normal", &label(tick));
    }
    text(&mut svg, (left + width / 2.0, top + height + 38.0), 12.0, "middle", "normal", x.label);
    text(&mut svg, (20.0, top - 8.0), 12.0, "start", "normal", y.label);
    for (i, line) in lines.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let dash = if i >= COLORS.len() { r#" stroke-dasharray="5 3""# } else { "" };
        let path: Vec<String> =
            line.points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="2"{dash}/>"#,
            path.join(" ")
        );
        let at = top + 12.0 + i as f64 * 18.0;
        let _ = writeln!(
            svg,
            r#"<line x1="505" y1="{0:.1}" x2="525" y2="{0:.1}" stroke="{color}" stroke-width="3"{dash}/>"#,
            at - 4.0
        );
        text(&mut svg, (531.0, at), 12.0, "start", "normal", &line.name);
    }
    svg + "</svg>\n"
}

struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for value in values.filter(|value| !logarithmic || *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if logarithmic {
            let low = 10_f64.powf(low.max(1e-9).log10().floor());
            return Self { low, high: 10_f64.powf(high.max(low * 10.0).log10().ceil()), logarithmic };
        }
        Self { low: low.min(0.0), high, logarithmic }
    }

    fn part(&self, value: f64) -> f64 {
        let on = |value: f64| if self.logarithmic { value.max(self.low).log10() } else { value };
        (on(value) - on(self.low)) / (on(self.high) - on(self.low)).max(f64::MIN_POSITIVE)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10_f64.powi(decade)).collect();
        }
        (0..=4).map(|i| self.low + (self.high - self.low) * f64::from(i) / 4.0).collect()
    }
}

fn label(value: f64) -> String {
    if value == 0.0 || value >= 0.01 { value.to_string() } else { format!("{value:.0e}") }
}

fn open(width: f64, height: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text(&mut svg, (20.0, 26.0), 15.0, "start", "bold", title);
    svg
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        r##"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="#dddddd"/>"##,
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), size: f64, anchor: &str, weight: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="#222222" {FONT}>{text}</text>"##,
        at.0, at.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_begin_and_end_at_decades() {
        let scale = Scale::of([0.03, 700.0].into_iter(), true);
        assert_eq!(scale.ticks().len(), 6);
        assert!((scale.part(1000.0) - 1.0).abs() < 1e-9 && scale.part(0.01).abs() < 1e-9);
    }

    #[test]
    fn names_cannot_break_a_plot() {
        let group = Group { title: "a < b & c".into(), bars: vec![("x".into(), 1.0)] };
        assert!(bars("t", &[group]).contains("a &lt; b &amp; c"));
    }
}
