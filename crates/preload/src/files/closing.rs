//! Closing and duplicating descriptors. The library's own are not the program's to close or replace.

use libc::{c_int, c_long, c_uint};

use crate::files::descriptors::{self, Closing, Duplicate, Undisturbed};
use crate::kernel;

/// `close`.
#[inline]
pub(crate) fn close(fd: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    if descriptors::is_own(fd) {
        return refuse();
    }
    let _closing = Closing::begin(fd);
    pass()
}

/// The program never opened it.
fn refuse() -> c_int {
    kernel::answer(Err(libc::EBADF), 0) as c_int
}

/// `close_range`, around the library's own descriptors.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int, pass: impl Fn() -> c_int) -> c_int {
    let saved = kernel::errno();
    if first > last || flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 {
        return pass();
    }
    // Around all of them, whose own end in the order of their numbers.
    let _undisturbed = Undisturbed::begin(true);
    let closing = Closing::begin_all(descriptors::known(first, last));
    let (mut from, mut result) = (first, Ok(0));
    for own in descriptors::known(first, last).filter(|&fd| descriptors::is_own(fd)) {
        if own as c_uint > from {
            result = result.and_then(|_| kernel::close_range(from, own as c_uint - 1, flags));
        }
        from = own as c_uint + 1;
    }
    if from <= last {
        result = result.and_then(|_| kernel::close_range(from, last, flags));
    }
    match result {
        Ok(_) => Closing::end_all(closing),
        Err(_) => closing.into_iter().for_each(Closing::undo),
    }
    kernel::answer(result, saved) as c_int
}

/// `closefrom`.
pub(crate) fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0, || 0);
}

/// `dup`, and `fcntl` F_DUPFD: the kernel chooses the number.
pub(crate) fn duplicate(fd: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let duplicate = Duplicate::of(fd);
    let made = pass();
    if made < 0 {
        return made;
    }
    descriptors::forget(made);
    if let Some(duplicate) = duplicate {
        if made as usize >= descriptors::DESCRIPTORS_MAX {
            let _ = kernel::close(made);
            return kernel::answer(Err(libc::EMFILE), 0) as c_int;
        }
        duplicate.made(made);
    }
    made
}

/// `dup2` and `dup3`: whatever `to` was is closed.
pub(crate) fn duplicate_to(fd: c_int, to: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    if fd == to {
        return pass();
    }
    if descriptors::is_own(to) || descriptors::is_own(fd) {
        return refuse();
    }
    let duplicate = Duplicate::of(fd);
    if duplicate.is_some() && to as usize >= descriptors::DESCRIPTORS_MAX {
        return refuse();
    }
    let closing = Closing::begin(to);
    let made = pass();
    if made < 0 {
        // `to` is still open.
        closing.into_iter().for_each(Closing::undo);
        return made;
    }
    if closing.is_none() {
        // Another thread may have been finding out what it was.
        descriptors::forget(to);
    }
    if let Some(duplicate) = duplicate {
        duplicate.made(made);
    }
    drop(closing);
    made
}

/// `fcntl`. Locks pass through untouched.
pub(crate) fn fcntl(fd: c_int, command: c_int, _argument: c_long, pass: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicate(fd, pass),
        libc::F_SETFL => {
            let result = pass();
            if result == 0 {
                descriptors::flags_changed(fd);
            }
            result
        }
        _ => pass(),
    }
}
