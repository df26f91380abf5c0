//! The table of promises is in the documentation as it is in code.

use std::path::Path;

use checker::{Cell, Class, Safety, Store, insert};

#[test]
fn the_page_has_the_table_of_the_code() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guarantees.md");
    let text = std::fs::read_to_string(page).unwrap();
    let written = insert(&text).expect("the place of the table");
    assert!(text == written, "run `cargo run -p checker -- --write-promises`, and commit docs/guarantees.md");
}

#[test]
fn fences_are_promised_only_where_there_are_some() {
    for store in Store::ALL {
        for cell in Class::ALL.into_iter().filter_map(|class| Cell::of(store, class)) {
            let without = [cell.safety, cell.safety_of_most].contains(&Safety::Fences);
            assert!(store.has_fences() || !without, "{store}");
            assert!(
                cell.safety <= cell.safety_of_most && cell.unavailable <= cell.unavailable_of_most,
                "{store}"
            );
        }
    }
}
