//! The `tenure` command as it is built for users: started as a process, on stores of its own.

mod common;
mod connect;
mod doctor;
mod elect;
mod guardian;
mod inspect;
mod lost;
mod nested;
mod pty;
mod redis;
mod redlock;
mod resize;
mod run;
mod show_config;
mod signals;
mod terminal;
mod top;
mod zookeeper;
