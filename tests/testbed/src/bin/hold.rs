//! Starts a server, prints its process id, port and folder, and waits to be killed. Used by the test that nothing stays
//! behind.

use std::io::Read;

fn main() -> testbed::Result<()> {
    // Start it on a thread that ends at once: the server must not end with that thread.
    let starter = std::thread::spawn(|| testbed::Redis::start(testbed::RedisOptions::default()));
    let redis = starter.join().expect("the starter does not panic")?;
    println!("{} {} {}", redis.pid(), redis.port(), redis.instance().folder().display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
