//! `headstart run`: a program with the library preloaded, then the drain.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use headstart_agent::client::Overrides;
use headstart_agent::inspection::{Verdict, inspect};
use headstart_agent::site::Site;
use headstart_agent::status::{Command as Ask, Counters, RequestCounters, Status};
use headstart_agent::{Error as AgentError, claim};
use headstart_cli::command::EXIT_DIRTY;
use headstart_policy::client::chain::Chain;
use headstart_protocol::{
    ENVIRONMENT_POLICY, ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW, ENVIRONMENT_STRANGERS, ENVIRONMENT_SWITCH,
};
use headstart_units::ByteSize;
use serde::Serialize;

use crate::agent::parse_capacity;
use crate::arrival::{Arrival, Outcome};
use crate::durable::make_durable;
use crate::interrupts::Interrupts;
use crate::launch;
use crate::looks::Looks;
use crate::place::follow_for_run;
use crate::program::{Program, check_library, exit_code, exit_number, library, nameable};
use crate::recording::{alone, record_in};
use crate::service::Service;
use crate::start::{Start, reason};
use crate::supervision::Supervision;
use crate::unseen::{self, Kept};
use crate::write_back::{Drained, drain_all};
use headstart_cli::printing::refuse_unwritable;

/// The names of policies, each with what it does.
fn policies() -> impl TypedValueParser<Value = Chain> {
    let named = Chain::ALL.map(|chain| {
        PossibleValue::new(chain.name()).help(match chain {
            Chain::S4d => "Online selective cache driven by a cost model (S4D-Cache)",
            Chain::Carl => "The regions of a plan and nothing else (CARL)",
            Chain::CarlS4d => "The regions of a plan, and what else S4D-Cache wants",
            Chain::Auto => "carl,s4d where a plan's regions are known; else s4d, and regions that are read again and again (D-CARL)",
            Chain::Off => "Nothing new goes to flash; what is there is still found",
        })
    });
    PossibleValuesParser::new(named).try_map(|name| name.parse())
}

#[derive(Debug, Args)]
pub struct Run {
    /// What goes to flash
    #[arg(long, value_parser = policies(), default_value = "s4d")]
    policy: Chain,

    /// The plan whose regions go to flash as the program asks for them; without it those that are known, of
    /// 'headstart place' or a run before
    #[arg(long, value_name = "PLAN.toml")]
    plan: Option<PathBuf>,

    /// Flash the agent uses from now on, for later runs too while it lives: 20% of the files in use, or a size (as
    /// `headstart capacity`)
    #[arg(long, value_name = "20%|SIZE", allow_hyphen_values = true)]
    capacity: Option<String>,

    /// Files that may come to flash, relative to the slow directory, instead of what the site file says; may
    /// be repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,

    /// Files that stay on the disks; the most specific pattern wins; may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Leave dirty bytes on flash at the end, for `headstart drain`
    #[arg(long)]
    keep_dirty: bool,

    /// Record each request in DIR, as `headstart trace` does
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,

    /// Write figures of the run to FILE as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The node where the run began that this one is part of
    #[arg(long, value_name = "NODE", hide = true)]
    joins: Option<String>,

    /// Run no program; only see to it that an agent serves
    #[arg(long, requires = "joins", hide = true)]
    agent_alone: bool,

    /// The program and its arguments, for example: -- mpirun -n 16 ./app
    #[arg(last = true, required_unless_present = "agent_alone", value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// What a run goes by once an agent serves.
struct Served {
    site: Site,
    library: PathBuf,
    agent: Start,
    service: Service,
}

/// How a run begins.
enum Begun {
    /// An agent serves.
    Served(Box<Served>),
    /// The program ran without flash, to this end.
    WithoutFlash(ExitCode),
}

/// What `--report` says.
#[derive(Debug, Serialize)]
struct Report {
    exit_status: i32,
    program_s: f64,
    drain_s: f64,
    dirty_bytes: u64,
    flash_share: f64,
    requests: RequestCounters,
    agent_before: Counters,
    agent_after: Counters,
    mapped_bytes: u64,
    capacity_bytes: u64,
}

impl Run {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        if self.joins.is_none() && std::env::var_os(ENVIRONMENT_SWITCH).is_some_and(|value| value == "off") {
            return Ok(exit_code(self.program().wait(self.program().command(), &Interrupts::listen()?)?));
        }
        let begun = match &self.joins {
            None => self.begin(site),
            Some(node) => self.begin(site).with_context(|| launch::cannot_take_part(node)),
        };
        match begun? {
            Begun::WithoutFlash(code) => Ok(code),
            Begun::Served(_) if self.agent_alone => Ok(ExitCode::SUCCESS),
            Begun::Served(served) => self.carry_out(&served),
        }
    }

    /// Sees to it that an agent serves, and knows what this run wants.
    fn begin(&self, site: Option<&Path>) -> Result<Begun> {
        parse_capacity(self.capacity.as_deref())?;
        self.check_plan()?;
        self.report.as_deref().map_or(Ok(()), refuse_unwritable)?;
        let site_path = Site::locate(site);
        let library = library()?;
        check_library(&library)?;
        let site = match Site::load(&site_path) {
            Err(headstart_agent::Error::FastDirectory { path, slow, fast, problem }) => {
                let (known_slow, known_fast) = (slow.clone(), fast.clone());
                let error = headstart_agent::Error::FastDirectory { path, slow, fast, problem };
                return self.without_flash(&known_slow, &known_fast, error);
            }
            site => site?,
        };
        let choose = |own: &[String], site: &[String]| if own.is_empty() { site.to_vec() } else { own.to_vec() };
        let (include, exclude) = (choose(&self.include, &site.include), choose(&self.exclude, &site.exclude));
        let overrides = Overrides { capacity: self.capacity.clone(), include, exclude };
        let follow = self.policy == Chain::Auto && self.plan.is_none();
        let (plan, part) = (self.plan.clone(), launch::job::part().filter(|_| !self.agent_alone));
        let agent = Start { site: site.clone(), site_path, overrides, follow, plan, runs: true, part };
        let service = match Service::connect(agent.clone()) {
            Ok(service) => service,
            Err(error) => return self.without_flash(&site.slow, &site.fast, error),
        };
        if let Some(capacity) = &self.capacity {
            self.configure(&service, &site, capacity)?;
        }
        service.ask(&agent.selection())?;
        if let Some(part) = &agent.part {
            service.ask(&Ask::Join(part.clone()))?;
        }
        self.know_regions(&service, &site)?;
        Ok(Begun::Served(Box::new(Served { site, library, agent, service })))
    }

    /// Runs the program, and brings what it wrote to its end.
    fn carry_out(&self, served: &Served) -> Result<ExitCode> {
        let Served { site, agent, service, .. } = served;
        let before = service.ask(&Ask::Status)?;
        let interrupts = Interrupts::listen()?;
        unseen::forget_marks(&service.runtime());
        if before.strangers > 0 {
            eprintln!(
                "headstart: programs that the library is not in still live ({}): nothing comes to flash until they have ended",
                before.strangers
            );
        }
        let start = Instant::now();
        let supervision = Supervision::begin(agent.clone(), before.pid)?;
        let status = self.watched(served, &interrupts)?;
        let program_time = start.elapsed();
        drop(supervision);
        // From here on the program's status is what counts.
        let is_done = match self.finish(agent, &interrupts) {
            Ok(drained) => {
                let drain_time = start.elapsed() - program_time;
                self.write_report(&report(status, program_time, drain_time, &before, &drained.status));
                drained.is_whole || self.keep_dirty
            }
            Err(error) => say_unfinished(site, &error),
        };
        Ok(if is_done || !status.success() { exit_code(status) } else { ExitCode::from(EXIT_DIRTY) })
    }

    fn write_report(&self, report: &Report) {
        let Some(path) = &self.report else { return };
        let text = serde_json::to_string_pretty(report).expect("a report has a JSON form");
        if let Err(error) = std::fs::write(path, text) {
            eprintln!("headstart: cannot write the report {}: {error}", path.display());
        }
    }

    /// Whether policy and plan go together.
    fn check_plan(&self) -> Result<()> {
        if self.plan.is_some() && !self.policy.asks_regions() {
            bail!("--policy {} goes by no plan; --policy carl, carl,s4d and auto do", self.policy);
        }
        Ok(())
    }

    /// Makes the plan's regions known; or finds that some are, where there would be nothing to go by.
    fn know_regions(&self, service: &Service, site: &Site) -> Result<()> {
        if let Some(plan) = &self.plan {
            return follow_for_run(service, site, plan);
        }
        if self.policy == Chain::Auto {
            service.ask(&Ask::Follow)?;
        }
        let needed = matches!(self.policy, Chain::Carl | Chain::CarlS4d);
        let known = service.ask(&Ask::Status)?.placement;
        if self.policy == Chain::Auto && !known.following {
            eprintln!(
                "headstart: regions of a plan are known (files: {}): auto goes by them, and none follow what the program reads; \
                 'headstart unplace' lets them",
                known.files.max(known.names)
            );
        }
        if needed && (known.following || known.files + known.names == 0) {
            bail!(
                "--policy {} goes by regions, and none are known: 'headstart place PLAN.toml' makes them known, or give --plan PLAN.toml",
                self.policy
            );
        }
        Ok(())
    }

    /// The agent keeps the capacity after this run, and says so where that is not what the site file says.
    fn configure(&self, service: &Service, site: &Site, capacity: &str) -> Result<()> {
        service.ask(&Ask::Configure { capacity: capacity.to_string() })?;
        if site.capacity.as_deref().unwrap_or("20%") != capacity {
            eprintln!(
                "headstart: capacity is {capacity} until the agent ends or 'headstart capacity' changes it, whatever the site file says"
            );
        }
        Ok(())
    }

    /// The agent cannot serve: the program runs on the slow directory alone, unless flash may hold newer bytes, or
    /// other nodes of the run have some.
    fn without_flash(&self, slow: &Path, fast: &Path, error: headstart_agent::Error) -> Result<Begun> {
        if error.means_in_use() || self.joins.is_some() {
            return Err(error.into());
        }
        claim::refuse_if_owed(slow, fast).with_context(|| reason(&error))?;
        eprintln!(
            "headstart: {}; nothing of {} is only on flash: the program runs without flash",
            reason(&error),
            slow.display()
        );
        let command = match &self.trace {
            None => self.program().command(),
            Some(output) => alone(&self.program(), &library()?, slow, output, None)?,
        };
        Ok(Begun::WithoutFlash(exit_code(self.program().wait(command, &Interrupts::listen()?)?)))
    }

    /// Runs the program to its end. One that the library cannot be in is kept apart from flash; of any other
    /// it is seen that the library comes up in it.
    fn watched(&self, served: &Served, interrupts: &Interrupts) -> Result<ExitStatus> {
        let Served { site, library, service, .. } = served;
        let looks = Looks::of(&self.program[0]);
        let strangers = site.strangers().map_err(anyhow::Error::msg)?;
        let mut command = self.preloaded(served, &looks)?;
        if let Some((path, why)) = &looks.stranger {
            let kept = Kept::admit(service, strangers, path, *why)?;
            kept.iter().for_each(|kept| kept.hand_down(&mut command));
            let started = |pid| {
                kept.into_iter().for_each(|kept| kept.started(pid));
                Ok(())
            };
            return self.program().wait_after(command, interrupts, started);
        }
        let arrival = Arrival::expect(&mut command)?;
        let name = Path::new(&self.program[0]);
        let mut outcome = Outcome::Arrived;
        let started = |pid| {
            outcome = arrival.wait(pid, library);
            match outcome {
                Outcome::NotLoaded => unseen::unloaded(service, strangers, name, pid),
                Outcome::Arrived | Outcome::Ended => Ok(()),
            }
        };
        let status = self.program().wait_after(command, interrupts, started)?;
        if outcome == Outcome::Ended && status.success() {
            unseen::say_unloaded(name);
        }
        Ok(status)
    }

    fn program(&self) -> Program<'_> {
        Program(&self.program)
    }

    fn preloaded(&self, served: &Served, looks: &Looks) -> Result<Command> {
        let Served { site, library, agent, service } = served;
        let library = nameable(library.clone(), Some(&service.runtime()))?;
        let mut command = self.program().preloaded(&library, looks);
        command.env(ENVIRONMENT_STRANGERS, site.strangers().map_err(anyhow::Error::msg)?.name());
        command.env(ENVIRONMENT_RUNTIME, service.runtime());
        command.env(ENVIRONMENT_SLOW, &site.slow);
        command.env(ENVIRONMENT_POLICY, self.policy.name());
        if let Some(directory) = &self.trace {
            record_in(&mut command, directory, self.joins.is_some())?;
        }
        if self.joins.is_some() {
            // It said that this process was to have nothing of the library.
            command.env_remove(ENVIRONMENT_SWITCH);
        }
        let elsewhere = self.elsewhere(&agent.site_path)?;
        launch::prepare(&mut command, elsewhere, self.joins.as_deref(), Some(&service.runtime()))?;
        Ok(command)
    }

    /// The options of this run for another node.
    fn elsewhere(&self, site_path: &Path) -> Result<Vec<OsString>> {
        let absolute =
            |path: &Path| std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()));
        let mut arguments: Vec<OsString> = vec!["--site".into(), absolute(site_path)?.into(), "run".into()];
        arguments.push(format!("--policy={}", self.policy).into());
        for (option, path) in [("--plan", &self.plan), ("--trace", &self.trace)] {
            if let Some(path) = path {
                arguments.extend([option.into(), absolute(path)?.into()]);
            }
        }
        let named = |option: &'static str, values: &[String]| {
            values.iter().map(|value| format!("{option}={value}").into()).collect::<Vec<OsString>>()
        };
        arguments.extend(named("--capacity", self.capacity.as_slice()));
        arguments.extend(named("--include", &self.include));
        arguments.extend(named("--exclude", &self.exclude));
        if self.keep_dirty {
            arguments.push("--keep-dirty".into());
        }
        Ok(arguments)
    }

    /// After the program: writes everything back, unless dirty bytes are to be kept.
    fn finish(&self, agent: &Start, interrupts: &Interrupts) -> Result<Drained> {
        // Another one may serve by now.
        let service = Service::connect(agent.clone())?;
        if self.keep_dirty {
            service.ask(&Ask::KeepDirty)?;
            // Kept dirty bytes must survive power loss once `run` has ended.
            let status = make_durable(&service, interrupts)?;
            return Ok(Drained { is_whole: status.dirty_bytes == 0, status });
        }
        if let Some(part) = &agent.part {
            let status = service.ask(&Ask::Leave(part.clone()))?;
            if status.other_ranks > 0 {
                // The last of them drains what this one wrote as well.
                return Ok(Drained { is_whole: true, status });
            }
        }
        drain_all(&service, interrupts, false)
    }
}

/// What was to follow the program failed: says so, and what is left where. Whether nothing is, and only an agent was
/// missing.
fn say_unfinished(site: &Site, error: &anyhow::Error) -> bool {
    let of_agent = error.downcast_ref();
    let gone = matches!(of_agent, Some(AgentError::NoAgent { .. } | AgentError::NotStarted { .. }));
    let error = of_agent.map_or_else(|| format!("{error:#}"), reason);
    let found = inspect(&site.slow, Some(&site.fast), Some(site), false).ok();
    let is_clean = found.as_ref().is_some_and(|found| found.verdict_here == Verdict::Clean);
    let left = match found {
        Some(_) if is_clean => "nothing is only on flash".into(),
        Some(found) => format!("{} are dirty on flash", ByteSize(found.dirty_bytes)),
        None => "bytes may be dirty on flash".to_string(),
    };
    let advice =
        if is_clean { "" } else { ", not lost: 'headstart drain' writes them back, 'headstart check' names them" };
    eprintln!(
        "headstart: the program has ended, and what it wrote cannot be brought to an end: {error}; {left}{advice}"
    );
    is_clean && gone
}

fn report(status: ExitStatus, program: Duration, drain: Duration, before: &Status, after: &Status) -> Report {
    let requests = after.requests.since(&before.requests);
    Report {
        exit_status: exit_number(status),
        program_s: program.as_secs_f64(),
        drain_s: drain.as_secs_f64(),
        dirty_bytes: after.dirty_bytes,
        flash_share: requests.flash_share(),
        requests,
        agent_before: before.agent,
        agent_after: after.agent,
        mapped_bytes: after.mapped_bytes,
        capacity_bytes: after.capacity_bytes,
    }
}
