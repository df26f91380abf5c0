//! B17, E17. Logins that change while a client runs: from a file that is read again, and from a callback.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tenure_core::{Backend, Client, Error, Kind, Settings};
use tenure_zookeeper::{Login, Options, Secret, ZooKeeper};
use testbed::{FAR, Proxy, ZkAcl, ZkClient, ZkMode, retry, until, within};

use super::harness::{Harness, LONG, claim, client, open, options};
use super::permissions::is_config;

const CHROOT: &str = "/app";

/// A server with a chroot, and a file with a password.
struct World {
    harness: Harness,
    folder: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let world = Self { harness: Harness::start(), folder: tempfile::tempdir().unwrap() };
        world.harness.raw().create(CHROOT, b"", ZkMode::Persistent).unwrap();
        world
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    fn write(&self, password: &str) {
        std::fs::write(self.file(), format!("{password}\n")).unwrap();
    }

    /// Options with the password in the file.
    fn options(&self, port: u16) -> Options {
        let mut options = options(port, FAR);
        options.chroot = Some(CHROOT.to_owned());
        options.login = Some(Login::new("anna", Secret::file(self.file())));
        options
    }

    /// Who has all rights at this path, below the chroot.
    fn owners(&self, path: &str) -> Vec<ZkAcl> {
        self.harness.raw().acl(&format!("{CHROOT}{path}")).unwrap()
    }

    fn give_to(&self, path: &str, who: &[ZkAcl]) {
        self.harness.raw().set_acl(&format!("{CHROOT}{path}"), who).unwrap();
    }

    /// What an ACL has for this user and password: a node of theirs is made, and looked at.
    fn identity(&self, login: &str) -> ZkAcl {
        let mut theirs = ZkClient::connect(self.harness.zk.port(), LONG).unwrap();
        theirs.add_auth("digest", login).unwrap();
        let everything = ZkAcl { rights: 31, scheme: "auth".into(), id: String::new() };
        theirs.create_with("/identity", b"", ZkMode::Persistent, &[everything]).unwrap();
        let [identity] = &theirs.acl("/identity").unwrap()[..] else { panic!("one") };
        theirs.delete("/identity", None).unwrap();
        theirs.close().unwrap();
        identity.clone()
    }
}

/// On a busy machine it may take more than one call to get there.
async fn used(client: &Client, name: &str) {
    let lock = client.lock(name);
    let taken = retry(name, Error::is_transient, || lock.acquire()).await;
    within("released", taken.release()).await.unwrap();
}

/// E17. The password is changed: the connection goes on, the next one has both, so that what the session made stays its
/// own, and the next session has the new one alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_is_used_by_the_next_session() {
    let world = World::start();
    let (old, new) = (world.identity("anna:old"), world.identity("anna:new"));
    world.give_to("", &[old.clone(), new.clone()]);
    world.write("old");
    let proxy = Proxy::start_zookeeper(world.harness.zk.port()).unwrap();
    let client = client(world.options(proxy.port())).await;
    let held = client.lock("held").acquire().await.unwrap();
    assert_eq!(world.owners("/held"), std::slice::from_ref(&old));
    world.write("new");
    used(&client, "same-connection").await;
    assert_eq!(world.owners("/same-connection"), std::slice::from_ref(&old));
    let session = world.harness.owners("/app/held")[0];
    proxy.close_all();
    used(&client, "next-connection").await;
    assert_eq!(world.owners("/next-connection"), [old.clone(), new.clone()]);
    assert!(held.is_held());
    assert_eq!(world.harness.owners("/app/held"), [session]);
    within("it is still its own", held.release()).await.unwrap();
    world.harness.zk.expire(session).unwrap();
    until("another session", || async {
        used(&client, "next-session").await;
        world.owners("/next-session") == std::slice::from_ref(&new)
    })
    .await;
    world.give_to("", &[new]);
    used(&client, "another").await;
}

/// E17. The rights are given to another password: calls are unavailable until the callback has it. No connection is
/// needed for that, and no call fails for good.
#[tokio::test(flavor = "multi_thread")]
async fn rights_that_move_to_another_password_are_followed() {
    let world = World::start();
    let (old, new) = (world.identity("anna:old"), world.identity("anna:new"));
    world.give_to("", &[old]);
    let word = Arc::new(Mutex::new("old"));
    let theirs = word.clone();
    let mut options = options(world.harness.zk.port(), FAR).with_credentials(move || {
        let word = *theirs.lock().unwrap();
        async move { Ok::<_, std::io::Error>(Login::new("anna", word)) }
    });
    options.chroot = Some(CHROOT.to_owned());
    let store = open(options).await;
    let client = Client::with(store.clone(), Settings::default());
    used(&client, "x").await;
    let held = client.lock("held").acquire().await.unwrap();
    let session = world.harness.owners("/app/held")[0];
    world.give_to("", std::slice::from_ref(&new));
    let error = within("an answer", store.try_acquire(&claim("y", Kind::Lock))).await.unwrap_err();
    println!("{error}");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("has no right any more"), "{error}");
    *word.lock().unwrap() = "new";
    used(&client, "y").await;
    assert!(world.owners("/y").contains(&new));
    assert_eq!(world.harness.owners("/app/held"), [session]);
    within("released", held.release()).await.unwrap();
}

/// B9. A name of another user is an error for good, also where the password may change.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_another_user_is_no_password_that_changed() {
    let world = World::start();
    world.write("old");
    let mut raw = world.harness.raw();
    let otto = world.identity("otto:secret");
    raw.create_with("/app/theirs", b"", ZkMode::Persistent, &[otto]).unwrap();
    let client = client(world.options(world.harness.zk.port())).await;
    used(&client, "mine").await;
    let error = within("an answer", client.lock("theirs").acquire()).await.unwrap_err();
    is_config(&error, &["/theirs", "no right"]);
}

/// B17. A login that the servers refuse is an error for good at first, and later only until they accept it again; a
/// hold outlives that.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_was_accepted_once_is_not_wrong_for_good() {
    let harness = Harness::start();
    let accept = |yes: bool| {
        let config = harness.zk.instance().folder().join("zoo.cfg");
        let mut config = std::fs::OpenOptions::new().append(true).open(config).unwrap();
        writeln!(config, "DigestAuthenticationProvider.enabled={yes}").unwrap();
        harness.zk.restart().unwrap();
    };
    let login = || {
        let mut options = options(harness.zk.port(), FAR);
        options.login = Some(Login::new("anna", "secret"));
        options.timeout = LONG / 10;
        options
    };
    let store = open(login()).await;
    let client = Client::with(store.clone(), Settings::default());
    let held = client.lock("x").acquire().await.unwrap();
    accept(false);
    until("it is told", || async {
        let error = within("an answer", store.try_acquire(&claim("y", Kind::Lock))).await.unwrap_err();
        println!("{error}");
        assert!(error.is_transient(), "{error:?}");
        let is_told = error.to_string().contains("reject the login");
        assert!(!is_told || matches!(error, Error::Unavailable { .. }), "{error:?}");
        is_told
    })
    .await;
    let error = within("an answer", ZooKeeper::open(login())).await.unwrap_err();
    is_config(&error, &["reject the login"]);
    accept(true);
    used(&client, "y").await;
    assert!(held.is_held());
    within("released", held.release()).await.unwrap();
}

/// B17. A file that is missing is an error for good at first; a callback that fails is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_not_there_is_named() {
    let world = World::start();
    let port = world.harness.zk.port();
    let error = within("an answer", ZooKeeper::open(world.options(port))).await.unwrap_err();
    is_config(&error, &["no login", world.file().to_str().unwrap()]);
    let sealed = options(port, FAR).with_credentials(|| async { Err::<Login, _>("the vault is sealed") });
    let error = within("an answer", ZooKeeper::open(sealed)).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("no login: the vault is sealed"), "{error}");
}
