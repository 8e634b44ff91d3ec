//! `headstart volume create`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_core::units::ByteSize;
use headstart_core::volume::layout::{GUARD_BLOCKS_MAX, Segments};
use headstart_core::volume::policy::liu::{HEAD_BYTES_MAX, Sizes};
use headstart_core::volume::superblock::Serving;
use headstart_volume::control::directory;
use headstart_volume::creation::{Creation, create};
use headstart_volume::pair::Pair;
use headstart_volume::settings::{Mode, PolicyName};

use super::Devices;

#[derive(Debug, Args)]
#[command(
    after_help = "The disk is not written: its file systems stay as they are, and 'headstart volume detach' gives it back at any time. \
    While the volume is served the first and the last MiB of the disk are hidden, so that nobody mounts it past the flash."
)]
pub struct Create {
    #[command(flatten)]
    devices: Devices,

    /// How much of the flash to use: the first SIZE bytes of it [default: all]
    #[arg(long, value_name = "SIZE")]
    ssd_size: Option<ByteSize>,

    /// When writes are acknowledged: on flash or disk, or on disk alone. Kept in the volume; 'serve' may say otherwise
    #[arg(long, value_name = "write-back|write-through", default_value_t)]
    mode: Mode,

    /// What goes to flash. Kept in the volume; 'serve' may say otherwise, but liu only where there is room for heads, which auto, liu and liu,itransformer make
    #[arg(long, value_name = PolicyName::KNOWN, default_value_t = PolicyName::ITransformer)]
    policy: PolicyName,

    /// LiU: length of a segment of the disk; `headstart calibrate` finds what fits a disk
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(Sizes::PAPER.segment_bytes))]
    segment: ByteSize,

    /// LiU: length of a segment's head, which goes to flash
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(Sizes::PAPER.head_bytes))]
    head: ByteSize,

    /// Overwrite what the flash holds: a file system, a partition table, a volume
    #[arg(long)]
    force: bool,
}

impl Create {
    pub fn execute(&self) -> Result<ExitCode> {
        let mut pair = Pair::open(&self.devices.hdd, &self.devices.ssd)?;
        let flash_bytes = self.ssd_size.map(|size| size.0);
        let segments = match self.policy.has_liu() {
            true => self.segments(flash_bytes.unwrap_or(pair.flash.bytes))?,
            false => Segments::default(),
        };
        let write_through = self.mode == Mode::WriteThrough;
        let serving = Serving { write_through, policy: self.policy.number(), segments };
        let created = create(&mut pair, &Creation { flash_bytes, serving, force: self.force })?;
        let (hdd, ssd) = (&self.devices.hdd, &self.devices.ssd);
        println!("volume     {}", directory::name(&created.uuid));
        println!("disk       {hdd}, {}, {}; not written", ByteSize(pair.disk.bytes), pair.disk.identity_text());
        println!("flash      {ssd}, its first {}", ByteSize(created.flash_bytes));
        if !created.replaced.is_empty() {
            println!("replaced   {}", created.replaced.join(" and "));
        }
        println!("served     {}, policy {}", self.mode, self.policy);
        if !segments.is_none() {
            let sizes = (ByteSize(segments.segment_bytes()), ByteSize(segments.head_bytes()));
            println!("heads      room for {}, of {} of each segment of {}", segments.slots, sizes.1, sizes.0);
        }
        println!("next: headstart volume serve --hdd {hdd} --ssd {ssd} --nbd SOCKET (or --mount-file FILE)");
        Ok(ExitCode::SUCCESS)
    }

    fn segments(&self, flash_bytes: u64) -> Result<Segments> {
        let sizes = (self.segment.0, self.head.0);
        if !(Sizes { segment_bytes: sizes.0, head_bytes: sizes.1 }).are_sound() {
            bail!("--head {}: it is at least 4 KiB, at most {HEAD_BYTES_MAX} bytes and less than --segment", self.head);
        }
        let segments = Segments::new(flash_bytes, GUARD_BLOCKS_MAX, sizes, self.policy.heads_percent());
        segments.with_context(|| format!("{} of flash have no room for a head of {}", ByteSize(flash_bytes), self.head))
    }
}
