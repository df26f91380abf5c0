//! A violation for people: as text, and as a picture.

mod svg;
mod text;

pub use svg::svg;
pub use text::text;

/// A time of a history, from its first event.
fn since(begin: u64, at: u64) -> String {
    format!("{:.1} ms", at.saturating_sub(begin) as f64 / 1e6)
}
