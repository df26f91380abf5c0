//! A mutex per path, for changes of the counters of one name within this process. With concurrent changes, each would
//! make all others read again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};

use crate::error::{RequestError, RequestResult};

/// Mutexes by path, removed when nothing uses them.
#[derive(Debug, Default)]
pub(crate) struct KeyedMutex(Mutex<HashMap<String, Entry>>);

#[derive(Clone, Debug, Default)]
struct Entry {
    mutex: Arc<tokio::sync::Mutex<()>>,
    /// How many of its holders were answered by a server.
    answered: Arc<AtomicU64>,
    /// Why and when the servers refused the last connection: whoever waits behind fails with it instead of trying, too.
    refused: Arc<Mutex<Option<(Instant, RequestError)>>>,
    users: usize,
}

/// A use of an entry; the last one removes it.
struct Registration<'a> {
    mutexes: &'a KeyedMutex,
    path: &'a str,
}

/// The exclusive right, within this process, to change the counters of a name.
pub(crate) struct KeyedGuard<'a> {
    // Dropped in this order: the mutex is released before its entry may be removed.
    _guard: OwnedMutexGuard<()>,
    _registration: Registration<'a>,
    entry: Entry,
}

impl KeyedMutex {
    /// Waits in FIFO order for as long as those ahead are answered. Fails if none is answered within `limit`, or if
    /// connections are refused meanwhile: otherwise many in a row would wait for that each.
    pub(crate) async fn lock<'a>(&'a self, path: &'a str, limit: Duration) -> RequestResult<KeyedGuard<'a>> {
        let called_at = Instant::now();
        let (_registration, entry) = self.register(path);
        let mut guard = pin!(entry.mutex.clone().lock_owned());
        let mut answered = entry.answered.load(SeqCst);
        loop {
            if let Ok(_guard) = timeout(limit, &mut guard).await {
                if let Some((at, error)) = &*entry.refused.lock().unwrap()
                    && *at >= called_at
                {
                    return Err(error.clone());
                }
                return Ok(KeyedGuard { _guard, _registration, entry });
            }
            let before = std::mem::replace(&mut answered, entry.answered.load(SeqCst));
            if answered == before {
                return Err(RequestError::not_sent(format!(
                    "an earlier change of this name has had no answer for {limit:?}"
                )));
            }
        }
    }

    fn register<'a>(&'a self, path: &'a str) -> (Registration<'a>, Entry) {
        let mut entries = self.0.lock().unwrap();
        let entry = entries.entry(path.to_owned()).or_default();
        entry.users += 1;
        (Registration { mutexes: self, path }, entry.clone())
    }
}

impl KeyedGuard<'_> {
    /// Records what became of the change.
    pub(crate) fn record<T>(&self, answer: &RequestResult<T>) {
        match answer {
            Ok(_) => drop(self.entry.answered.fetch_add(1, SeqCst)),
            Err(error) if error.is_refused() => {
                *self.entry.refused.lock().unwrap() = Some((Instant::now(), error.clone()));
            }
            Err(_) => {}
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut entries = self.mutexes.0.lock().unwrap();
        if let Some(entry) = entries.get_mut(self.path) {
            entry.users -= 1;
            if entry.users == 0 {
                entries.remove(self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn waiting_is_unlimited_while_holders_are_answered() {
        let (mutexes, inside) = (KeyedMutex::default(), AtomicU64::new(0));
        let changes = (0..20).map(async |_| {
            let guard = mutexes.lock("/a", LIMIT).await?;
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            sleep(LIMIT * 2 / 3).await;
            inside.fetch_sub(1, SeqCst);
            guard.record(&RequestResult::Ok(()));
            RequestResult::Ok(())
        });
        assert!(join_all(changes).await.iter().all(Result::is_ok));
        assert!(mutexes.0.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_behind_a_refused_change_is_refused_with_it() {
        let (mutexes, tried) = (KeyedMutex::default(), AtomicU64::new(0));
        let change = async || {
            let guard = mutexes.lock("/a", LIMIT).await?;
            tried.fetch_add(1, SeqCst);
            sleep(LIMIT / 2).await;
            let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
            let answer = RequestResult::<()>::Err(RequestError::not_sent(refused));
            guard.record(&answer);
            answer
        };
        for round in 1..=2 {
            let answers = join_all((0..20).map(|_| change())).await;
            assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(RequestError::is_refused)));
            assert_eq!(tried.load(SeqCst), round, "one of them tries");
            sleep(LIMIT).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiters_behind_an_unanswered_holder_fail_at_once() {
        let mutexes = KeyedMutex::default();
        let stuck = mutexes.lock("/a", LIMIT).await;
        assert!(mutexes.lock("/b", LIMIT).await.is_ok(), "another name");
        let begin = tokio::time::Instant::now();
        let answers = join_all((0..20).map(|_| mutexes.lock("/a", LIMIT))).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(RequestError::NotSent(_)))));
        assert!(begin.elapsed() < LIMIT * 2, "{:?}", begin.elapsed());
        drop((stuck, answers));
        assert!(mutexes.0.lock().unwrap().is_empty());
    }
}
