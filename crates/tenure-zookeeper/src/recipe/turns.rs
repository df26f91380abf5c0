//! Serialises changes of the numbers of one name within this process. With concurrent changes, each would make all
//! others read again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::error::{RequestError, RequestResult};

/// Queues by path, removed when they are empty.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Line>>);

#[derive(Clone, Debug, Default)]
struct Line {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many were answered.
    served: Arc<AtomicU64>,
    people: usize,
}

/// A membership in a queue.
struct Person<'a> {
    turns: &'a Turns,
    path: &'a str,
}

/// The exclusive right, within this process, to change the numbers of a name.
pub(crate) struct Turn<'a> {
    // Dropped in this order: the mutex is released before leaving the queue.
    _turn: OwnedMutexGuard<()>,
    _person: Person<'a>,
    served: Arc<AtomicU64>,
}

impl Turns {
    /// Waits in FIFO order for as long as those ahead are answered. Fails if none is answered within `limit`:
    /// otherwise many in a row would wait for that time each.
    pub(crate) async fn take<'a>(&'a self, path: &'a str, limit: Duration) -> RequestResult<Turn<'a>> {
        let (_person, line) = self.join(path);
        let mut turn = pin!(line.turn.lock_owned());
        let mut served = line.served.load(SeqCst);
        loop {
            if let Ok(_turn) = timeout(limit, &mut turn).await {
                return Ok(Turn { _turn, _person, served: line.served });
            }
            let before = std::mem::replace(&mut served, line.served.load(SeqCst));
            if served == before {
                return Err(RequestError::NotSent(format!(
                    "a change before it has had no answer for {limit:?}"
                )));
            }
        }
    }

    fn join<'a>(&'a self, path: &'a str) -> (Person<'a>, Line) {
        let mut lines = self.0.lock().unwrap();
        let line = lines.entry(path.to_owned()).or_default();
        line.people += 1;
        (Person { turns: self, path }, line.clone())
    }
}

impl Turn<'_> {
    /// Records that the store has answered.
    pub(crate) fn served(&self) {
        self.served.fetch_add(1, SeqCst);
    }
}

impl Drop for Person<'_> {
    fn drop(&mut self) {
        let mut lines = self.turns.0.lock().unwrap();
        if let Some(line) = lines.get_mut(self.path) {
            line.people -= 1;
            if line.people == 0 {
                lines.remove(self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_for_as_long_as_they_are_served() {
        let (turns, inside) = (Turns::default(), AtomicU64::new(0));
        let changes = (0..20).map(async |_| {
            let turn = turns.take("/a", LIMIT).await?;
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            sleep(LIMIT * 2 / 3).await;
            inside.fetch_sub(1, SeqCst);
            turn.served();
            RequestResult::Ok(())
        });
        assert!(join_all(changes).await.iter().all(Result::is_ok));
        assert!(turns.0.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_behind_one_without_an_answer_are_told_at_once() {
        let turns = Turns::default();
        let stuck = turns.take("/a", LIMIT).await;
        assert!(turns.take("/b", LIMIT).await.is_ok(), "another name");
        let begin = tokio::time::Instant::now();
        let answers = join_all((0..20).map(|_| turns.take("/a", LIMIT))).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(RequestError::NotSent(_)))));
        assert!(begin.elapsed() < LIMIT * 2, "{:?}", begin.elapsed());
        drop((stuck, answers));
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
