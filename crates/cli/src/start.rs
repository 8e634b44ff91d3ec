//! What it takes to start an agent, and to start another in the place of one that died.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headstart_agent::client::{Client, Overrides};
use headstart_agent::plan;
use headstart_agent::site::Site;
use headstart_agent::status::{Command as Ask, Part};
use headstart_agent::{Error, claim, runtime_directory};
use headstart_protocol::SOCKET_FILE;

use crate::following::{Purpose, follow};

/// So many of them in a row are enough: with the pauses about 25 s, somewhat less than a rank waits for an agent.
pub const SHORT_LIVES_MAX: u32 = 19;
/// Pause after the first of them; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What it takes to start an agent.
#[derive(Clone, Debug)]
pub struct Start {
    pub site: Site,
    pub site_path: PathBuf,
    pub overrides: Overrides,
    /// Regions follow what programs read.
    pub follow: bool,
    /// The plan of the run, whose regions are of whatever file has the name: an agent knows those only as
    /// long as it lives.
    pub plan: Option<PathBuf>,
    /// It is for a run, whose patterns hold, and not for a command, which has none.
    pub runs: bool,
    /// The run is a rank of a parallel program.
    pub part: Option<Part>,
}

impl Start {
    /// For a command, which leaves the agent as it is.
    pub fn for_command(site: &Site, site_path: &Path) -> Start {
        let (site, site_path, overrides) = (site.clone(), site_path.to_path_buf(), Overrides::default());
        Start { site, site_path, overrides, follow: false, plan: None, runs: false, part: None }
    }

    /// Connects to the site's agent, or starts one.
    pub fn connect(&self) -> headstart_agent::Result<Client> {
        connect_or_start(&self.site, &self.site_path, &self.overrides)
    }

    /// Which files belong on flash.
    pub fn selection(&self) -> Ask {
        Ask::Select { include: self.overrides.include.clone(), exclude: self.overrides.exclude.clone() }
    }

    /// The same; it is told what the agent before was told.
    pub fn follow_on(&self) -> headstart_agent::Result<Watched> {
        let client = self.connect()?;
        if self.runs {
            // Somebody else may have started it.
            client.ask(&self.selection())?;
        }
        if let Some(part) = &self.part {
            client.ask(&Ask::Join(part.clone()))?;
        }
        if let Some(plan) = &self.plan {
            remind_of_plan(&client, &self.site, plan);
        }
        let status = client.ask(if self.follow { &Ask::Follow } else { &Ask::Status })?;
        Ok(Watched { pid: status.pid, told: client })
    }

    /// Where an agent listens, or one that was killed did.
    pub fn socket(&self) -> PathBuf {
        runtime_directory::path(&self.site.slow).join(SOCKET_FILE)
    }

    /// Where it says what becomes of it.
    pub fn log(&self) -> PathBuf {
        runtime_directory::log(&runtime_directory::path(&self.site.slow))
    }
}

/// An agent.
pub struct Watched {
    pid: u32,
    /// What it was told holds as long as this connection.
    told: Client,
}

impl Watched {
    /// The agent's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The connection.
    pub fn into_client(self) -> Client {
        self.told
    }
}

/// The site's agent, started if none runs and nobody else owns the directory.
fn connect_or_start(site: &Site, site_path: &Path, overrides: &Overrides) -> std::result::Result<Client, Error> {
    if Client::connect(site).is_err() {
        claim::examine(&site.slow, &site.fast)?;
    }
    let program = std::env::current_exe().map_err(|error| Error::system("find this program's own file", error))?;
    Client::connect_or_start(site, site_path, &program, overrides)
}

/// Tells an agent that follows the one before in the middle of a run. What is wrong with the plan was said
/// when the run began, and a program goes on without regions.
fn remind_of_plan(client: &Client, site: &Site, path: &Path) {
    if let Ok(plan) = plan::load(path) {
        let tell = |commands: &[Ask]| commands.iter().try_for_each(|command| client.ask(command).map(drop));
        let _ = follow(&tell, site, &plan, Purpose::Running);
    }
}

/// Pause before the next try, after so many in a row that failed.
pub fn pause_after(short_lives: u32) -> Duration {
    let doublings = short_lives.saturating_sub(1).min(16);
    if short_lives == 0 { Duration::ZERO } else { (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX) }
}

/// Why there is no agent, in one line: the last that it said of itself, if it came so far.
pub fn reason(error: &headstart_agent::Error) -> String {
    match error {
        headstart_agent::Error::NotStarted { log, path, .. } => {
            let said = log.lines().rev().find_map(|line| line.strip_prefix("headstart: "));
            said.map_or_else(|| format!("the agent did not start; see {}", path.display()), str::to_string)
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_over_before_ranks_lose_patience() {
        assert_eq!(pause_after(0), Duration::ZERO, "one that served is followed at once");
        let pauses: Vec<Duration> = (1..=SHORT_LIVES_MAX).map(pause_after).collect();
        assert!(pauses.is_sorted() && pauses[0] == PAUSE_MIN);
        let whole: Duration = pauses.iter().sum();
        assert!(whole > Duration::from_secs(15) && whole < Duration::from_secs(28), "{whole:?}");
    }
}
