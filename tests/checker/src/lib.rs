#![doc = include_str!("../README.md")]

mod check;
mod conditions;
mod event;
mod expect;
mod fault;
mod history;
mod joined;
mod model;
mod promise;
mod report;
mod run;
mod shorten;
mod show;
pub mod sim;
mod spans;

pub use check::check;
pub use event::{Access, Acquire, Action, Answer, Call, Event, Granted, Inspected, Kind, Wait, What};
pub use expect::Expectations;
pub use fault::{Class, Fault, Phase, Target};
pub use history::{History, ReadError};
pub use joined::OpId;
pub use model::{Model, Sharing};
pub use promise::{BEGIN, Cell, END, Liveness, Safety, insert, table};
pub use report::{Check, Report, Stall, Violation};
pub use run::{Run, Store, Timing};
pub use shorten::shorten;
pub use show::{svg, text};
