//! The least that anybody can send: the scripts of Redisson's layout, or `SET NX PX` and a compare-and-delete, over plain
//! sockets. Of several servers each is sent everything, and every one must answer.

use std::time::Instant;

use super::bare::{Bare, command};
use super::turns::{Turns, answer, by_tasks};
use super::{Gate, Library};
use crate::Result;
use crate::stats::Waits;

/// As long as the leases of the others.
const LEASE: &str = "30000";
/// As long as Redisson's: a UUID and the number of a thread.
const OWNER: &str = "0fca8e34-8a7c-4a2f-8f5b-0d4a6c1e2b3d:1";

/// Words of the acquire and of the release of a name.
type Words = fn(&str, &[String]) -> [Vec<String>; 2];

pub(crate) struct Scripts {
    servers: Vec<String>,
    /// What the servers know the scripts by.
    known: Vec<String>,
    words: Words,
}

pub(crate) async fn connect(address: &str) -> Result<Scripts> {
    let scripts = [include_str!("scripts/hash-acquire.lua"), include_str!("scripts/hash-release.lua")];
    Scripts::load(address, &scripts, |name, known| {
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let [acquire, release] = known else { unreachable!("two are loaded") };
        [
            vec!["EVALSHA".into(), acquire.clone(), "1".into(), name.into(), LEASE.into(), OWNER.into()],
            vec!["EVALSHA".into(), release.clone(), "2".into(), name.into(), channel, OWNER.into()],
        ]
    })
}

pub(crate) async fn connect_plain(address: &str) -> Result<Scripts> {
    Scripts::load(address, &[include_str!("scripts/set-release.lua")], |name, known| {
        let acquire = ["SET", name, OWNER, "NX", "PX", LEASE].map(str::to_owned).to_vec();
        [acquire, vec!["EVALSHA".into(), known[0].clone(), "1".into(), name.into(), OWNER.into()]]
    })
}

impl Scripts {
    fn load(addresses: &str, scripts: &[&str], words: Words) -> Result<Self> {
        let servers: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        let mut known = Vec::new();
        for server in &servers {
            let mut socket = Bare::connect(server)?;
            known = scripts
                .iter()
                .map(|script| socket.ask(&command(&["SCRIPT", "LOAD", script])))
                .collect::<Result<_>>()?;
        }
        Ok(Self { servers, known, words })
    }

    fn pair(&self, name: &str) -> [Vec<u8>; 2] {
        (self.words)(name, &self.known).map(|words| command(&words))
    }

    fn connect(&self) -> Result<Vec<Bare>> {
        self.servers.iter().map(|server| Bare::connect(server)).collect()
    }

    /// One connection to each server: all acquires in one write, then all releases.
    fn pipelined(&self, turns: &Turns) -> Result<String> {
        let mut sockets = self.connect()?;
        let pairs: Vec<_> = (0..turns.tasks).map(|task| self.pair(&turns.name_of(task))).collect();
        let [acquires, releases] =
            [0, 1].map(|i| pairs.iter().flat_map(|p| p[i].clone()).collect::<Vec<u8>>());
        let (begin, mut waits) = (Instant::now(), Waits::default());
        while begin.elapsed() < turns.time {
            let asked = Instant::now();
            exchange(&mut sockets, &acquires, turns.tasks)?;
            waits.record(asked.elapsed());
            exchange(&mut sockets, &releases, turns.tasks)?;
        }
        Ok(answer(begin.elapsed(), &vec![waits; turns.tasks]))
    }
}

fn exchange(sockets: &mut [Bare], commands: &[u8], replies: usize) -> Result<()> {
    sockets.iter_mut().try_for_each(|socket| socket.send(commands))?;
    sockets.iter_mut().try_for_each(|socket| socket.receive(replies))
}

impl Library for Scripts {
    type Gate = Sockets;

    fn gate(&self, _kind: &str, name: &str) -> Result<Sockets> {
        Ok(Sockets { sockets: self.connect()?, pair: self.pair(name) })
    }

    async fn turns(&self, turns: Turns) -> Result<String> {
        if turns.tasks > 1 { self.pipelined(&turns) } else { by_tasks(self, turns).await }
    }
}

/// One connection to each server, which waits for each reply.
pub(crate) struct Sockets {
    sockets: Vec<Bare>,
    pair: [Vec<u8>; 2],
}

impl Gate for Sockets {
    type Held = ();

    async fn enter(&mut self) -> Result<()> {
        exchange(&mut self.sockets, &self.pair[0], 1)
    }

    async fn leave(&mut self, (): ()) -> Result<()> {
        exchange(&mut self.sockets, &self.pair[1], 1)
    }
}
