//! A topology query that one caller starts and others wait for. It runs on the transport's own thread: the first
//! caller's runtime may end or hang, and the others still need the answer.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use super::Transport;
use super::connections::Connections;
use super::failure::Failure;

type Answer = Option<Result<(), Failure>>;

#[derive(Debug, Default)]
pub(crate) struct Asking(Arc<Mutex<Option<watch::Receiver<Answer>>>>);

impl Asking {
    /// Starts the query, unless it is in progress.
    fn begin<F>(&self, transport: &Transport, question: F) -> Result<watch::Receiver<Answer>, Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let thread = transport.background.handle();
        let thread = thread.map_err(|e| Failure::NotExecuted(format!("no thread for connections: {e}")))?;
        let mut current = self.0.lock().unwrap_or_else(|e| e.into_inner());
        // If the sender is gone, no answer will come.
        if let Some(answer) = current.as_ref().filter(|a| a.has_changed().is_ok()) {
            return Ok(answer.clone());
        }
        let (told, answer) = watch::channel(None);
        *current = Some(answer.clone());
        let slot = self.0.clone();
        thread.spawn(async move {
            let outcome = question.await;
            *slot.lock().unwrap_or_else(|e| e.into_inner()) = None;
            told.send_replace(Some(outcome));
        });
        Ok(answer)
    }

    /// Starts or joins the query, and waits without a deadline.
    pub(crate) async fn learn<F>(&self, transport: &Transport, question: F) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        heard(self.begin(transport, question)?).await
    }

    /// Starts the query without waiting for the answer.
    pub(crate) fn hint<F>(&self, transport: &Transport, question: F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let _ = self.begin(transport, question);
    }

    /// Starts or joins the query, and waits until the deadline.
    pub(crate) async fn ask<F>(
        &self,
        transport: &Transport,
        connections: &Connections,
        deadline: Instant,
        question: F,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        match connections.until(deadline, heard(self.begin(transport, question)?)).await {
            Some(outcome) => outcome,
            None => Err(Failure::NotExecuted("nobody said in time where the server is".to_owned())),
        }
    }
}

async fn heard(mut answer: watch::Receiver<Answer>) -> Result<(), Failure> {
    match answer.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone().expect("it was waited for"),
        Err(_) => Err(Failure::NotExecuted("nobody says any more where the server is".to_owned())),
    }
}
