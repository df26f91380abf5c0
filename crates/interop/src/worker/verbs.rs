//! What can be asked of a worker: the driver's verbs, as far as both sides have them.

use std::collections::HashMap;
use std::time::Duration;

use tenure::{Client, CountingSemaphore, Guard, Lock, MultiGuard, Owner};

use super::Wrong;
use super::counter::Counter;

/// One thread: an owner, and what it holds.
pub(super) struct Verbs {
    client: Client,
    port: u16,
    owner: Owner,
    held: HashMap<String, Vec<Held>>,
}

enum Held {
    One(Guard),
    All(MultiGuard),
    Counted(CountingSemaphore),
}

impl Held {
    async fn release(self) -> tenure::Result<()> {
        match self {
            Held::One(guard) => guard.release().await,
            Held::All(guards) => guards.release().await,
            Held::Counted(semaphore) => semaphore.release(1).await,
        }
    }
}

type Answer = Result<String, Wrong>;

fn nothing(_: ()) -> String {
    String::new()
}

impl Verbs {
    pub(super) fn new(client: Client, port: u16) -> Self {
        Self { client, port, owner: Owner::new(), held: HashMap::new() }
    }

    pub(super) async fn perform(&mut self, request: &str) -> Answer {
        let words: Vec<&str> = request.split(' ').collect();
        match words[0].split_once('.') {
            Some(("sem", verb)) => self.semaphore(verb, &words[1..]).await,
            Some(("permit", verb)) => self.permits(verb, &words[1..]).await,
            Some(("latch", verb)) => self.latch(verb, &words[1..]).await,
            Some(("multi", verb)) => {
                let words = [&[verb, "multi"], &words[1..]].concat();
                self.lock(&words).await
            }
            _ if words[0] == "count" => self.count(&words[1..]).await,
            _ => self.lock(&words).await,
        }
    }

    fn template(&self, kind: &str, name: &str) -> Result<Lock, Wrong> {
        let lock = match kind {
            // Which fence a lock has is a matter of the address.
            "plain" | "fenced" => self.client.lock(name),
            "fair" => self.client.lock(name).fair(),
            "read" => self.client.rwlock(name).read(),
            "write" => self.client.rwlock(name).write(),
            "permit" => self.client.semaphore(name, 1).permits(1),
            _ => return Err(unknown(kind)),
        };
        Ok(lock.owner(&self.owner))
    }

    /// The parts of a multi-lock.
    fn templates(&self, names: &str) -> Result<Vec<Lock>, Wrong> {
        names.split(',').map(|name| self.template("plain", name)).collect()
    }

    /// Waits until it is in.
    async fn enter(&self, kind: &str, name: &str, lease: Option<Duration>) -> Result<Held, Wrong> {
        let with = |lock: Lock| lease.map_or(lock.clone(), |lease| lock.lease(lease));
        Ok(match kind {
            "multi" => {
                let locks = self.templates(name)?.into_iter().map(with);
                Held::All(tenure::multi(locks).acquire().await?)
            }
            "semaphore" => {
                let semaphore = self.client.counting_semaphore(name);
                semaphore.acquire(1).await?;
                Held::Counted(semaphore)
            }
            _ => Held::One(with(self.template(kind, name)?).acquire().await?),
        })
    }

    /// `VERB KIND NAME [TIMES]`
    async fn lock(&mut self, words: &[&str]) -> Answer {
        let [verb, kind, name, times @ ..] = words else { return Err(unknown(&words.join(" "))) };
        let time = |n: usize| millis(times.get(n).copied().unwrap_or("0"));
        let key = format!("{kind} {name}");
        match *verb {
            "lock" => {
                let lease = Some(time(0)?).filter(|lease| !lease.is_zero());
                let held = self.enter(kind, name, lease).await?;
                self.held.entry(key).or_default().push(held);
                Ok(String::new())
            }
            "try" if *kind == "multi" => {
                let guards = tenure::multi(self.templates(name)?).try_acquire().await?;
                let got = guards.is_some();
                self.held.entry(key).or_default().extend(guards.map(Held::All));
                Ok(got.to_string())
            }
            "try" => {
                let mut lock = self.template(kind, name)?;
                let (wait, lease) = (time(0)?, time(1)?);
                if !lease.is_zero() {
                    lock = lock.lease(lease);
                }
                let guard = if wait.is_zero() {
                    lock.try_acquire().await?
                } else {
                    lock.try_acquire_for(wait).await?
                };
                let got = guard.is_some();
                self.held.entry(key).or_default().extend(guard.map(Held::One));
                Ok(got.to_string())
            }
            "unlock" => match self.held.get_mut(&key).and_then(Vec::pop) {
                Some(held) => Ok(held.release().await.map(nothing)?),
                None => Err(Wrong("NotHeld".into(), key)),
            },
            "is-held" => {
                let last = self.held.get(&key).and_then(|held| held.last());
                Ok(match last {
                    Some(Held::One(guard)) => guard.is_held(),
                    Some(Held::All(guards)) => guards.is_held(),
                    Some(Held::Counted(_)) => true,
                    None => false,
                }
                .to_string())
            }
            _ => Err(unknown(verb)),
        }
    }

    /// `sem.VERB NAME [N [WAIT]]`
    async fn semaphore(&mut self, verb: &str, words: &[&str]) -> Answer {
        let semaphore = self.client.counting_semaphore(words[0]);
        let n = || number(words.get(1).copied().unwrap_or("0"));
        Ok(match verb {
            "set" => semaphore.try_set(n()?).await?.to_string(),
            "acquire" => nothing(semaphore.acquire(n()?).await?),
            "try" => semaphore.try_acquire(n()?).await?.to_string(),
            "release" => nothing(semaphore.release(n()?).await?),
            "available" => semaphore.available().await?.to_string(),
            _ => return Err(unknown(verb)),
        })
    }

    /// `permit.VERB NAME …`, of semaphores with one permit
    async fn permits(&mut self, verb: &str, words: &[&str]) -> Answer {
        let name = words[0];
        let semaphore = self.client.semaphore(name, 1);
        match verb {
            // Its first use sets it.
            "set" => Ok("true".to_owned()),
            "acquire" | "try" => {
                let lock = semaphore.permits(1).lease(millis(words[words.len() - 1])?);
                let guard =
                    if verb == "acquire" { Some(lock.acquire().await?) } else { lock.try_acquire().await? };
                let Some(guard) = guard else { return Ok("none".to_owned()) };
                let id = guard.id().to_string();
                self.held.entry(id.clone()).or_default().push(Held::One(guard));
                Ok(id)
            }
            "release" => match self.held.remove(words[1]).and_then(|mut held| held.pop()) {
                Some(held) => Ok(held.release().await.map(nothing)?),
                None => Err(Wrong("NotHeld".into(), words[1].to_owned())),
            },
            "available" => Ok(semaphore.available().await?.to_string()),
            _ => Err(unknown(verb)),
        }
    }

    /// `latch.VERB NAME [N]`
    async fn latch(&mut self, verb: &str, words: &[&str]) -> Answer {
        let latch = self.client.latch(words[0]);
        Ok(match verb {
            "set" => latch.try_set_count(number(words[1])?).await?.to_string(),
            "down" => nothing(latch.count_down().await?),
            "await" => latch.wait().await.map(|()| "true".to_owned())?,
            "count" => latch.count().await?.to_string(),
            "delete" => latch.delete().await?.to_string(),
            _ => return Err(unknown(verb)),
        })
    }

    /// `count KEY N KIND NAME`: adds 1 to a number, N times, by reading it and writing it back.
    async fn count(&mut self, words: &[&str]) -> Answer {
        let [key, n, kind, name] = words else { return Err(unknown("count")) };
        let mut counter = Counter::open(self.port, key)?;
        for _ in 0..number(n)? {
            let held = self.enter(kind, name, None).await?;
            counter.add_one()?;
            held.release().await?;
        }
        Ok((*n).to_owned())
    }
}

fn unknown(what: &str) -> Wrong {
    Wrong("Unknown".into(), format!("nobody knows {what:?} here"))
}

fn number(word: &str) -> Result<u64, Wrong> {
    word.parse().map_err(|_| Wrong("NoNumber".into(), word.to_owned()))
}

fn millis(word: &str) -> Result<Duration, Wrong> {
    number(word).map(Duration::from_millis)
}
