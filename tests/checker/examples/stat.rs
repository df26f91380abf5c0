//! Numbers.
use checker::sim::*;
use checker::*;
fn main() {
    let all = [
        Bug::ReleaseWithoutOwner,
        Bug::AcquireCountsTwice,
        Bug::RenewalRevives,
        Bug::FenceGoesBack,
        Bug::QueueSkips,
        Bug::WakeUpLost,
        Bug::WakingTheDead,
        Bug::NoTtl,
        Bug::TtlInTwoSteps,
        Bug::OneValueForAll,
        Bug::CompareThenDelete,
    ];
    let n = 200;
    let mut scenarios: Vec<(String, Scenario)> =
        all.iter().map(|b| (format!("{b:?}"), Scenario::with(*b))).collect();
    scenarios.push(("right".into(), Scenario::right(Protocol::Tenure)));
    scenarios.push(("hand".into(), Scenario::right(Protocol::ByHand)));
    scenarios.push(("forgets".into(), Scenario { forgets: true, ..Scenario::right(Protocol::Tenure) }));
    for (name, scenario) in scenarios {
        let (mut steps, mut events, mut grants, mut found) = (0, 0, 0, std::collections::BTreeMap::new());
        let (mut sim, mut chk) = (0.0, 0.0);
        let mut worst = 0;
        let mut acc = 0;
        for seed in 0..n {
            let t = std::time::Instant::now();
            let s = simulate(seed, scenario);
            sim += t.elapsed().as_secs_f64();
            let t = std::time::Instant::now();
            let r = check(&s.history, &Expectations::of_run(s.history.run().unwrap()));
            chk += t.elapsed().as_secs_f64();
            steps += s.steps;
            events += s.history.events().len();
            grants += r.grants;
            acc += s.steps;
            let mut kinds: Vec<_> = r.violations.iter().map(|v| v.check).collect();
            kinds.sort();
            kinds.dedup();
            if !kinds.is_empty() {
                worst = worst.max(acc);
                acc = 0;
            }
            for k in kinds {
                *found.entry(k.to_string()).or_insert(0) += 1;
            }
        }
        println!(
            "{name:22} steps {} events {} grants {} sim {:.1}ms check {:.1}ms worst {worst} {found:?}",
            steps / n as usize,
            events / n as usize,
            grants / n as usize,
            sim * 1e3 / n as f64,
            chk * 1e3 / n as f64
        );
    }
}
