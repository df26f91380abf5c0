//! The connection of one runtime to one node, opened by the first caller that needs it while others wait for that.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::driver::drive;
use super::failure::Failure;
use super::home::Home;
use super::link::Link;
use super::pause::Pause;
use crate::Address;

/// How long to try to reconnect after a connection has ended, even if nobody calls.
const REOPENS: Duration = Duration::from_secs(30);

type Opened = Result<Arc<Link>, Failure>;

#[derive(Debug)]
pub(crate) struct Lane {
    to: Address,
    home: Weak<Home>,
    /// Whether it reconnects by itself after its connection has ended.
    reopens: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Arc<Link>>,
    /// The connect in progress.
    opening: Option<watch::Receiver<Option<Opened>>>,
    pause: Pause,
    /// Why it was closed: a connect in progress is discarded then.
    ended: Option<String>,
}

impl State {
    /// Drops a dead connection.
    fn part(&mut self) {
        let Some(link) = self.link.take() else { return };
        // Back off if the server accepts connections and closes them again, or is the wrong server.
        if link.has_worked() { self.pause.worked() } else { self.pause.failed() }
    }
}

impl Lane {
    pub(crate) fn new(to: Address, home: Weak<Home>, reopens: bool) -> Arc<Self> {
        Arc::new(Self { to, home, reopens, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The connection, if it is open.
    pub(crate) fn ready(&self) -> Option<Arc<Link>> {
        self.lock().link.as_ref().filter(|link| !link.is_dead()).cloned()
    }

    /// The connection, opened if there is none.
    pub(crate) async fn link(self: &Arc<Self>, home: &Home, deadline: Instant) -> Opened {
        if let Some(link) = self.ready() {
            return Ok(link);
        }
        let mut opening = self.open(home);
        let opened = async {
            match opening.wait_for(Option::is_some).await {
                Ok(opened) => opened.clone().expect("it was waited for"),
                Err(_) => {
                    Err(Failure::NotExecuted(format!("{}: the runtime of the connection has ended", self.to)))
                }
            }
        };
        match home.until(deadline, opened).await {
            Some(opened) => opened,
            None => Err(Failure::NotExecuted(format!("{}: no connection in time", self.to))),
        }
    }

    /// Starts to connect, unless that is in progress.
    fn open(self: &Arc<Self>, home: &Home) -> watch::Receiver<Option<Opened>> {
        let mut state = self.lock();
        if let Some(link) = state.link.as_ref().filter(|link| !link.is_dead()) {
            return watch::channel(Some(Ok(link.clone()))).1;
        }
        state.part();
        if let Some(why) = &state.ended {
            return watch::channel(Some(Err(self.over(why)))).1;
        }
        // If the sender is gone, its runtime has ended.
        if let Some(opening) = state.opening.as_ref().filter(|o| o.has_changed().is_ok()) {
            return opening.clone();
        }
        let (told, opening) = watch::channel(None);
        state.opening = Some(opening.clone());
        let delay = state.pause.delay();
        drop(state);
        let lane = self.clone();
        home.handle().spawn(async move {
            let mut opened = lane.connect(delay).await;
            let mut state = lane.lock();
            state.opening = None;
            let late = match &state.ended {
                Some(why) => std::mem::replace(&mut opened, Err(lane.over(why))).ok(),
                None => None,
            };
            match &opened {
                Ok(link) => state.link = Some(link.clone()),
                Err(_) => state.pause.failed(),
            }
            drop(state);
            if let Some(link) = late {
                link.close("it is not needed any more");
            }
            told.send_replace(Some(opened));
        });
        opening
    }

    async fn connect(self: &Arc<Self>, delay: Duration) -> Opened {
        let gone = || Failure::NotExecuted(format!("{}: the connections were closed", self.to));
        let (hub, limit) = {
            let home = self.home.upgrade().ok_or_else(gone)?;
            let hub = home.hub().ok_or_else(gone)?;
            let limit = hub.timeout;
            (hub, limit)
        };
        let began = Instant::now();
        tokio::time::sleep(delay.min(limit / 2)).await;
        let left = limit.saturating_sub(began.elapsed());
        let connected = hub.connector.connect(&self.to, left).await;
        let met =
            connected.and_then(|(wire, mut hello)| hub.met(&self.to, &mut hello).map(|()| (wire, hello.up)));
        let (wire, up) = met.inspect_err(|_| hub.doubt_node(&self.to))?;
        let link = Link::new(self.to.clone(), wire, up, hub.attempts.clone());
        let (driving, driven, lane) = (drive(link.clone(), limit), link.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            driving.await;
            if let Some(hub) = lane.upgrade().and_then(|lane| lane.home.upgrade()).and_then(|home| home.hub())
            {
                hub.parted(&driven.to);
            }
            let ended = lane.upgrade().is_some_and(|lane| lane.ended(&driven));
            drop(driven);
            if ended {
                reopen(&lane).await;
            }
        });
        Ok(link)
    }

    /// Handles the end of the connection. Returns whether to reconnect although nobody calls.
    fn ended(&self, link: &Arc<Link>) -> bool {
        let mut state = self.lock();
        if !state.link.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)) {
            return false;
        }
        state.part();
        self.reopens && state.ended.is_none()
    }

    fn over(&self, why: &str) -> Failure {
        Failure::NotExecuted(format!("{}: {why}", self.to))
    }

    /// Closes the connection for good. Later calls need another lane.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| why.to_owned());
        let link = state.link.take();
        drop(state);
        if let Some(link) = link {
            link.close(why);
        }
    }
}

/// Reconnects to find out which server is there now: it may be another one, or have lost its data. It may take time to
/// start.
async fn reopen(lane: &Weak<Lane>) {
    let began = Instant::now();
    while began.elapsed() < REOPENS {
        let Some(lane) = lane.upgrade() else { return };
        let Some(home) = lane.home.upgrade().filter(|home| home.hub().is_some()) else { return };
        if lane.lock().ended.is_some() {
            return;
        }
        let mut opening = lane.open(&home);
        drop((lane, home));
        let opened = opening.wait_for(Option::is_some).await;
        if !matches!(opened.as_deref(), Ok(Some(Err(Failure::NotExecuted(_))))) {
            return;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close("the connections were closed");
    }
}
