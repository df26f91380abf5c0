//! What a child asks its parent, which has the servers, over its own standard input and output.

use std::io::{BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::scenario::Figure;

/// One line of a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// How many connections does the server count?
    Connections,
    /// How many sessions does it know?
    Sessions,
    /// What is left in the store?
    Left,
    Figures(Vec<Figure>),
}

/// Asks the parent, and waits for the answer.
pub(crate) fn ask<T: DeserializeOwned>(line: &Line) -> T {
    tell(line);
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).expect("the parent lives");
    serde_json::from_str(&answer).expect("an answer of the parent")
}

pub(crate) fn tell(line: &Line) {
    let text = serde_json::to_string(line).expect("a line is JSON");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("the parent lives");
}
