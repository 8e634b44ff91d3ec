//! `headstart cluster`: the nodes that share a directory.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Subcommand;
use headstart_agent::client::Client;
use headstart_agent::cluster::report::{self, Nodes};
use headstart_agent::site::Site;
use headstart_agent::status::{ClusterStatus, Command};
use headstart_units::ByteSize;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes, what each keeps, and who waits for whom
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
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
            ClusterCommand::Forget { node, yes } => forget(&site, node, *yes),
        }
    }
}

fn status(site: &Site, json: bool) -> Result<ExitCode> {
    let nodes = report::nodes(site)?;
    let own = Client::ask_living(site, &Command::Status)?.and_then(|status| status.cluster);
    if json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "nodes": nodes, "agent": own }))?);
        return Ok(ExitCode::SUCCESS);
    }
    print(site, &nodes, own.as_ref());
    Ok(ExitCode::SUCCESS)
}

fn print(site: &Site, nodes: &Nodes, own: Option<&ClusterStatus>) {
    if nodes.members.is_empty() {
        println!("no node has {}; 'headstart run' begins", site.slow.display());
        return;
    }
    println!("{:<20} {:>6}  {:<9} {:<24} {:>12}", "node", "number", "is", "listens at", "dirty");
    for member in &nodes.members {
        let addresses = member.addresses.first().map_or("-".into(), ToString::to_string);
        let dirty = member.dirty_bytes.map_or("-".into(), |bytes| ByteSize(bytes).to_string());
        println!("{:<20} {:>6}  {:<9} {addresses:<24} {dirty:>12}", member.name, member.number, member.is);
    }
    if let Some(own) = own {
        let left = own
            .deadline_ms
            .map_or("no deadline".into(), |ms| format!("programs go on for {:.1} s more", ms as f64 / 1e3));
        println!("view {} of {} members; {left}", own.view, own.members);
        if !own.waits_for.is_empty() {
            println!("this node waits for {}", own.waits_for.join(", "));
        }
        for path in &own.files_missing {
            println!("{path}: it is not there, and dirty bytes of it are on this node's flash: nodes that use it wait");
        }
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
    if !yes {
        if !std::io::stdin().is_terminal() {
            bail!("nothing was given up: --yes says that it is meant");
        }
        print!("Is node {node} gone for good, and to be given up? Type 'yes': ");
        std::io::stdout().flush()?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        if answer.trim() != "yes" {
            bail!("nothing was given up");
        }
    }
    report::forget(site, node)?;
    println!("node {node} is no member of {} any more", site.slow.display());
    Ok(ExitCode::SUCCESS)
}
