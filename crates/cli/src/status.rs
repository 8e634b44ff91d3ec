//! `headstart status`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use headstart_agent::client::Client;
use headstart_agent::site::Site;
use headstart_agent::status::{Command, Counters, RequestCounters, Status};
use headstart_protocol::counters::Figure;
use headstart_protocol::counters::families;
use headstart_protocol::counters::families::Family;
use headstart_units::ByteSize;

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StatusArguments {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let site = Site::load(&Site::locate(site))?;
        let Some(status) = Client::ask_living(&site, &Command::Status)? else {
            if self.json {
                println!("{}", serde_json::json!({ "running": false, "slow": site.slow, "fast": site.fast }));
            } else {
                println!("no agent runs for {}; 'headstart run' starts one", site.slow.display());
            }
            if Client::is_orphaned(&site) {
                eprintln!("headstart: the last one was killed; nothing it acknowledged is lost: see 'headstart check'");
            }
            return Ok(ExitCode::SUCCESS);
        };
        if self.json {
            let mut value = serde_json::to_value(&status)?;
            value["running"] = true.into();
            println!("{}", serde_json::to_string_pretty(&value)?);
        } else {
            print(&status);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(status: &Status) {
    let size = |bytes| ByteSize(bytes).to_string();
    println!("slow       {}", status.slow);
    println!("fast       {}", status.fast);
    println!("agent      process {}, {} threads of programs", status.pid, status.threads);
    println!("capacity   {} ({})", status.capacity, size(status.capacity_bytes));
    println!(
        "on flash   {} in {} extents, {} of it dirty{}{}",
        size(status.mapped_bytes),
        status.extents,
        size(status.dirty_bytes),
        if status.draining { ", being written back" } else { "" },
        if status.durable { ", safe against power loss" } else { "" },
    );
    if status.strangers > 0 {
        println!(
            "strangers  {} programs live that the library is not in: nothing comes to flash until they have ended",
            status.strangers
        );
    }
    if let Some(cluster) = &status.cluster {
        println!(
            "cluster    one of {} nodes in view {}, as {}: {} files to itself, {} that others use too, on the disks{}{}",
            cluster.members,
            cluster.view,
            cluster.name,
            cluster.files_alone,
            cluster.files_shared,
            if cluster.waits_for.is_empty() {
                String::new()
            } else {
                format!("; waits for {}", cluster.waits_for.join(", "))
            },
            match cluster.deadline_ms {
                Some(0) => "; programs wait until the membership service has answered",
                _ => "",
            }
        );
    }
    print_placement(status);
    for (name, patterns) in [("include", &status.include), ("exclude", &status.exclude)] {
        if !patterns.is_empty() {
            println!("{name:<10} {}", patterns.join(" "));
        }
    }
    let (moved, service) = (&status.agent, &status.service);
    println!(
        "moved      {} written back in {} batches of {} ({} extents, {} seeks avoided), {} fetched, {} extents evicted",
        size(moved.written_back_bytes_total),
        moved.write_backs_total,
        size(moved.written_back_bytes_total / moved.write_backs_total.max(1)),
        moved.written_back_extents_total,
        moved.seeks_avoided_total,
        size(moved.fetched_bytes_total),
        moved.evicted_extents_total
    );
    println!(
        "journal    {} appended, replaced {} times; {} barriers",
        size(service.journal_appended_bytes_total),
        service.journal_rotations_total,
        moved.barriers_total
    );
    print_requests(&status.requests);
    print_waits(moved);
    for file in status.files.iter().filter(|file| file.dirty_bytes > 0) {
        let error = file.error.as_deref().map(|error| format!(", last write-back failed: {error}"));
        println!("dirty      {} in {}{}", size(file.dirty_bytes), one_line(&file.path), error.unwrap_or_default());
    }
}

/// Regions that belong on flash.
fn print_placement(status: &Status) {
    let placement = &status.placement;
    if placement.files == 0 {
        return;
    }
    let of = |placed, wanted| format!("{} of {}", ByteSize(placed), ByteSize(wanted));
    println!(
        "regions    {} in {} files{}",
        of(placement.placed_bytes, placement.wanted_bytes),
        placement.files,
        match (placement.following, placement.running) {
            (true, _) => ", which follow what programs read",
            (false, true) => ", being copied",
            (false, false) => "",
        }
    );
    for file in
        status.file_placements.iter().filter(|file| file.placed_bytes < file.wanted_bytes || file.error.is_some())
    {
        let error = file.error.as_deref().map(|error| format!(", last copy failed: {error}"));
        println!(
            "           {} in {}{}",
            of(file.placed_bytes, file.wanted_bytes),
            one_line(&file.path),
            error.unwrap_or_default()
        );
    }
}

/// Where the requests went, and why they were not served from flash: each reason with its share.
fn print_requests(requests: &RequestCounters) {
    let all = requests.sum(&families::REQUESTS, &[]);
    println!(
        "requests   {all}, {:.1} % on flash, {} questions to the agent",
        100.0 * requests.flash_share(),
        requests.round_trips_total
    );
    let label = |figure: &Figure, name: &str| figure.labels.iter().find(|(of, _)| *of == name).map(|(_, value)| *value);
    let mut rows: Vec<_> = requests
        .figures()
        .filter(|(figure, count)| *figure.family == families::REQUESTS && *count > 0)
        .map(|(figure, count)| (count, figure, requests.sum(&families::REQUEST_BYTES, figure.labels)))
        .collect();
    rows.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    for (count, figure, bytes) in rows {
        let outcome = label(figure, "outcome").unwrap_or("");
        let why = label(figure, "reason").map(|reason| format!(": {}", reason.replace('_', " ")));
        let what = format!("{}s, {outcome}{}", label(figure, "direction").unwrap_or(""), why.unwrap_or_default());
        let share = 100.0 * count as f64 / all as f64;
        println!("           {share:5.1} %  {what:<34} {count:>10} requests  {}", ByteSize(bytes));
    }
}

/// What requests waited for in the agent.
fn print_waits(counters: &Counters) {
    let of = |family: &Family, labels: &[(&str, &str)]| {
        let mut figures = counters.figures();
        figures.find(|(figure, _)| figure.family == family && figure.labels == labels).map_or(0, |(_, value)| value)
    };
    let waits = counters.figures().filter(|(figure, count)| *figure.family == families::WAITS && *count > 0);
    for (figure, count) in waits {
        let ms = |family| of(family, figure.labels) as f64 / 1e6;
        println!(
            "waits      {count} for {}, {:.3} ms in the mean, {:.3} ms at most",
            figure.labels[0].1.replace('_', " "),
            ms(&families::WAIT_SECONDS) / count as f64,
            ms(&families::WAIT_SECONDS_MAX)
        );
    }
}

/// A name as one line, whatever is in it.
fn one_line(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
