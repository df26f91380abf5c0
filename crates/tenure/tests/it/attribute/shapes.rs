//! Functions of every shape.

use std::fmt::Display;
use std::sync::Arc;

use async_trait::async_trait;
use tenure::{Client, Error, Result, distributed_lock};

use super::harness::memory;

fn held() -> String {
    tenure::current().map_or_else(|| "nothing".into(), |current| current.name().to_string())
}

struct Service {
    client: Client,
    id: u32,
    calls: u32,
}

impl Service {
    #[distributed_lock(key = self.id, prefix = "service", client = self.client)]
    async fn by_ref(&self) -> Result<String> {
        Ok(held())
    }

    #[distributed_lock(key = self.id, prefix = "service", client = self.client)]
    async fn by_mut(&mut self, times: &mut u32) -> Result<u32> {
        *times += 1;
        self.calls += 1;
        Ok(self.calls)
    }

    #[distributed_lock(key = self.id, prefix = "service", client = self.client)]
    async fn by_value(self) -> Result<Self> {
        Ok(self)
    }

    #[distributed_lock(key = self.id, prefix = "service", client = &self.client)]
    pub(crate) async fn by_arc(self: Arc<Self>) -> Result<String> {
        Ok(held())
    }

    #[distributed_lock(key = "borrowed", client = self.client)]
    async fn borrows<'a>(&self, text: &'a str) -> Result<&'a str> {
        Ok(&text[1..])
    }

    #[distributed_lock(key = Self::CONST, client = self.client)]
    async fn associated(&self) -> Result<String> {
        Ok(held())
    }

    const CONST: &'static str = "const";
}

#[tokio::test]
async fn methods() {
    let mut service = Service { client: memory().await, id: 7, calls: 0 };
    let mut times = 0;
    assert_eq!(service.by_ref().await.unwrap(), "service:7");
    assert_eq!(service.by_mut(&mut times).await.unwrap(), 1);
    assert_eq!(times, 1);
    assert_eq!(service.borrows("xyz").await.unwrap(), "yz");
    assert_eq!(service.associated().await.unwrap(), "const");
    let service = service.by_value().await.unwrap();
    assert_eq!(Arc::new(service).by_arc().await.unwrap(), "service:7");
}

#[tokio::test]
async fn arguments_and_results() {
    #[distributed_lock(key = (a, b), client = client)]
    async fn pattern(client: &Client, (a, b): (u32, &str), [x, ..]: [u8; 2]) -> Result<(String, u8)> {
        Ok((held(), x))
    }
    #[distributed_lock(key = n, client = client)]
    async fn mutable(client: &Client, mut n: u32) -> Result<u32> {
        n += 1;
        Ok(n)
    }
    #[distributed_lock(key = value, client = client)]
    async fn argument(client: &Client, value: impl Display + Clone) -> Result<String> {
        Ok(format!("{value}{}", held()))
    }
    #[distributed_lock(key = value, client = client)]
    async fn generic<T, const N: usize>(client: &Client, value: T) -> Result<(T, usize)>
    where
        T: Display + Clone,
    {
        Ok((value.clone(), N))
    }
    #[distributed_lock(key = "hidden", client = client)]
    async fn hidden(client: &Client, n: u32) -> Result<impl Display + use<>> {
        if n == 0 {
            return Ok(String::from("zero"));
        }
        let parsed: u32 = n.to_string().parse().map_err(|_| Error::Closed)?;
        Ok(parsed.to_string())
    }
    #[distributed_lock(key = "question", client = client)]
    async fn question(
        client: &Client,
        text: &str,
    ) -> std::result::Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        Ok(text.parse::<u32>()?)
    }
    #[distributed_lock(key = "local", client = client)]
    async fn local(client: &Client, shared: std::rc::Rc<u32>) -> Result<u32> {
        tokio::task::yield_now().await;
        Ok(*shared)
    }
    let client = memory().await;
    assert_eq!(pattern(&client, (1, "b"), [5, 6]).await.unwrap(), ("1:b".into(), 5));
    assert_eq!(mutable(&client, 1).await.unwrap(), 2);
    assert_eq!(argument(&client, 7).await.unwrap(), "77");
    assert_eq!(generic::<_, 3>(&client, "x").await.unwrap(), ("x", 3));
    assert_eq!(hidden(&client, 0).await.unwrap().to_string(), "zero");
    assert_eq!(hidden(&client, 5).await.unwrap().to_string(), "5");
    assert!(question(&client, "x").await.unwrap_err().to_string().contains("invalid digit"));
    assert_eq!(local(&client, 3.into()).await.unwrap(), 3);
}

#[async_trait]
trait Handler {
    async fn handle(&self, id: u32, text: &str) -> Result<String>;

    #[distributed_lock(key = id, prefix = "default", client = self.client())]
    async fn default_body(&self, id: u32) -> Result<String> {
        Ok(held())
    }

    fn client(&self) -> Client;
}

#[async_trait]
impl Handler for Service {
    #[distributed_lock(key = (self.id, id), prefix = "handler", client = self.client)]
    async fn handle(&self, id: u32, text: &str) -> Result<String> {
        if text.is_empty() {
            return Err(Error::Closed);
        }
        Ok(format!("{} {text} {}", held(), self.id))
    }

    fn client(&self) -> Client {
        self.client.clone()
    }
}

/// `async_trait` expands first, and leaves a function that returns a boxed future.
#[tokio::test]
async fn methods_of_an_async_trait() {
    let service: Arc<dyn Handler + Send + Sync> =
        Arc::new(Service { client: memory().await, id: 7, calls: 0 });
    assert_eq!(service.handle(3, "x").await.unwrap(), "handler:7:3 x 7");
    assert!(service.handle(3, "").await.is_err());
    assert_eq!(service.default_body(3).await.unwrap(), "default:3");
    let guard = service.client().lock("handler:7:3").acquire().await.unwrap();
    let other = service.clone();
    let waits = tokio::spawn(async move { other.handle(3, "x").await });
    assert!(!waits.is_finished());
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap();
}

trait Native {
    fn run(&self) -> impl Future<Output = Result<String>> + Send;
}

impl Native for Service {
    #[distributed_lock(key = self.id, prefix = "native", client = self.client)]
    async fn run(&self) -> Result<String> {
        Ok(held())
    }
}

#[tokio::test]
async fn methods_of_a_native_trait() {
    let service = Service { client: memory().await, id: 7, calls: 0 };
    assert_eq!(service.run().await.unwrap(), "native:7");
}

#[distributed_lock(key = "main", client = tenure::connect("memory:").await?)]
#[tokio::main(flavor = "current_thread")]
async fn above_main() -> Result<String> {
    Ok(held())
}

/// Here it is a plain function that starts a runtime, and the lock is taken before.
#[tokio::main(flavor = "current_thread")]
#[distributed_lock(key = "main", client = tenure::blocking::connect("memory:")?)]
async fn below_main() -> Result<String> {
    Ok(held())
}

#[test]
fn above_and_below_another_attribute() {
    assert_eq!(above_main().unwrap(), "main");
    assert_eq!(below_main().unwrap(), "main");
}
