//! A number on a Redis server that nothing protects but the lock under test.

use testbed::Resp;

use super::Wrong;

pub(super) struct Counter {
    server: Resp,
    key: String,
}

impl Counter {
    /// On the server at this port or, in a cluster, where that one sends us.
    pub(super) fn open(port: u16, key: &str) -> Result<Self, Wrong> {
        let mut server = Resp::connect(port)?;
        if let Err(testbed::Error::Reply(said)) = server.cmd(&["GET", key])
            && let Some(moved) = said.strip_prefix("MOVED ")
        {
            let port = moved.rsplit(':').next().and_then(|port| port.parse().ok());
            server = Resp::connect(port.ok_or_else(|| Wrong("Moved".into(), said.clone()))?)?;
        }
        Ok(Self { server, key: key.to_owned() })
    }

    /// Reads it and writes it back.
    pub(super) fn add_one(&mut self) -> Result<(), Wrong> {
        let before = self.server.cmd(&["GET", &self.key])?.int().unwrap_or(0);
        self.server.cmd(&["SET", &self.key, &(before + 1).to_string()])?;
        Ok(())
    }
}

impl From<testbed::Error> for Wrong {
    fn from(error: testbed::Error) -> Self {
        Wrong("Server".into(), error.to_string())
    }
}
