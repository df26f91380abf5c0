//! A server whose clock is wrong: a library loaded before all others shifts what it sees, and no clock is touched.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use tenure_core::{Admin, Finding, Level};
use testbed::{Error, Instance, Recipe, Resp, Server};

use crate::harness::{open, options};

/// Shifts the wall clock, and lets it run a thousand times too fast if asked to.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    static long long begun, rate;
    if (!real) {
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
        rate = atoll(getenv("CLOCK_RATE"));
    }
    int result = real(now, zone);
    long long micros = now->tv_sec * 1000000LL + now->tv_usec;
    if (!begun) begun = micros;
    micros = begun + (micros - begun) * rate + atoll(getenv("CLOCK_SHIFT")) * 1000000LL;
    now->tv_sec = micros / 1000000;
    now->tv_usec = micros % 1000000;
    return result;
}
"#;

struct Shifted {
    seconds: i64,
    rate: u32,
}

fn socket(instance: &Instance) -> PathBuf {
    instance.folder().join("socket")
}

impl Recipe for Shifted {
    fn name(&self) -> &str {
        "redis-server"
    }

    fn prepare(&self, instance: &Instance) -> testbed::Result<()> {
        let (source, library) = (instance.folder().join("shift.c"), instance.folder().join("shift.so"));
        std::fs::write(&source, SHIFT)?;
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(library)
            .arg(source)
            .arg("-ldl")
            .status()?;
        if built.success() { Ok(()) } else { Err(Error::Failed(format!("cc: {built}"))) }
    }

    fn command(&self, instance: &Instance) -> Vec<OsString> {
        let library = instance.folder().join("shift.so");
        let mut words: Vec<OsString> = vec![
            "env".into(),
            format!("LD_PRELOAD={}", library.display()).into(),
            format!("CLOCK_SHIFT={}", self.seconds).into(),
            format!("CLOCK_RATE={}", self.rate).into(),
            "redis-server".into(),
        ];
        let port = instance.ports[0].to_string();
        let options = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--dir"];
        words.extend(options.map(OsString::from));
        words.extend([instance.data().into(), "--unixsocket".into(), socket(instance).into()]);
        words
    }

    fn serves(&self, instance: &Instance) -> bool {
        Resp::connect_unix(&socket(instance)).and_then(|mut c| c.cmd(&["PING"])).is_ok()
    }
}

async fn clock(seconds: i64, rate: u32) -> Finding {
    let server = Server::start(Shifted { seconds, rate }).unwrap();
    let store = open(options(server.port())).await;
    let found = store.diagnose().await.unwrap();
    found.into_iter().find(|f| f.check == "clock").unwrap()
}

#[tokio::test]
async fn a_clock_that_is_ahead_or_behind_is_told() {
    let ahead = clock(3700, 1).await;
    assert_eq!(ahead.level, Level::Warning, "{ahead}");
    assert!(ahead.what.contains("61 min ahead of this machine's"), "{ahead}");
    assert!(ahead.advice.as_deref().unwrap().contains("NTP"), "{ahead}");
    let behind = clock(-30, 1).await;
    assert_eq!(behind.level, Level::Warning, "{behind}");
    assert!(behind.what.contains(" s behind this machine's"), "{behind}");
    assert_eq!(clock(0, 1).await.level, Level::Ok);
}

#[tokio::test]
async fn a_clock_that_moves_otherwise_than_ours_is_told() {
    let fast = clock(0, 1000).await;
    assert_eq!(fast.level, Level::Warning, "{fast}");
    assert!(fast.what.contains("stepped by"), "{fast}");
    assert!(fast.advice.as_deref().unwrap().contains("slew"), "{fast}");
}
