//! The requests that a worker understands: the driver's verbs, as far as both sides have them.

use std::collections::HashMap;
use std::time::Duration;

use tenure::{Client, Owner};

use super::counter::Counter;
use super::template::{Held, Template};
use super::{Numbers, Wrong};

/// One thread of requests: an owner, and what it holds.
pub(super) struct Verbs {
    client: Client,
    numbers: Numbers,
    owner: Owner,
    held: HashMap<String, Vec<Held>>,
}

type Answer = Result<String, Wrong>;

fn nothing(_: ()) -> String {
    String::new()
}

impl Verbs {
    pub(super) fn new(client: Client, numbers: Numbers) -> Self {
        Self { client, numbers, owner: Owner::new(), held: HashMap::new() }
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
            Some(("leader", "who")) => self.leader(&words[1..]).await,
            _ if words[0] == "count" => self.count(&words[1..]).await,
            _ if words[0] == "close" => Ok(self.client.close().await.map(nothing)?),
            _ => self.lock(&words).await,
        }
    }

    fn template(&self, kind: &str, name: &str, lease: Duration) -> Result<Template, Wrong> {
        let lease = Some(lease).filter(|lease| !lease.is_zero());
        Template::new(&self.client, &self.owner, kind, name, lease)
    }

    /// `VERB KIND NAME [TIMES]`
    async fn lock(&mut self, words: &[&str]) -> Answer {
        let [verb, kind, name, times @ ..] = words else { return Err(unknown(&words.join(" "))) };
        let time = |n: usize| millis(times.get(n).copied().unwrap_or("0"));
        let key = format!("{kind} {name}");
        match *verb {
            "lock" => {
                let held = self.template(kind, name, time(0)?)?.enter().await?;
                self.held.entry(key).or_default().push(held);
                Ok(String::new())
            }
            "try" => {
                let held = self.template(kind, name, time(1)?)?.attempt(time(0)?).await?;
                let got = held.is_some();
                self.held.entry(key).or_default().extend(held);
                Ok(got.to_string())
            }
            "unlock" => match self.held.get_mut(&key).and_then(Vec::pop) {
                Some(held) => Ok(held.release().await.map(nothing)?),
                None => Err(Wrong("NotHeld".into(), key)),
            },
            "is-held" => {
                let last = self.held.get(&key).and_then(|held| held.last());
                Ok(last.is_some_and(Held::is_held).to_string())
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
            // The size is set on first use.
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

    /// `leader.who NAME`: the note of the current leader.
    async fn leader(&mut self, words: &[&str]) -> Answer {
        let leader = self.client.election(words[0]).leader().await?;
        Ok(leader.and_then(|leader| leader.note).unwrap_or_default())
    }

    /// `count KEY N KIND NAME`: adds 1 to an unprotected number, N times under the lock, by reading and writing.
    async fn count(&mut self, words: &[&str]) -> Answer {
        let [key, n, kind, name] = words else { return Err(unknown("count")) };
        let template = self.template(kind, name, Duration::ZERO)?;
        let mut counter = Counter::open(&self.numbers, key)?;
        for _ in 0..number(n)? {
            let held = template.enter().await?;
            counter.add_one().await?;
            held.release().await?;
        }
        Ok((*n).to_owned())
    }
}

pub(super) fn unknown(what: &str) -> Wrong {
    Wrong("Unknown".into(), format!("nobody knows {what:?} here"))
}

pub(super) fn number(word: &str) -> Result<u64, Wrong> {
    word.parse().map_err(|_| Wrong("NoNumber".into(), word.to_owned()))
}

fn millis(word: &str) -> Result<Duration, Wrong> {
    number(word).map(Duration::from_millis)
}
