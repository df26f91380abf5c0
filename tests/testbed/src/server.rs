//! A server process: its recipe, folder, ports, and process control.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::{Process, shown};
use crate::program::wait_until_stopped;
use crate::{Error, PATIENCE, Result, folder, free_port};

/// How many sets of ports are tried: another process may take a port between the check and the start.
const ATTEMPTS: usize = 20;

/// How a type of server is started.
pub trait Recipe: Send + Sync {
    /// Its name in errors.
    fn name(&self) -> &str;

    /// Number of ports that it listens on.
    fn ports(&self) -> usize {
        1
    }

    /// Writes its configuration files. The data folder exists and is empty.
    fn prepare(&self, instance: &Instance) -> Result<()>;

    /// The program and its arguments.
    fn command(&self, instance: &Instance) -> Vec<OsString>;

    /// Whether it serves. Must not mistake another server on the same port for this one.
    fn serves(&self, instance: &Instance) -> bool;
}

/// Folder and ports of a server.
#[derive(Debug)]
pub struct Instance {
    folder: tempfile::TempDir,
    /// The ports it listens on.
    pub ports: Vec<u16>,
}

impl Instance {
    /// Its folder, for configuration files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder for its data, and nothing else.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The file with its standard output and error.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// A server process. Killed on drop, and when this process ends in any way.
pub struct Server {
    recipe: Arc<dyn Recipe>,
    instance: Instance,
    process: Mutex<Process>,
    stopped: AtomicBool,
}

pub(crate) enum Failure {
    PortTaken(Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::Other(e)
    }
}

/// Starts something on this many free ports; retries with others if one was taken meanwhile.
pub(crate) fn on_free_ports<T>(
    count: usize,
    mut start: impl FnMut(Vec<u16>) -> std::result::Result<T, Failure>,
) -> Result<T> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let ports = (0..count).map(|_| free_port()).collect::<Result<_>>()?;
        match start(ports) {
            Ok(started) => return Ok(started),
            Err(Failure::PortTaken(_)) if attempts < ATTEMPTS => {}
            Err(Failure::PortTaken(e) | Failure::Other(e)) => return Err(e),
        }
    }
}

impl Server {
    /// Starts a server, and waits until it serves.
    ///
    /// # Errors
    /// When it does not, with its log.
    pub fn start(recipe: impl Recipe + 'static) -> Result<Self> {
        let recipe: Arc<dyn Recipe> = Arc::new(recipe);
        on_free_ports(recipe.ports(), |ports| Self::start_at(recipe.clone(), ports))
    }

    /// Starts a server on exactly these ports.
    pub(crate) fn start_at(recipe: Arc<dyn Recipe>, ports: Vec<u16>) -> std::result::Result<Self, Failure> {
        let instance = Instance { folder: folder::fresh()?, ports };
        fresh(recipe.as_ref(), &instance)?;
        let process = launch(recipe.as_ref(), &instance)?;
        Ok(Self { recipe, instance, process: Mutex::new(process), stopped: AtomicBool::new(false) })
    }

    /// Its folder and ports.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Its first port.
    pub fn port(&self) -> u16 {
        self.instance.ports[0]
    }

    /// The process id; that of the last process, if it does not run.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Whether its process exists, also if it is stopped.
    pub fn is_running(&self) -> bool {
        matches!(self.process().ended(), Ok(None))
    }

    /// Whether it runs and was not stopped by [`Server::stop`], so that it answers eventually.
    pub(crate) fn answers(&self) -> bool {
        self.is_running() && !self.stopped.load(Ordering::SeqCst)
    }

    /// Suspends it (SIGSTOP), and waits until it stands still: its connections stay open, but it does not answer.
    ///
    /// # Errors
    /// When it does not run.
    pub fn stop(&self) -> Result<()> {
        self.stopped.store(true, Ordering::SeqCst);
        self.signal(Signal::STOP)?;
        wait_until_stopped(self.pid())
    }

    /// Continues it (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)?;
        self.stopped.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Kills it (SIGKILL) and waits for its end.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(&self) -> Result<()> {
        self.process().kill().map(drop)
    }

    /// Terminates it (SIGTERM) and waits for its end. Continues it if it is stopped.
    ///
    /// # Errors
    /// When it does not.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        self.process().wait(PATIENCE).map(drop)
    }

    /// Starts it again on the same ports, with its files. Kills it first, if it still runs.
    ///
    /// # Errors
    /// When it does not serve, with its log.
    pub fn restart(&self) -> Result<()> {
        self.again(false)
    }

    /// Starts it again on the same ports, with its data deleted.
    ///
    /// # Errors
    /// When it does not serve, with its log.
    pub fn restart_empty(&self) -> Result<()> {
        self.again(true)
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        log(&self.instance)
    }

    fn again(&self, empty: bool) -> Result<()> {
        let mut process = self.process();
        process.kill()?;
        if empty {
            fresh(self.recipe.as_ref(), &self.instance)?;
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match launch(self.recipe.as_ref(), &self.instance) {
                Ok(new) => {
                    *process = new;
                    self.stopped.store(false, Ordering::SeqCst);
                    return Ok(());
                }
                // Retry: the ports must stay the same.
                Err(Failure::PortTaken(_)) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Failure::PortTaken(e) | Failure::Other(e)) => return Err(e),
            }
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let mut process = self.process();
        match process.ended()? {
            None => process.signal(signal),
            Some(status) => {
                Err(Error::failed(format!("{} has ended already: {}", self.recipe.name(), shown(status))))
            }
        }
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.recipe.name()).field("instance", &self.instance).finish()
    }
}

fn fresh(recipe: &dyn Recipe, instance: &Instance) -> Result<()> {
    let data = instance.data();
    if data.exists() {
        std::fs::remove_dir_all(&data)?;
    }
    std::fs::create_dir(&data)?;
    recipe.prepare(instance)
}

fn launch(recipe: &dyn Recipe, instance: &Instance) -> std::result::Result<Process, Failure> {
    let begin = log(instance).len();
    let log_file = File::options().create(true).append(true).open(instance.log()).map_err(Error::from)?;
    let mut process = Process::start(&recipe.command(instance), &instance.data(), &log_file)?;
    let end = Instant::now() + PATIENCE;
    loop {
        if recipe.serves(instance) {
            return Ok(process);
        }
        let ended = process.ended()?;
        if ended.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        let how = ended.map_or(format!("does not serve within {PATIENCE:?}"), |s| {
            format!("ended with {} before it served", shown(s))
        });
        let log = log(instance);
        let said = log.get(begin..).unwrap_or(&log);
        let error =
            Error::failed(format!("{} on {:?} {how}; its log:\n{said}", recipe.name(), instance.ports));
        // Check the log, since not every server exits if a port is taken.
        let taken = said.contains("Address already in use");
        return Err(if taken { Failure::PortTaken(error) } else { Failure::Other(error) });
    }
}

fn log(instance: &Instance) -> String {
    std::fs::read(instance.log())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
