//! One program, four files: what it says does not depend on the store.

use std::path::Path;

use testbed::{Cluster, Ensemble, Redis, RedisOptions};

fn says(file: &Path) -> String {
    let done = super::program("config").arg(file).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}: {}", file.display(), text(&done.stderr));
    text(&done.stdout)
}

fn quoted(addresses: &[String]) -> String {
    addresses.iter().map(|a| format!("{a:?}")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn the_same_program_on_four_stores() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(RedisOptions::default()).unwrap();
    let cluster = Cluster::start().unwrap().steady().unwrap();
    let ensemble = Ensemble::start().unwrap();
    let files = [
        ("sqlite", "path = 'locks.db'".to_owned()),
        ("redis", format!("nodes = '127.0.0.1:{}'", redis.port())),
        ("redis", format!("nodes = [{}]", quoted(&cluster.addresses()))),
        ("zookeeper", format!("nodes = '{}'", ensemble.addresses()[..2].join(","))),
    ];
    let mut said = Vec::new();
    for (n, (kind, place)) in files.iter().enumerate() {
        let file = folder.path().join(format!("{n}.toml"));
        std::fs::write(&file, format!("type = '{kind}'\n{place}\nlease = '60s'\n")).unwrap();
        said.push(says(&file));
    }
    assert!(said[0].contains("a second one: busy") && said[0].ends_with("locked: false\n"), "{}", said[0]);
    assert!(said.iter().all(|text| *text == said[0]), "{said:?}");
    assert!(folder.path().join("locks.db").exists(), "beside its file");
}
