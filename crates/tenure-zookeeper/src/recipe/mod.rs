//! Curator's recipes: the queue of nodes, and how a claim joins it, holds, is renewed and leaves it.

pub(crate) mod attempt;
pub(crate) mod claim_record;
pub(crate) mod counters;
pub(crate) mod empty_queues;
mod folders;
pub(crate) mod keyed_mutex;
mod listings;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
pub(crate) mod node;
mod orphans;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
pub(crate) mod path;
mod permits;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
pub(crate) mod queue;
mod release;
pub(crate) mod renew;
pub(crate) mod revoke;
pub(crate) mod watch;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use tenure_core::backend::SizeWarnings;
use tenure_core::{Clock, Drift, Process, Suspicion};
use tokio::sync::Notify;

use self::claim_record::{ClaimRecord, ClaimRecords};
use self::empty_queues::EmptyQueues;
use self::keyed_mutex::KeyedMutex;
use self::listings::Listings;
use self::path::Paths;
use crate::options::Options;
use crate::session::manager::SessionManager;
use crate::subscribers::Subscribers;
use crate::wire::HoldEvents;

/// The state that all tasks of a store share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Arc<SessionManager>,
    pub(crate) paths: Paths,
    pub(crate) records: ClaimRecords,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) suspicion: Suspicion,
    pub(crate) sizes: SizeWarnings,
    pub(crate) process: Arc<Process>,
    /// New holds whose nodes are not watched yet.
    pub(crate) unwatched: Mutex<Vec<Weak<ClaimRecord>>>,
    pub(crate) unwatched_added: Arc<Notify>,
    /// What happens to the nodes of holds.
    pub(crate) hold_events: HoldEvents,
    /// Nodes whose deletion is pending.
    pub(crate) pending_deletes: Mutex<HashSet<String>>,
    /// Paths of ledgers that only remember past operations.
    pub(crate) prune_scheduled: Mutex<HashSet<String>>,
    pub(crate) counter_mutex: KeyedMutex,
    pub(crate) listings: Arc<Listings>,
    pub(crate) empty_queues: EmptyQueues,
}

impl Store {
    pub(crate) fn new(
        options: Options,
        clock: Clock,
        drift: Drift,
        suspicion: Suspicion,
        hold_events: HoldEvents,
    ) -> Self {
        let subscribers = Arc::new(Subscribers::default());
        let paths = Paths::new(options.prefix.clone());
        let sessions =
            Arc::new(SessionManager::new(options, clock, drift, suspicion.clone(), subscribers.clone()));
        Self {
            sessions,
            paths,
            records: ClaimRecords::default(),
            subscribers,
            suspicion,
            sizes: SizeWarnings::default(),
            process: Process::current().clone(),
            unwatched: Mutex::default(),
            unwatched_added: Arc::new(Notify::new()),
            hold_events,
            pending_deletes: Mutex::default(),
            prune_scheduled: Mutex::default(),
            counter_mutex: KeyedMutex::default(),
            listings: Arc::default(),
            empty_queues: EmptyQueues::default(),
        }
    }
}
