//! A bare connection to ZooKeeper, the crate that our client is built on, with the least of a pair: create a node and list
//! the queue, both sent at once, then delete the node.

use zookeeper_client::{Acls, Client, CreateMode};

use super::{Gate, Library};
use crate::Result;

/// As long as our node names.
const NODE: &str = "_c_00000000-0000-0000-0000-000000000000-1000-1000@host-lock-";

pub(crate) struct Bare(Client);

impl Bare {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        Ok(Self(Client::connect(address).await?))
    }
}

impl Library for Bare {
    type Gate = Folder;

    fn gate(&self, _kind: &str, name: &str) -> Result<Folder> {
        Ok(Folder { client: self.0.clone(), path: format!("/{name}"), exists: false })
    }
}

pub(crate) struct Folder {
    client: Client,
    path: String,
    exists: bool,
}

impl Gate for Folder {
    /// Its node.
    type Held = String;

    async fn enter(&mut self) -> Result<String> {
        if !self.exists {
            self.client.mkdir(&self.path, &CreateMode::Container.with_acls(Acls::anyone_all())).await?;
            self.exists = true;
        }
        let stem = format!("{}/{NODE}", self.path);
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let ((_, sequence), _) = tokio::try_join!(
            self.client.create(&stem, b"", &options),
            self.client.list_children(&self.path)
        )?;
        Ok(format!("{stem}{sequence}"))
    }

    async fn leave(&mut self, node: String) -> Result<()> {
        Ok(self.client.delete(&node, None).await?)
    }
}
