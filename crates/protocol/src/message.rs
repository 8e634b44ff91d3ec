//! Messages on the agent's SEQPACKET socket: one packet a message, little-endian, a byte of kind first.
//!
//! ```text
//! request: kind u8 | slot u32 | seq u64 | fields in the order of the enum | rest of the packet: bytes (path or text)
//! reply:   kind u8 | slot u32 | seq u64 | fields                          | rest of the packet
//! ```
//!
//! Every request carries (slot, seq); after the agent's death the library sends the pending one again,
//! unchanged, and the agent answers a `Commit` its journal already holds without applying it again. Flash
//! pieces and slabs do not travel in messages: the agent writes them into the slot before it replies.
//! Descriptors travel with two of them, beside the packet (SCM_RIGHTS): for processes that cannot reach by
//! its path what they need any more.

mod fields;

use headstart_policy::cost::benefit::Parameters;

use fields::{REGION_BYTES, Reader, Writer, decode_parameters, encode_parameters};
pub use fields::{decode_regions, encode_regions};

/// Room a buffer for one request or reply of the data path needs. Control messages may be longer.
pub const MESSAGE_MAX: usize = 16 * 1024;

/// Regions that one reply holds.
pub const REGIONS_PER_REPLY: usize = 600;

const _: () = assert!(REGIONS_PER_REPLY * REGION_BYTES + 64 <= MESSAGE_MAX);

/// In place of a data file's number: the shared file.
pub const THE_SHARED_FILE: u32 = u32::MAX;

/// Slot of a thread that has none.
pub const NO_SLOT: u32 = u32::MAX;

/// A packet that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub struct DecodeError;

/// From the library (or the command line) to the agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// First message of a thread: gives it a slot, or the one it has, at an agent that was started anew.
    /// `slot` and `seq` of the envelope are zero.
    Hello {
        /// `PROTOCOL_VERSION` of the library.
        version: u32,
        /// Process: as it sees itself, or as the slot that it has says. Of a new one the agent asks the socket.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Start time of the process, in clock ticks since boot, and above 40 bits its namespace of process
        /// numbers; or what the slot says.
        start_time: u64,
        /// The slot it has; [`NO_SLOT`] if none.
        slot: u32,
    },
    /// The process opened a slow file it did not have open. Answered by `Opened`.
    Open {
        /// `st_ino`.
        inode: u64,
        /// Birth time in nanoseconds since 1970, zero where the file system has none.
        birth_ns: u64,
        /// `st_size`.
        size: u64,
        /// Whether the descriptor can write.
        writable: bool,
        /// Absolute path.
        path: &'a [u8],
    },
    /// The process closed its last descriptor of the file.
    Close {
        /// The file's index.
        file: u32,
    },
    /// Asks for slabs that hold `length` bytes at a place equal to `offset` modulo 4096. Answered by `Done`
    /// with the slabs in the slot, or `NoSpace`.
    Slab {
        /// The file's index.
        file: u32,
        /// Offset of the write.
        offset: u64,
        /// Its length.
        length: u64,
    },
    /// The bytes of `offset, length` lie in the slab, on flash.
    Commit {
        /// The file's index.
        file: u32,
        /// Data file written to.
        data_file: u32,
        /// Offset in the slow file.
        offset: u64,
        /// Length.
        length: u64,
        /// Offset in the data file.
        place: u64,
    },
    /// Where do the bytes lie? Answered for a first part of the range by `Flash`, under a lease, or by `Disk` or
    /// `Sooner`, under one if it is asked for; by `Remote` as by the first two, where other nodes may change that.
    Read {
        /// The file's index.
        file: u32,
        /// First byte.
        offset: u64,
        /// Length.
        length: u64,
        /// Whether a read of the slow file is to be under a lease, as those without one were in vain.
        leased: bool,
        /// Whether it begins where the process's last request of the file ended, which may have needed no question.
        in_order: bool,
    },
    /// Do the bytes count that were read after a `Remote`? Answered by `Done`, or by `NoSpace`: they are asked for anew.
    Confirm {
        /// The file's index.
        file: u32,
    },
    /// May I write the slow file here? Answered by `Go`, under a lease.
    Write {
        /// The file's index.
        file: u32,
        /// First byte.
        offset: u64,
        /// Length.
        length: u64,
        /// Whether the write may extend the file.
        extends: bool,
    },
    /// The write granted before is done.
    WriteDone {
        /// The file's index.
        file: u32,
        /// First byte granted.
        offset: u64,
        /// Length granted.
        length: u64,
    },
    /// May I change the size? Answered by `Go`; then `TruncateDone`.
    Truncate {
        /// The file's index.
        file: u32,
        /// New size.
        size: u64,
    },
    /// The size was changed (`changed`), or the call failed.
    TruncateDone {
        /// The file's index.
        file: u32,
        /// New size.
        size: u64,
        /// Whether the kernel changed it.
        changed: bool,
    },
    /// May I have the kernel move bytes of the slow file that lie at `from` or behind it? Answered by `Go`
    /// once none of them is dirty on flash, durably; none comes to flash from then on, until `RearrangeDone`.
    Rearrange {
        /// The file's index.
        file: u32,
        /// The first byte that may change.
        from: u64,
    },
    /// The call has returned, whatever it did: what flash holds from there on is no more.
    RearrangeDone {
        /// The file's index.
        file: u32,
        /// As it was asked for.
        from: u64,
        /// How long the slow file is now.
        size: u64,
    },
    /// Everything acknowledged before must survive power loss; answered after a barrier begun since.
    Sync {
        /// The file's index.
        file: u32,
    },
    /// Dirty bytes of the range go back to disk before the answer.
    WriteBack {
        /// The file's index.
        file: u32,
        /// First byte.
        offset: u64,
        /// Length.
        length: u64,
    },
    /// The process uses the file by means the library does not see (a stream, a mapping) until it ends. Dirty
    /// bytes go back to disk before the answer; if it may write, clean ones leave flash too; and nothing
    /// comes to flash while it lives.
    Bypass {
        /// The file's index.
        file: u32,
        /// Whether it may write.
        writes: bool,
    },
    /// The last name of a file was removed, or a file was renamed over it: its dirty bytes need not go back
    /// once nobody has it open.
    Unlinked {
        /// `st_ino`.
        inode: u64,
    },
    /// A file has got another name, or is about to lose one of several. Answered once its bytes can be found
    /// by one that stays: if the agent knows of no other, they go back to disk, and none come to flash until
    /// it is opened by a name again.
    Name {
        /// `st_ino`.
        inode: u64,
        /// Whether the name is there from now on.
        stays: bool,
        /// Absolute path.
        path: &'a [u8],
    },
    /// Bytes written to the slow file may be refused from now on, whoever has it open: it was made immutable,
    /// or one to append to. Nothing of it comes to flash until it is opened for writing anew.
    Sealed {
        /// The file's index.
        file: u32,
    },
    /// Asks for a data file's descriptor, which comes with `Done`.
    Descriptor {
        /// Its number, or [`THE_SHARED_FILE`].
        data_file: u32,
    },
    /// With this comes a socket, which is one more connection. Not answered; the sender needs no slot.
    Connect,
    /// A program set the file's time of last write: it is no foreign change, and it holds until bytes are
    /// written. Answered by `Go` where the agent has set it at that moment itself: it is to be set again.
    TimesSet {
        /// `st_ino`.
        inode: u64,
        /// Birth time as in `Open`.
        birth_ns: u64,
    },
    /// Flash bytes of the range, which a lease named, could not be read. Clean ones are dropped (`Done`); an
    /// error if any is dirty.
    FlashFailed {
        /// The file's index.
        file: u32,
        /// First byte.
        offset: u64,
        /// Length.
        length: u64,
    },
    /// Which regions belong on flash? Answered by `Regions` with the first of those that begin at `from` or behind it.
    Regions {
        /// The file's index.
        file: u32,
        /// Where to begin.
        from: u64,
    },
    /// A path (a file, or a directory and all below it) has a new name.
    Renamed {
        /// Length of the old path; the rest of `paths` is the new one.
        old_length: u32,
        /// Whether what was at the new path has the old one now.
        exchanged: bool,
        /// Old and new absolute path, one after the other.
        paths: &'a [u8],
    },
    /// The slot is marked, and the agent should look: its ring fills, or the agent sleeps. Not answered.
    Marked,
    /// From the command line: a JSON object. Answered by `Control`.
    Control {
        /// JSON text.
        text: &'a [u8],
    },
}

/// From the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    /// Answer to `Hello`; the slot is in the envelope.
    Welcome(Welcome<'a>),
    /// Answer to `Open`.
    Opened {
        /// Index of the file in the shared table.
        file: u32,
        /// The site keeps it off flash: no byte of it is to be absorbed or fetched.
        excluded: bool,
    },
    /// Done.
    Done,
    /// No flash space now: write the slow file.
    NoSpace,
    /// Nothing of the file may come to flash now, as a process uses it unseen: write the slow file.
    Bypassed,
    /// Others' requests are in the way of a commit and do not end: write the slow file.
    HeldUp,
    /// A flash-read lease; the pieces are in the slot, in file order from the first byte asked for.
    Flash {
        /// Bytes from the first one on that the pieces cover.
        length: u64,
    },
    /// The slow file; under a lease if that was asked for.
    Disk {
        /// Bytes from the first one on that it covers.
        length: u64,
    },
    /// The same, of bytes that flash has as well, since the disks answer sooner.
    Sooner {
        /// Bytes from the first one on that it covers.
        length: u64,
    },
    /// Bytes that another node has, or that would be others if it died: as `Flash` or as `Disk`. What was read counts
    /// once that is confirmed.
    Remote {
        /// Bytes from the first one on.
        length: u64,
        /// As `Flash`.
        on_flash: bool,
    },
    /// Go ahead, under a direct-write lease.
    Go,
    /// Regions that belong on flash, by offset.
    Regions {
        /// Whether there are no others behind them.
        last: bool,
        /// The regions, as [`encode_regions`] writes them.
        packed: &'a [u8],
    },
    /// It failed; the program sees `errno`.
    Error {
        /// What the program's call returns.
        errno: i32,
        /// What to tell the user.
        text: &'a [u8],
    },
    /// Answer to `Control`: JSON text.
    Control {
        /// JSON text.
        text: &'a [u8],
    },
}

/// What a thread learns when it joins.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome<'a> {
    /// Cost model for reads.
    pub read: Parameters,
    /// Cost model for writes.
    pub write: Parameters,
    /// Absolute path of the slow directory.
    pub slow: &'a [u8],
    /// Absolute path of the fast directory.
    pub fast: &'a [u8],
}

/// Who sent a request, and its number; a reply repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Index of the slot.
    pub slot: u32,
    /// The slot's message number.
    pub seq: u64,
}

impl Envelope {
    /// That of a packet, whatever is in it.
    pub fn of(packet: &[u8]) -> Result<Envelope, DecodeError> {
        let mut r = Reader { rest: packet };
        r.u8()?;
        Ok(Envelope { slot: r.u32()?, seq: r.u64()? })
    }
}

impl<'a> Request<'a> {
    /// Writes the packet into `buffer`, replacing what it held.
    pub fn encode(&self, envelope: Envelope, buffer: &mut Vec<u8>) {
        buffer.clear();
        let mut w = Writer { buffer };
        let w = w.u8(self.kind()).u32(envelope.slot).u64(envelope.seq);
        match *self {
            Request::Hello { version, pid, tid, start_time, slot } => {
                w.u32(version).u32(pid).u32(tid).u64(start_time).u32(slot)
            }
            Request::Open { inode, birth_ns, size, writable, path } => {
                w.u64(inode).u64(birth_ns).u64(size).u8(writable.into()).bytes(path)
            }
            Request::Close { file } | Request::Sync { file } | Request::Sealed { file } | Request::Confirm { file } => {
                w.u32(file)
            }
            Request::Descriptor { data_file } => w.u32(data_file),
            Request::Connect | Request::Marked => w,
            Request::Slab { file, offset, length }
            | Request::WriteDone { file, offset, length }
            | Request::WriteBack { file, offset, length }
            | Request::FlashFailed { file, offset, length } => w.u32(file).u64(offset).u64(length),
            Request::Commit { file, data_file, offset, length, place } => {
                w.u32(file).u32(data_file).u64(offset).u64(length).u64(place)
            }
            Request::Read { file, offset, length, leased, in_order } => {
                w.u32(file).u64(offset).u64(length).u8(leased.into()).u8(in_order.into())
            }
            Request::Write { file, offset, length, extends } => w.u32(file).u64(offset).u64(length).u8(extends.into()),
            Request::Truncate { file, size } => w.u32(file).u64(size),
            Request::TruncateDone { file, size, changed } => w.u32(file).u64(size).u8(changed.into()),
            Request::Rearrange { file, from } | Request::Regions { file, from } => w.u32(file).u64(from),
            Request::RearrangeDone { file, from, size } => w.u32(file).u64(from).u64(size),
            Request::Bypass { file, writes } => w.u32(file).u8(writes.into()),
            Request::Unlinked { inode } => w.u64(inode),
            Request::Name { inode, stays, path } => w.u64(inode).u8(stays.into()).bytes(path),
            Request::TimesSet { inode, birth_ns } => w.u64(inode).u64(birth_ns),
            Request::Renamed { old_length, exchanged, paths } => w.u32(old_length).u8(exchanged.into()).bytes(paths),
            Request::Control { text } => w.bytes(text),
        };
    }

    fn kind(&self) -> u8 {
        match self {
            Request::Hello { .. } => 1,
            Request::Open { .. } => 2,
            Request::Close { .. } => 3,
            Request::Slab { .. } => 4,
            Request::Commit { .. } => 5,
            Request::Read { .. } => 6,
            Request::Write { .. } => 7,
            Request::WriteDone { .. } => 8,
            Request::Truncate { .. } => 9,
            Request::TruncateDone { .. } => 10,
            Request::Sync { .. } => 11,
            Request::WriteBack { .. } => 12,
            Request::Unlinked { .. } => 13,
            Request::Renamed { .. } => 14,
            Request::Control { .. } => 15,
            Request::Bypass { .. } => 16,
            Request::TimesSet { .. } => 17,
            Request::FlashFailed { .. } => 20,
            Request::Regions { .. } => 21,
            Request::Name { .. } => 22,
            Request::Rearrange { .. } => 23,
            Request::RearrangeDone { .. } => 24,
            Request::Descriptor { .. } => 25,
            Request::Connect => 26,
            Request::Sealed { .. } => 27,
            Request::Marked => 28,
            Request::Confirm { .. } => 29,
        }
    }

    /// Reads one packet.
    pub fn decode(packet: &'a [u8]) -> Result<(Envelope, Request<'a>), DecodeError> {
        let mut r = Reader { rest: packet };
        let kind = r.u8()?;
        let envelope = Envelope { slot: r.u32()?, seq: r.u64()? };
        let request = match kind {
            1 => {
                Request::Hello { version: r.u32()?, pid: r.u32()?, tid: r.u32()?, start_time: r.u64()?, slot: r.u32()? }
            }
            2 => Request::Open {
                inode: r.u64()?,
                birth_ns: r.u64()?,
                size: r.u64()?,
                writable: r.flag()?,
                path: r.all(),
            },
            3 => Request::Close { file: r.u32()? },
            4 => Request::Slab { file: r.u32()?, offset: r.u64()?, length: r.u64()? },
            5 => Request::Commit {
                file: r.u32()?,
                data_file: r.u32()?,
                offset: r.u64()?,
                length: r.u64()?,
                place: r.u64()?,
            },
            6 => Request::Read {
                file: r.u32()?,
                offset: r.u64()?,
                length: r.u64()?,
                leased: r.flag()?,
                in_order: r.flag()?,
            },
            7 => Request::Write { file: r.u32()?, offset: r.u64()?, length: r.u64()?, extends: r.flag()? },
            8 => Request::WriteDone { file: r.u32()?, offset: r.u64()?, length: r.u64()? },
            9 => Request::Truncate { file: r.u32()?, size: r.u64()? },
            10 => Request::TruncateDone { file: r.u32()?, size: r.u64()?, changed: r.flag()? },
            11 => Request::Sync { file: r.u32()? },
            12 => Request::WriteBack { file: r.u32()?, offset: r.u64()?, length: r.u64()? },
            13 => Request::Unlinked { inode: r.u64()? },
            14 => Request::Renamed { old_length: r.u32()?, exchanged: r.flag()?, paths: r.all() },
            15 => Request::Control { text: r.all() },
            16 => Request::Bypass { file: r.u32()?, writes: r.flag()? },
            17 => Request::TimesSet { inode: r.u64()?, birth_ns: r.u64()? },
            20 => Request::FlashFailed { file: r.u32()?, offset: r.u64()?, length: r.u64()? },
            21 => Request::Regions { file: r.u32()?, from: r.u64()? },
            22 => Request::Name { inode: r.u64()?, stays: r.flag()?, path: r.all() },
            23 => Request::Rearrange { file: r.u32()?, from: r.u64()? },
            24 => Request::RearrangeDone { file: r.u32()?, from: r.u64()?, size: r.u64()? },
            25 => Request::Descriptor { data_file: r.u32()? },
            26 => Request::Connect,
            27 => Request::Sealed { file: r.u32()? },
            28 => Request::Marked,
            29 => Request::Confirm { file: r.u32()? },
            _ => return Err(DecodeError),
        };
        r.end()?;
        Ok((envelope, request))
    }
}

impl<'a> Reply<'a> {
    /// Writes the packet into `buffer`, replacing what it held.
    pub fn encode(&self, envelope: Envelope, buffer: &mut Vec<u8>) {
        buffer.clear();
        let mut w = Writer { buffer };
        let w = w.u8(self.kind()).u32(envelope.slot).u64(envelope.seq);
        match self {
            Reply::Welcome(welcome) => {
                encode_parameters(w, &welcome.read);
                encode_parameters(w, &welcome.write);
                w.u32(welcome.slow.len() as u32).bytes(welcome.slow).bytes(welcome.fast)
            }
            Reply::Opened { file, excluded } => w.u32(*file).u8((*excluded).into()),
            Reply::Done | Reply::NoSpace | Reply::Bypassed | Reply::HeldUp | Reply::Go => w,
            Reply::Flash { length } | Reply::Disk { length } | Reply::Sooner { length } => w.u64(*length),
            Reply::Remote { length, on_flash } => w.u64(*length).u8((*on_flash).into()),
            Reply::Error { errno, text } => w.u32(*errno as u32).bytes(text),
            Reply::Control { text } => w.bytes(text),
            Reply::Regions { last, packed } => w.u8((*last).into()).bytes(packed),
        };
    }

    fn kind(&self) -> u8 {
        match self {
            Reply::Welcome(_) => 1,
            Reply::Opened { .. } => 2,
            Reply::Done => 3,
            Reply::NoSpace => 4,
            Reply::Flash { .. } => 5,
            Reply::Disk { .. } => 6,
            Reply::Go => 7,
            Reply::Error { .. } => 8,
            Reply::Control { .. } => 9,
            Reply::Bypassed => 10,
            Reply::Regions { .. } => 11,
            Reply::Sooner { .. } => 12,
            Reply::HeldUp => 13,
            Reply::Remote { .. } => 14,
        }
    }

    /// Reads one packet.
    pub fn decode(packet: &'a [u8]) -> Result<(Envelope, Reply<'a>), DecodeError> {
        let mut r = Reader { rest: packet };
        let kind = r.u8()?;
        let envelope = Envelope { slot: r.u32()?, seq: r.u64()? };
        let reply = match kind {
            1 => {
                let (read, write) = (decode_parameters(&mut r)?, decode_parameters(&mut r)?);
                let slow_length = r.u32()? as usize;
                Reply::Welcome(Welcome { read, write, slow: r.bytes(slow_length)?, fast: r.all() })
            }
            2 => Reply::Opened { file: r.u32()?, excluded: r.flag()? },
            3 => Reply::Done,
            4 => Reply::NoSpace,
            5 => Reply::Flash { length: r.u64()? },
            6 => Reply::Disk { length: r.u64()? },
            7 => Reply::Go,
            8 => Reply::Error { errno: r.u32()? as i32, text: r.all() },
            9 => Reply::Control { text: r.all() },
            10 => Reply::Bypassed,
            11 => Reply::Regions { last: r.flag()?, packed: r.all() },
            12 => Reply::Sooner { length: r.u64()? },
            13 => Reply::HeldUp,
            14 => Reply::Remote { length: r.u64()?, on_flash: r.flag()? },
            _ => return Err(DecodeError),
        };
        r.end()?;
        Ok((envelope, reply))
    }
}

#[cfg(test)]
mod tests;
