//! `headstart calibrate`: measures two tiers in real time and writes the site file.
//!
//! What to measure and what follows from it is `calibration` in `core`; here are the files, the clock and the words.

mod load;
mod plots;
mod results;
mod scratch;
mod target;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_agent::site::Site;
use headstart_insight::calibration::findings::Striping;
use headstart_insight::calibration::schedule::{Planned, Tier, loads};
use headstart_insight::calibration::{Load, Measured, Pattern};
use headstart_units::request::Direction;
use headstart_units::{ByteSize, GIB};
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupts::Interrupts;
use headstart_cli::printing::refuse_unwritable;
use results::{Calibration, TierResult, span};
use target::{Target, is_same};

/// Minutes without an option, and of `--quick`.
const MINUTES: f64 = 6.0;
const MINUTES_QUICK: f64 = 1.5;
/// Shares of the time for writing scratch files; the rest is for measuring. A tier without a scratch file
/// leaves its share to that.
const FILL_SHARE_SLOW: f64 = 0.25;
const FILL_SHARE_FAST: f64 = 0.08;
/// Flash needs no long distances.
const FAST_SIZE_MAX: u64 = GIB;
/// What a shell says of a program that Ctrl-C ended.
const EXIT_INTERRUPTED: u8 = 130;

/// Measure both tiers and write the site file
///
/// In a directory one scratch file is written, measured and removed; nothing else there is touched. A device
/// (or a file that stands for one) is only read, unless --overwrite-device is given: its write costs are then
/// taken to be its read costs.
///
/// Measured are random reads and writes of 4 KiB to 16 MiB and streams, each 1 to 32 at a time and with as
/// many as there are ranks, seeks by distance, and the latencies of small reads over 1 GB and over all there
/// is. The machine and both tiers should be idle; 'chrt -f 40 headstart calibrate ...' at least keeps other
/// programs of the node from making replies look late.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// The disks: a directory, a block device, or a file that stands for one
    #[arg(long, value_name = "DIR|DEV")]
    slow: PathBuf,
    /// The flash: a directory, a block device, or a file that stands for one
    #[arg(long, value_name = "DIR|DEV")]
    fast: PathBuf,
    /// The site file to write [default: the one that all commands read]. One that something else wrote is not
    /// overwritten; of one written here capacity, include, exclude and [agent] are kept
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The managed directory to write into the site file if --slow is a device
    #[arg(long, value_name = "DIR")]
    slow_directory: Option<PathBuf>,
    /// The directory on flash to write into the site file if --fast is a device
    #[arg(long, value_name = "DIR")]
    fast_directory: Option<PathBuf>,
    /// Processes at work at the same time on this site
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    ranks: u32,
    /// Disk servers of the slow directory's files [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    hdd_servers: Option<u32>,
    /// Flash servers of the fast directory's files [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    ssd_servers: Option<u32>,
    /// Bytes of a stripe of the slow directory's files [default: 64KiB]
    #[arg(long)]
    stripe: Option<ByteSize>,
    /// How much of the disks is measured, and the scratch file's size there; flash: the same up to 1 GiB
    #[arg(long, default_value = "10GB")]
    size: ByteSize,
    /// How long it may take in all, scratch files included [default: 6]
    #[arg(long, conflicts_with = "quick")]
    minutes: Option<f64>,
    /// A minute and a half in all: rougher figures
    #[arg(long)]
    quick: bool,
    /// Write to devices too: what is on them is lost
    #[arg(long)]
    overwrite_device: bool,
    /// Measure even what memory seems to serve
    #[arg(long)]
    accept_cached: bool,
    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Draw each curve as an SVG in this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// Whatever ends a calibration before its end.
struct Stopped;

/// The time for the loads to come, of which each has its share: what one overran, all that follow do without.
struct TimeLeft {
    until: Instant,
    nominal_s: f64,
}

impl TimeLeft {
    /// How long the next load may take, whose share is `nominal_s`.
    fn of(&mut self, nominal_s: f64) -> f64 {
        let left_s = self.until.saturating_duration_since(Instant::now()).as_secs_f64();
        let share = nominal_s / self.nominal_s.max(nominal_s);
        self.nominal_s -= nominal_s;
        left_s * share
    }
}

impl Calibrate {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let minutes = self.minutes.unwrap_or(if self.quick { MINUTES_QUICK } else { MINUTES });
        if !(0.01..=24.0 * 60.0).contains(&minutes) {
            bail!("--minutes {minutes}: it is a time from 0.01 minutes to a day");
        }
        if self.stripe.is_some_and(|stripe| stripe.0 == 0) {
            bail!("--stripe 0: a stripe has at least one byte; leave it out for 64KiB");
        }
        let output = self.output.clone().unwrap_or_else(|| Site::locate(site));
        let kept = results::kept_settings(&output)?;
        let mut slow = Target::open(Tier::Slow, &self.slow, self.size.0, self.overwrite_device)?;
        let mut fast = Target::open(Tier::Fast, &self.fast, self.size.0.min(FAST_SIZE_MAX), self.overwrite_device)?;
        if is_same(&slow.path, &fast.path) {
            bail!("--slow and --fast are the same: {}", slow.path.display());
        }
        let directories = (
            site_directory(&slow, "--slow-directory", self.slow_directory.as_deref())?,
            site_directory(&fast, "--fast-directory", self.fast_directory.as_deref())?,
        );
        if directories.0.starts_with(&directories.1) || directories.1.starts_with(&directories.0) {
            let (slow, fast) = (directories.0.display(), directories.1.display());
            bail!("the slow and the fast directory must not lie inside each other, as {slow} and {fast} do");
        }
        // Not only after minutes of measuring.
        [Some(&output), self.report.as_ref()].into_iter().flatten().try_for_each(|path| refuse_unwritable(path))?;
        if let Some(directory) = &self.plots {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let interrupts = Interrupts::listen()?;
        let seconds = minutes * 60.0;
        match self.measure_both(&mut slow, &mut fast, seconds, &interrupts)? {
            Err(Stopped) => {
                eprintln!("headstart: interrupted; nothing was written");
                Ok(ExitCode::from(EXIT_INTERRUPTED))
            }
            Ok(measured) => {
                drop((slow, fast));
                let calibration = Calibration::of(measured.0, measured.1, self.ranks)?;
                calibration.print();
                calibration.write_site(&output, directories, kept)?;
                if let Some(path) = &self.report {
                    calibration.write_report(path)?;
                }
                if let Some(directory) = &self.plots {
                    plots::draw(&calibration, directory)?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    /// Both tiers, with progress.
    fn measure_both(
        &self,
        slow: &mut Target,
        fast: &mut Target,
        seconds: f64,
        interrupts: &Interrupts,
    ) -> Result<std::result::Result<(TierResult, TierResult), Stopped>> {
        let stopped = || interrupts.so_far() > 0;
        let fill_share = |target: &Target| match target.tier {
            _ if !target.is_directory() => 0.0,
            Tier::Slow => FILL_SHARE_SLOW,
            Tier::Fast => FILL_SHARE_FAST,
        };
        let measuring_s = seconds * (1.0 - fill_share(slow) - fill_share(fast));
        announce(slow, seconds * fill_share(slow));
        announce(fast, seconds * fill_share(fast));
        eprintln!("measures for {}, with {} ranks at most at work", duration(measuring_s), self.ranks.max(32));
        let mut warnings = Vec::new();
        for target in [&mut *slow, &mut *fast] {
            fill(target, seconds * fill_share(target), &stopped)?;
            if !stopped() && !self.accept_cached {
                warnings.extend(target.refuse_cached(&stopped)?);
            }
        }
        let planned = [&*slow, &*fast].map(|target| loads(target.tier, target.span_bytes, self.ranks, target.writes));
        let mut time = TimeLeft {
            until: Instant::now() + Duration::from_secs_f64(measuring_s),
            nominal_s: planned.iter().flatten().map(|planned| planned.seconds).sum(),
        };
        let bar = ProgressBar::new((measuring_s * 10.0) as u64);
        let style = ProgressStyle::with_template("measuring {bar:30} {percent:>3} % {eta:>4} {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        let mut results = Vec::new();
        for (target, planned) in [&*slow, &*fast].into_iter().zip(&planned) {
            let measured = measure_tier(target, planned, &mut time, &bar, &stopped)?;
            let striping = self.striping(target);
            results.push(TierResult::of(target, measured, striping));
        }
        bar.finish_and_clear();
        if stopped() {
            return Ok(Err(Stopped));
        }
        for warning in warnings {
            eprintln!("headstart: {warning}");
        }
        let fast = results.pop().expect("two tiers were measured");
        Ok(Ok((results.pop().expect("two tiers were measured"), fast)))
    }

    fn striping(&self, target: &Target) -> Striping {
        let servers = if target.tier == Tier::Slow { self.hdd_servers } else { self.ssd_servers };
        Striping { servers: servers.unwrap_or(1), stripe_bytes: self.stripe.map_or(64 << 10, |stripe| stripe.0) }
    }
}

/// The directory of a tier that the site file names.
fn site_directory(target: &Target, option: &str, given: Option<&Path>) -> Result<PathBuf> {
    match given {
        None if target.is_directory() => Ok(target.path.clone()),
        None => bail!(
            "{} is a device and the site file names directories: say with {option} where its file system is mounted",
            target.path.display()
        ),
        Some(path) => {
            let path = path.canonicalize().with_context(|| format!("{option} {}: not found", path.display()))?;
            if !path.is_dir() {
                bail!("{option} {}: not a directory", path.display());
            }
            Ok(path)
        }
    }
}

fn announce(target: &Target, fill_s: f64) {
    let span = span(target.span_bytes);
    let (name, path) = (target.name(), target.path.display());
    match (target.is_directory(), target.writes) {
        (true, _) => {
            eprintln!("{name} {path}: writes a scratch file of {span} at most, for {} at most", duration(fill_s))
        }
        (false, true) => eprintln!("{name} {path}: measures its first {span} and overwrites them"),
        (false, false) => {
            eprintln!("{name} {path}: reads its first {span}; writes are not measured (--overwrite-device would)");
        }
    }
}

fn fill(target: &mut Target, seconds: f64, stopped: &impl Fn() -> bool) -> Result<()> {
    let bar = ProgressBar::new(target.span_bytes);
    let style = ProgressStyle::with_template("writing the scratch file {bar:30} {bytes}/{total_bytes} {bytes_per_sec}");
    bar.set_style(style.expect("the template is well-formed"));
    let wanted = target.span_bytes;
    let outcome = target.prepare(Duration::from_secs_f64(seconds), |bytes| {
        bar.set_position(bytes);
        !stopped()
    });
    bar.finish_and_clear();
    if stopped() {
        // What there is of it is too little, but that is not why.
        return Ok(());
    }
    outcome?;
    if target.span_bytes < wanted {
        eprintln!(
            "headstart: {}: {} were written in time instead of {}; that is what is measured",
            target.path.display(),
            ByteSize(target.span_bytes),
            ByteSize(wanted)
        );
    }
    Ok(())
}

fn measure_tier(
    target: &Target,
    planned: &[Planned],
    time: &mut TimeLeft,
    bar: &ProgressBar,
    stopped: &(impl Fn() -> bool + Sync),
) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for (seed, planned) in planned.iter().enumerate() {
        if stopped() {
            break;
        }
        bar.set_message(format!("{}: {}", target.name(), in_words(&planned.load)));
        let begun = Instant::now();
        let stretched = Planned { seconds: time.of(planned.seconds), ..*planned };
        let found = load::measure(target.file(), &stretched, seed as u64, stopped)
            .with_context(|| format!("{}: {}", target.path.display(), in_words(&planned.load)))?;
        measured.push(found);
        bar.inc((begun.elapsed().as_secs_f64() * 10.0) as u64);
    }
    Ok(measured)
}

/// A load, for people who wait for it.
fn in_words(load: &Load) -> String {
    let what = match load.direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
    };
    let size = ByteSize(load.size_bytes);
    match load.pattern {
        Pattern::Random => format!("random {what} of {size}, {} at a time, over {}", load.depth, span(load.span_bytes)),
        Pattern::Sequential => format!("a stream of {what}, {} at a time", load.depth),
        Pattern::Parts => format!("{} streams of {what} of {size}", load.depth),
        Pattern::Gapped => format!("{} streams of {what} of {size} with gaps", load.depth),
        Pattern::Pieces { stride_bytes } => {
            format!("{what} of {size}, each {} behind the last, {} at a time", ByteSize(stride_bytes), load.depth)
        }
        Pattern::Seek { distance_bytes } => format!("seeks over {}", ByteSize(distance_bytes)),
        Pattern::Again => "reads of what the drive holds".into(),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.1} minutes", seconds / 60.0),
    }
}
