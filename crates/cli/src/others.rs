//! The other nodes that share the site's directory, as commands reach them: through this node's agent.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use headstart_agent::cluster::report::{self, NodeReport};
use headstart_agent::site::Site;
use headstart_cli::command::EXIT_DIRTY;
use headstart_units::ByteSize;

use crate::service::Service;
use crate::start::Start;

/// How long agents that have been told to end may take to leave before this one goes on; assumed: a barrier.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub struct Others {
    site: Option<Site>,
    nodes: Vec<Other>,
    is_whole: Cell<bool>,
    /// Some were gone when they were looked for.
    any_gone: bool,
}

struct Other {
    name: String,
    /// Nothing once it has failed: it was said why.
    service: Cell<Option<Service>>,
}

impl Others {
    /// There are none, or they are not meant.
    pub fn none() -> Others {
        Others { site: None, nodes: Vec::new(), is_whole: Cell::new(true), any_gone: false }
    }

    /// All that have something of the directory.
    pub fn find(start: &Start) -> Result<Others> {
        let others = Others { site: Some(start.site.clone()), ..Others::none() };
        let (mut nodes, mut any_gone) = (Vec::new(), false);
        for node in report::nodes(&start.site)?.members.into_iter().filter(NodeReport::is_other) {
            if node.may_answer() {
                let service = Cell::new(Some(Service::of_node(start.clone(), &node.name)?));
                nodes.push(Other { name: node.name, service });
            } else {
                any_gone = true;
            }
        }
        Ok(Others { nodes, any_gone, ..others })
    }

    /// Whether some of them are gone.
    pub fn any_gone(&self) -> bool {
        self.any_gone
    }

    /// Names those that are gone with what they had, and the disks have not.
    pub fn name_gone(&self) -> Result<()> {
        let Some(site) = self.site.as_ref().filter(|_| self.any_gone) else { return Ok(()) };
        let members = report::nodes(site)?.members.into_iter().filter(NodeReport::is_other);
        for node in members.filter(|node| !node.may_answer() && node.dirty_bytes != Some(0)) {
            self.is_whole.set(false);
            eprintln!("headstart: {}", gone(&node));
        }
        Ok(())
    }

    /// Does it with each, those left out with which something failed before. What fails is said.
    pub fn each(&self, what: &str, act: impl Fn(&Service) -> Result<()>) {
        for node in &self.nodes {
            let Some(service) = node.service.take() else { continue };
            match act(&service) {
                Ok(()) => node.service.set(Some(service)),
                Err(error) => {
                    self.is_whole.set(false);
                    let text = error.to_string();
                    let name = if text.contains(&node.name) { String::new() } else { format!("node {}: ", node.name) };
                    eprintln!("headstart: {what}: {name}{text}");
                }
            }
        }
    }

    /// Whether nothing has failed, and none is gone that owes something.
    pub fn are_whole(&self) -> bool {
        self.is_whole.get()
    }

    /// That of a command, whose own part is whole or not.
    pub fn exit_code(&self, is_whole: bool) -> ExitCode {
        if is_whole && self.are_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIRTY) }
    }

    /// Waits until those that were told to end have left; one that keeps dirty bytes keeps its place.
    pub fn wait_for_leaving(&self) -> Result<()> {
        let Some(site) = &self.site else { return Ok(()) };
        let began = Instant::now();
        loop {
            let members = report::nodes(site)?.members;
            let stays = |other: &Other| {
                let found = members.iter().find(|member| member.name == other.name);
                found.is_some_and(|found| found.may_answer() && found.dirty_bytes == Some(0))
            };
            if !self.nodes.iter().any(stays) || began.elapsed() >= PATIENCE {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn gone(node: &NodeReport) -> String {
    let dirty = node
        .dirty_bytes
        .map_or("what its list of dirty files said, which cannot be read,".into(), |bytes| ByteSize(bytes).to_string());
    format!(
        "node {} is gone: {dirty} lie on its flash alone, and could not be brought back. 'headstart cluster forget {}' \
         gives them up",
        node.name, node.name
    )
}
