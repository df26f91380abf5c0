//! What an annotated function answers when it could not run, or was not alone all the time: by the type that it
//! returns, and by what its annotation says.

use std::marker::PhantomData;

use tenure_core::Error;

use super::call::{Ended, OnLost};

/// A result that can carry an error of ours.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell the caller that the lock was busy or lost",
    label = "not a `Result`",
    note = "return a `Result` whose error type is `From<tenure::Error>`",
    note = "or say `on_fail = panic`, or `on_busy = skip(value)` or `call(function)` without `on_lost = cancel`"
)]
pub trait Outcome: Sized {
    /// The body did not run.
    fn failed(error: Error) -> Self;

    /// The body ran. Its own error says more than that the lock was lost meanwhile; its success is not to be trusted.
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

/// What is answered by a function that says `on_busy`: an error where its type has one, and else what it answers when
/// busy. A `Result` has methods of its own, which go before those of [`Otherwise`].
pub struct Answer<R>(PhantomData<fn() -> R>);

impl<R> Answer<R> {
    /// For this type.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T, E> Answer<Result<T, E>> {
    /// What becomes of a body whose lock is lost.
    pub fn on_lost(&self) -> OnLost {
        OnLost::Cancel
    }

    /// The body did not run, and not because others did.
    pub fn failed(&self, error: Error, _busy: impl FnOnce(Error) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        Outcome::failed(error)
    }

    /// The body ran.
    pub fn ended(&self, ended: Ended<Result<T, E>>) -> Result<T, E>
    where
        E: From<Error>,
    {
        Outcome::ended(ended)
    }
}

/// The same for types that have no error: what nobody can be told is logged.
pub trait Otherwise<R>: Sized {
    /// A body that was begun has to be ended, since nothing else could be returned.
    fn on_lost(&self) -> OnLost {
        OnLost::Finish
    }

    /// The body did not run, and not because others did.
    fn failed(&self, error: Error, busy: impl FnOnce(Error) -> R) -> R {
        tracing::error!(%error, "not run: it could not be locked");
        busy(error)
    }

    /// The body ran.
    fn ended(&self, ended: Ended<R>) -> R {
        if let Some(error) = ended.error {
            tracing::error!(%error, "run, but not alone all the time");
        }
        ended.value.expect("a body without a result is never dropped")
    }
}

impl<R> Otherwise<R> for Answer<R> {}

/// Tells the compiler what a body returns, where it cannot be said: a block that is asynchronous has no place for it.
pub fn never<R>() -> R {
    unreachable!("it is written behind `if false`")
}

/// The end of a function that says `on_fail = panic`.
pub fn refuse(error: Error) -> ! {
    panic!("{error}")
}

impl<R> Ended<R> {
    /// What the body returned, for a function that says `on_fail = panic`.
    pub fn or_panic(self) -> R {
        match self {
            Self { value: Some(value), error: None } => value,
            Self { error, .. } => refuse(error.expect("a body that was dropped has lost its lock")),
        }
    }
}
