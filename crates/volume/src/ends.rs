//! The guarded blocks of a disk, most of which are its ends, read without the flash that remembers them:
//! guarded or plain, and if guarded, by which session?
//!
//! Zeros under the guard are the keystream, whose words tell their session; there is hardly a disk without 8
//! bytes of zeros in its first and last MiB. Where there is none, all 65,536 sessions are tried for a
//! signature. The decision itself is left to signatures:
//!
//! | recognised as it is | recognised under a session | then |
//! |---|---|---|
//! | yes | no | plain |
//! | no | yes | guarded |
//! | both or neither | | undecided; somebody has to say |
//!
//! Zeros of both kinds mean that the server died while the guard went on or off; each sector may be either.
//! Nothing is guessed then.

use std::collections::BTreeMap;

use headstart_block::guard;
use headstart_units::request::Range;

pub use crate::guarded_blocks::Ends;
use crate::signatures;

/// Zeros that show a session by chance: none in 2^30 disks.
const WORDS_MIN: usize = 1;

/// What the ends of a disk are, without asking the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As its users wrote them; what was recognised.
    Plain(Vec<&'static str>),
    /// Guarded by this session; what is recognised under it.
    Guarded(u32, Vec<&'static str>),
    /// Something is recognised either way.
    Both(Vec<&'static str>, u32, Vec<&'static str>),
    /// Nothing is recognised; the session that zeros show, if any do.
    Neither(Option<u32>),
    /// Some sectors are plain, others guarded.
    Mixed(u32),
}

impl Ends {
    /// What they are.
    pub fn judge(&self) -> Reading {
        let plain = signatures::recognised(self);
        let session = self.session();
        let hidden = session.map(|session| signatures::recognised(&self.transformed(session))).unwrap_or_default();
        if let Some(session) = session
            && self.has_plain_zeros()
        {
            return Reading::Mixed(session);
        }
        match (plain.is_empty(), session, hidden.is_empty()) {
            (false, Some(session), false) => Reading::Both(plain, session, hidden),
            (true, Some(session), false) => Reading::Guarded(session, hidden),
            (false, _, _) => Reading::Plain(plain),
            (true, session, _) => Reading::Neither(session),
        }
    }

    /// The session whose guard is on, if one can be told.
    pub fn session(&self) -> Option<u32> {
        let votes = self.votes();
        let most = votes.iter().max_by_key(|(_, words)| **words).filter(|(_, words)| **words >= WORDS_MIN);
        match most {
            Some((session, _)) => Some(*session),
            None if self.has_plain_zeros() => None,
            None => match self.sessions_tried()[..] {
                [session] => Some(session),
                _ => None,
            },
        }
    }

    fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.regions.iter().zip(&self.bytes).flat_map(|(region, bytes)| {
            let words = bytes.chunks_exact(8).enumerate();
            let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
            words.map(move |(index, bytes)| (region.offset + 8 * index as u64, word(bytes)))
        })
    }

    /// Words that are zeros under a session, by session.
    fn votes(&self) -> BTreeMap<u32, usize> {
        let mut votes = BTreeMap::new();
        for session in self.words().filter_map(|(offset, word)| guard::session_of_zeros(offset, word)) {
            *votes.entry(session).or_default() += 1;
        }
        votes
    }

    fn has_plain_zeros(&self) -> bool {
        self.words().any(|(_, word)| word == 0)
    }

    /// Sessions under which something is recognised, found by trying all on the places where most signatures lie.
    pub fn sessions_tried(&self) -> Vec<u32> {
        let end = self.disk_bytes;
        let places = [(0, 8192), (65536 - 4096, 8192), (end.saturating_sub(16384), 16384)];
        let mut tried = Ends::empty(self.disk_bytes);
        let mut parts = Vec::new();
        for (side, region) in self.regions.iter().enumerate() {
            for part in places.map(|(offset, length)| Range::new(offset, length).intersection(*region)) {
                if !part.is_empty() {
                    let start = (part.offset - region.offset) as usize;
                    parts.push((side, start..start + part.length as usize));
                }
            }
        }
        let is_recognised = |session: &u32| {
            for (side, part) in &parts {
                let bytes = &mut tried.bytes[*side][part.clone()];
                bytes.copy_from_slice(&self.bytes[*side][part.clone()]);
                guard::transform(*session, self.regions[*side].offset + part.start as u64, bytes);
            }
            !signatures::recognised(&tried).is_empty()
        };
        (0..guard::SESSIONS).filter(is_recognised).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK_BYTES: u64 = (8 << 20) + 512;

    /// A disk of `fill`, with an XFS superblock and a GPT header if so.
    fn disk(fill: u64, xfs: bool) -> Ends {
        let mut ends = Ends::empty(DISK_BYTES);
        for bytes in &mut ends.bytes {
            *bytes = fill.to_le_bytes().repeat(bytes.len() / 8);
        }
        if xfs {
            ends.bytes[0][..8].copy_from_slice(b"XFSB\0\0\x10\0");
            ends.bytes[0][102..104].copy_from_slice(&[2, 0]);
        }
        ends
    }

    #[test]
    fn zeros_tell_the_session_and_the_signature_decides() {
        let plain = disk(0, true);
        assert_eq!(plain.judge(), Reading::Plain(vec!["XFS"]));
        for session in [1, 9, guard::SESSIONS - 1] {
            assert_eq!(plain.transformed(session).judge(), Reading::Guarded(session, vec!["XFS"]));
            assert_eq!(disk(0, false).transformed(session).judge(), Reading::Neither(Some(session)));
        }
        assert_eq!(disk(0, false).judge(), Reading::Neither(None));
    }

    #[test]
    fn without_zeros_all_sessions_are_tried() {
        let plain = disk(0x0101_0101_0101_0101, true);
        assert_eq!(plain.transformed(40_000).judge(), Reading::Guarded(40_000, vec!["XFS"]));
        assert_eq!(disk(3, false).judge(), Reading::Neither(None));
    }

    #[test]
    fn what_can_be_read_either_way_or_is_half_guarded_is_not_guessed() {
        let guarded = disk(0, true).transformed(7);
        let mut both = guarded.clone();
        both.bytes[0][65536 + 64..65536 + 72].copy_from_slice(b"_BHRfS_M");
        assert_eq!(both.judge(), Reading::Both(vec!["btrfs"], 7, vec!["XFS"]));
        let mut torn = guarded;
        torn.bytes.last_mut().unwrap()[4096..4608].fill(0);
        assert_eq!(torn.judge(), Reading::Mixed(7));
    }
}
