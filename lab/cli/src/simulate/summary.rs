//! A report as people read it.

use headstart_sim::Report;
use headstart_sim::report::{ServerReport, VolumeStats};
use headstart_units::ByteSize;

pub fn print(report: &Report) {
    println!("{}: {}, seed {}", report.name, report.policy, report.seed);
    if report.capacity_bytes > 0 {
        println!("flash       {}", ByteSize(report.capacity_bytes));
    }
    if report.placing_s > 0.0 {
        println!("placing     {:.3} s before the jobs", report.placing_s);
    }
    println!("jobs        {:.3} s, {:.1} MB/s", report.seconds, report.mb_per_s());
    println!("all clean   {:.3} s, {:.1} MB/s", report.drained_s, report.drained_mb_per_s());
    println!("job                 phase     seconds       MB/s   requests    mean ms     p50 ms     p99 ms   on flash");
    for job in &report.jobs {
        for phase in &job.phases {
            let name = phase.name.unwrap_or("-");
            println!(
                "{:<15} {name:>9} {:>11.3} {:>10.1} {:>10} {:>10.3} {:>10.3} {:>10.3} {:>9.1}%",
                job.name,
                phase.seconds,
                phase.mb_per_s,
                phase.reads + phase.writes,
                phase.latency.mean_ms,
                phase.latency.p50_ms,
                phase.latency.p99_ms,
                phase.flash_share * 100.0
            );
        }
    }
    println!("servers          busy %   requests   commands    seek mean   queue");
    servers("disk", &report.disk);
    servers("flash", &report.flash);
    report.disk.iter().filter_map(|server| server.volume).take(SERVERS_SHOWN).for_each(|volume| self::volume(&volume));
    if let Some(overlay) = &report.overlay {
        println!(
            "written back {}, fetched {}, {} round trips, {} requests without one, {} barriers",
            ByteSize(overlay.written_back_bytes),
            ByteSize(overlay.fetched_bytes),
            overlay.round_trips,
            overlay.cheap_requests,
            overlay.barriers
        );
    }
}

fn volume(volume: &VolumeStats) {
    println!(
        "volume: absorbed {} (kept up to {:.1} ms), written back {} in {}, bypassed {} writes, diverted {}",
        ByteSize(volume.absorbed_bytes_total),
        volume.paced_ms_max,
        ByteSize(volume.written_back_bytes_total),
        volume.write_backs_total,
        volume.bypassed_writes_total,
        volume.diverted_writes_total,
    );
    println!(
        "        fetched {}, staged {}, read from there {}; held up to {:.1} ms, p99 {:.1}; {} checkpoints",
        ByteSize(volume.fetched_bytes_total),
        ByteSize(volume.staged_bytes_total),
        ByteSize(volume.staged_read_bytes_total),
        volume.held_ms_max,
        volume.held_ms_p99,
        volume.checkpoints_total,
    );
}

/// A few servers one by one, of many the mean.
const SERVERS_SHOWN: usize = 8;

fn servers(tier: &str, servers: &[ServerReport]) {
    let line = |name: String, server: &[ServerReport]| {
        let count = server.len().max(1) as f64;
        let mean = |figure: &dyn Fn(&ServerReport) -> f64| server.iter().map(figure).sum::<f64>() / count;
        println!(
            "{name:<15} {:>7.1} {:>10.0} {:>10.0} {:>12} {:>7.2}",
            mean(&|server| server.busy * 100.0),
            mean(&|server| (server.reads + server.writes) as f64),
            mean(&|server| server.commands as f64),
            ByteSize(mean(&|server| server.seek_bytes_mean) as u64).to_string(),
            mean(&|server| server.queue_depth_mean),
        );
    };
    if servers.len() > SERVERS_SHOWN {
        return line(format!("{tier}, mean of {}", servers.len()), servers);
    }
    servers
        .iter()
        .enumerate()
        .for_each(|(index, server)| line(format!("{tier} {index}"), std::slice::from_ref(server)));
}
