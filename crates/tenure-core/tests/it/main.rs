//! All that is shown of the core from outside, in one program.

mod clock;
mod counts;
mod deadlocks;
mod durability;
mod handover;
mod keeping;
mod latches;
mod limits;
mod listener;
mod minimum;
mod puppet;
mod refused;
mod simulation;
mod stores;
mod telemetry;
mod unavailable;
mod unpolled;
mod warnings;
