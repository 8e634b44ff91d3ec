//! The environment of children. The library is in a child only if LD_PRELOAD names it and the child finds
//! Headstart's variables. Programs clear and replace both; every exec and spawn puts back what is missing.
//!
//! - The program's own environment is never changed: the child gets a list of its own. For a `vfork` child the
//!   list lies on the stack. (Memory from the kernel, which a long list takes, would stay allocated in the
//!   parent.)
//! - An environment that says `HEADSTART=off` or names another managed directory is left as it is.
//! - Where no library can be named (its path has a space or a colon), the variables alone are put back.

mod kept;
mod needs;
mod own;
mod room;
pub(crate) mod strings;
mod survey;

use std::ffi::{CStr, CString};

use libc::{c_char, c_int};

use crate::process;

pub(crate) use kept::{lost_library, start};
pub(crate) use needs::Needs;
pub(crate) use own::settle;
pub(crate) use room::Room;
pub(crate) use strings::{Strings, current};

use survey::Survey;

/// Pointers, and bytes of text, that lie on the stack.
const POINTERS: usize = 512;
const TEXT_BYTES: usize = 512;

/// Calls `call`, an exec or a spawn, with the environment, or one that has what it lacks. Where that makes it
/// too long, says so.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub(crate) unsafe fn completed(environment: Strings, needs: &Needs, call: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    let Some(survey) = (unsafe { Survey::of(environment, needs) }) else { return call(environment) };
    // SAFETY: the caller's contract.
    unsafe {
        if process::is_own() {
            survey.complete::<0, 0>(environment, call)
        } else {
            survey.complete::<POINTERS, TEXT_BYTES>(environment, call)
        }
    }
}

/// The command for `system` and `popen`, whose shell libc starts with the environment as it is; nothing if that
/// lacks nothing. The library is not in that shell: the command sets what is missing and executes another shell,
/// which runs the program's command.
///
/// # Safety
/// `command` is a string.
pub(crate) unsafe fn command(command: *const c_char) -> Option<CString> {
    if command.is_null() {
        return None;
    }
    let needs = Needs::default();
    // SAFETY: libc's list.
    let survey = unsafe { Survey::of(current(), &needs) }?;
    // SAFETY: the caller's contract.
    let command = unsafe { CStr::from_ptr(command) }.to_bytes();
    let mut text = b"export".to_vec();
    let mut preload = Vec::new();
    survey.compose_preload(&mut |piece| preload.extend_from_slice(piece));
    preload.pop();
    let given = survey.given.iter().flatten().map(|given| given.to_bytes());
    for assignment in given.chain(Some(preload.as_slice()).filter(|preload| !preload.is_empty())) {
        let name = assignment.iter().position(|&byte| byte == b'=').map_or(assignment.len(), |at| at + 1);
        text.push(b' ');
        text.extend_from_slice(&assignment[..name]);
        quote(&assignment[name..], &mut text);
    }
    text.extend_from_slice(b"; exec /bin/sh -c ");
    quote(command, &mut text);
    CString::new(text).ok()
}

/// As one word of a shell.
fn quote(word: &[u8], text: &mut Vec<u8>) {
    text.push(b'\'');
    for &byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
}
