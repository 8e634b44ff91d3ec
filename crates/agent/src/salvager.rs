//! The thread that brings back bytes of members that are gone: from their data files to the slow files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use headstart_cluster::{FileId, MemberId};
use headstart_overlay::Mapped;
use headstart_overlay::journal::Identity;
use headstart_protocol::deadline::{Deadline, Standing};

use crate::cluster::roster::Place;
use crate::cluster::{gone, views};
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::storage::{Access, FileRef, Scope, StorageRef};
use crate::store::open_slow;

/// Longest piece; assumed: as a write-back's.
const PIECE_BYTES: u64 = 1 << 20;

/// One file of one member.
pub(crate) struct SalvageJob {
    pub(crate) file: FileId,
    pub(crate) of: MemberId,
    /// Who brings it back.
    pub(crate) by: Place,
    pub(crate) fast: PathBuf,
    pub(crate) storage: StorageRef,
    /// The slow file, if a program of this node has it open.
    pub(crate) open: Option<FileRef>,
    /// As whom, and under which name, the member knew it; nothing where it knew it to be removed.
    pub(crate) known: Vec<(Identity, Vec<u8>, Vec<Mapped>)>,
    /// Bytes of it could not be synced when they were written.
    pub(crate) is_lost: bool,
    /// Until when this node is known to be a member.
    pub(crate) deadline: &'static Deadline,
}

/// Takes jobs until the queue is closed.
pub(crate) fn run(jobs: &Jobs<SalvageJob>, mailbox: &Mailbox<Completion>) {
    while let Some(job) = jobs.take() {
        let result = job.run().map_err(|error| error.to_string());
        mailbox.post(Completion::Salvaged { file: job.file, of: job.of, result });
    }
}

impl SalvageJob {
    fn run(&self) -> io::Result<()> {
        let of = views::place(self.of);
        let before = gone::salvaged(&self.fast, of).map_err(io::Error::other)?;
        if before.contains(&self.file) {
            return Ok(());
        }
        if self.is_lost {
            return Err(io::Error::other("the node could not sync them when they were written"));
        }
        for (identity, path, mapped) in &self.known {
            self.bring_back(*identity, path, mapped)?;
        }
        self.still_member()?;
        gone::note(&self.fast, of, self.by, self.file)
    }

    /// One that was expelled touches nothing that is others' by now.
    fn still_member(&self) -> io::Result<()> {
        match self.deadline.standing(headstart_membership::now_ns()) {
            Standing::Member => Ok(()),
            Standing::Unknown | Standing::Expelled => Err(io::Error::other("this node may not be a member any more")),
        }
    }

    fn bring_back(&self, identity: Identity, path: &[u8], mapped: &[Mapped]) -> io::Result<()> {
        let by_name = || open_slow(&*self.storage, path, identity, Access::Slow);
        let is_it = |file: &&FileRef| file.attributes().is_ok_and(|found| found.identity() == identity);
        let slow = match self.open.as_ref().filter(is_it) {
            Some(open) => open.clone(),
            None => by_name()?,
        };
        let slow = if slow.is_writable() { slow } else { slow.reopen(true)? };
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let mut data: Option<(u32, File)> = None;
        for mapped in mapped {
            if data.as_ref().is_none_or(|(number, _)| *number != mapped.data_file) {
                data = Some((mapped.data_file, gone::open_data(&self.fast, mapped.data_file)?));
            }
            let Some((_, data)) = &data else { continue };
            let mut done = 0;
            while done < mapped.range.length {
                let length = PIECE_BYTES.min(mapped.range.length - done);
                let bytes = &mut buffer[..length as usize];
                data.read_exact_at(bytes, mapped.place + done)?;
                self.still_member()?;
                slow.write_at(bytes, mapped.range.offset + done)?;
                done += length;
            }
        }
        slow.sync(Scope::Data)
    }
}
