//! Reserving stock: a buyer waits five seconds for its turn, then orders or gives up. Stock never goes below zero;
//! without the lock it does.
//!
//!     cargo run -p tenure --example stock -- redis://localhost
//!     cargo run -p tenure --example stock -- memory: --without-lock
//!
//! Prints:
//!     50 buyers, 10 in stock: 10 ordered, 40 found it sold out, 0 gave up, 0 left
//!
//! Prints with `--without-lock`:
//!     50 buyers, 10 in stock: 50 ordered, 0 found it sold out, 0 gave up, -40 left

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use tenure::Client;

const STOCK: i64 = 10;
const BUYERS: i64 = 50;

/// A table that knows nothing of locks: to look and to take are two queries.
struct Warehouse(AtomicI64);

impl Warehouse {
    async fn in_stock(&self) -> i64 {
        tokio::task::yield_now().await; // the way to the database, where others are on theirs
        self.0.load(SeqCst)
    }

    async fn take_one(&self) {
        tokio::task::yield_now().await;
        self.0.fetch_sub(1, SeqCst);
    }
}

#[derive(PartialEq)]
enum Order {
    Placed,
    SoldOut,
    GaveUp,
}

async fn buy(client: Client, warehouse: Arc<Warehouse>, locked: bool) -> tenure::Result<Order> {
    let lock = client.lock("examples/stock/sku-7");
    let guard = match locked {
        true => match lock.try_acquire_for(Duration::from_secs(5)).await? {
            Some(guard) => Some(guard),
            None => return Ok(Order::GaveUp),
        },
        false => None,
    };
    let order = if warehouse.in_stock().await > 0 {
        warehouse.take_one().await;
        Order::Placed
    } else {
        Order::SoldOut
    };
    if let Some(guard) = guard {
        guard.release().await?;
    }
    Ok(order)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let locked = !std::env::args().any(|word| word == "--without-lock");
    let client = tenure::connect(&url).await?;
    let warehouse = Arc::new(Warehouse(AtomicI64::new(STOCK)));

    let buyers = (0..BUYERS).map(|_| tokio::spawn(buy(client.clone(), warehouse.clone(), locked)));
    let buyers: Vec<_> = buyers.collect();
    let mut orders = Vec::new();
    for buyer in buyers {
        orders.push(buyer.await.expect("no panic")?);
    }

    let count = |what: Order| orders.iter().filter(|order| **order == what).count();
    let (placed, sold_out, gave_up) = (count(Order::Placed), count(Order::SoldOut), count(Order::GaveUp));
    let left = warehouse.0.load(SeqCst);
    println!(
        "{BUYERS} buyers, {STOCK} in stock: {placed} ordered, {sold_out} found it sold out, {gave_up} gave up, \
         {left} left"
    );
    if locked {
        assert!(left >= 0 && placed as i64 == STOCK - left, "more was sold than there was");
    } else {
        assert!(left < 0, "it went well without a lock: luck");
    }
    client.close().await
}
