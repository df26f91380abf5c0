//! Java processes.

use tokio::process::Command;

use crate::driver::Recipe;
use crate::{Error, Peer, Result};

/// Starts the driver with this main class. Builds it first if necessary. With `optimised` it starts more slowly.
pub(crate) async fn start(
    driver: &'static Recipe<String>,
    main: &str,
    optimised: bool,
    words: Vec<String>,
) -> Result<Peer> {
    let class_path = tokio::task::spawn_blocking(|| driver.made()).await;
    let class_path = class_path.map_err(|e| Error::Build(e.to_string()))??;
    let mut command = Command::new("java");
    command.arg("-Xshare:auto");
    if !optimised {
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]);
    }
    command.args(["-cp", &class_path, main]).args(words);
    Peer::start(command).await
}
