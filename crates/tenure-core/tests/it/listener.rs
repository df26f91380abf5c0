//! All that is told through `tracing` in this program, by the names that it is about. The keeper speaks on a thread of
//! its own, so that nothing less than the whole program can be listened to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

pub(crate) type Fields = BTreeMap<String, String>;

/// A span or an event.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) what: String,
    pub(crate) level: String,
    pub(crate) fields: Fields,
}

static EVENTS: Mutex<Vec<Told>> = Mutex::new(Vec::new());
static SPANS: Mutex<BTreeMap<u64, Told>> = Mutex::new(BTreeMap::new());

/// What is done when a renewal of so many holds is told.
static AT_RENEWALS: Mutex<BTreeMap<String, Harm>> = Mutex::new(BTreeMap::new());

/// What is done when the end of a hold of this name is told.
static AT_ENDS: Mutex<BTreeMap<String, Harm>> = Mutex::new(BTreeMap::new());

/// What is done when a span *release* of this name is closed.
static AT_RELEASES: Mutex<BTreeMap<String, Harm>> = Mutex::new(BTreeMap::new());

type Harm = Arc<Mutex<Box<dyn Fn() + Send>>>;

struct Listener(AtomicU64);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tenure"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.fetch_add(1, SeqCst) + 1;
        let metadata = attributes.metadata();
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        panic_about(&fields, "new_span");
        let harm = fields.get("holds").filter(|_| metadata.name() == "renew");
        let harm = harm.and_then(|holds| AT_RENEWALS.lock().unwrap().get(holds).cloned());
        let told = Told { what: metadata.name().to_owned(), level: metadata.level().to_string(), fields };
        SPANS.lock().unwrap().insert(id, told);
        if let Some(harm) = harm {
            harm.lock().unwrap_or_else(|e| e.into_inner())();
        }
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut spans = SPANS.lock().unwrap();
        values.record(&mut Reader(&mut spans.get_mut(&id.into_u64()).unwrap().fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let what = fields.remove("message").unwrap();
        panic_about(&fields, "event");
        let harm = fields.get("name").filter(|_| what == "released");
        let harm = harm.and_then(|name| AT_ENDS.lock().unwrap().get(name).cloned());
        if let Some(harm) = harm {
            harm.lock().unwrap_or_else(|e| e.into_inner())();
        }
        EVENTS.lock().unwrap().push(Told { what, level: event.metadata().level().to_string(), fields });
    }

    fn enter(&self, id: &Id) {
        panic_about(&fields_of(id), "enter");
    }

    fn exit(&self, id: &Id) {
        panic_about(&fields_of(id), "exit");
    }

    fn try_close(&self, id: Id) -> bool {
        let fields = fields_of(&id);
        panic_about(&fields, "try_close");
        let is_release = SPANS.lock().unwrap().get(&id.into_u64()).is_some_and(|told| told.what == "release");
        let harm = fields.get("name").filter(|_| is_release);
        let harm = harm.and_then(|name| AT_RELEASES.lock().unwrap().get(name).cloned());
        if let Some(harm) = harm {
            harm.lock().unwrap_or_else(|e| e.into_inner())();
        }
        true
    }
}

fn fields_of(id: &Id) -> Fields {
    SPANS.lock().unwrap().get(&id.into_u64()).map(|told| told.fields.clone()).unwrap_or_default()
}

/// Panics if the name is `panics/` and what the listener is called for, or `panics/always`.
fn panic_about(fields: &Fields, called: &str) {
    if let Some(when) = fields.get("name").and_then(|name| name.strip_prefix("panics/")) {
        assert!(when != "always" && when != called, "a subscriber that panics, as this test wants it to");
    }
}

/// From now on. Each name is to be used by one test only.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener(AtomicU64::new(0))).unwrap());
}

/// From now on, when a renewal of `holds` at once is told.
pub(crate) fn at_renewals_of(holds: usize, harm: impl Fn() + Send + 'static) {
    AT_RENEWALS.lock().unwrap().insert(holds.to_string(), Arc::new(Mutex::new(Box::new(harm))));
}

/// From now on, when the end of a hold of `name` is told.
pub(crate) fn at_the_end_of(name: &str, harm: impl Fn() + Send + 'static) {
    AT_ENDS.lock().unwrap().insert(name.to_owned(), Arc::new(Mutex::new(Box::new(harm))));
}

/// From now on, when a span *release* of `name` is closed.
pub(crate) fn at_releases_of(name: &str, harm: impl Fn() + Send + 'static) {
    AT_RELEASES.lock().unwrap().insert(name.to_owned(), Arc::new(Mutex::new(Box::new(harm))));
}

/// What was told of this name so far.
fn of(name: &str, all: impl IntoIterator<Item = Told>) -> Vec<Told> {
    all.into_iter().filter(|told| told.fields.get("name").is_some_and(|n| n == name)).collect()
}

pub(crate) fn events(name: &str) -> Vec<Told> {
    of(name, EVENTS.lock().unwrap().clone())
}

pub(crate) fn spans(name: &str) -> Vec<Told> {
    of(name, all_spans())
}

/// Also those that are about no name.
pub(crate) fn all_spans() -> Vec<Told> {
    SPANS.lock().unwrap().values().cloned().collect()
}

pub(crate) fn words(told: &[Told]) -> Vec<&str> {
    told.iter().map(|t| t.what.as_str()).collect()
}
