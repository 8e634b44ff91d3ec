//! The one macro that makes hooks of a table's lines.

macro_rules! hook {
    (
        $gate:ident $module:ident $name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?,
        |$pass:ident| $body:expr
    ) => {
        /// Takes the place of libc's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the arguments are the program's, as this function's contract says.
            let $pass = || unsafe { $module::$name($($argument),*) };
            if !$crate::start::$gate() {
                return $pass();
            }
            #[allow(unused_unsafe)]
            // SAFETY: the arguments are the program's, as this function's contract says.
            unsafe { $body }
        }
    };
}

macro_rules! hooks {
    (
        mod $module:ident; while $gate:ident;
        $($($name:ident)|+ ($($arguments:tt)*) $(-> $result:ty)? = |$pass:ident| $body:expr;)*
    ) => {
        $($crate::hooks::macros::hooks!{
            @hook $gate $module [$($name)+] ($($arguments)*) [$(-> $result)?] |$pass| $body
        })*

        /// The functions whose place the hooks take.
        #[allow(dead_code)]
        pub(crate) mod $module {
            use super::*;
            $($crate::hooks::macros::hooks!{ @real [$($name)+] ($($arguments)*) [$(-> $result)?] })*
        }
    };
    (@hook $gate:ident $module:ident [] $arguments:tt [$(-> $result:ty)?] |$pass:ident| $body:expr) => {};
    (
        @hook $gate:ident $module:ident [$name:ident $($more:ident)*] ($($a:ident: $t:ty),*) [$(-> $result:ty)?]
        |$pass:ident| $body:expr
    ) => {
        $crate::hooks::macros::hook!{ $gate $module $name ($($a: $t),*) $(-> $result)?, |$pass| $body }
        $crate::hooks::macros::hooks!{ @hook $gate $module [$($more)*] ($($a: $t),*) [$(-> $result)?] |$pass| $body }
    };
    (@real [] $arguments:tt [$(-> $result:ty)?]) => {};
    (@real [$name:ident $($more:ident)*] ($($a:ident: $t:ty),*) [$(-> $result:ty)?]) => {
        $crate::hooks::next::real!{ $name ($($a: $t),*) $(-> $result)? }
        $crate::hooks::macros::hooks!{ @real [$($more)*] ($($a: $t),*) [$(-> $result)?] }
    };
}

pub(crate) use {hook, hooks};
