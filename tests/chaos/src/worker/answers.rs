//! Results of calls as answers of a history.

use checker::Answer;
use tenure::Error;

/// Certainly not executed, refused as wrong, or unknown. An entry into a hold that was lost is not executed.
pub(crate) fn failed(error: &Error) -> Answer {
    let text = error.to_string();
    match error {
        Error::Unknown { .. } => Answer::Unknown { error: text },
        Error::Several(all) if all.iter().any(Error::is_unknown) => Answer::Unknown { error: text },
        Error::Unavailable { .. } | Error::Several(_) | Error::GaveUp { .. } | Error::Lost(_) => {
            Answer::Unavailable { error: text }
        }
        _ => Answer::Refused { error: text },
    }
}

/// The answer of a release.
pub(crate) fn released(result: Result<(), Error>) -> Answer {
    match result {
        Ok(()) => Answer::Released,
        Err(Error::Lost(lost)) => Answer::Lost { reason: lost.why() },
        Err(error) => failed(&error),
    }
}

/// The answer of a call on a latch, or of a release by id.
pub(crate) fn done(result: Result<Option<u64>, Error>) -> Answer {
    match result {
        Ok(value) => Answer::Done { value },
        Err(error) => failed(&error),
    }
}
