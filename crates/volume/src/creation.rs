//! `create`: an empty volume on flash. The disk is not written.
//!
//! What flash may hold already is looked for first, and named; only a detached volume is replaced without
//! being told to. What the slice's beginning held is overwritten with zeros, so that no tool takes the flash
//! for what it was.

use headstart_block::devices::{Device, Devices, Failed};
use headstart_block::layout::GUARD_BLOCKS_MAX;
use headstart_block::recovery;
use headstart_block::superblock::{Found, Serving, Uuid};
use headstart_units::BLOCK_BYTES;
use headstart_units::ByteSize;

use crate::control::directory;
use crate::ends::{Ends, Reading};
use crate::pair::{Pair, flash_bytes_min};
use crate::signatures;

/// What was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Name of the volume.
    pub uuid: Uuid,
    /// The slice.
    pub flash_bytes: u64,
    /// What was overwritten.
    pub replaced: Vec<String>,
}

/// Why nothing was created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The slice.
    #[error("{device}: it has {}, less than the slice of {} that was asked for", ByteSize(*bytes), ByteSize(*asked))]
    SliceTooLarge {
        /// The flash.
        device: String,
        /// What it has.
        bytes: u64,
        /// What was asked for.
        asked: u64,
    },
    /// The slice.
    #[error("a slice of {} is too small for a volume; it needs at least \
        {}", ByteSize(*.0), ByteSize(flash_bytes_min()))]
    SliceTooSmall(u64),
    /// Flash holds something.
    #[error("{device}: it holds {}; --force overwrites that", what.join(" and "))]
    NotEmpty {
        /// The flash.
        device: String,
        /// What.
        what: Vec<String>,
    },
    /// The disk has other flash.
    #[error(
        "{0}: its ends are guarded by another volume, whose flash may have newer bytes; detach that \
         volume first, or, if its flash is gone for good, take the guard off with 'headstart volume detach --force --hdd {0}'"
    )]
    Guarded(String),
    /// A device.
    #[error("{0}")]
    Device(String),
    /// No name could be made.
    #[error("cannot make a name for the volume: {0}")]
    Name(std::io::Error),
}

/// What a volume may be created on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Free {
    /// The slice, in whole blocks.
    pub flash_bytes: u64,
    /// What it holds that is given up.
    pub held: Vec<String>,
}

/// Looks whether a volume may be created, with a slice of so many bytes, or of all there are.
pub fn look(pair: &mut Pair, flash_bytes: Option<u64>, force: bool) -> Result<Free, CreateError> {
    let device = pair.flash.name.to_string();
    let asked = flash_bytes.unwrap_or(pair.flash.bytes);
    if asked > pair.flash.bytes {
        return Err(CreateError::SliceTooLarge { device, bytes: pair.flash.bytes, asked });
    }
    let flash_bytes = asked / BLOCK_BYTES * BLOCK_BYTES;
    if flash_bytes < flash_bytes_min() {
        return Err(CreateError::SliceTooSmall(asked));
    }
    let io = |device: String| move |source: std::io::Error| CreateError::Device(format!("{device}: {source}"));
    match Ends::read(&pair.disk).map_err(io(pair.disk.name.to_string()))?.judge() {
        Reading::Plain(_) | Reading::Neither(None) => {}
        Reading::Guarded(..) | Reading::Both(..) | Reading::Neither(Some(_)) | Reading::Mixed(_) => {
            return Err(CreateError::Guarded(pair.disk.name.to_string()));
        }
    }
    let held = holds(pair)?;
    if !held.is_empty() && !force {
        return Err(CreateError::NotEmpty { device, what: held });
    }
    Ok(Free { flash_bytes, held })
}

/// Creates a volume where one may be.
pub fn create(pair: &mut Pair, free: Free, serving: Serving) -> Result<Created, CreateError> {
    let Free { flash_bytes, held } = free;
    let uuid = new_uuid().map_err(CreateError::Name)?;
    write(pair, serving, uuid, flash_bytes)
        .map_err(|failed| CreateError::Device(pair.describe(failed)))?
        .then_some(Created { uuid, flash_bytes, replaced: held })
        .ok_or(CreateError::SliceTooSmall(flash_bytes))
}

fn write(pair: &mut Pair, serving: Serving, uuid: Uuid, flash_bytes: u64) -> Result<bool, Failed> {
    let zeros = vec![0; ((2 + 2 * GUARD_BLOCKS_MAX) * BLOCK_BYTES) as usize];
    pair.write(Device::Flash, 0, &zeros)?;
    if flash_bytes + BLOCK_BYTES > pair.flash.bytes {
        let end = &zeros[..(GUARD_BLOCKS_MAX * BLOCK_BYTES) as usize];
        pair.write(Device::Flash, pair.flash.bytes - end.len() as u64, end)?;
    }
    pair.flush(Device::Flash)?;
    let mut given = pair.given(false, None);
    given.flash_bytes = flash_bytes;
    recovery::create(pair, &given, uuid, GUARD_BLOCKS_MAX, serving)
}

/// What flash holds that somebody may miss.
fn holds(pair: &mut Pair) -> Result<Vec<String>, CreateError> {
    let mut what = Vec::new();
    let superblocks = recovery::superblocks(pair).map_err(|failed| CreateError::Device(pair.describe(failed)))?;
    let detached = superblocks.iter().filter_map(|found| match found {
        Found::Valid(volume) if volume.detached => Some((volume.uuid, volume.number)),
        _ => None,
    });
    let detached: Vec<(Uuid, u64)> = detached.collect();
    for found in superblocks {
        let said = match found {
            // Both places say so, unless the detach ended between the two.
            Found::Valid(volume) if detached.iter().any(|it| it.0 == volume.uuid && it.1 >= volume.number) => continue,
            Found::Valid(volume) => format!("the volume {}, which was not detached", directory::name(&volume.uuid)),
            Found::OtherFormat(_) => "a volume of another version of Headstart".into(),
            Found::Damaged => "a damaged volume".into(),
            Found::Unreadable => "something that cannot be read where a volume would begin".into(),
            Found::Nothing => continue,
        };
        if !what.contains(&said) {
            what.push(said);
        }
    }
    let ends = Ends::read(&pair.flash)
        .map_err(|source| CreateError::Device(format!("{}: cannot read it: {source}", pair.flash.name)))?;
    let found = signatures::recognised(&ends).into_iter().filter(|name| *name != signatures::HEADSTART);
    what.extend(found.map(String::from));
    Ok(what)
}

fn new_uuid() -> std::io::Result<Uuid> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    let uuid = uuid::Uuid::parse_str(text.trim()).map_err(std::io::Error::other)?;
    Ok(*uuid.as_bytes())
}
