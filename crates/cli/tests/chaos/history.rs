//! What ranks did, and whether what they read may have been there.
//!
//! A register holds what the last write put there. Writes and reads take time, so that each of several may be the last:
//! a read must not find a number that was surely replaced before the read began. A write is surely there once it has
//! returned, or once a read that found it has; and no longer, where its node's power failed or the others gave the node
//! up, unless that node synced the file between the write and that moment.

use std::collections::HashMap;
use std::fmt;

/// Nanoseconds of the clock that all nodes have.
pub type Time = i64;

/// A register: a file, and which of it.
pub type Place = (u32, u32);

/// A boot of a node, or what is one to the others: after they gave it up another one begins.
pub type Boot = (usize, u32);

const NEVER: Time = Time::MAX;

#[derive(Clone, Debug)]
struct Write {
    number: u32,
    begin: Time,
    /// From then on nothing of it comes any more.
    end: Time,
    /// When it was surely there, whatever happened later.
    there: Time,
    /// When it may have been lost.
    lost: Time,
}

#[derive(Clone, Debug)]
struct Read {
    begin: Time,
    end: Time,
    numbers: Vec<u32>,
    who: String,
}

/// A sync of a file that has returned.
struct Sync {
    file: u32,
    boot: Boot,
    begin: Time,
}

/// See the module.
#[derive(Default)]
pub struct History {
    writes: HashMap<Place, Vec<(Boot, Write)>>,
    reads: HashMap<Place, Vec<Read>>,
    syncs: Vec<Sync>,
    failures: HashMap<Boot, Time>,
}

/// A read that found what cannot have been there.
pub struct Violation(String);

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl History {
    /// The power of a node failed, at the earliest at this time.
    pub fn failed(&mut self, boot: Boot, time: Time) {
        self.failures.entry(boot).and_modify(|earlier| *earlier = time.min(*earlier)).or_insert(time);
    }

    /// The log is that of a rank whose node was given up: it was not yet when the rank's last call returned.
    pub fn given_up(&mut self, boot: Boot, log: &str) {
        let returned = log.lines().filter_map(|line| line.strip_prefix("E ")?.split(' ').next()?.parse().ok());
        self.failed(boot, returned.max().unwrap_or(0));
    }

    /// Takes in the log of a rank, of which nothing came any more after `ended`.
    pub fn take(&mut self, who: &str, boot: Boot, log: &str, ended: Time) {
        let mut lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n')).peekable();
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let returned = lines.peek().filter(|next| next.starts_with("E ")).copied();
            let after: Vec<&str> = returned.map(|line| line.split_whitespace().collect()).unwrap_or_default();
            let end: Option<Time> = after.get(1).map(|word| word.parse().unwrap());
            let number = |at: usize| words[at].parse::<u32>().unwrap();
            let begin = || words[words.len() - 1].parse::<Time>().unwrap();
            match words[0] {
                "W" => {
                    let write = Write {
                        number: number(4),
                        begin: begin(),
                        end: end.unwrap_or(ended),
                        there: end.unwrap_or(NEVER),
                        lost: NEVER,
                    };
                    for register in number(2)..number(2) + number(3) {
                        self.writes.entry((number(1), register)).or_default().push((boot, write.clone()));
                    }
                }
                "R" => {
                    let Some(end) = end else { continue };
                    for (at, found) in after[2].split(',').enumerate() {
                        let numbers = found.split('|').map(|number| number.parse().unwrap()).collect();
                        let read = Read { begin: begin(), end, numbers, who: who.into() };
                        self.read((number(1), number(2) + at as u32), read);
                    }
                }
                "S" if end.is_some() => self.syncs.push(Sync { file: number(1), boot, begin: begin() }),
                "S" | "E" | "P" => {}
                other => panic!("{who}: {other}"),
            }
        }
    }

    /// Somebody found these numbers.
    pub fn found(&mut self, place: Place, numbers: Vec<u32>, time: Time, who: &str) {
        self.read(place, Read { begin: time, end: time, numbers, who: who.into() });
    }

    fn read(&mut self, place: Place, read: Read) {
        self.reads.entry(place).or_default().push(read);
    }

    /// How many writes and reads there were.
    pub fn counts(&self) -> (usize, usize) {
        (self.writes.values().map(Vec::len).sum(), self.reads.values().map(Vec::len).sum())
    }

    /// The first read that is wrong, if one is.
    pub fn check(&self) -> Result<(), Violation> {
        for (place, reads) in &self.reads {
            let writes = self.writes_at(*place, reads);
            for read in reads {
                for number in &read.numbers {
                    possible(&writes, read, *number).map_err(|why| {
                        Violation(format!("file {}, register {}: {} {why}", place.0, place.1, read.who))
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The writes of a register, with what syncs, failures and reads say of them; the first is what was there at first.
    fn writes_at(&self, place: Place, reads: &[Read]) -> Vec<Write> {
        let first = Write { number: 0, begin: 0, end: 0, there: 0, lost: NEVER };
        let mut writes = vec![first];
        for (boot, write) in self.writes.get(&place).into_iter().flatten() {
            let mut write = write.clone();
            let is_synced =
                || self.syncs.iter().any(|sync| sync.file == place.0 && sync.boot == *boot && sync.begin >= write.end);
            if let Some(failed) = self.failures.get(boot).filter(|_| !is_synced()) {
                write.lost = *failed;
            }
            writes.push(write);
        }
        let of_number: HashMap<u32, usize> =
            writes.iter().enumerate().map(|(index, write)| (write.number, index)).collect();
        for read in reads {
            for index in read.numbers.iter().filter_map(|number| of_number.get(number)) {
                writes[*index].there = writes[*index].there.min(read.end);
            }
        }
        writes
    }
}

/// Whether the read may have found the number.
fn possible(writes: &[Write], read: &Read, number: u32) -> Result<(), String> {
    let Some(found) = writes.iter().find(|write| write.number == number) else {
        return Err(format!("found {number:#x} at {}, which nobody wrote", read.end));
    };
    if found.begin > read.end {
        return Err(format!("found {number:#x} at {}, before it was written at {}", read.end, found.begin));
    }
    let replaces = |other: &&Write| other.begin > found.end && other.there < read.begin && read.end < other.lost;
    match writes.iter().find(replaces) {
        None => Ok(()),
        Some(other) => Err(format!(
            "found {number:#x} from {} to {}, which was written from {} to {}, and replaced by {:#x} from {} to {} \
             (there at {})",
            read.begin, read.end, found.begin, found.end, other.number, other.begin, other.end, other.there
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Boot = (1, 0);
    const TWO: Boot = (2, 0);

    fn checked(logs: &[(Boot, &str)], failures: &[(Boot, Time)]) -> bool {
        let mut history = History::default();
        failures.iter().for_each(|(boot, time)| history.failed(*boot, *time));
        logs.iter().for_each(|(boot, log)| history.take("a rank", *boot, log, 900));
        history.check().is_ok()
    }

    #[test]
    fn a_read_finds_the_last_write_or_one_at_the_same_time() {
        let written = "W 0 0 1 5 10\nE 20 \nW 0 0 1 6 30\nE 40 \n";
        for (read, is_right) in [
            ("R 0 0 1 12\nE 14 0\n", true),
            ("R 0 0 1 12\nE 14 5\n", true),
            ("R 0 0 1 22\nE 24 0\n", false),
            ("R 0 0 1 22\nE 24 6\n", false),
            ("R 0 0 1 35\nE 50 5|6\n", true),
            ("R 0 0 1 45\nE 50 5|6\n", false),
            ("R 0 0 1 45\nE 50 7\n", false),
        ] {
            assert_eq!(checked(&[(ONE, written), (TWO, read)], &[]), is_right, "{read}");
        }
        // Registers and files are apart.
        assert!(checked(&[(ONE, written), (TWO, "R 0 1 1 45\nE 50 0\nR 1 0 1 45\nE 50 0\n")], &[]));
    }

    #[test]
    fn what_was_seen_once_is_there_whether_or_not_its_writer_returned() {
        let seen = "W 0 0 1 5 10\n";
        let read = "R 0 0 1 20\nE 30 5\nR 0 0 1 40\nE 50 0\n";
        assert!(!checked(&[(ONE, seen), (TWO, read)], &[]));
        assert!(checked(&[(ONE, seen), (TWO, "R 0 0 1 40\nE 50 0\n")], &[]));
    }

    #[test]
    fn only_what_no_sync_of_its_node_covered_is_lost_with_the_node() {
        let read = "R 0 0 1 200\nE 210 0\n";
        let unsynced = "W 0 0 1 5 10\nE 20 \n";
        assert!(checked(&[(ONE, unsynced), (TWO, read)], &[(ONE, 100)]));
        assert!(!checked(&[(ONE, unsynced), (TWO, read)], &[]));
        assert!(!checked(&[(ONE, unsynced), (TWO, read)], &[(TWO, 100)]));
        assert!(!checked(&[(ONE, unsynced), (TWO, "R 0 0 1 50\nE 60 0\n")], &[(ONE, 100)]), "it was there before");
        let synced = "W 0 0 1 5 10\nE 20 \nS 0 30\nE 40 \n";
        assert!(!checked(&[(ONE, synced), (TWO, read)], &[(ONE, 100)]));
        assert!(checked(&[(ONE, &format!("S 0 5\nE 8 \n{unsynced}")), (TWO, read)], &[(ONE, 100)]), "synced before");
        for other in ["S 1 30\nE 40 \n", "S 0 30\n"] {
            assert!(checked(&[(ONE, &format!("{unsynced}{other}")), (TWO, read)], &[(ONE, 100)]), "{other}");
        }
        // One that was given up is as one whose power failed.
        let mut history = History::default();
        history.take("a rank", ONE, unsynced, 900);
        history.take("a rank", TWO, read, 900);
        history.given_up(ONE, unsynced);
        assert!(history.check().is_ok());
        // A sync of another node covers what that one wrote.
        assert!(checked(&[(ONE, unsynced), (TWO, &format!("S 0 30\nE 40 \n{read}"))], &[(ONE, 100)]));
    }
}
