//! All that is shown of this store from outside, in one program.

mod file;
mod leases;
mod processes;
mod support;
mod users;
