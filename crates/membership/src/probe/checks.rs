//! The checks of one directory, each written once and made both ways round.

use nix::libc;

use super::finding::{Problem, Tier};
use super::hands::{Action, Answer};
use super::{Pair, Side};

/// Rounds of a check of bytes, assumed: caches that are coherent by chance, as between two of their timeouts, are not
/// eight times.
const ROUNDS: u8 = 8;
/// Of the file in which bytes are checked: 16 pages.
const DATA_BYTES: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4 << 10;

type Outcome<T = ()> = Result<T, Problem>;

/// All checks; what of them failed.
pub(super) fn all(pair: &mut Pair<'_>, links_and_locks: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_same = same_directory(pair);
    clear(pair);
    if let Err(problem) = is_same {
        problems.push(problem);
    } else {
        for first in [Side::Joiner, Side::Member] {
            // What a check that failed left behind is in no other's way.
            pair.way += 1;
            if links_and_locks {
                problems.extend(locks(pair, first).err());
            }
            problems.extend(bytes(pair, first).err());
            problems.extend(halves_of_pages(pair, first).err());
            problems.extend(sizes(pair, first).err());
            problems.extend(names(pair, first).err());
            if links_and_locks && pair.tier == Tier::Fast {
                problems.extend(links(pair, first).err());
            }
            clear(pair);
        }
    }
    let mut once: Vec<Problem> = Vec::new();
    for problem in problems {
        if !once.contains(&problem) {
            once.push(problem);
        }
    }
    once
}

/// Removes what the checks made; most of it is gone already.
fn clear(pair: &mut Pair<'_>) {
    for name in ["same", "lock", "data", "page", "size", "name", "other", "link", "linked", "rival"] {
        for side in [Side::Joiner, Side::Member] {
            let _ = pair.act(side, name, Action::Remove);
        }
    }
}

/// Nothing else than this is fine.
fn done(pair: &mut Pair<'_>, side: Side, name: &str, action: Action) -> Outcome {
    let what = format!("{action:.60?}");
    match pair.act(side, name, action)? {
        Answer::Failed { text, .. } => Err(Problem::CallFailed(format!("{what} failed: {text}"))),
        _ => Ok(()),
    }
}

/// Looks, by name or at the open file: inode number and length; none where there is no such name.
fn look(pair: &mut Pair<'_>, side: Side, name: &str, action: Action) -> Outcome<Option<(u64, u64)>> {
    match pair.act(side, name, action)? {
        Answer::Found { inode, bytes } => Ok(Some((inode, bytes))),
        // Where an open file's name was replaced, some say that it is stale.
        Answer::Failed { errno: libc::ENOENT | libc::ESTALE, .. } => Ok(None),
        other => Err(Problem::CallFailed(format!("a look at a file gave {other:?}"))),
    }
}

fn read(pair: &mut Pair<'_>, side: Side, name: &str, action: Action) -> Outcome<Vec<u8>> {
    match pair.act(side, name, action)? {
        Answer::Bytes(bytes) => Ok(bytes),
        other => Err(Problem::CallFailed(format!("a read of a file gave {other:.80?}"))),
    }
}

fn same_directory(pair: &mut Pair<'_>) -> Outcome {
    done(pair, Side::Joiner, "same", Action::Make(pair.nonce.clone().into_bytes()))?;
    let here = look(pair, Side::Joiner, "same", Action::Look)?;
    let there = look(pair, Side::Member, "same", Action::Look)?;
    let (Some(here), Some(there)) = (here, there) else { return Err(Problem::OtherDirectory) };
    if here.0 != there.0 {
        return Err(Problem::InodesDiffer(here.0, there.0));
    }
    let told = read(pair, Side::Member, "same", Action::ReadAnew(0, 64))?;
    if told == pair.nonce.as_bytes() { Ok(()) } else { Err(Problem::StaleBytes) }
}

/// Made by one, opened by both.
fn open_both(pair: &mut Pair<'_>, first: Side, name: &str, bytes: Vec<u8>) -> Outcome {
    done(pair, first, name, Action::Make(bytes))?;
    match pair.act(first.other(), name, Action::Open)? {
        Answer::Failed { errno: libc::ENOENT, .. } => Err(Problem::StaleNames),
        Answer::Failed { text, .. } => Err(Problem::CallFailed(format!("opening a file failed: {text}"))),
        _ => Ok(()),
    }
}

fn close_both(pair: &mut Pair<'_>, first: Side, name: &str) -> Outcome {
    done(pair, first, name, Action::Remove)?;
    let _ = pair.act(first.other(), name, Action::Remove)?;
    Ok(())
}

fn lock(pair: &mut Pair<'_>, side: Side) -> Outcome<bool> {
    match pair.act(side, "lock", Action::Lock)? {
        Answer::Locked(got) => Ok(got),
        Answer::Failed { text, .. } => Err(Problem::NoLocks(text)),
        other => Err(Problem::CallFailed(format!("a lock gave {other:?}"))),
    }
}

fn locks(pair: &mut Pair<'_>, first: Side) -> Outcome {
    open_both(pair, first, "lock", Vec::new())?;
    for holder in [first, first.other()] {
        if !lock(pair, holder)? {
            return Err(Problem::LocksStay);
        }
        if lock(pair, holder.other())? {
            return Err(Problem::LocksUnseen);
        }
        done(pair, holder, "lock", Action::Unlock)?;
    }
    close_both(pair, first, "lock")
}

/// What one wrote is what the other reads, who had read and cached the bytes before.
fn bytes(pair: &mut Pair<'_>, first: Side) -> Outcome {
    let mut expected = vec![0; DATA_BYTES as usize];
    open_both(pair, first, "data", expected.clone())?;
    for side in [first, first.other()] {
        read(pair, side, "data", Action::Read(0, DATA_BYTES))?;
    }
    for round in 0..ROUNDS {
        let (writer, reader) = if round % 2 == 0 { (first, first.other()) } else { (first.other(), first) };
        // Neither begins nor ends with a page, and covers some whole ones.
        let (offset, length) = (1000 + 3000 * usize::from(round), 20_000);
        expected[offset..offset + length].fill(round + 1);
        done(pair, writer, "data", Action::Write(offset as u64, vec![round + 1; length]))?;
        for action in [Action::Read(0, DATA_BYTES), Action::ReadAnew(0, DATA_BYTES)] {
            if read(pair, reader, "data", action)? != expected {
                return Err(Problem::StaleBytes);
            }
        }
    }
    close_both(pair, first, "data")
}

/// Both write into one page that both have cached, and neither looks in between.
fn halves_of_pages(pair: &mut Pair<'_>, first: Side) -> Outcome {
    open_both(pair, first, "page", vec![0; PAGE_BYTES as usize])?;
    let half = PAGE_BYTES / 2;
    for round in 0..ROUNDS {
        for side in [first, first.other()] {
            read(pair, side, "page", Action::Read(0, PAGE_BYTES))?;
        }
        let (one, other) = (2 * round + 1, 2 * round + 2);
        done(pair, first, "page", Action::Write(0, vec![one; half as usize]))?;
        done(pair, first.other(), "page", Action::Write(half, vec![other; half as usize]))?;
        let expected = [vec![one; half as usize], vec![other; half as usize]].concat();
        for side in [first, first.other()] {
            if read(pair, side, "page", Action::Read(0, PAGE_BYTES))? != expected {
                return Err(Problem::LostBytes);
            }
        }
    }
    close_both(pair, first, "page")
}

fn sizes(pair: &mut Pair<'_>, first: Side) -> Outcome {
    open_both(pair, first, "size", vec![1; 100])?;
    for (round, length) in [50_000, 10, 4096, 100_000, 0, 7].into_iter().enumerate() {
        let (writer, reader) = if round % 2 == 0 { (first, first.other()) } else { (first.other(), first) };
        for action in [Action::LookAtOpen, Action::Look] {
            look(pair, reader, "size", action)?;
        }
        let action = if round == 0 { Action::Write(length - 1, vec![1]) } else { Action::Resize(length) };
        done(pair, writer, "size", action)?;
        for action in [Action::LookAtOpen, Action::Look] {
            if look(pair, reader, "size", action)?.is_none_or(|(_, bytes)| bytes != length) {
                return Err(Problem::StaleSize);
            }
        }
        if read(pair, reader, "size", Action::Read(0, 2 * DATA_BYTES))?.len() as u64 != length {
            return Err(Problem::StaleSize);
        }
    }
    close_both(pair, first, "size")
}

/// What `side` sees of a name is what the other did.
fn sees(pair: &mut Pair<'_>, side: Side, name: &str, inode: Option<u64>) -> Outcome {
    let found = look(pair, side, name, Action::Look)?;
    if found.map(|(inode, _)| inode) == inode { Ok(()) } else { Err(Problem::StaleNames) }
}

fn inode_of(pair: &mut Pair<'_>, side: Side, name: &str) -> Outcome<u64> {
    let found = look(pair, side, name, Action::Look)?;
    found.map(|(inode, _)| inode).ok_or_else(|| Problem::CallFailed("a file that was just made is not there".into()))
}

fn names(pair: &mut Pair<'_>, first: Side) -> Outcome {
    let second = first.other();
    for _ in 0..2 {
        sees(pair, second, "name", None)?;
        done(pair, first, "name", Action::Make(vec![1]))?;
        let inode = inode_of(pair, first, "name")?;
        sees(pair, second, "name", Some(inode))?;
        match pair.act(second, "name", Action::Make(vec![2]))? {
            Answer::Failed { errno: libc::EEXIST, .. } => {}
            _ => return Err(Problem::NamesTakenTwice),
        }
        done(pair, first, "other", Action::Make(vec![3]))?;
        let inode = inode_of(pair, first, "other")?;
        let to = pair.named("name");
        done(pair, first, "other", Action::Rename(to))?;
        sees(pair, second, "name", Some(inode))?;
        sees(pair, second, "other", None)?;
        if read(pair, second, "name", Action::ReadAnew(0, 8))? != [3] {
            return Err(Problem::StaleNames);
        }
        done(pair, first, "name", Action::Remove)?;
        sees(pair, second, "name", None)?;
        let _ = pair.act(first, "other", Action::Remove)?;
    }
    Ok(())
}

/// The very steps of the register in files.
fn links(pair: &mut Pair<'_>, first: Side) -> Outcome {
    let second = first.other();
    done(pair, first, "link", Action::Make(vec![1]))?;
    done(pair, second, "rival", Action::Make(vec![2]))?;
    sees(pair, second, "linked", None)?;
    let to = pair.named("linked");
    if let Answer::Failed { text, .. } = pair.act(first, "link", Action::Link(to.clone()))? {
        return Err(Problem::NoLinks(text));
    }
    let inode = inode_of(pair, first, "link")?;
    sees(pair, second, "linked", Some(inode))?;
    match pair.act(second, "rival", Action::Link(to))? {
        Answer::Failed { errno: libc::EEXIST, .. } => {}
        _ => return Err(Problem::NamesTakenTwice),
    }
    if read(pair, second, "linked", Action::ReadAnew(0, 8))? != [1] {
        return Err(Problem::StaleBytes);
    }
    done(pair, first, "linked", Action::Remove)?;
    sees(pair, second, "linked", None)?;
    done(pair, first, "link", Action::Remove)?;
    done(pair, second, "rival", Action::Remove)
}
