//! What each byte of a file may be: a register that many write and read at the same time.
//!
//! A read may find the bytes of any write that had begun before the read ended, unless another write began
//! after that one's end and ended before the read began.

use headstart_units::request::Range;

use super::RequestId;
use super::ranges::Ranges;

/// A write that reads may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    version: RequestId,
    begun: u64,
    ended: u64,
    /// When a write that followed it had ended, and which; reads begun since do not find it.
    superseded: Option<(u64, RequestId)>,
}

/// What was there before.
const BEFORE: Written = Written { version: 0, begun: 0, ended: 0, superseded: None };

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Register {
    ranges: Ranges<Vec<Written>>,
}

impl Register {
    /// A write of `range` begins at `now`.
    pub fn begin(&mut self, range: Range, version: RequestId, now: u64) {
        let new = Written { version, begun: now, ended: u64::MAX, superseded: None };
        self.ranges.update(range, &vec![BEFORE], |writes| writes.push(new));
    }

    /// It ends; the oldest request under way began at `oldest`.
    pub fn end(&mut self, range: Range, version: RequestId, now: u64, oldest: u64) {
        self.ranges.update(range, &vec![BEFORE], |writes| {
            let Some(own) = writes.iter_mut().find(|write| write.version == version) else { return };
            own.ended = now;
            let begun = own.begun;
            for write in writes.iter_mut() {
                if write.ended < begun && write.superseded.is_none() {
                    write.superseded = Some((now, version));
                }
            }
            writes.retain(|write| write.superseded.is_none_or(|(at, _)| at > oldest));
        });
    }

    /// Whether a read that began at `begun` may not find `version` in `range`: the write that it should have found.
    pub fn stale(&self, range: Range, version: RequestId, begun: u64) -> Option<String> {
        let stale = |writes: Option<&Vec<Written>>| {
            let Some(writes) = writes else {
                return (version != 0).then(|| "no write at all".to_string());
            };
            match writes.iter().find(|write| write.version == version) {
                None => writes.last().map(|newer| format!("request {}", newer.version)),
                Some(write) => match write.superseded {
                    Some((at, newer)) if at < begun => Some(format!("request {newer}")),
                    _ => None,
                },
            }
        };
        self.ranges.parts(range).into_iter().find_map(|(_, writes)| stale(writes))
    }

    /// What was ever written.
    pub fn written(&self) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter()
    }
}
