//! The page in the documentation shows the runs as they are found now.

use model::{Case, scenario};

#[test]
fn the_page_shows_each_run() {
    let page = include_str!("../../../../docs/model.md");
    for case in Case::all() {
        let (title, told) = (case.title(), scenario(&case.world, &case.run().expect("it breaks something")));
        let indented: String = told.lines().map(|line| format!("    {line}\n")).collect();
        let shown = format!("**{title}**\n\n{indented}\n");
        assert!(page.contains(&shown), "docs/model.md lacks this:\n\n{shown}");
    }
}
