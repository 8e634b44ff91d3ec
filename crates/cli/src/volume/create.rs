//! `headstart volume create`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use headstart_core::units::ByteSize;
use headstart_core::volume::superblock::Serving;
use headstart_volume::control::directory;
use headstart_volume::creation::{Creation, create};
use headstart_volume::pair::Pair;
use headstart_volume::settings::Mode;

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

    /// What says which writes go to flash: iTransformer, or all up to a size. Kept in the volume; 'serve' may say otherwise
    #[arg(long, default_value = "itransformer")]
    policy: Policy,

    /// Overwrite what the flash holds: a file system, a partition table, a volume
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    Itransformer,
    None,
}

impl Create {
    pub fn execute(&self) -> Result<ExitCode> {
        let mut pair = Pair::open(&self.devices.hdd, &self.devices.ssd)?;
        let policy = match self.policy {
            Policy::None => 0,
            Policy::Itransformer => 1,
        };
        let serving = Serving { write_through: self.mode == Mode::WriteThrough, policy, ..Serving::default() };
        let flash_bytes = self.ssd_size.map(|size| size.0);
        let created = create(&mut pair, &Creation { flash_bytes, serving, force: self.force })?;
        let (hdd, ssd) = (&self.devices.hdd, &self.devices.ssd);
        let name = self.policy.to_possible_value().expect("every policy has a name");
        println!("volume     {}", directory::name(&created.uuid));
        println!("disk       {hdd}, {}, {}; not written", ByteSize(pair.disk.bytes), pair.disk.identity_text());
        println!("flash      {ssd}, its first {}", ByteSize(created.flash_bytes));
        if !created.replaced.is_empty() {
            println!("replaced   {}", created.replaced.join(" and "));
        }
        println!("served     {}, policy {}", self.mode, name.get_name());
        println!("next: headstart volume serve --hdd {hdd} --ssd {ssd} --nbd SOCKET (or --mount-file FILE)");
        Ok(ExitCode::SUCCESS)
    }
}
