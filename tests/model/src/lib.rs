//! The border between client and store as a model, all of whose states are visited.

mod action;
mod cases;
mod client;
mod property;
mod rules;
mod search;
mod state;
mod store;
mod words;
mod world;

pub use action::Action;
pub use cases::Case;
pub use property::Property;
pub use rules::{Rule, Rules};
pub use search::{Explored, Run, explore};
pub use state::{Entered, Key, State};
pub use words::scenario;
pub use world::World;
