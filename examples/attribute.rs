//! The attribute: a function says what it holds while it runs.
//!
//!     cargo run -p tenure --example attribute -- redis://localhost
//!
//! Prints:
//!     three transfers in a ring: Some("[100, 100, 100], as of fence …")
//!     while somebody else reports: None

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tenure::{Error, distributed_lock};

struct Bank {
    accounts: [AtomicI64; 3],
}

impl Bank {
    /// Both accounts, all or nothing: no order of names is needed.
    #[distributed_lock(key = [from, to], prefix = "examples:account", wait = "5s")]
    async fn transfer(&self, from: usize, to: usize, amount: i64) -> Result<(), Error> {
        let balance = self.balance(from).await?; // enters again what this call holds
        tokio::task::yield_now().await; // another task would come between here
        self.accounts[from].store(balance - amount, Relaxed);
        self.accounts[to].fetch_add(amount, Relaxed);
        Ok(())
    }

    #[distributed_lock(key = account, prefix = "examples:account")]
    async fn balance(&self, account: usize) -> Result<i64, Error> {
        Ok(self.accounts[account].load(Relaxed))
    }

    /// Skipped while another process does it.
    #[distributed_lock(name = "examples:report", wait = "0s", on_busy = skip(Ok(None)))]
    async fn report(&self) -> Result<Option<String>, Error> {
        let fence = tenure::current().and_then(|current| current.fence());
        Ok(Some(format!("{:?}, as of fence {fence:?}", self.accounts)))
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    tenure::install(client.clone())?;

    let bank = Bank { accounts: [100, 100, 100].map(AtomicI64::new) };
    let (a, b, c) = tokio::join!(bank.transfer(0, 1, 10), bank.transfer(1, 2, 10), bank.transfer(2, 0, 10));
    a.and(b).and(c)?;
    println!("three transfers in a ring: {:?}", bank.report().await?);
    assert_eq!(bank.balance(0).await? + bank.balance(1).await? + bank.balance(2).await?, 300);

    let elsewhere = client.lock("examples:report").acquire().await?;
    println!("while somebody else reports: {:?}", bank.report().await?);
    assert!(bank.report().await?.is_none());
    elsewhere.release().await?;
    client.close().await
}
