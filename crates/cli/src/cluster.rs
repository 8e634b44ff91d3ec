//! `headstart cluster`: the nodes that share a directory.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use headstart_agent::client::Client;
use headstart_agent::cluster::report::{self, NodeReport};
use headstart_agent::site::Site;
use headstart_agent::status::{ClusterStatus, Command, Status};
use headstart_units::ByteSize;
use serde::Serialize;

use crate::confirming::confirm;

/// A call on the membership service is worth a line when it takes so long (assumed).
const SLOW_MS: u64 = 1000;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes, what each keeps, and who waits for whom
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say that a node is down which had the directory to itself: the next one goes on with what it had synced
    Down {
        /// Its name, as 'headstart cluster status' has it
        node: String,

        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Give up a node that does not come back, and what only its flash has
    Forget {
        /// Its name, as 'headstart cluster status' has it
        node: String,

        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl ClusterCommand {
    /// Whether it changes nothing.
    pub fn only_prints(&self) -> bool {
        matches!(self, ClusterCommand::Status { .. })
    }

    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let site = Site::load(&Site::locate(site))?;
        match self {
            ClusterCommand::Status { json } => status(&site, *json),
            ClusterCommand::Down { node, yes } => down(&site, node, *yes),
            ClusterCommand::Forget { node, yes } => forget(&site, node, *yes),
        }
    }
}

/// A node, as the list of nodes and its agent know it.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    listed: NodeReport,
    /// What its agent says; nothing if it was not asked, or has not answered.
    agent: Option<Said>,
    /// Why it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What an agent says of itself.
#[derive(Serialize)]
struct Said {
    #[serde(flatten)]
    cluster: ClusterStatus,
    mapped_bytes: u64,
    /// As it is now; what is listed may be a second old.
    dirty_now_bytes: u64,
    threads: u64,
}

impl Said {
    fn of(status: Status) -> Said {
        let Status { mapped_bytes, dirty_bytes, threads, files_known, .. } = status;
        // One that has the directory to itself has all its files so.
        let alone = ClusterStatus { files_alone: files_known, ..ClusterStatus::default() };
        Said { cluster: status.cluster.unwrap_or(alone), mapped_bytes, dirty_now_bytes: dirty_bytes, threads }
    }
}

fn status(site: &Site, json: bool) -> Result<ExitCode> {
    let nodes = report::nodes(site)?;
    let own = Client::ask_living(site, &Command::Status)?;
    let rows: Vec<Row> = nodes.members.into_iter().map(|listed| row(site, listed, own.as_ref())).collect();
    if json {
        let own = own.and_then(|status| status.cluster);
        let value = serde_json::json!({ "nodes": { "members": rows }, "agent": own });
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(ExitCode::SUCCESS);
    }
    print(site, &rows, own.is_some());
    Ok(ExitCode::SUCCESS)
}

/// Other nodes are asked through this node's agent, if there is one.
fn row(site: &Site, listed: NodeReport, own: Option<&Status>) -> Row {
    let answer = match own {
        Some(own) if listed.is_this => Ok(Some(own.clone())),
        Some(_) if listed.is_other() && listed.may_answer() => {
            let at = Command::At { node: listed.name.clone(), what: Box::new(Command::Status) };
            Client::ask_living(site, &at)
        }
        _ => Ok(None),
    };
    let (said, error) = match answer {
        Ok(said) => (said, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Row { listed, agent: said.map(Said::of), error }
}

fn print(site: &Site, rows: &[Row], is_served: bool) {
    if rows.is_empty() {
        println!("no node has {}; 'headstart run' begins", site.slow.display());
        return;
    }
    let size = |bytes: u64| ByteSize(bytes).to_string();
    println!(
        "{:<20} {:>6}  {:<8} {:>5} {:>9} {:>11} {:>11} {:>11} {:>11}  listens at",
        "node", "number", "is", "view", "deadline", "own files", "shared", "on flash", "dirty"
    );
    for Row { listed, agent, .. } in rows {
        let of = |text: fn(&Said) -> String| agent.as_ref().map_or("-".into(), text);
        println!(
            "{:<20} {:>6}  {:<8} {:>5} {:>9} {:>11} {:>11} {:>11} {:>11}  {}",
            listed.name,
            listed.number,
            listed.is,
            of(|said| said.cluster.view.to_string()),
            of(|said| said.cluster.deadline_ms.map_or("none".into(), |ms| format!("{:.1} s", ms as f64 / 1e3))),
            of(|said| said.cluster.files_alone.to_string()),
            of(|said| said.cluster.files_shared.to_string()),
            of(|said| ByteSize(said.mapped_bytes).to_string()),
            agent.as_ref().map(|said| said.dirty_now_bytes).or(listed.dirty_bytes).map_or("-".into(), size),
            listed.addresses.first().map_or("-".into(), ToString::to_string),
        );
    }
    for Row { listed, agent, error } in rows {
        if let Some(error) = error {
            println!("{}: {error}", listed.name);
        }
        let Some(Said { cluster, .. }) = agent else { continue };
        if !cluster.waits_for.is_empty() {
            println!("{} waits for {}", listed.name, cluster.waits_for.join(", "));
        }
        for path in &cluster.files_missing {
            println!(
                "{path}: it is not there, and dirty bytes of it are on the flash of {}: nodes that use it wait",
                listed.name
            );
        }
        if let Some(ms) = cluster.asked_for_ms.filter(|ms| *ms >= SLOW_MS) {
            let seconds = ms as f64 / 1e3;
            println!("{}: the membership service has not answered for {seconds:.1} s", listed.name);
        }
    }
    if !is_served {
        println!("no agent runs on this node, so that those of other nodes were not asked");
    }
}

fn forget(site: &Site, node: &str, yes: bool) -> Result<ExitCode> {
    let lost = report::what_is_lost(site, node)?;
    match lost.dirty_bytes {
        0 => println!("node {node} listed nothing as dirty; what it had absorbed since is lost"),
        bytes => {
            println!("{} of {} files that node {node} listed as dirty are lost for good", ByteSize(bytes), lost.files)
        }
    }
    confirm(yes, &format!("Is node {node} gone for good, and to be given up?"), "given up")?;
    report::forget(site, node)?;
    println!("node {node} is no member of {} any more", site.slow.display());
    Ok(ExitCode::SUCCESS)
}

fn down(site: &Site, node: &str, yes: bool) -> Result<ExitCode> {
    println!("what programs do that still run on node {node} counts no more, and what they read may be old");
    confirm(yes, &format!("Is node {node} down, with all programs that ran there?"), "changed")?;
    report::down(site, node)?;
    println!("the next node that uses {} goes on with what {node} had synced", site.slow.display());
    Ok(ExitCode::SUCCESS)
}
