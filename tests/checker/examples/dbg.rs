//! Numbers.
use checker::sim::*;
use checker::*;
fn main() {
    let bug = std::env::args().nth(1).unwrap();
    let scenario =
        if bug == "hand" { Scenario::right(Protocol::ByHand) } else { Scenario::right(Protocol::Tenure) };
    let n: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let mut bad = 0;
    for seed in 0..n {
        let s = simulate(seed, scenario);
        let e = Expectations::of_run(s.history.run().unwrap());
        let r = check(&s.history, &e);
        if let Some(v) = r.violations.first() {
            bad += 1;
            if bad <= 3 {
                let short = shorten(&s.history, &e, v);
                println!("{}", text(&short, v));
                std::fs::write(format!("/tmp/bad{bad}.svg"), svg(&short, v)).unwrap();
            }
        }
    }
    println!("{bad} of {n}");
}
