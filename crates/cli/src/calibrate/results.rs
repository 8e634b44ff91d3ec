//! What a calibration found: the site file, a report, and words.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use headstart_agent::site::{AgentSettings, ClusterSettings, CostModels, Site};
use headstart_insight::Software;
use headstart_insight::calibration::findings;
use headstart_insight::calibration::findings::{Costs, Pieces, Segment, Striping};
use headstart_insight::calibration::schedule::NEAR_SPAN_BYTES;
use headstart_insight::calibration::{BLOCK_BYTES, Disk, Flash, Measured, Pattern};
use headstart_policy::cost::{benefit, region};
use headstart_units::ByteSize;
use headstart_units::request::Direction;
use serde_json::{Value, json};

use super::target::Target;

/// First line of a site file that a calibration may overwrite.
const MARK: &str = "# Written by 'headstart calibrate'";

/// A model whose fit is further off than this is worth a warning.
const FIT_ERROR_MAX: f64 = 0.15;

/// All that was measured of a tier.
pub struct TierResult {
    pub path: PathBuf,
    pub span_bytes: u64,
    pub is_direct: bool,
    pub writes: bool,
    pub striping: Striping,
    pub measured: Vec<Measured>,
}

impl TierResult {
    pub fn of(target: &Target, measured: Vec<Measured>, striping: Striping) -> TierResult {
        TierResult {
            path: target.path.clone(),
            span_bytes: target.span_bytes,
            is_direct: target.is_direct,
            writes: target.writes,
            striping,
            measured,
        }
    }

    fn report(&self) -> Value {
        let loads = self.measured.iter().map(|found| {
            let quantile = |q| found.latencies.quantile_s(q);
            json!({
                "load": found.load, "count": found.latencies.count(), "bytes_per_s": found.bytes_per_s(),
                "mean_s": found.mean_s(), "p50_s": quantile(0.5), "p80_s": quantile(0.8), "p99_s": quantile(0.99),
            })
        });
        json!({
            "path": self.path, "span_bytes": self.span_bytes, "direct_io": self.is_direct, "writes": self.writes,
            "servers": self.striping, "loads": loads.collect::<Vec<_>>(),
        })
    }
}

/// S4D's parameters and in how many of the cells they name the faster tier.
struct Fitted {
    parameters: benefit::Parameters,
    agree: usize,
    cells: usize,
}

/// What was found.
pub struct Calibration {
    pub slow: TierResult,
    pub fast: TierResult,
    pub ranks: u32,
    pub disk: Disk,
    pub flash: Flash,
    segment: Segment,
    read: Fitted,
    /// None if writes of a tier were not measured.
    write: Option<Fitted>,
    carl: region::Costs,
    pieces: Option<Pieces>,
}

impl Calibration {
    /// Draws the conclusions.
    pub fn of(slow: TierResult, fast: TierResult, ranks: u32) -> Result<Calibration> {
        let disk = Disk::of(&slow.measured, slow.striping)?;
        let flash = Flash::of(&fast.measured, fast.striping)?;
        let fitted = |direction| -> Result<Fitted> {
            let cells = findings::cells(&slow.measured, &fast.measured, direction, ranks);
            let (parameters, agree) =
                findings::s4d(direction, &disk, slow.striping, fast.striping, slow.span_bytes, &cells)?;
            Ok(Fitted { parameters, agree, cells: cells.priced.len() })
        };
        let carl = |disk: &Costs, flash: &Costs, s4d: &benefit::Parameters| {
            findings::carl(disk, slow.striping, flash, fast.striping, s4d)
        };
        let pieces = Pieces::of(&slow.measured);
        let read = fitted(Direction::Read)?;
        let read_costs = carl(&disk.read, &flash.read, &read.parameters);
        let (write, write_costs) = match (&disk.write, &flash.write) {
            (Some(disk), Some(flash)) => {
                let mut write = fitted(Direction::Write)?;
                write.parameters.write_back_leap_bytes = pieces.map_or(0, Pieces::leap_bytes);
                let costs = carl(disk, flash, &write.parameters);
                (Some(write), costs)
            }
            // What reads find beneath the disks says nothing of writes.
            _ => (None, region::Parameters { near_stays: false, interleaved_stays: false, ..read_costs.clone() }),
        };
        Ok(Calibration {
            segment: findings::segment(&disk, slow.striping, &flash),
            read,
            write,
            pieces,
            carl: region::Costs { read: read_costs, write: write_costs },
            slow,
            fast,
            ranks,
            disk,
            flash,
        })
    }

    /// Small random reads over the near span, if they were measured apart.
    fn near(&self) -> Option<&Measured> {
        self.slow
            .measured
            .iter()
            .find(|found| found.load.span_bytes == NEAR_SPAN_BYTES && found.load.pattern == Pattern::Random)
    }

    /// The findings, a line each.
    fn lines(&self) -> Vec<String> {
        let Disk { read, write, .. } = &self.disk;
        let mut lines = self.arm_lines();
        let costs = [("slow, reads", Some(read)), ("slow, writes", write.as_ref())];
        let flash_costs = [("fast, reads", Some(&self.flash.read)), ("fast, writes", self.flash.write.as_ref())];
        lines.extend(costs.into_iter().chain(flash_costs).flat_map(|(name, costs)| cost_lines(name, costs)));
        lines.extend(self.s4d_lines());
        lines.extend(self.pieces.map(pieces_line));
        lines.push(self.segment_line());
        lines
    }

    /// What the disks' arm takes.
    fn arm_lines(&self) -> Vec<String> {
        let Disk { p80_s, seek, .. } = &self.disk;
        let mut lines = Vec::new();
        let near = self.near().and_then(|found| found.latencies.quantile_s(findings::POSITIONING_SHARE));
        let near = near.map_or(String::new(), |seconds| format!(", {} over {}", ms(seconds), span(NEAR_SPAN_BYTES)));
        lines.push(format!(
            "slow, latency: four fifths of random reads of 4 KiB within {} over {}{near}",
            ms(*p80_s),
            span(self.slow.span_bytes)
        ));
        lines.push(format!(
            "slow, arm: R {}, S {} over {}, a read of what the drive holds {}",
            ms(seek.rotation_s),
            ms(seek.longest_s()),
            span(self.slow.span_bytes),
            ms(seek.overhead_s)
        ));
        if let Some(form) = &seek.form {
            lines.push(format!(
                "slow, seek time: {} + {:.1} ns per root of bytes up to {}, then {:.3} ms per GiB; fit of F + R within {}, at most {}",
                ms(form.alpha_s),
                form.beta_s * 1e9,
                ByteSize(form.knee_bytes),
                form.epsilon_s * (1u64 << 30) as f64 * 1e3,
                percent(form.error.rms),
                percent(form.error.max)
            ));
        }
        lines
    }

    /// What S4D's model says of the ranks.
    fn s4d_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, fitted) in [("reads", Some(&self.read)), ("writes", self.write.as_ref())] {
            let Some(Fitted { parameters, agree, cells }) = fitted else { continue };
            lines.push(format!(
                "S4D, {name} of {} ranks: 1/beta_D {}, 1/beta_C {}; the model names the faster tier in {agree} of {cells} cells",
                self.ranks,
                mb_s(1.0 / parameters.hdd_s_per_byte.max(1e-15)),
                mb_s(1.0 / parameters.ssd_s_per_byte.max(1e-15))
            ));
            if parameters.near_stays {
                lines.push(format!(
                    "S4D, {name} that follow each other: as soon on the slow tier as on flash and back, where they stay"
                ));
            }
            if parameters.interleaved_stays {
                lines.push(format!(
                    "S4D, {name} of ranks that go through a file together: as soon on the slow tier as on flash and back, where they stay"
                ));
            }
        }
        lines
    }

    /// What LiU makes of a server.
    fn segment_line(&self) -> String {
        let Segment { head_bytes_least, head_bytes, body_bytes, flash_head_s, positioning_s } = self.segment;
        format!(
            "LiU, a server: head {} (at least {}), body {} (85 % of the rate at {}); flash delivers a head in {}, the disk begins after {}",
            ByteSize(head_bytes),
            size(head_bytes_least),
            ByteSize(body_bytes),
            size(self.disk.read.transfer.knee_bytes() / f64::from(self.slow.striping.servers)),
            ms(flash_head_s),
            ms(positioning_s)
        )
    }

    /// What should make somebody think before the site file is used.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let median = |tier: &TierResult| {
            let small = findings::random(&tier.measured, Direction::Read, BLOCK_BYTES, 1);
            small.and_then(|found| found.latencies.quantile_s(0.5))
        };
        if median(&self.fast) >= median(&self.slow) {
            warnings.push(format!(
                "{} is no faster than {}: are --slow and --fast exchanged?",
                self.fast.path.display(),
                self.slow.path.display()
            ));
        } else if !self.segment.hides_positioning() {
            warnings
                .push("flash takes longer for a head than the disk to begin: LiU cannot hide the positioning".into());
        }
        for tier in [&self.slow, &self.fast].into_iter().filter(|tier| !tier.is_direct) {
            warnings.push(format!("{} refuses O_DIRECT: caches may be in the figures", tier.path.display()));
        }
        if self.write.is_none() {
            warnings.push("writes were not measured: the site file gives them the costs of reads".into());
        }
        let fits =
            [("reads of the slow tier", Some(&self.disk.read)), ("writes of the slow tier", self.disk.write.as_ref())];
        for (name, costs) in fits {
            if let Some(costs) = costs.filter(|costs| costs.error.rms > FIT_ERROR_MAX) {
                let error = costs.error.rms * 100.0;
                warnings.push(format!("CARL's equations are {error:.0} % off the latencies of {name}: see the report"));
            }
        }
        warnings
    }

    /// Prints the findings, and warnings apart.
    pub fn print(&self) {
        self.lines().iter().for_each(|line| println!("{line}"));
        self.warnings().iter().for_each(|warning| eprintln!("headstart: {warning}"));
    }

    /// Everything, as JSON.
    pub fn write_report(&self, path: &Path) -> Result<()> {
        let fitted = |fitted: &Fitted| {
            json!({
                "parameters": fitted.parameters, "agree": fitted.agree, "cells": fitted.cells,
            })
        };
        let report = json!({
            "ranks": self.ranks, "slow": self.slow.report(), "fast": self.fast.report(),
            "disk": self.disk, "flash": self.flash, "knee_bytes": self.disk.read.transfer.knee_bytes(),
            "segment": self.segment, "pieces": self.pieces, "s4d": { "read": fitted(&self.read), "write": self.write.as_ref().map(fitted) },
            "carl": self.carl, "warnings": self.warnings(),
        });
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("cannot write the report {}", path.display()))
    }

    /// Writes the site file and reads it back as every command will.
    pub fn write_site(&self, path: &Path, directories: (PathBuf, PathBuf), kept: Kept) -> Result<()> {
        let read = self.read.parameters.clone();
        let of_reads = || benefit::Parameters { near_stays: false, interleaved_stays: false, ..read.clone() };
        let write = self.write.as_ref().map_or_else(of_reads, |fitted| fitted.parameters.clone());
        let site = Site {
            slow: directories.0,
            fast: directories.1,
            capacity: kept.capacity.or(Some("20%".into())),
            include: kept.include,
            exclude: kept.exclude,
            strangers: kept.strangers,
            s4d: CostModels { read, write },
            carl: Some(self.carl.clone()),
            software: kept.software,
            agent: kept.agent,
            cluster: kept.cluster,
        };
        let mut text = format!("{MARK}: measured with up to {} ranks at work.\n#\n", self.ranks);
        for line in self.lines().iter().chain(&self.warnings()) {
            let _ = writeln!(text, "# {line}");
        }
        text += &format!("\n{}", site.to_toml());
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        }
        std::fs::write(path, text).with_context(|| format!("cannot write the site file {}", path.display()))?;
        Site::load(path)?;
        println!("site file {}", path.display());
        Ok(())
    }
}

/// A span in the unit it was asked for in: gigabytes of a thousand megabytes, or as sizes are written.
pub fn span(bytes: u64) -> String {
    match (bytes + BLOCK_BYTES - 1) / NEAR_SPAN_BYTES {
        count if count > 0 && bytes.abs_diff(count * NEAR_SPAN_BYTES) < BLOCK_BYTES => format!("{count} GB"),
        _ => ByteSize(bytes).to_string(),
    }
}

/// What a new site file takes over from the one before.
#[derive(Default)]
pub struct Kept {
    capacity: Option<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    strangers: Option<String>,
    software: Option<Software>,
    agent: Option<AgentSettings>,
    cluster: Option<ClusterSettings>,
}

/// What people set in a site file that was written here. One that something else wrote is not overwritten.
pub fn kept_settings(path: &Path) -> Result<Kept> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if !text.starts_with(MARK) {
        bail!(
            "{} was not written by 'headstart calibrate'; name another file with -o, or move it away",
            path.display()
        );
    }
    let site: Site = toml::from_str(&text)
        .with_context(|| format!("{} is no longer a site file; repair it or move it away", path.display()))?;
    let Site { capacity, include, exclude, strangers, software, agent, cluster, .. } = site;
    Ok(Kept { capacity, include, exclude, strangers, software, agent, cluster })
}

/// What requests of a kind cost.
fn cost_lines(name: &str, costs: Option<&Costs>) -> Vec<String> {
    let Some(costs) = costs else { return vec![format!("{name}: not measured, taken to cost what reads do")] };
    let mut lines = Vec::new();
    lines.push(format!(
        "{name}: {} + {} at random (fit within {}), stream {}, at most {}",
        ms(costs.transfer.startup_s),
        mb_s(1.0 / costs.transfer.s_per_byte.max(1e-15)),
        percent(costs.transfer.error.rms),
        mb_s(costs.sequential_bytes_per_s),
        mb_s(costs.peak_bytes_per_s)
    ));
    if name.starts_with("slow") {
        lines.push(format!(
            "{name}, CARL: startup {} to {}, {:.2} ns a byte (within {})",
            ms(costs.startup.min_s),
            ms(costs.startup.max_s),
            costs.s_per_byte * 1e9,
            percent(costs.error.rms)
        ));
    }
    lines
}

/// In which order short pieces are written back.
fn pieces_line(pieces: Pieces) -> String {
    let Pieces { in_order_s, with_leaps_s } = pieces;
    let choice = match pieces.leap_bytes() {
        0 => "in order".into(),
        leap_bytes => format!("with leaps of {}", ByteSize(leap_bytes.into())),
    };
    format!(
        "slow, short pieces with gaps: {} in order, {} with leaps; they are written back {choice}",
        ms(in_order_s),
        ms(with_leaps_s)
    )
}

fn ms(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

fn mb_s(bytes_per_s: f64) -> String {
    format!("{:.1} MB/s", bytes_per_s / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn size(bytes: f64) -> String {
    ByteSize(bytes as u64).to_string()
}
