//! What is said in the log, by a subscriber of its own: the keeper speaks on its own thread.

use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use tenure_core::{Client, Memory};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        SAID.lock().unwrap().push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn said(what: &str) -> bool {
    SAID.lock().unwrap().iter().any(|line| line.contains(what))
}

#[tokio::test]
async fn a_task_that_waits_for_itself_is_told_how_to_enter_again() {
    tracing::subscriber::set_global_default(Listener).unwrap();
    let client = Client::new(Memory::new());
    // Another task waits for this one: nothing is wrong with that.
    let other = client.lock("shared").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock("shared");
        async move { lock.try_acquire_for(Duration::from_millis(1500)).await.unwrap().is_none() }
    });
    assert!(waiting.await.unwrap());
    assert!(!said("waits for a name that it holds itself"));
    drop(other);
    // This one waits for itself.
    let own = tokio::spawn(async move {
        let _held = client.lock("own").acquire().await.unwrap();
        client.lock("own").try_acquire_for(Duration::from_millis(1500)).await.unwrap().is_none()
    });
    assert!(own.await.unwrap());
    assert!(said("waits for a name that it holds itself") && said("name=own"), "{:?}", SAID.lock().unwrap());
}
