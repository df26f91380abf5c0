//! All states of each world, and what breaks without each rule.

mod hand_over;
mod page;
mod rules;
mod worlds;

use model::{Case, Rule, scenario};

/// Takes a rule out of a world, and expects that this breaks what its case says.
fn shows(cases: &[Case], rule: Rule) {
    check(cases.iter().find(|case| case.rule == Some(rule)).expect("each rule has a case"));
}

fn check(case: &Case) {
    let run = case.run().unwrap_or_else(|| panic!("nothing breaks: {}", case.title()));
    let told = scenario(&case.world, &run);
    println!("{told}");
    assert_eq!(run.property, case.breaks, "{told}");
}
