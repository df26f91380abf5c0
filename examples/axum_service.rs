//! A web service with a lock for each user: requests of one user go one after the other, those of others at once.
//!
//!     cargo run -p tenure --example axum_service -- redis://localhost --serve 127.0.0.1:8080
//!     curl -X POST localhost:8080/users/alice/withdraw/30
//!
//! Without `--serve` it tests itself and ends.
//!
//! Prints:
//!     60 requests at once for 3 users with 10 each: 30 paid, 30 refused
//!     a user who is busy elsewhere: 503 Service Unavailable

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use tenure::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone)]
struct App {
    client: Client,
    balances: Arc<Mutex<HashMap<String, i64>>>,
}

impl App {
    /// As a database would: each call takes a while, and nothing ties two of them together.
    async fn balance(&self, user: &str) -> i64 {
        tokio::task::yield_now().await;
        self.balances.lock().unwrap().get(user).copied().unwrap_or_default()
    }

    async fn set_balance(&self, user: &str, balance: i64) {
        tokio::task::yield_now().await;
        self.balances.lock().unwrap().insert(user.to_owned(), balance);
    }
}

async fn withdraw(
    State(app): State<App>,
    Path((user, amount)): Path<(String, u32)>,
) -> Result<String, (StatusCode, String)> {
    let failed = |error: tenure::Error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    let lock = app.client.lock(format!("examples/users/{user}"));
    let Some(guard) = lock.try_acquire_for(Duration::from_secs(2)).await.map_err(failed)? else {
        return Err((StatusCode::SERVICE_UNAVAILABLE, format!("{user} is busy, try again")));
    };
    // Should the client hang up, axum drops this future, and the guard with it: nothing stays locked.
    let paid = guard.while_held(async {
        let balance = app.balance(&user).await - i64::from(amount);
        if balance < 0 {
            return Err((StatusCode::CONFLICT, format!("{user} has too little\n")));
        }
        app.set_balance(&user, balance).await;
        Ok(format!("{user} has {balance} left\n"))
    });
    let paid = paid.await.map_err(failed)??;
    guard.release().await.map_err(failed)?;
    Ok(paid)
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let url = words.first().map_or("memory:", String::as_str);
    let client = tenure::connect(url).await?;
    let users = ["alice", "bob", "carol"];
    let balances = users.map(|user| (user.to_owned(), 10)).into();
    let app = App { client: client.clone(), balances: Arc::new(Mutex::new(balances)) };
    let router =
        Router::new().route("/users/{user}/withdraw/{amount}", post(withdraw)).with_state(app.clone());

    if let Some(at) = words.iter().position(|word| word == "--serve") {
        let address = words.get(at + 1).ok_or("--serve needs an address, such as 127.0.0.1:8080")?;
        axum::serve(TcpListener::bind(address).await?, router).await?;
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });

    let requests = (0..60).map(|n| tokio::spawn(request(address, users[n % 3])));
    let requests: Vec<_> = requests.collect();
    let (mut paid, mut refused) = (0, 0);
    for request in requests {
        match request.await??.as_str() {
            "200 OK" => paid += 1,
            "409 Conflict" => refused += 1,
            other => return Err(format!("unexpected: {other}").into()),
        }
    }
    println!("60 requests at once for 3 users with 10 each: {paid} paid, {refused} refused");
    assert_eq!((paid, refused), (30, 30));
    assert!(app.balances.lock().unwrap().values().all(|balance| *balance == 0));

    let guard = client.lock("examples/users/alice").acquire().await?;
    let busy = request(address, "alice").await?;
    println!("a user who is busy elsewhere: {busy}");
    assert_eq!(busy, "503 Service Unavailable");
    guard.release().await?;
    client.close().await?;
    Ok(())
}

/// Withdraws one, and says how that was answered.
async fn request(address: SocketAddr, user: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("POST /users/{user}/withdraw/1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.lines().next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    Ok(status.unwrap_or("no answer").to_owned())
}
