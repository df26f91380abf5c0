//! Hints for command lines that cannot be parsed.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Adds a hint to the error, if the command to run was written without `--` before it.
pub(crate) fn explain(mut error: clap::Error) -> clap::Error {
    let line: Vec<OsString> = std::env::args_os().skip(1).collect();
    let unexpected = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(unexpected))) => unexpected.clone(),
        _ => return error,
    };
    if let Some(line) = with_dashes(&line, &unexpected) {
        let hint = format!("put `--` before the command to run: tenure {line}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// The line with `--` before the argument that was not expected, if that begins the command of a `run` or `elect`.
fn with_dashes(line: &[OsString], unexpected: &str) -> Option<String> {
    let runs = line.iter().any(|arg| arg == "run" || arg == "elect");
    if !runs || unexpected.starts_with('-') || line.iter().any(|arg| arg == "--") {
        return None;
    }
    let at = line.iter().rposition(|arg| arg == unexpected)?;
    let (before, command) = line.split_at(at);
    let words = |args: &[OsString]| args.iter().map(|arg| quoted(&arg.to_string_lossy())).collect::<Vec<_>>();
    Some([words(before), vec!["--".into()], words(command)].concat().join(" "))
}

/// The word as it would be typed into a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_dashes_is_found() {
        for (line, unexpected, says) in [
            ("run x echo hi", "echo", Some("run x -- echo hi")),
            ("--url memory: elect x ./a", "./a", Some("--url memory: elect x -- ./a")),
            ("run x --wait 5s date", "date", Some("run x --wait 5s -- date")),
            ("run x --weit 5s -- date", "--weit", None),
            ("ls a b", "b", None),
        ] {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(with_dashes(&line, unexpected).as_deref(), says, "{line:?}");
        }
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
