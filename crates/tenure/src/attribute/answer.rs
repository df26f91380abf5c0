//! What an annotated function returns when it could not run or the lock was lost: depends on its return type and on
//! the arguments of the attribute.

use std::marker::PhantomData;

use tenure_core::Error;

use super::call::{Ended, OnLost};

/// A return type that can carry a Tenure error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell the caller that the lock was busy or lost",
    label = "not a `Result`",
    note = "return a `Result` whose error type is `From<tenure::Error>`",
    note = "or say `on_fail = panic`, or `on_busy = skip(value)` or `call(function)` without `on_lost = cancel`"
)]
pub trait Outcome: Sized {
    /// The result when the body did not run.
    fn failed(error: Error) -> Self;

    /// The result when the body ran. An error of the body takes precedence over the loss of the lock; a success does
    /// not, since others may have run meanwhile.
    fn ended(ended: Ended<Self>) -> Self;
}

impl<T, E: From<Error>> Outcome for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn ended(ended: Ended<Self>) -> Self {
        match (ended.value, ended.error) {
            (Some(Err(own)), Some(error)) => {
                tracing::warn!(%error, "the body failed, and was not alone all the time");
                Err(own)
            }
            (None | Some(Ok(_)), Some(error)) => Err(error.into()),
            (Some(value), None) => value,
            (None, None) => unreachable!("a body that was dropped has lost its lock"),
        }
    }
}

/// What a function with `on_busy` returns: an error if its type has one, otherwise its value for busy. The inherent
/// methods for `Result` take precedence over those of [`Otherwise`].
pub struct Answer<R>(PhantomData<fn() -> R>);

impl<R> Answer<R> {
    /// An answer of type `R`.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T, E> Answer<Result<T, E>> {
    /// Whether the body is cancelled when the lock is lost.
    pub fn on_lost(&self) -> OnLost {
        OnLost::Cancel
    }

    /// The result when the body did not run for another reason than lock contention.
    pub fn failed(&self, error: Error, _busy: impl FnOnce(Error) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        Outcome::failed(error)
    }

    /// The result when the body ran.
    pub fn ended(&self, ended: Ended<Result<T, E>>) -> Result<T, E>
    where
        E: From<Error>,
    {
        Outcome::ended(ended)
    }
}

/// The fallback for types without an error: errors that cannot be returned are logged.
pub trait Otherwise<R>: Sized {
    /// A body that has started must finish, since nothing else could be returned.
    fn on_lost(&self) -> OnLost {
        OnLost::Finish
    }

    /// The result when the body did not run for another reason than lock contention.
    fn failed(&self, error: Error, busy: impl FnOnce(Error) -> R) -> R {
        tracing::error!(%error, "not run: it could not be locked");
        busy(error)
    }

    /// The result when the body ran.
    fn ended(&self, ended: Ended<R>) -> R {
        if let Some(error) = ended.error {
            tracing::error!(%error, "run, but not alone all the time");
        }
        ended.value.expect("a body without a result is never dropped")
    }
}

impl<R> Otherwise<R> for Answer<R> {}

/// Lets the compiler infer the return type of a body: an async block cannot be annotated with one.
pub fn never<R>() -> R {
    unreachable!("it is written behind `if false`")
}

/// Panics with the error, for `on_fail = panic`.
pub fn refuse(error: Error) -> ! {
    panic!("{error}")
}

impl<R> Ended<R> {
    /// Returns the value of the body or panics, for `on_fail = panic`.
    pub fn or_panic(self) -> R {
        match self {
            Self { value: Some(value), error: None } => value,
            Self { error, .. } => refuse(error.expect("a body that was dropped has lost its lock")),
        }
    }
}
