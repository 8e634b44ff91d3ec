//! Scenarios under server policies: MB/s of every job, and what the volumes did.
//!
//! `cargo run --release -p headstart-sim --example server_policy -- POLICY[,...] FILE [KEY=VALUE ...]`,
//! policies separated by `/`; each further argument sets a key of `[volume]` for runs of its own
//! (`threshold_percent=40`).

use headstart_sim::scenario::{Scenario, ServerPolicy};
use headstart_sim::{Options, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let policies = arguments.next().ok_or("which policies?")?;
    let text = std::fs::read_to_string(arguments.next().ok_or("which scenario?")?)?;
    let settings: Vec<String> = arguments.collect();
    for policy in policies.split('/') {
        let server_policy: ServerPolicy = policy.parse()?;
        let settings = if settings.is_empty() { vec![String::new()] } else { settings.clone() };
        for setting in settings {
            let text = text.replace("[volume]", &format!("[volume]\n{setting}"));
            let scenario = Scenario { server_policy, ..Scenario::from_toml(&text)? };
            let report = run(&scenario, Options::default())?;
            print!("{policy:18} {setting:24}");
            for job in &report.jobs {
                let bytes: u64 = job.phases.iter().map(|phase| phase.read_bytes + phase.write_bytes).sum();
                let in_requests: f64 = job.phases.iter().map(|phase| phase.rank_s_max).sum();
                let rate = |seconds: f64| bytes as f64 * 1e-6 / seconds;
                print!("  {} {:.1} ({:.1} in requests)", job.name, rate(job.seconds), rate(in_requests));
            }
            println!();
            if let Some(volume) = report.disk.first().and_then(|server| server.volume) {
                println!("    {}", serde_json::to_string(&volume)?);
            }
        }
    }
    Ok(())
}
