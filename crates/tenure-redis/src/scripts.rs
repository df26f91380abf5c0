//! The scripts, each with the fragments that it uses.

use std::collections::BTreeSet;

use crate::transport::Script;

macro_rules! scripts {
    ($($name:ident = $($part:literal)+;)+) => {
        $(pub(crate) static $name: Script =
            Script::new(concat!($(include_str!(concat!("../scripts/", $part, ".lua")), "\n"),+));)+

        static ALL: &[&Script] = &[$(&$name),+];
    };
}

scripts! {
    LOCK_ACQUIRE = "lib/extend" "lib/clock" "lib/fence" "lib/waiting" "lock_acquire";
    LOCK_RELEASE = "lib/extend" "lib/waiting" "lock_release";
    FAIR_ACQUIRE = "lib/extend" "lib/clock" "lib/fence" "lib/queue" "fair_acquire";
    FAIR_RELEASE = "lib/extend" "lib/clock" "lib/queue" "fair_release";
    READ_ACQUIRE = "lib/extend" "lib/clock" "lib/fence" "lib/waiting" "read_acquire";
    WRITE_ACQUIRE = "lib/extend" "lib/clock" "lib/fence" "lib/waiting" "lib/readers" "write_acquire";
    RW_RELEASE = "lib/extend" "lib/waiting" "lib/readers" "rw_release";
    PERMIT_ACQUIRE = "lib/extend" "lib/clock" "lib/fence" "lib/waiting" "lib/mark" "lib/permits" "permit_acquire";
    PERMIT_RELEASE = "lib/clock" "lib/extend" "lib/waiting" "lib/permits" "permit_release";
    RENEW = "lib/extend" "lib/clock" "lib/waiting" "lib/queue" "lib/permits" "renew";
    COUNT = "lib/clock" "lib/mark" "lib/once" "count";
    SIZE = "lib/clock" "lib/extend" "lib/mark" "lib/permits" "lib/once" "size";
    LOCK_EXPEL = "lib/extend" "lib/clock" "lib/queue" "lock_expel";
    RW_EXPEL = "lib/readers" "rw_expel";
    PERMIT_EXPEL = "lib/extend" "lib/permits" "permit_expel";
    INSPECT = "lib/clock" "lib/extend" "lib/permits" "lib/readers" "inspect";
}

/// The commands that they run, except those that are handed to them.
pub(crate) fn commands() -> BTreeSet<&'static str> {
    let calls = ALL.iter().flat_map(|script| script.text.split("call('").skip(1));
    calls.filter_map(|rest| rest.split_once('\'').map(|(command, _)| command)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found() {
        let all = commands();
        for one in ["HSET", "PEXPIRE", "TIME", "ZADD", "DEL", "LRANGE", "SET", "INCRBY"] {
            assert!(all.contains(one), "{one} of {all:?}");
        }
        assert!(all.iter().all(|c| c.chars().all(|c| c.is_ascii_uppercase())), "{all:?}");
        // What a script is handed, it calls by a name of its own.
        let other = |text: &str| text.split("call(").skip(1).filter(|c| !c.starts_with('\'')).count();
        let handed = |text: &str| text.matches("call(ARGV[").count() + text.matches("call(publish").count();
        for script in ALL {
            assert_eq!(other(script.text), handed(script.text), "{}", script.text);
        }
    }
}
