//! The macro crate cannot use the library's parser of durations: its own is compared with it here.

#[path = "../../../tenure-macros/src/duration.rs"]
mod parser;

/// What is accepted here and there is the same, and means the same.
#[test]
fn the_grammar_is_that_of_the_library() {
    let numbers = ["", "0", "5", "1.5", ".5", "5.", "1.2.3", "007", "-1", "1e3", "99999999999999"];
    let units = ["", "us", "µs", "ms", "s", "m", "min", "h", "d", "x", "S", " s"];
    let mut texts = vec![String::from(" 5s "), "1m 30s".into()];
    for a in numbers {
        for unit in units {
            texts.push(format!("{a}{unit}"));
            texts.push(format!("1m{a}{unit}"));
            texts.push(format!("{a}{unit}300ms"));
        }
    }
    let mut good = 0;
    for text in &texts {
        assert_eq!(parser::parse(text), tenure::parse_duration(text).ok(), "{text:?}");
        good += usize::from(parser::parse(text).is_some());
    }
    assert!(good > 50 && good < texts.len() - 50, "{good} of {}", texts.len());
}
