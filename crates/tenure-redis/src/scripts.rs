//! The scripts, each with the fragments that it uses.

use crate::transport::Script;

macro_rules! scripts {
    ($($name:ident = $($part:literal)+;)+) => {
        $(pub(crate) static $name: Script =
            Script::new(stringify!($name), concat!($(include_str!(concat!("../scripts/", $part, ".lua")), "\n"),+));)+
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
    PERMIT_ACQUIRE = "lib/extend" "lib/clock" "lib/fence" "lib/waiting" "lib/permits" "permit_acquire";
    PERMIT_RELEASE = "lib/clock" "lib/extend" "lib/waiting" "lib/permits" "permit_release";
    RENEW = "lib/extend" "lib/clock" "lib/waiting" "lib/queue" "lib/permits" "renew";
    COUNT = "lib/once" "count";
    SIZE = "lib/clock" "lib/permits" "lib/once" "size";
    INSPECT = "lib/clock" "lib/permits" "inspect";
}
