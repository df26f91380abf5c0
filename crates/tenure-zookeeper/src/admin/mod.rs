//! Administration: snapshots, lists of names, and the doctor.

mod doctor;
mod inspect;
mod list;

use async_trait::async_trait;
use tenure_core::backend::{Admin, Query, Released, Snapshot, Watch};
use tenure_core::{Claim, Finding, HoldId, Kind, Name, Result};

use crate::store::ZooKeeper;

#[async_trait]
impl Admin for ZooKeeper {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        let store = self.store.clone();
        match query {
            Query::Name(name) => {
                let path = self.store.paths.path(&name)?;
                let (what, at) = (format!("inspect {name}"), path.clone());
                self.run(what, path, async move {
                    let session = store.sessions.get_or_connect().await?;
                    session.client.sync().await?;
                    Ok(store.inspect_name(&session, &name, &at).await?.into_iter().collect())
                })
                .await
            }
            Query::Prefix { prefix, limit, idle } => {
                self.run("list", "/".into(), async move {
                    let session = store.sessions.get_or_connect().await?;
                    session.client.sync().await?;
                    store.names(&session, &prefix, limit, idle).await
                })
                .await
            }
        }
    }

    async fn expel(&self, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        let path = self.store.paths.path(name)?;
        let (store, at, holder) = (self.store.clone(), path.clone(), holder.to_owned());
        let what = format!("release {name}, held by {holder}");
        self.run(what, path, async move {
            match holder.parse::<HoldId>() {
                Ok(id) => store.release_by_id(&at, kind, id).await,
                Err(_) => store.release_by_node_name(&at, kind, &holder).await,
            }
        })
        .await
    }

    async fn revoke(&self, name: &Name, kind: Kind) -> Result<bool> {
        let path = self.store.paths.path(name)?;
        let (store, at) = (self.store.clone(), path.clone());
        self.run(format!("revoke {name}"), path, async move { store.revoke(&at, kind).await }).await
    }

    async fn revoked(&self, claim: &Claim) -> Result<Box<dyn Watch>> {
        let path = self.store.paths.path(&claim.name)?;
        let (store, claim) = (self.store.clone(), claim.clone());
        self.run(format!("watch {}", claim.name), path, async move { store.revoked(&claim).await }).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let store = self.store.clone();
        self.run("diagnose", "/".into(), async move { store.diagnose().await }).await
    }
}
