//! The Lua scripts, each concatenated with the library fragments it uses.

use std::collections::BTreeSet;

use crate::options::Layout;
use crate::transport::Script;

macro_rules! part {
    ($part:literal) => {
        concat!(include_str!(concat!("../scripts/", $part, ".lua")), "\n")
    };
}

/// Scripts that run alone, and, behind `joined`, those that also run for several calls at once: the same text as a
/// function, which `many` calls for each, with `one_clock` where there is a clock. Left of `=>` is what the first part of
/// a script needs.
macro_rules! scripts {
    (
        alone { $($name:ident = $($part:literal)+;)+ }
        joined {
            $($one:ident, $many:ident =
                ($($soon:literal)* => $($first:literal)?) ($($lib:literal)+) ($($clock:literal)?) $body:literal;)+
        }
    ) => {
        $(pub(crate) static $name: Script = Script::new(concat!($(part!($part)),+));)+
        $(pub(crate) static $one: Script = Script::joined_by(
            concat!($(part!($soon),)* $(part!($first),)? $(part!($lib),)+ part!($body)),
            &$many,
        );)+
        $(static $many: Script = Script::new(concat!(
            $(part!($soon),)*
            $(part!($lib),)+
            $(part!($clock),)?
            "local function one(KEYS, ARGV)\n",
            $(part!($first),)?
            part!($body),
            "end\n",
            part!("many"),
        ));)+

        static ALL: &[(&str, &Script)] = &[
            $((stringify!($name), &$name),)+
            $((stringify!($one), &$one), (stringify!($many), &$many)),+
        ];
    };
}

scripts! {
    alone {
        LOCK_RENEW = "lib/extend" "lock_renew";
        RENEW = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/waiting" "lib/queue" "lib/permit" "lib/permits" "renew";
        COUNT = "lib/clock" "lib/mark" "lib/once" "count";
        SIZE = "lib/clock" "lib/extend" "lib/here" "lib/memory" "lib/mark" "lib/permit" "lib/permits" "lib/once" "size";
        LOCK_EXPEL = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/queue" "lock_expel";
        RW_EXPEL = "lib/readers" "rw_expel";
        PERMIT_EXPEL = "lib/extend" "lib/here" "lib/memory" "lib/permit" "lib/permits" "permit_expel";
        PLAIN_RENEW = "lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/waiting" "lib/plain" "plain_renew";
        INSPECT = "lib/clock" "lib/extend" "lib/here" "lib/memory" "lib/permit" "lib/permits" "lib/readers" "inspect";
    }
    joined {
        LOCK_ACQUIRE, LOCK_ACQUIRE_MANY =
            ("lib/clock" "lib/draw" "lib/range" "lib/holder" => "free/lock_acquire")
            ("lib/extend" "lib/here" "lib/memory" "lib/about" "lib/waiting") ("lib/one_clock") "lock_acquire";
        LOCK_RELEASE, LOCK_RELEASE_MANY =
            ("lib/holder" => "free/lock_release") ("lib/extend" "lib/here" "lib/memory" "lib/waiting") () "lock_release";
        FAIR_ACQUIRE, FAIR_ACQUIRE_MANY =
            ("lib/clock" "lib/draw" => "free/fair_acquire")
            ("lib/extend" "lib/here" "lib/memory" "lib/fence" "lib/about" "lib/queue" "lib/holder")
            ("lib/one_clock") "fair_acquire";
        FAIR_RELEASE, FAIR_RELEASE_MANY =
            (=> "free/fair_release")
            ("lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/draw" "lib/queue" "lib/holder")
            ("lib/one_clock") "fair_release";
        READ_ACQUIRE, READ_ACQUIRE_MANY =
            ("lib/clock" "lib/draw" => "free/read_acquire")
            ("lib/extend" "lib/here" "lib/memory" "lib/fence" "lib/about" "lib/holder" "lib/writer" "lib/waiting")
            ("lib/one_clock") "read_acquire";
        WRITE_ACQUIRE, WRITE_ACQUIRE_MANY =
            ("lib/clock" "lib/draw" => "free/write_acquire")
            ("lib/extend" "lib/here" "lib/memory" "lib/fence" "lib/about" "lib/writer" "lib/waiting" "lib/readers")
            ("lib/one_clock") "write_acquire";
        RW_RELEASE, RW_RELEASE_MANY =
            (=> "free/rw_release") ("lib/extend" "lib/here" "lib/memory" "lib/waiting" "lib/readers") () "rw_release";
        PERMIT_ACQUIRE, PERMIT_ACQUIRE_MANY =
            ("lib/clock" "lib/draw" "lib/extend" "lib/permit" => "free/permit_acquire")
            ("lib/here" "lib/memory" "lib/fence" "lib/about" "lib/waiting" "lib/mark" "lib/permits")
            ("lib/one_clock") "permit_acquire";
        PERMIT_RELEASE, PERMIT_RELEASE_MANY =
            ("lib/clock" "lib/permit" => "free/permit_release")
            ("lib/extend" "lib/here" "lib/memory" "lib/waiting" "lib/permits") ("lib/one_clock") "permit_release";
        PLAIN_ACQUIRE, PLAIN_ACQUIRE_MANY =
            (=> "free/plain_acquire")
            ("lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/about" "lib/waiting" "lib/plain")
            ("lib/one_clock") "plain_acquire";
        PLAIN_RELEASE, PLAIN_RELEASE_MANY =
            (=> "free/plain_release")
            ("lib/extend" "lib/here" "lib/memory" "lib/clock" "lib/waiting" "lib/plain")
            ("lib/one_clock") "plain_release";
    }
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
                + text.matches("pcall(one, ").count()
                + text.matches("call(publish").count()
                + text.matches("pcall(draw").count()
        };
        for (_, script) in ALL {
            assert_eq!(other(script.text), handed(script.text), "{}", script.text);
        }
    }
}
