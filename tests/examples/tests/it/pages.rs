//! What the documentation offers to copy: configurations are valid, and the access rules are enough.

use std::path::{Path, PathBuf};

use tenure::{Config, Level, blocking};
use testbed::{Redis, RedisOptions};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

pub(crate) fn all_toml_blocks_are_valid() {
    let mut all = vec![root().join("README.md"), root().join("README.zh-CN.md")];
    pages(&root().join("docs"), &mut all);
    let mut seen = 0;
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```")) {
            let valid = Config::from_toml(block.0);
            assert!(valid.is_ok(), "{}: {}\n{valid:?}", page.display(), block.0);
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

/// Every kind works for a user with the rights that the page on security names, and only below its prefix.
pub(crate) fn the_access_rule_for_redis_is_enough() {
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let rule = page.lines().find(|line| line.starts_with("ACL SETUSER orders ")).expect("a rule");
    let server = Redis::start(RedisOptions::default()).unwrap();
    server.cmd(&rule.split(' ').collect::<Vec<_>>()).unwrap();

    let connect = |prefix: &str| {
        blocking::connect(&format!("redis://orders:SECRET@127.0.0.1:{}?prefix={prefix}", server.port()))
    };
    let client = connect("app:").unwrap();
    client.lock("lock").acquire().unwrap().release().unwrap();
    client.lock("fair").fair().acquire().unwrap().release().unwrap();
    client.rwlock("rw").read().acquire().unwrap().release().unwrap();
    client.rwlock("rw").write().acquire().unwrap().release().unwrap();
    client.semaphore("permits", 2).acquire().unwrap().release().unwrap();
    client.election("leader").campaign().unwrap().release().unwrap();
    client.latch("latch").try_set_count(1).unwrap();
    client.latch("latch").count_down().unwrap();
    client.counting_semaphore("count").try_set(1).unwrap();
    assert!(client.counting_semaphore("count").try_acquire(1).unwrap());
    let rights = client.diagnose().unwrap().into_iter().filter(|finding| finding.check == "rights");
    let rights: Vec<_> = rights.collect();
    assert!(rights.iter().all(|finding| finding.level == Level::Ok), "{rights:?}");

    let elsewhere =
        connect("other:").and_then(|client| client.lock("lock").try_acquire().map(|g| g.is_some()));
    assert!(elsewhere.is_err(), "{elsewhere:?}");
}
