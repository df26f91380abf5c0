//! The driver alone, with the minimum of a pair: create a node and list the queue, both sent at once, then delete the
//! node.

use std::time::{Duration, Instant};

use zookeeper_client::{Acls, Client, CreateMode, Error};

/// As long as our node names.
const NODE: &str = "_c_00000000-0000-0000-0000-000000000000-1000-1000@host-lock-";

/// One connection, and the folders of all tasks.
#[derive(Clone)]
pub(crate) struct Bare {
    client: Client,
    folders: Vec<String>,
}

impl Bare {
    pub(crate) async fn connect(address: String, tasks: usize) -> Result<Self, Error> {
        let client = Client::connect(&address).await?;
        let folders: Vec<String> = (0..tasks).map(|i| format!("/bare{i}")).collect();
        for folder in &folders {
            client.mkdir(folder, &CreateMode::Container.with_acls(Acls::anyone_all())).await?;
        }
        Ok(Self { client, folders })
    }

    /// Pairs per second of all tasks, for `time`.
    pub(crate) async fn pairs(&self, time: Duration) -> Result<f64, Error> {
        let begin = Instant::now();
        let tasks = self.folders.iter().map(|folder| {
            let (client, folder) = (self.client.clone(), folder.clone());
            tokio::spawn(async move {
                let mut done = 0.0;
                while begin.elapsed() < time {
                    pair(&client, &folder).await?;
                    done += 1.0;
                }
                Ok::<f64, Error>(done)
            })
        });
        let mut done = 0.0;
        for task in tasks.collect::<Vec<_>>() {
            done += task.await.map_err(|e| Error::UnexpectedError(e.to_string()))??;
        }
        Ok(done / begin.elapsed().as_secs_f64())
    }
}

async fn pair(client: &Client, folder: &str) -> Result<(), Error> {
    let stem = format!("{folder}/{NODE}");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let ((_, sequence), _) =
        tokio::try_join!(client.create(&stem, b"", &options), client.list_children(folder))?;
    client.delete(&format!("{stem}{sequence}"), None).await
}
