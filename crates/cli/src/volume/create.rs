//! `headstart volume create`.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_block::layout::GUARD_BLOCKS_MAX;
use headstart_block::superblock::Serving;
use headstart_policy::server::liu;
use headstart_policy::server::liu::{Basis, HEAD_BYTES_MAX, Origin, Sizes};
use headstart_policy::server::segments::Segments;
use headstart_units::BLOCK_BYTES;
use headstart_units::ByteSize;
use headstart_volume::control::directory;
use headstart_volume::creation;
use headstart_volume::pair::Pair;
use headstart_volume::settings::{Mode, PolicyName};

use super::{Devices, Found, heads};

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

    /// What goes to flash. Kept in the volume; 'serve' may say otherwise, but liu only where there is room
    /// for heads, which auto, liu and liu,itransformer make
    ///
    /// itransformer: for many streams or random writes at once; flash is a log of writes that survives power loss.
    ///
    /// liu: for parts of the disk that are read again and again while little is written; flash holds the
    /// heads of their segments, and 256 MiB of memory whole segments.
    ///
    /// auto: both, for a disk of which neither is known, or that sees both; it takes the memory too.
    ///
    /// liu,itransformer: as auto, and not served where there is no room for heads.
    ///
    /// none: writes alone, as long as flash has room.
    #[arg(long, value_name = PolicyName::KNOWN, default_value_t = PolicyName::ITransformer)]
    policy: PolicyName,

    /// LiU: length of a segment of the disk, its head included
    /// [default: from a measurement of the disk, of a few seconds, that writes nothing]
    #[arg(long, value_name = "SIZE", requires = "head")]
    segment: Option<ByteSize>,

    /// LiU: length of a segment's head, which goes to flash [default: likewise]
    #[arg(long, value_name = "SIZE", requires = "segment")]
    head: Option<ByteSize>,

    /// Overwrite what the flash holds: a file system, a partition table, a volume
    #[arg(long)]
    force: bool,
}

impl Create {
    pub fn execute(&self) -> Result<ExitCode> {
        let given = self.given()?;
        let Found { hdd, ssd } = self.devices.find()?;
        let mut pair = Pair::open(&hdd, &ssd)?;
        let free = creation::look(&mut pair, self.ssd_size.map(|size| size.0), self.force)?;
        let (segments, basis) = match self.policy.has_liu() {
            true => self.segments(&pair, given, free.flash_bytes)?,
            false => Default::default(),
        };
        let write_through = self.mode == Mode::WriteThrough;
        let serving = Serving { write_through, policy: self.policy.number(), segments, basis };
        let created = creation::create(&mut pair, free, serving)?;
        println!("volume     {}", directory::name(&created.uuid));
        println!("disk       {hdd}, {}, {}; not written", ByteSize(pair.disk.bytes), pair.disk.identity_text());
        println!("flash      {ssd}, its first {}", ByteSize(created.flash_bytes));
        if !created.replaced.is_empty() {
            println!("replaced   {}", created.replaced.join(" and "));
        }
        println!("served     {}, policy {}", self.mode, self.policy);
        if !segments.is_none() {
            println!("{}", heads(segments.slots, segments.head_bytes(), segments.segment_bytes()));
            println!("sizes      {basis}");
        }
        match &self.devices.name {
            Some(name) => println!("next: systemctl enable --now headstart-volume@{name}"),
            None => {
                println!("next: headstart volume serve --hdd {hdd} --ssd {ssd} --nbd SOCKET (or --mount-file FILE)")
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The sizes that the user named, if any.
    fn given(&self) -> Result<Option<Sizes>> {
        let (Some(ByteSize(segment_bytes)), Some(ByteSize(head_bytes))) = (self.segment, self.head) else {
            return Ok(None);
        };
        let sizes = Sizes { segment_bytes, head_bytes };
        if !self.policy.has_liu() {
            bail!(
                "--segment, --head: policy {} has no segments; they are for liu, liu,itransformer and auto",
                self.policy
            );
        }
        for (option, bytes) in [("--segment", segment_bytes), ("--head", head_bytes)] {
            if !bytes.is_multiple_of(BLOCK_BYTES) {
                bail!("{option} {bytes}: lengths are multiples of 4 KiB");
            }
        }
        if !sizes.are_sound() {
            bail!(
                "--head {}: a head has at least 4KiB, at most {}KiB, and is shorter than its segment of {}",
                ByteSize(head_bytes),
                HEAD_BYTES_MAX >> 10,
                ByteSize(segment_bytes)
            );
        }
        let buffer_bytes = liu::Settings::default().buffer_bytes;
        if segment_bytes > buffer_bytes {
            bail!(
                "--segment {}: LiU loads segments whole, into {} of memory",
                ByteSize(segment_bytes),
                ByteSize(buffer_bytes)
            );
        }
        Ok(Some(sizes))
    }

    /// Room for heads, as many as the policy wants.
    fn segments(&self, pair: &Pair, given: Option<Sizes>, flash_bytes: u64) -> Result<(Segments, Basis)> {
        let (sizes, basis) = match given {
            Some(sizes) if sizes.segment_bytes > pair.disk.bytes => bail!(
                "--segment {}: {} has {}",
                ByteSize(sizes.segment_bytes),
                pair.disk.name,
                ByteSize(pair.disk.bytes)
            ),
            Some(sizes) => (sizes, Origin::Given.into()),
            None => self.measured(pair)?,
        };
        let bytes = (sizes.segment_bytes, sizes.head_bytes);
        let segments = Segments::new(flash_bytes, GUARD_BLOCKS_MAX, bytes, self.policy.heads_percent());
        let (flash, head) = (ByteSize(flash_bytes), ByteSize(sizes.head_bytes));
        let segments = segments.with_context(|| format!("{flash} of flash have no room for a head of {head}"))?;
        Ok((segments, basis))
    }

    /// Sizes that fit the devices.
    fn measured(&self, pair: &Pair) -> Result<(Sizes, Basis)> {
        if pair.has_disk_to_measure() && std::io::stderr().is_terminal() {
            eprintln!("measuring {} for a few seconds; nothing is written", pair.disk.name);
        }
        let chosen = pair.probe()?;
        if !chosen.hides_positioning {
            eprintln!(
                "headstart: {} takes longer for a head than {} to begin with the body: LiU cannot hide the positioning",
                pair.flash.name, pair.disk.name
            );
        }
        Ok((chosen.sizes, chosen.basis))
    }
}
