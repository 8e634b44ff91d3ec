//! The statistics as a table for people.

use std::fmt;

use super::{Latency, MountStats, TestbedStats};

fn ms(ns: u64) -> f64 {
    ns as f64 * 1e-6
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 20) as f64
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max, mean] = [self.p50_ns, self.p99_ns, self.max_ns, self.mean_ns].map(ms);
        write!(f, "p50 {p50:.3}  p99 {p99:.3}  max {max:.3}  mean {mean:.3} ms")
    }
}

impl fmt::Display for MountStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} reads {:.1} MiB, {} writes {:.1} MiB, {} flushes, {} in flight",
            self.name,
            self.read_count,
            mib(self.read_bytes),
            self.write_count,
            mib(self.write_bytes),
            self.flush_count,
            self.in_flight
        )?;
        writeln!(f, "  service           {}", self.service)?;
        writeln!(f, "  reply lateness    {}", self.lateness)?;
        writeln!(f, "  arrival lateness  {}", self.arrival_lateness)?;
        match &self.void {
            Some(reason) => writeln!(f, "  VOID: {reason}")?,
            None => writeln!(f, "  timing holds")?,
        }
        writeln!(f, "  server   requests        MiB   commands  mean seek MiB    busy s  mean depth  max depth")?;
        for (index, server) in self.servers.iter().enumerate() {
            writeln!(f, "  {index:>6} {server}")?;
        }
        let volumes = || self.servers.iter().enumerate().filter_map(|(index, server)| Some((index, server.volume?)));
        if volumes().next().is_some() {
            writeln!(
                f,
                "  volume    log MiB  bypassed  diverted  written back MiB  dirty MiB  fetched MiB  staged reads MiB  held p99 ms"
            )?;
        }
        for (index, volume) in volumes() {
            writeln!(
                f,
                "  {index:>6} {:>10.1} {:>9} {:>9} {:>17.1} {:>10.1} {:>12.1} {:>17.1} {:>12.1}",
                mib(volume.absorbed_bytes_total),
                volume.bypassed_writes_total,
                volume.diverted_writes_total,
                mib(volume.written_back_bytes_total),
                mib(volume.dirty_bytes),
                mib(volume.fetched_bytes_total),
                mib(volume.staged_read_bytes_total),
                volume.held_ms_p99
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for TestbedStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "testbed {} (process {}), time scale {}, at {:.3}",
            self.config.name, self.process, self.config.time_scale, self.time_seconds
        )?;
        for refused in &self.real_time.refused {
            writeln!(f, "not permitted: {refused}")?;
        }
        self.mounts.iter().try_for_each(|mount| write!(f, "{mount}"))
    }
}
