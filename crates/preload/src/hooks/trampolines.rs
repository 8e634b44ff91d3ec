//! Functions that cannot be written as hooks: variadic ones, `dlopen`, which looks at who called it, and
//! `vfork`, whose child would spoil the frame that its parent returns to. Of a list of arguments a function
//! is made that takes them as `execv` does.
//!
//! A trampoline keeps the argument registers, lets `before` look at the first ones, and jumps to the function that
//! `before` returns, with the program's return address on the stack.

use libc::{c_char, c_int};

use crate::programs::environment::{Room, Strings};

/// Makes trampolines. `|[a, b, c]| body` sees the first three arguments, and yields whether the call may go
/// on; if it may not, it returns -1 with the errno that was set. What stands behind `then` may change them
/// before it does.
macro_rules! trampolines {
    ($($name:ident = $body:expr $(, then $change:expr)?;)*) => { $(
        #[doc = "Takes the place of libc's."]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            unsafe extern "C" fn before(a: usize, b: usize, c: usize, _kept: *mut [usize; 3]) -> *mut std::ffi::c_void {
                static SYMBOL: $crate::hooks::next::Symbol = $crate::hooks::next::Symbol::unknown();
                const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                };
                #[allow(unused_unsafe)]
                // SAFETY: the arguments are the program's, as the trampoline's contract says.
                if $crate::start::active() && !unsafe { $crate::hooks::trampolines::call3([a, b, c], $body) } {
                    return $crate::hooks::trampolines::refused as *mut std::ffi::c_void;
                }
                $(
                    // SAFETY: the trampoline keeps the arguments there, and takes them from there.
                    $crate::hooks::trampolines::change(unsafe { &mut *_kept }, $change);
                )?
                SYMBOL.address(NAME)
            }
            $crate::hooks::trampolines::jump!(before)
        }
    )* };
}

/// Hands the arguments on.
#[inline]
pub(crate) fn call3(arguments: [usize; 3], before: impl FnOnce([usize; 3]) -> bool) -> bool {
    before(arguments)
}

/// The same of a change.
#[inline]
pub(crate) fn change(arguments: &mut [usize; 3], change: impl FnOnce(&mut [usize; 3])) {
    change(arguments);
}

/// What a refused call goes to.
pub(crate) extern "C" fn refused() -> isize {
    -1
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($before:path) => {
        std::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 192",
            "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx", "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8", "mov [rsp + 40], r9", "mov [rsp + 48], rax",
            "movups [rsp + 64], xmm0", "movups [rsp + 80], xmm1", "movups [rsp + 96], xmm2",
            "movups [rsp + 112], xmm3", "movups [rsp + 128], xmm4", "movups [rsp + 144], xmm5",
            "movups [rsp + 160], xmm6", "movups [rsp + 176], xmm7",
            "mov rcx, rsp",
            "call {before}",
            "mov r11, rax",
            "mov rdi, [rsp]", "mov rsi, [rsp + 8]", "mov rdx, [rsp + 16]", "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]", "mov r9, [rsp + 40]", "mov rax, [rsp + 48]",
            "movups xmm0, [rsp + 64]", "movups xmm1, [rsp + 80]", "movups xmm2, [rsp + 96]",
            "movups xmm3, [rsp + 112]", "movups xmm4, [rsp + 128]", "movups xmm5, [rsp + 144]",
            "movups xmm6, [rsp + 160]", "movups xmm7, [rsp + 176]",
            "leave",
            "jmp r11",
            before = sym $before,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($before:path) => {
        std::arch::naked_asm!(
            "stp x29, x30, [sp, #-224]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "stp q0, q1, [sp, #96]", "stp q2, q3, [sp, #128]", "stp q4, q5, [sp, #160]", "stp q6, q7, [sp, #192]",
            "add x3, sp, #16",
            "bl {before}",
            "mov x16, x0",
            "ldp q0, q1, [sp, #96]", "ldp q2, q3, [sp, #128]", "ldp q4, q5, [sp, #160]", "ldp q6, q7, [sp, #192]",
            "ldr x8, [sp, #80]",
            "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
            "ldp x29, x30, [sp], #224",
            "br x16",
            before = sym $before,
        )
    };
}

/// Makes functions of lists of arguments, each a pointer: `|path, arguments, behind| body` sees the first
/// one, the others up to null as execve(2) takes them, and what comes behind null, which only `execle` has.
macro_rules! lists {
    ($($name:ident = |$path:ident, $arguments:ident, $behind:tt| $body:expr;)*) => { $(
        #[doc = "Takes the place of libc's."]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            unsafe extern "C" fn collected(registers: *const usize, stack: *const usize) -> libc::c_int {
                let work = |$path: *const libc::c_char, $arguments: Strings, $behind: Strings| -> libc::c_int {
                    // SAFETY: the arguments are the program's, as the function's contract says.
                    unsafe { $body }
                };
                $crate::start::active();
                // SAFETY: what the function below laid there, which is the program's list.
                unsafe { $crate::hooks::trampolines::collect(registers, stack, work) }
            }
            $crate::hooks::trampolines::list!(collected)
        }
    )* };
}

/// Registers that hold arguments.
#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 6;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 8;

/// Arguments that lie on the stack once more while a list is made of them; more take memory from the kernel.
const ARGUMENTS: usize = 32;

/// Hands the first argument on, the list of the others up to null, and what comes behind it, if anything does.
///
/// # Safety
/// The program called with a path and a list that ends with null: the first of them in `registers`, the
/// others on its `stack`.
pub(crate) unsafe fn collect(
    registers: *const usize,
    stack: *const usize,
    work: impl FnOnce(*const c_char, Strings, Strings) -> c_int,
) -> c_int {
    // SAFETY: the caller's contract; behind null there is a register or a word of the stack, whatever it holds.
    let argument = |k: usize| unsafe { if k < REGISTERS { *registers.add(k) } else { *stack.add(k - REGISTERS) } };
    let count = (1..).take_while(|&k| argument(k) != 0).count();
    let mut list = Room::<*const c_char, ARGUMENTS>::of(count + 1);
    (1..=count + 1).for_each(|k| list.push(argument(k) as *const c_char));
    work(argument(0) as *const c_char, list.as_ptr(), argument(count + 2) as Strings)
}

#[cfg(target_arch = "x86_64")]
macro_rules! list {
    ($collected:path) => {
        std::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 48",
            "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx", "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8", "mov [rsp + 40], r9",
            "mov rdi, rsp",
            "lea rsi, [rbp + 16]",
            "call {collected}",
            "leave",
            "ret",
            collected = sym $collected,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! list {
    ($collected:path) => {
        std::arch::naked_asm!(
            "stp x29, x30, [sp, #-80]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
            "add x0, sp, #16",
            "add x1, sp, #80",
            "bl {collected}",
            "ldp x29, x30, [sp], #80",
            "ret",
            collected = sym $collected,
        )
    };
}

pub(crate) use {jump, list, lists, trampolines};
