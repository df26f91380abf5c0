//! The return value of an annotated function that could not run, or that lost its lock. It depends on the return type
//! and on the arguments of the attribute.

use std::marker::PhantomData;

use tenure_core::Error;

use super::call::{BodyResult, OnLost};

/// A return type that can carry a Tenure error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry the error of a lock that is busy or lost",
    label = "not a `Result`",
    note = "return a `Result` whose error type is `From<tenure::Error>`",
    note = "or add `on_fail = panic`, or `on_busy = skip(value)` or `on_busy = call(function)` without `on_lost = cancel`"
)]
pub trait ReturnsError: Sized {
    /// The result when the body did not run.
    fn from_error(error: Error) -> Self;

    /// The result when the body ran. An error of the body takes precedence over the loss of the lock; a success does
    /// not, since others may have run meanwhile.
    fn from_body(body: BodyResult<Self>) -> Self;
}

impl<T, E: From<Error>> ReturnsError for Result<T, E> {
    fn from_error(error: Error) -> Self {
        Err(error.into())
    }

    fn from_body(body: BodyResult<Self>) -> Self {
        match (body.value, body.error) {
            (Some(Err(own)), Some(error)) => {
                tracing::warn!(%error, "the body failed, and its lock was lost while it ran");
                Err(own)
            }
            (None | Some(Ok(_)), Some(error)) => Err(error.into()),
            (Some(value), None) => value,
            (None, None) => unreachable!("only a lost lock cancels the body"),
        }
    }
}

/// Selects what a function with `on_busy` returns: an error if its type is a `Result`, otherwise its value for busy.
/// The inherent methods for `Result` take precedence over those of [`FallbackReturn`].
pub struct ReturnType<R>(PhantomData<fn() -> R>);

impl<R> ReturnType<R> {
    /// Creates the marker for type `R`.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T, E> ReturnType<Result<T, E>> {
    /// Whether the body is cancelled when the lock is lost.
    pub fn on_lost(&self) -> OnLost {
        OnLost::Cancel
    }

    /// The result when the body did not run for another reason than lock contention.
    pub fn error_value(&self, error: Error, _busy: impl FnOnce(Error) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        ReturnsError::from_error(error)
    }

    /// The result when the body ran.
    pub fn body_value(&self, body: BodyResult<Result<T, E>>) -> Result<T, E>
    where
        E: From<Error>,
    {
        ReturnsError::from_body(body)
    }
}

/// The fallback for types without an error: errors that cannot be returned are logged.
pub trait FallbackReturn<R>: Sized {
    /// A body that has started must finish, since nothing else could be returned.
    fn on_lost(&self) -> OnLost {
        OnLost::Finish
    }

    /// The result when the body did not run for another reason than lock contention.
    fn error_value(&self, error: Error, busy: impl FnOnce(Error) -> R) -> R {
        tracing::error!(%error, "the body was not run, because the lock could not be acquired");
        busy(error)
    }

    /// The result when the body ran.
    fn body_value(&self, body: BodyResult<R>) -> R {
        if let Some(error) = body.error {
            tracing::error!(%error, "the body ran, but its lock was lost meanwhile");
        }
        body.value.expect("this body is never cancelled")
    }
}

impl<R> FallbackReturn<R> for ReturnType<R> {}

/// Lets the compiler infer the return type of a body: an async block cannot be annotated with one.
pub fn infer_return_type<R>() -> R {
    unreachable!("generated behind `if false`")
}

/// Panics with the error, for `on_fail = panic`.
pub fn panic_with(error: Error) -> ! {
    panic!("{error}")
}

impl<R> BodyResult<R> {
    /// Returns the value of the body or panics, for `on_fail = panic`.
    pub fn or_panic(self) -> R {
        match self {
            Self { value: Some(value), error: None } => value,
            Self { error, .. } => panic_with(error.expect("only a lost lock cancels the body")),
        }
    }
}
