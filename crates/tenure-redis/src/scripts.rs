//! The Lua scripts, each concatenated with the library fragments it uses.

use std::collections::BTreeSet;

use crate::options::Layout;
use crate::transport::Script;

macro_rules! scripts {
    ($($name:ident = $($part:literal)+;)+) => {
        $(pub(crate) static $name: Script =
            Script::new(concat!($(include_str!(concat!("../scripts/", $part, ".lua")), "\n"),+));)+

        static ALL: &[(&str, &Script)] = &[$((stringify!($name), &$name)),+];
    };
}

scripts! {
    LOCK_ACQUIRE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/fence" "lib/range" "lib/about" "lib/holder" "lib/waiting"
        "lock_acquire";
    LOCK_RELEASE = "lib/extend" "lib/here" "lib/memory" "lib/holder" "lib/waiting" "lock_release";
    FAIR_ACQUIRE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/fence" "lib/about" "lib/queue" "lib/holder"
        "fair_acquire";
    FAIR_RELEASE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/fence" "lib/about" "lib/queue"
        "fair_release";
    READ_ACQUIRE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/fence" "lib/about" "lib/waiting" "read_acquire";
    WRITE_ACQUIRE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/fence" "lib/about" "lib/waiting" "lib/readers"
        "write_acquire";
    RW_RELEASE = "lib/extend" "lib/here" "lib/memory" "lib/waiting" "lib/readers" "rw_release";
    PERMIT_ACQUIRE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/fence" "lib/about" "lib/waiting" "lib/mark"
        "lib/permits" "permit_acquire";
    PERMIT_RELEASE = "lib/clock" "lib/extend" "lib/here" "lib/memory" "lib/waiting" "lib/permits" "permit_release";
    RENEW = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/waiting" "lib/queue" "lib/permits" "renew";
    COUNT = "lib/clock" "lib/mark" "lib/once" "count";
    SIZE = "lib/clock" "lib/extend" "lib/here" "lib/memory" "lib/mark" "lib/permits" "lib/once" "size";
    LOCK_EXPEL = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/queue" "lock_expel";
    RW_EXPEL = "lib/readers" "rw_expel";
    PERMIT_EXPEL = "lib/extend" "lib/here" "lib/memory" "lib/permits" "permit_expel";
    PLAIN_ACQUIRE = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/about" "lib/waiting" "lib/plain" "plain_acquire";
    PLAIN_RELEASE = "lib/extend" "lib/here" "lib/memory" "lib/waiting" "lib/plain" "plain_release";
    PLAIN_RENEW = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/waiting" "lib/plain" "plain_renew";
    INSPECT = "lib/clock" "lib/extend" "lib/here" "lib/memory" "lib/permits" "lib/readers" "inspect";
}

/// The commands that the scripts of a layout run, except those passed to them as arguments.
pub(crate) fn commands(layout: Layout) -> BTreeSet<&'static str> {
    let plain = |name: &str| name.starts_with("PLAIN");
    let wanted = ALL.iter().filter(|(name, _)| plain(name) == (layout == Layout::Plain));
    let calls = wanted.flat_map(|(_, script)| script.text.split("call('").skip(1));
    calls.filter_map(|rest| rest.split_once('\'').map(|(command, _)| command)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found() {
        assert!(commands(Layout::Plain).contains("GET") && !commands(Layout::Plain).contains("ZINCRBY"));
        let all = commands(Layout::Redisson);
        for one in ["HSET", "PEXPIRE", "TIME", "ZADD", "DEL", "LRANGE", "SET", "INCRBY"] {
            assert!(all.contains(one), "{one} of {all:?}");
        }
        assert!(all.iter().all(|c| c.chars().all(|c| c.is_ascii_uppercase())), "{all:?}");
        // Commands passed as arguments are called through `ARGV` or `publish`.
        let other = |text: &str| text.split("call(").skip(1).filter(|c| !c.starts_with('\'')).count();
        let handed = |text: &str| {
            text.matches("call(ARGV[").count()
                + text.matches("call(publish").count()
                + text.matches("pcall(draw").count()
        };
        for (_, script) in ALL {
            assert_eq!(other(script.text), handed(script.text), "{}", script.text);
        }
    }
}
