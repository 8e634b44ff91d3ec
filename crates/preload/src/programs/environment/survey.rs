//! What an environment lacks, and one that has it.

use std::ffi::CStr;

use headstart_program::preloading;
use headstart_program::preloading::Preload;
use headstart_protocol::{ENVIRONMENT_FIRST, ENVIRONMENT_SWITCH};
use libc::{c_char, c_int};

use super::kept::{KEPT, RUNTIME, SLOW, VARIABLES};
use super::needs::Needs;
use super::room::Room;
use super::strings::{Strings, assigned, each};
use crate::location::PathBuffer;
use crate::{kernel, session};

/// What an environment has, and what it lacks.
pub(crate) struct Survey<'a> {
    count: usize,
    /// What the dynamic linker goes by: the last of several.
    list: Option<&'a [u8]>,
    /// Variables to be given.
    pub given: [Option<&'static CStr>; VARIABLES.len()],
    preload: Option<Preload<'a>>,
    /// The library is to go from the list.
    removes: bool,
}

impl<'a> Survey<'a> {
    /// Nothing where the environment is to be left as it is.
    ///
    /// # Safety
    /// As [`each`].
    pub(crate) unsafe fn of(environment: Strings, needs: &'a Needs) -> Option<Survey<'a>> {
        let kept = KEPT.get()?;
        let (given, removes) = ([None; VARIABLES.len()], needs.no_library);
        let mut survey = Survey { count: 0, list: None, given, preload: None, removes };
        let mut has = [false; VARIABLES.len()];
        // SAFETY: the caller's contract.
        for string in unsafe { each(environment) } {
            survey.count += 1;
            match string.to_bytes().first() {
                Some(b'L') => survey.list = assigned(string, preloading::VARIABLE).or(survey.list),
                Some(b'H') => {
                    if assigned(string, ENVIRONMENT_SWITCH) == Some(b"off") {
                        return None;
                    }
                    for (k, name) in VARIABLES.iter().enumerate() {
                        let Some(value) = assigned(string, name) else { continue };
                        let own = kept.variable(k).and_then(|own| assigned(own, name));
                        if k == SLOW && Some(trimmed(value)) != own.map(trimmed) {
                            return None;
                        }
                        has[k] |= k != RUNTIME || !value.is_empty();
                    }
                }
                _ => {}
            }
        }
        // A runtime directory means nothing without the managed one.
        has[RUNTIME] &= has[SLOW];
        for (k, given) in survey.given.iter_mut().enumerate() {
            *given = kept.variable(k).filter(|_| !has[k]);
        }
        if let Some(library) = kept.library() {
            let library = library.to_bytes();
            let list = survey.list.unwrap_or_default();
            let has_library = preloading::entries(list).any(|entry| is_ours(entry, library));
            let preload = Preload { list, library, has_library, first: needs.first() };
            let is_wanted = |preload: &Preload| if removes { has_library } else { !preload.is_complete() };
            survey.preload = Some(preload).filter(is_wanted);
        }
        Some(survey).filter(|survey| survey.preload.is_some() || survey.given.iter().any(Option::is_some))
    }

    /// Whether the completed environment has something else in the place of the string.
    fn replaces(&self, string: &CStr) -> bool {
        let given = |k: usize| self.given[k].is_some() && assigned(string, VARIABLES[k]).is_some();
        (0..VARIABLES.len()).any(given) || self.preload.is_some() && assigned(string, preloading::VARIABLE).is_some()
    }

    /// Hands on what is put back.
    pub(crate) fn compose_preload(&self, add: &mut impl FnMut(&[u8])) {
        let Some(preload) = &self.preload else { return };
        add(preloading::VARIABLE.as_bytes());
        add(b"=");
        if self.removes {
            let others = preloading::entries(preload.list).filter(|entry| !is_ours(entry, preload.library));
            others.for_each(|entry| {
                add(entry);
                add(b":");
            });
        } else {
            preload.compose(add);
        }
        add(b"\0");
    }

    /// The runtime that is put before the library for this program alone, so that it takes that out again for
    /// those it starts.
    fn borrowed(&self) -> Option<&'a [u8]> {
        self.preload.as_ref().filter(|_| !self.removes)?.borrowed()
    }

    fn compose_borrowed(&self, add: &mut impl FnMut(&[u8])) {
        if let Some(first) = self.borrowed() {
            [ENVIRONMENT_FIRST.as_bytes(), b"=", first, b"\0"].into_iter().for_each(add);
        }
    }
    /// Calls `call` with the completed environment. Apart, so that its stack is taken only where something is missing.
    ///
    /// # Safety
    /// The survey is of this environment, as [`each`] takes it.
    #[inline(never)]
    pub(crate) unsafe fn complete<const POINTERS: usize, const BYTES: usize>(
        &self,
        environment: Strings,
        call: impl FnOnce(Strings) -> c_int,
    ) -> c_int {
        let (mut preload, mut length) = (0, 0);
        self.compose_preload(&mut |piece| preload += piece.len());
        self.compose_borrowed(&mut |piece| length += piece.len());
        length += preload;
        let mut text = Room::<u8, BYTES>::of(length);
        let mut add = |piece: &[u8]| piece.iter().for_each(|&byte| text.push(byte));
        self.compose_preload(&mut add);
        self.compose_borrowed(&mut add);
        let mut strings = Room::<*const c_char, POINTERS>::of(self.count + VARIABLES.len() + 3);
        // SAFETY: the caller's contract.
        for string in unsafe { each(environment) }.filter(|string| !self.replaces(string)) {
            strings.push(string.as_ptr());
        }
        if self.preload.is_some() {
            strings.push(text.as_ptr().cast());
        }
        if length > preload {
            strings.push(text.as_ptr().wrapping_add(preload).cast());
        }
        self.given.iter().flatten().for_each(|given| strings.push(given.as_ptr()));
        strings.push(std::ptr::null());
        let result = call(strings.as_ptr());
        // `posix_spawn` returns the error, exec sets it.
        if result == libc::E2BIG || result == -1 && kernel::errno() == libc::E2BIG {
            let given: usize = self.given.iter().flatten().map(|given| given.to_bytes().len() + 1).sum();
            session::complain(format_args!(
                "a program is not started: its arguments and its environment are as long as the kernel takes, and the \
                 {} bytes \
                 that put the library into it find no room; make them so much shorter",
                length + given
            ));
            kernel::set_errno(libc::E2BIG);
        }
        result
    }
}

fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// Whether an entry of a list is the library, maybe by another path: one that is not there would not be loaded.
fn is_ours(entry: &[u8], library: &[u8]) -> bool {
    if entry == library {
        return true;
    }
    let mut buffer = PathBuffer::empty();
    let same_name = preloading::file_name(entry) == preloading::file_name(library);
    // SAFETY: a string.
    let is_there = |path: &CStr| unsafe { kernel::facts_at(libc::AT_FDCWD, path.as_ptr(), 0) }.is_ok();
    same_name && entry.contains(&b'/') && buffer.fill(&[entry]).is_some_and(is_there)
}
