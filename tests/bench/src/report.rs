//! `docs/benchmarks.md` and its plots, from what one run wrote. What people wrote stands outside of the marks, and stays.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::bars::{HANDOVER, RATE};
use crate::plot::{Axis, Group, Line, bars, lines};
use crate::samples::Samples;
use crate::stats::median;
use crate::table;
use crate::workloads::WORKLOADS;

const BEGIN: &str = "<!-- written by cargo xtask bench --report -->";
const END: &str = "<!-- end of what is written -->";

pub(crate) fn write(samples: &Samples, machine: &str) -> Result<()> {
    let docs = docs();
    let page = docs.join("benchmarks.md");
    let old = std::fs::read_to_string(&page)?;
    std::fs::write(&page, between(&old, &text(samples, machine)).ok_or("the page has no marks")?)?;
    for (name, plot) in plots(samples) {
        std::fs::write(docs.join("images").join(name), plot)?;
    }
    Ok(())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The page with this between its marks.
fn between(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))
}

fn text(samples: &Samples, machine: &str) -> String {
    let mut text = format!("{machine}\n\n## Bars\n\n{}\n", table::bars(&table::judged(samples)));
    text += "![Pairs a second](images/bench-throughput.svg)\n\n";
    text += "![From a release to the next grant](images/bench-handover.svg)\n\n";
    text += "![How long tasks wait](images/bench-waits.svg)\n\n";
    text += "![What costs grow with](images/bench-growth.svg)\n\n## Everything that was measured\n\nMedians of the rounds.\n\n";
    for name in samples.workloads().filter(|name| !name.starts_with("W10 growth")) {
        if let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) {
            text += &format!("**{name}**: {}\n\n", workload.what);
        }
        text += &table::workload(samples, name).unwrap_or_default();
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

fn plots(samples: &Samples) -> Vec<(&'static str, String)> {
    let group = |name: &str, measure: &str, title: String| {
        let sides = samples.of(name)?.get(measure)?;
        let mut bars: Vec<_> = sides.iter().map(|(side, values)| (side.clone(), median(values))).collect();
        bars.sort_by(|a, b| b.1.total_cmp(&a.1));
        Some(Group { title, bars })
    };
    let turns = WORKLOADS.iter().filter(|workload| !workload.name.starts_with("W4"));
    let throughput: Vec<Group> = turns
        .filter_map(|workload| group(workload.name, RATE, format!("{}: {}", workload.name, workload.what)))
        .collect();
    let handover: Vec<Group> = ["W5 10 waiters", "W5 1000 waiters", "W5b 1000 fair waiters"]
        .iter()
        .filter_map(|name| group(name, HANDOVER, format!("{name}: {HANDOVER}")))
        .collect();
    let percent = Axis { label: "% of acquisitions that waited at most so long", logarithmic: false };
    let mut waits: Vec<Line> = samples
        .waits("W3b")
        .map(|(side, waits)| Line { name: side.to_owned(), points: waits.distribution() })
        .collect();
    waits.sort_by_key(|line| !line.name.starts_with("Tenure"));
    let mut grown = Vec::new();
    for name in samples.workloads().filter(|name| name.starts_with("W10") && !name.contains("growth")) {
        for (what, steps) in samples.of(name).into_iter().flatten() {
            let mut points: Vec<(f64, f64)> =
                steps.iter().filter_map(|(n, cost)| Some((n.parse().ok()?, median(cost)))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            // Relative to the first step: the slope is what matters.
            let (n, cost) = points.first().copied().unwrap_or((1.0, 1.0));
            let points = points.iter().map(|point| (point.0 / n, point.1 / cost)).collect();
            grown.push(Line { name: format!("{}: {what}", &name[4..]), points });
        }
    }
    grown.push(Line { name: "linear".to_owned(), points: vec![(1.0, 1.0), (16.0, 16.0)] });
    let logarithmic = |label| Axis { label, logarithmic: true };
    vec![
        ("bench-throughput.svg", bars("Pairs of acquire and release a second (more is better)", &throughput)),
        ("bench-handover.svg", bars("From a release to the next grant (less is better)", &handover)),
        ("bench-waits.svg", lines("W3b: how long tasks wait", &logarithmic("ms"), &percent, &waits)),
        (
            "bench-growth.svg",
            lines(
                "What costs grow to (linear: 16 at 16)",
                &logarithmic("times as many"),
                &logarithmic("times the cost"),
                &grown,
            ),
        ),
    ]
}

/// What it ran on.
pub(crate) fn machine() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores of {model}, Linux {}.", read("/proc/sys/kernel/osrelease").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_stays() {
        let page = format!("# A\n\n{BEGIN}\nold\n{END}\n\n## Method\n");
        assert_eq!(
            between(&page, "new\n").unwrap(),
            format!("# A\n\n{BEGIN}\n\nnew\n\n{END}\n\n## Method\n")
        );
        assert!(between("# A", "new").is_none());
    }
}
