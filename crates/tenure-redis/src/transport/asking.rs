//! A question about the servers that one caller asks and others wait for, in a task that no caller can drop.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use super::failure::Failure;
use super::home::Home;

type Answer = Option<Result<(), Failure>>;

#[derive(Debug, Default)]
pub(crate) struct Asking(Arc<Mutex<Option<watch::Receiver<Answer>>>>);

impl Asking {
    /// Asks, unless that is under way.
    pub(crate) fn begin<F>(&self, home: &Home, question: F) -> watch::Receiver<Answer>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut current = self.0.lock().unwrap_or_else(|e| e.into_inner());
        // A sender that has gone took its runtime with it.
        if let Some(answer) = current.as_ref().filter(|a| a.has_changed().is_ok()) {
            return answer.clone();
        }
        let (told, answer) = watch::channel(None);
        *current = Some(answer.clone());
        let slot = self.0.clone();
        home.handle().spawn(async move {
            let outcome = question.await;
            *slot.lock().unwrap_or_else(|e| e.into_inner()) = None;
            told.send_replace(Some(outcome));
        });
        answer
    }

    /// Asks or waits for the one who does, until the deadline.
    pub(crate) async fn ask<F>(&self, home: &Home, deadline: Instant, question: F) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut answer = self.begin(home, question);
        let outcome = async {
            match answer.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().expect("it was waited for"),
                Err(_) => Err(Failure::NotExecuted("the runtime of the connection has ended".to_owned())),
            }
        };
        match home.until(deadline, outcome).await {
            Some(outcome) => outcome,
            None => Err(Failure::NotExecuted("nobody said in time where the server is".to_owned())),
        }
    }
}
