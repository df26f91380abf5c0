//! The Rust blocks of the documentation, collected by `build.rs`, and what they take for granted.
#![allow(warnings, clippy::all)]

use std::error::Error;
use std::time::Duration;

use axum::extract::{Path, State};
use rusqlite::{Connection, params};
use tenure::{Client, Config, Fence, Guard, Lock, Owner, distributed_lock};

type Failure = Box<dyn Error>;

struct User {
    user_id: u64,
}

struct Receipt;

struct AppError;

impl From<tenure::Error> for AppError {
    fn from(_: tenure::Error) -> Self {
        Self
    }
}

async fn charge(order: u64, fence: Option<Fence>) -> Result<(), Failure> {
    Ok(())
}

include!(concat!(env!("OUT_DIR"), "/blocks.rs"));
