//! Configuration from files, variables and addresses, alone and combined.

use std::ffi::OsString;

use super::*;
use crate::config::keys::{KEYS, StoreType};

fn toml(text: &str) -> Result<Config> {
    Config::from_toml(text)
}

fn env(over: Config, variables: &[(&str, &str)]) -> Result<Config> {
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Ok(Config { raw: over.raw.overridden_by(env::read(variables).strict()?) })
}

/// Keys and values, without their origins.
fn says(config: &Config) -> String {
    let each = config.raw.iter().map(|s| format!("{}={}", s.key.name, s.value));
    each.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_key_of_a_stronger_source_wins() {
    let file = toml("type = 'redis'\nnodes = 'a'\npassword = 'x'\nlease = '10s'\npoll = '1s'").unwrap();
    let both = env(file, &[("TENURE_PASSWORD", "y"), ("TENURE_LEASE", "5s"), ("TENURE_POLL", "")]).unwrap();
    assert_eq!(says(&both), "type=redis nodes=a password=y lease=5s poll=1s");
    let all = both.url("redis://b?poll=2s").unwrap();
    assert_eq!(says(&all), "type=redis nodes=b lease=5s poll=2s", "no password goes to another server");
    let file = toml("type = 'redis'\nnodes = 'a'\npassword_file = '/x'").unwrap();
    let word = env(file, &[("TENURE_PASSWORD", "y")]).unwrap();
    assert_eq!(says(&word), "type=redis nodes=a password=y");
    let file = env(word, &[("TENURE_PASSWORD_FILE", "/z")]).unwrap();
    assert_eq!(says(&file), "type=redis nodes=a password_file=/z");
}

#[test]
fn an_address_replaces_the_store_wherever_it_stands() {
    let file = || toml("type = 'redis'\nnodes = 'a'\nprefix = 'app:'\nlease = '10s'").unwrap();
    let over = env(file(), &[("TENURE_URL", "zookeeper://b/app"), ("TENURE_USER", "me")]).unwrap();
    assert_eq!(says(&over), "type=zookeeper nodes=b chroot=/app user=me lease=10s");
    let under = toml("url = 'redis://a/2'").unwrap();
    let over = env(under, &[("TENURE_PASSWORD", "p")]).unwrap();
    assert_eq!(says(&over), "type=redis nodes=a password=p db=2");
}

#[test]
fn a_store_moves_by_its_type_and_addresses() {
    let rest = "user = 'me'\npassword = 'pw'\nprefix = 'app/'\ntimeout = '1s'\nlease = '10s'";
    for store in [
        "type = 'redis'\nnodes = 'a'",
        "type = 'redis'\nnodes = ['a', 'b']",
        "type = 'redis-cluster'\nnodes = 'a,b'",
        "type = 'redlock'\nnodes = 'a,b,c'",
        "type = 'zookeeper'\nnodes = ['a', 'b']",
    ] {
        toml(&format!("{store}\n{rest}")).unwrap().check().unwrap();
    }
}

#[test]
fn lines_of_java_services_are_understood() {
    for (kind, nodes) in [
        ("redis", "'redis://a:7000'"),
        ("redis", "'rediss://a:7000/'"),
        ("redis", "'redis://a:7000, redis://b:7001 ,redis://c'"),
        ("redis", "['redis://a:7000', 'redis://b:7001']"),
        ("redlock", "'redis://a:1,redis://b:1,redis://c:1'"),
        ("zookeeper", "'a:2181,b:2181/app'"),
        ("zookeeper", "'a:2181, b:2181, c'"),
    ] {
        toml(&format!("type = '{kind}'\nnodes = {nodes}")).unwrap().check().unwrap();
    }
}

/// What is shown can be read as a file, however a number was written.
#[test]
fn numbers_are_shown_as_toml_has_them() {
    for (db, shown) in [("7", "db = 7 "), ("007", "db = \"007\" "), ("+7", "db = \"+7\" ")] {
        let config = Config::default().url(&format!("redis://a?db={db}")).unwrap();
        let text = config.to_string();
        assert!(text.contains(shown), "{text}");
        assert_eq!(toml(&text).unwrap().raw.get("db").unwrap().value, db);
    }
}

/// A table, its text in a variable or an address, and what is shown of it are one thing.
#[test]
fn mapped_addresses_are_a_table_or_text() {
    let text = "10.0.0.5:7001=lb:17001/node-5,10.0.0.6=lb";
    let nat = |config: &Config| {
        config.check().unwrap();
        config.raw.get("nat").unwrap().value.clone()
    };
    let cluster = "type = 'redis-cluster'\nnodes = 'a'\ntls = true\n";
    let file =
        toml(&format!("{cluster}[nat]\n'10.0.0.5:7001' = 'lb:17001/node-5'\n'10.0.0.6' = 'lb'")).unwrap();
    assert_eq!(nat(&file), text);
    assert_eq!(nat(&toml(&file.to_string()).unwrap()), text);
    let inline = "nat = { '10.0.0.5:7001' = 'lb:17001/node-5', '10.0.0.6' = 'lb' }";
    assert_eq!(nat(&toml(&format!("{cluster}{inline}")).unwrap()), text);
    let variable = env(toml(cluster).unwrap(), &[("TENURE_NAT", text)]).unwrap();
    assert_eq!(nat(&variable), text);
    let url = Config::default().url(&format!("rediss+sentinel://a,b/main?nat={text}")).unwrap();
    assert_eq!(nat(&url), text);
    let quorum = toml("type = 'redlock'\nnodes = 'a,b,redis+sentinel://c/m'\nnat = 'x=y'").unwrap();
    assert_eq!(nat(&quorum), "x=y");
    // Quoted, what is the name of a key is a host.
    let host = toml(&format!("{cluster}[nat]\n'master' = 'localhost'")).unwrap();
    assert_eq!(nat(&host), "master=localhost");
}

/// Unusual characters are kept as they are.
#[test]
fn passwords_are_taken_as_they_are() {
    let odd = r#"p%40@:/?#&= "'\ü,"#;
    let password = |config: &Config| config.raw.get("password").unwrap().value.clone();
    let file = toml(&format!("type = 'redis'\nnodes = 'a'\npassword = '''{odd}'''")).unwrap();
    assert_eq!(password(&file), odd);
    assert_eq!(password(&env(file, &[("TENURE_PASSWORD", odd)]).unwrap()), odd);
    let url = Config::default().url("redis://:p%2540%40%3A%2F%3F@a").unwrap();
    assert_eq!(password(&url), "p%40@:/?");
}

#[test]
fn wrong_files_say_where_and_what() {
    for (text, says) in [
        ("type = 'redis'\nnode = 'a'", "line 2: node: unknown key; did you mean nodes?"),
        ("type = 'redis'\nhosts = 'a'", "line 2: hosts: unknown key; did you mean nodes?"),
        ("type = 'reddis'\nnodes = 'a'", "line 1: type: \"reddis\" is unknown"),
        ("type = 'redis-clutser'", "did you mean redis-cluster?"),
        ("lease = '1s'", "type is missing"),
        ("\nnodes = 'a'", "line 2: nodes: has no effect without a type"),
        ("type = 'redis'", "line 1: nodes: missing"),
        ("type = 'redis'\nnodes = []", "line 2: nodes: is empty"),
        ("type = 'redis'\nnodes = 'a,'", "line 2: nodes: an address is empty"),
        ("type = 'redis'\nnodes = 5", "line 2: nodes: expected a list"),
        ("type = 'redis'\nnodes = [5]", "line 2: nodes: expected a list"),
        ("type = 'redis'\nnodes = 'zookeeper://a'", "zookeeper:// is not an address of this type of store"),
        ("type = 'redis'\nnodes = 'a/2'", "set db to select"),
        ("type = 'redis'\nnodes = 'a'\ndb = 'x'", "line 3: db: \"x\": expected the number"),
        ("type = 'redis'\nnodes = 'a,b'\ndb = 2", "line 3: db: a cluster has no database 2"),
        (
            "type = 'redis'\nnodes = 'a'\nchroot = '/x'",
            "line 3: chroot: only supported by zookeeper, but type is redis",
        ),
        ("type = 'redis'\nnodes = 'a'\nmaster = 'm'", "line 3: master: only supported by redis-sentinel"),
        ("type = 'redis-sentinel'\nnodes = 'a'", "line 1: master: missing"),
        ("type = 'redis'\nnodes = 'a'\nuser = 'me'", "line 3: user: is set without a password"),
        ("type = 'redis'\nnodes = 'a'\nsocket = '/s'", "either nodes or socket"),
        ("type = 'redis'\nsocket = '/s'\ntls = true", "line 3: tls: is not supported on a unix socket"),
        ("type = 'redis'\nnodes = 'a'\nca = '/x'", "line 3: ca: needs TLS"),
        (
            "type = 'redis'\nnodes = 'a'\ntls = true\ncert = '/x'",
            "line 4: cert: cert and key must both be set",
        ),
        (
            "type = 'redis'\nnodes = 'rediss://a'\ntls = false",
            "line 3: tls: is false, but nodes use rediss://",
        ),
        ("type = 'redis'\nnodes = 'a'\ntls = 'yes'", "line 3: tls: \"yes\": expected true or false"),
        ("type = 'redis'\nnodes = 'a'\nlayout = 'plian'", "expected redisson or plain; did you mean plain?"),
        (
            "type = 'redis'\nnodes = 'a'\nlayout = 'plain'\nfence = 'tenure'",
            "line 4: fence: has no effect with the plain layout",
        ),
        ("type = 'zookeeper'\nnodes = 'a/x'\nchroot = '/y'", "line 3: chroot: is set twice"),
        ("type = 'zookeeper'\nnodes = 'a/x,b'", "only the last address"),
        ("type = 'zookeeper'\nnodes = 'a'\nchroot = 'y'", "line 3: chroot: \"y\" is not a path"),
        (
            "type = 'zookeeper'\nnodes = 'a'\npassword = 'p'",
            "line 3: password: user and password must both be set",
        ),
        ("type = 'redlock'\nnodes = 'a,b,c'\nsentinel_user = 'x'", "has no effect: no node uses sentinels"),
        ("type = 'redlock'\nnodes = 'a,redis://b?db=1,c'", "cannot have options"),
        ("type = 'memory'\nlease = 10", "line 2: lease: \"10\" is not a duration"),
        ("type = 'memory'\nlease = 1.5", "line 2: lease: expected a duration in quotes"),
        ("type = 'sqlite'\npath = ''", "line 2: path: is empty"),
        ("type = 'sqlite'\nmode = 'rw'", "expected permissions such as 600, 660 or 666"),
        ("type = 'sqlite'\nmode = '770'", "expected permissions such as 600, 660 or 666"),
        ("type = 'sqlite'\nmode = '60'", "expected permissions such as 600, 660 or 666"),
        ("type = 'memory'\nurl = 'memory:'", "line 1: type: is set twice"),
        ("lease = '1s'\nurl = 'memory:?lease=1s'", "line 1: lease: is set twice, here and by line 2"),
        ("url = 'memory:?leese=1s'", "line 1: url: unknown option \"leese\"; did you mean lease?"),
        ("url = 'orders'", "line 1: url: no scheme"),
        ("url = 5", "line 1: url: expected a string"),
        ("[redis]\nnodes = 'a'", "line 1: redis: unknown key: all keys are at the top level"),
        ("type = 'redis-cluster'\nnodes = 'a'\nnat = 'a:1=b'", "line 3: nat: \"a:1=b\": one side has a port"),
        ("type = 'redis-cluster'\nnodes = 'a'\nnat = 'a:1'", "line 3: nat: \"a:1\": expected the announced"),
        (
            "type = 'redis-cluster'\nnodes = 'a'\n[nat]\n'a:1' = 5",
            "line 3: nat: expected a table of announced addresses",
        ),
        ("type = 'redis-cluster'\nnodes = 'a'\n[nat]", "line 3: nat: is empty"),
        ("type = 'redis-cluster'\nnodes = 'a'\nnat = ['a:1=b:1']", "line 3: nat: expected a table"),
        (
            "type = 'redis-cluster'\nnodes = 'a'\n[nat]\n'a:1' = 'b:1'\nlease = '10s'",
            "line 5: lease: stands below [nat]: move it above",
        ),
        (
            "type = 'redis-cluster'\nnodes = 'a'\nnat = 'a:1=b:1/node'",
            "line 3: nat: names what a certificate must have, but connections are not encrypted",
        ),
        (
            "type = 'redis'\nnodes = 'a'\nnat_mapper = 'x'",
            "line 3: nat_mapper: unknown key; did you mean nat?",
        ),
        ("type = 'zookeeper'\nnodes = 'a'\nnat = 'a:1=b:1'", "line 3: nat: only supported by redis"),
        ("type = 'memory'\ntype = 'memory'", "line 2: TOML: duplicate key"),
        ("type = memory", "line 1: TOML: "),
    ] {
        let error = toml(text).and_then(|config| config.check()).unwrap_err().to_string();
        assert!(error.contains(says), "{text}\n{error}");
    }
}

#[test]
fn wrong_variables_are_named() {
    for (variables, says) in [
        (&[("TENURE_TYPE", "memory"), ("TENURE_LEASE", "1")][..], "TENURE_LEASE: \"1\" is not a duration"),
        (&[("TENURE_URL", "memory:?lease=1")], "TENURE_URL: lease: \"1\" is not a duration"),
        (
            &[("TENURE_URL", "memory:"), ("TENURE_TYPE", "memory")],
            "TENURE_TYPE: is set twice, here and by TENURE_URL",
        ),
        (&[("TENURE_TYPE", "zookeeper")], "TENURE_TYPE: nodes: missing"),
    ] {
        let error = env(Config::default(), variables).and_then(|c| c.check()).unwrap_err().to_string();
        assert!(error.contains(says), "{variables:?}\n{error}");
    }
    let file = toml("type = 'redis'\nnodes = 'a'\nlayout = 'plain'").unwrap();
    let error = env(file, &[("TENURE_TYPE", "zookeeper")]).unwrap().check().unwrap_err().to_string();
    assert!(error.starts_with("line 3: layout: only supported by redis"), "{error}");
    assert!(error.ends_with("type is zookeeper (TENURE_TYPE)"), "{error}");
}

#[test]
fn an_unknown_variable_is_a_warning() {
    for (variable, says) in [
        ("TENURE_LEESE", "TENURE_LEESE: unknown variable, ignored; did you mean TENURE_LEASE?"),
        ("TENURE_HOSTS", "TENURE_HOSTS: unknown variable, ignored"),
        ("TENURE_Lease", "TENURE_Lease: unknown variable, ignored; did you mean TENURE_LEASE?"),
    ] {
        let config = env(Config::default(), &[("TENURE_TYPE", "memory"), (variable, "1s")]).unwrap();
        assert_eq!(config.warnings(), [says]);
        config.check().unwrap();
    }
}

#[test]
fn suggestions_are_keys_of_that_store() {
    for (text, says) in [
        ("type = 'redis'\nnodes = 'a'\nsesion = '1s'", "sesion: unknown key"),
        ("type = 'zookeeper'\nnodes = 'a'\nsesion = '1s'", "sesion: unknown key; did you mean session?"),
        ("type = 'redis'\nnodes = 'a'\nnamespace = 'x'", "namespace: unknown key; did you mean prefix?"),
        ("type = 'zookeeper'\nnodes = 'a'\nnamespace = 'x'", "namespace: unknown key; did you mean chroot?"),
        ("type = 'sqlite'\nhosts = 'a'", "hosts: unknown key"),
        ("hosts = 'a'", "hosts: unknown key; did you mean nodes?"),
        ("url = 'redis://a?sesion=1s'", "unknown option \"sesion\""),
        ("url = 'zookeeper://a?sesion=1s'", "unknown option \"sesion\"; did you mean session?"),
        ("url = 'redis://a?host=b'", "unknown option \"host\""),
        ("url = 'redis://a'\nchroots = 'b'", "chroots: unknown key"),
    ] {
        let error = toml(text).unwrap_err().to_string();
        assert!(error.ends_with(says), "{text}\n{error}");
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let problems = |text: &str| -> Vec<String> {
        let config = Config { raw: file::parse(text, None) };
        config.problems().iter().map(ToString::to_string).collect()
    };
    for (text, says) in [
        ("type = 'memory'", &[][..]),
        (
            "type = 'redis'\nnodes = 'a:x'\nlease = '1'\ntimeout = '1ms'\nleese = '1s'\nchroot = '/x'\nca = '/none'",
            &[
                "line 5: leese: unknown key",
                "line 6: chroot: only supported by zookeeper",
                "line 3: lease: \"1\" is not a duration",
                "line 4: timeout: 1ms is too short",
                "line 7: ca: needs TLS",
                "line 2: nodes: the part after the colon",
                "line 7: ca: /none: ",
            ],
        ),
        ("type = 'redis'\nnodes = 5\npoll = 'x'", &["line 2: nodes: expected a list", "line 3: poll: "]),
        ("type = 'redis'\ndb = 'x'", &["line 1: nodes: missing", "line 2: db: "]),
        (
            "type = 'reddis'\nlease = '1'\npoll = '2'",
            &["line 1: type: ", "line 2: lease: ", "line 3: poll: "],
        ),
        ("type = 5\nlease = '1'", &["line 1: type: expected", "line 2: lease: "]),
        ("lease = '1'", &["type is missing", "line 1: lease: "]),
        ("type = 'redis-sentinel'\nnodes = 'a'\ndb = 'x'", &["line 1: master: missing", "line 3: db: "]),
        (
            "url = 'redis://a?leese=1s&db=x&timeout=1'",
            &["unknown option \"leese\"", "line 1: db: ", "line 1: timeout: "],
        ),
        ("url = 'reddis://a'\nlease = '1'", &["unknown scheme", "line 2: lease: "]),
        ("type = redis\nlease = '1'", &["line 1: TOML: "]),
    ] {
        let found = problems(text);
        let mut missing = says.iter().filter(|says| !found.iter().any(|f| f.contains(**says)));
        assert!(found.len() == says.len() && missing.next().is_none(), "{text}\n{found:#?}");
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let variable = ("TENURE_LEASE".into(), OsString::from_vec(vec![0xff]));
    let error = env::read([variable].into_iter()).strict().err().unwrap().to_string();
    assert_eq!(error, "TENURE_LEASE: is not UTF-8");
}

#[test]
fn variables_of_others_are_left_alone() {
    let others = [
        ("TENURE_NAME", "x"),
        ("TENURE_FENCE", "1"),
        ("TENURE_HOLD", "x"),
        ("TENURE_CONFIG", "x"),
        ("TENURE_PORT", "tcp://10.0.0.1:80"),
        ("TENURE_REDIS_SERVICE_HOST", "10.0.0.1"),
        ("TENURE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("LEASE", "x"),
    ];
    assert_eq!(env(Config::default(), &others).unwrap(), Config::default());
}

/// A secret in every position where one could be written, even by mistake.
#[test]
fn secrets_are_not_shown() {
    for text in [
        "type = 'redis'\nnodes = 'a'\npassword = 'hunter2'",
        "type = 'redis'\nnodes = 'a'\nuser = 'me'\npassword = 'hunter2'\nlease = 'x'",
        "type = 'redis-sentinel'\nnodes = 'a'\nmaster = 'm'\nsentinel_password = 'hunter2'",
        "type = 'memory'\npassword = 'hunter2'",
        "password = 'hunter2'",
        "type = 'redis'\nnodes = 'redis://:hunter2@a'",
        "type = 'redis'\nnodes = 'me:hunter2@a:x,b'",
        "type = 'redlock'\nnodes = 'redis://me:hunter2@a,redis://b,redis://me:hunter2@c'",
        "type = 'redlock'\nnodes = 'redis://me:hunter2@a,redis://me:hunter2@a'",
        "type = 'redlock'\nnodes = 'redis://me:hunter2@a:x'",
        "type = 'zookeeper'\nnodes = 'a'\nuser = 'me'\npassword = 'hunter2'",
        "type = 'redis-cluster'\nnodes = 'a'\nnat = 'me:hunter2@a:1=b:1'",
        "type = 'redis-cluster'\nnodes = 'a'\n[nat]\n'a:1' = 'me:hunter2@b:1'",
        "url = 'redis://:hunter2@a'",
        "url = 'redis://:hunter2@a?x'",
        "url = 'redis://:hunter2@a'\npassword = 'hunter2'",
        "url = 'redis+sentinel://a/m?sentinel_password=hunter2'",
        "password = 'hunter2",
        "password = \"hunter2\\q\"",
        "password = hunter2",
        "password = ['hunter2']",
        "password = { a = 'hunter2' }",
        "password = 'hunter2'\npassword = 'hunter2'",
    ] {
        let said = match toml(text) {
            Ok(config) => {
                let checked = config.check().err().map(|e| e.to_string());
                format!("{config} {config:?} {:?} {checked:?}", config.entries())
            }
            Err(error) => format!("{error} {error:?}"),
        };
        let problems = Config { raw: file::parse(text, None) }.problems();
        let said = format!("{said} {problems:?}");
        assert!(!said.contains("hunter"), "{text}\n{said}");
    }
}

#[test]
fn files_are_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.toml");
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(&file, "type = 'sqlite'\npath = 'locks.db'").unwrap();
    assert_eq!(says(&Config::from_file(&file).unwrap()), format!("type=sqlite path={}", at("locks.db")));
    std::fs::write(&file, "url = 'sqlite:locks.db'").unwrap();
    assert_eq!(says(&Config::from_file(&file).unwrap()), format!("type=sqlite path={}", at("locks.db")));
    std::fs::write(&file, "url = 'sqlite:/locks.db'").unwrap();
    assert_eq!(says(&Config::from_file(&file).unwrap()), "type=sqlite path=/locks.db");
    std::fs::write(&file, "type = 'redis'\nnodes = 'a'\ntls = true\nca = 'ca.pem'").unwrap();
    let config = Config::from_file(&file).unwrap();
    let error = config.check().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:4: ca: {}: ", file.display(), at("ca.pem"))), "{error}");
    std::fs::write(at("ca.pem"), "").unwrap();
    config.check().unwrap();
    std::fs::write(&file, "type = 'redis'\nnodes = 'a'\npassword_file = 'word'").unwrap();
    let error = Config::from_file(&file).unwrap().check().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:3: password_file: {}: ", file.display(), at("word"))), "{error}");
    let missing = Config::from_file(at("none.toml")).unwrap_err().to_string();
    assert!(missing.contains("none.toml: cannot be read"), "{missing}");
}

#[test]
fn it_is_shown_as_a_file_that_says_the_same() {
    let config = toml("type = 'redis'\nnodes = ['a', 'b:1']\ntls = true\nprefix = 'a\"\\'\ndb = 0").unwrap();
    let shown = config.to_string();
    assert!(shown.contains("nodes = \"a,b:1\"   # line 2\n"), "{shown}");
    assert_eq!(says(&toml(&shown).unwrap()), says(&config));
}

/// The table of keys agrees with the code that reads them.
#[test]
fn every_key_of_a_type_is_read() {
    for kind in StoreType::ALL {
        for key in KEYS.iter().filter(|key| key.stores.contains(kind) && key.name != "type") {
            let also = |name: &str, value: &str| match key.name == name {
                true => String::new(),
                false => format!("{name} = '{value}'\n"),
            };
            let mut text = format!("type = '{}'\n{} = '{}'\n", kind.name(), key.name, example(key.name));
            if !matches!(kind, StoreType::Memory | StoreType::Sqlite) && key.name != "socket" {
                text += &also("nodes", "redis+sentinel://a/m").replace(
                    "redis+sentinel://a/m",
                    if *kind == StoreType::Redlock { "redis+sentinel://a/m" } else { "a" },
                );
            }
            if *kind == StoreType::RedisSentinel {
                text += &also("master", "m");
            }
            if key.name.ends_with("user") || *kind == StoreType::ZooKeeper && key.name == "password" {
                text += &also("password", "p");
                text += &also("user", "u");
            }
            if *kind == StoreType::ZooKeeper && key.name == "password_file" {
                text += &also("user", "u");
            }
            if key.name == "sentinel_user" {
                text += "sentinel_password = 'p'\n";
            }
            if ["ca", "cert", "key"].contains(&key.name) {
                text += "tls = true\n";
            }
            if key.name == "fence" {
                text += "layout = 'redisson'\n";
            }
            if ["cert", "key"].contains(&key.name) {
                text += &(also("cert", "/x") + &also("key", "/x"));
            }
            // A key that is not read fails a debug assertion in `validate`.
            let config = toml(&text).unwrap().raw.validate(Settings::default());
            assert!(config.is_ok(), "{text}{}", config.err().unwrap());
        }
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "tls" => "true",
        "chroot" | "path" | "socket" | "ca" | "cert" | "key" => "/x",
        "password_file" | "sentinel_password_file" => "/x",
        "nat" => "a:1=b:2",
        "layout" => "plain",
        "fence" => "redisson",
        "acl" => "open",
        "network_fs" => "allow",
        "mode" => "660",
        "durability" => "replicas:2",
        "deadlocks" => "report",
        "drift" => "1%+2ms",
        "retry_delay" => "1ms-2ms",
        "db" | "tries" => "0",
        "restart_delay" => "70s",
        "nodes" | "user" | "password" | "master" | "prefix" | "client_name" => "a",
        "sentinel_user" | "sentinel_password" => "a",
        _ => "5s",
    }
}
