//! What names are made of, byte for byte.

use std::fmt;

use tenure::{Client, Result, distributed_lock};

use super::harness::memory;

struct User {
    user_id: u64,
    name: String,
}

fn held() -> String {
    let current = tenure::current().unwrap();
    current.held().map(|held| held.name().to_string()).collect::<Vec<_>>().join(" ")
}

fn user() -> User {
    User { user_id: 42, name: "a:b".into() }
}

#[tokio::test]
async fn expressions_over_the_arguments() {
    #[distributed_lock(key = user.user_id, prefix = "ACCOUNT:DISTRIBUTEDLOCK:USER", wait = "5s", client = client)]
    async fn field(client: Client, user: User) -> Result<String> {
        drop(user);
        Ok(held())
    }
    #[distributed_lock(key = user.name.len() + 1, prefix = PREFIX, client = client)]
    async fn sum(client: &Client, user: User) -> Result<String> {
        drop(user.name);
        Ok(held())
    }
    #[distributed_lock(key = user.name, prefix = "{user}", client = client)]
    async fn verbatim(client: &Client, user: &User) -> Result<String> {
        Ok(held())
    }
    const PREFIX: &str = "len";
    let client = memory().await;
    assert_eq!(field(client.clone(), user()).await.unwrap(), "ACCOUNT:DISTRIBUTEDLOCK:USER:42");
    assert_eq!(sum(&client, user()).await.unwrap(), "len:4");
    assert_eq!(verbatim(&client, &user()).await.unwrap(), "{user}:a:b");
}

#[tokio::test]
async fn texts_parts_lists_and_names() {
    #[distributed_lock(key = "{id}-{id:04}", prefix = "p", client = client)]
    async fn text(client: &Client, id: u32) -> Result<String> {
        Ok(held())
    }
    #[distributed_lock(key = (user.name, "x{id}", id), prefix = "p", client = client)]
    async fn parts(client: &Client, user: &User, id: u32) -> Result<String> {
        Ok(held())
    }
    #[distributed_lock(key = [id, id + 1, id], prefix = "p", client = client)]
    async fn list(client: &Client, id: u32) -> Result<String> {
        Ok(held())
    }
    #[distributed_lock(keys = ids.iter().map(|id| id * 2), prefix = "p", client = client)]
    async fn each(client: &Client, ids: &[u32]) -> Result<String> {
        Ok(held())
    }
    #[distributed_lock(name = format!("{}/{}", user.name, 1), client = client)]
    async fn name(client: &Client, user: User) -> Result<String> {
        Ok(held())
    }
    let client = memory().await;
    assert_eq!(text(&client, 7).await.unwrap(), "p:7-0007");
    assert_eq!(parts(&client, &user(), 7).await.unwrap(), "p:a%3Ab:x7:7");
    assert_eq!(list(&client, 7).await.unwrap(), "p:7 p:8");
    assert_eq!(each(&client, &[1, 2]).await.unwrap(), "p:2 p:4");
    assert!(each(&client, &[]).await.unwrap_err().to_string().contains("empty"));
    assert_eq!(name(&client, user()).await.unwrap(), "a:b/1");
}

/// A name that no store can carry is an error of the call, and the body does not run.
#[tokio::test]
async fn bad_names_are_errors() {
    #[distributed_lock(key = key, client = client)]
    async fn call(client: &Client, key: &str) -> Result<()> {
        unreachable!("{key:?}")
    }
    let client = memory().await;
    for (bad, says) in [("", "empty"), ("a\0", "NUL"), (&"x".repeat(513), "513")] {
        let error = call(&client, bad).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// The key is made once, and before the body.
#[tokio::test]
async fn a_key_is_made_once() {
    struct Counted<'a>(&'a std::cell::Cell<u32>);
    impl fmt::Display for Counted<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.set(self.0.get() + 1);
            f.write_str("k")
        }
    }
    #[distributed_lock(key = Counted(count), condition = lock, client = client)]
    async fn call(client: &Client, count: &std::cell::Cell<u32>, lock: bool) -> Result<bool> {
        Ok(tenure::current().is_some())
    }
    /// Names of ours are not in the way of names of theirs.
    #[distributed_lock(key = (locks, asked, error), condition = locks > 0, client = inside)]
    async fn names(inside: &Client, locks: u32, asked: u32, error: u32) -> Result<(String, u32)> {
        Ok((held(), locks + asked + error))
    }
    let (client, count) = (memory().await, std::cell::Cell::new(0));
    assert_eq!(names(&client, 1, 2, 3).await.unwrap(), ("1:2:3".into(), 6));
    assert!(call(&client, &count, true).await.unwrap());
    assert_eq!(count.get(), 1);
    assert!(!call(&client, &count, false).await.unwrap(), "nothing is held");
    assert_eq!(count.get(), 1, "nor is a key made");
}
