//! The `tenure` command as it is built for users: started as a process, on stores of its own.

mod common;
mod doctor;
mod elect;
mod inspect;
mod lost;
mod pty;
mod redis;
mod run;
mod show_config;
mod signals;
mod terminal;
mod top;
mod zookeeper;
