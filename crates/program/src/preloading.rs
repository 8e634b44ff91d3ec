//! LD_PRELOAD: a list of libraries that the dynamic linker splits at spaces and colons, and what it must say
//! so that a program has ours.
//!
//! Nothing here allocates: the library composes the list between `vfork` and `execve`.

/// Names the list in an environment.
pub const VARIABLE: &str = "LD_PRELOAD";

/// How the file names of sanitizers' runtimes begin, which refuse to start behind another library: gcc's and clang's.
const SANITIZERS: [&str; 11] = [
    "libasan.so",
    "libhwasan.so",
    "liblsan.so",
    "libtsan.so",
    "libubsan.so",
    "libclang_rt.asan",
    "libclang_rt.hwasan",
    "libclang_rt.lsan",
    "libclang_rt.msan",
    "libclang_rt.tsan",
    "libclang_rt.ubsan",
];

/// The libraries of a list.
pub fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| b" :".contains(byte)).filter(|entry| !entry.is_empty())
}

/// Whether a list can hold the path as it is: the linker neither splits it nor puts something in the place of a part.
pub fn is_nameable(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.iter().any(|byte| b" :$".contains(byte))
}

/// The last part of a path.
pub fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Whether this is a sanitizer's runtime, by its name.
pub(crate) fn is_sanitizer(library: &[u8]) -> bool {
    SANITIZERS.iter().any(|name| file_name(library).starts_with(name.as_bytes()))
}

/// A list to be completed.
#[derive(Clone, Copy, Debug)]
pub struct Preload<'a> {
    /// As the program's environment has it; empty if it does not.
    pub list: &'a [u8],
    /// Path of our library, which a list can hold.
    pub library: &'a [u8],
    /// Whether the list names ours already.
    pub has_library: bool,
    /// The sanitizer's runtime that the program is linked with, and that must come first.
    pub first: Option<&'a [u8]>,
}

impl<'a> Preload<'a> {
    fn is_led(&self) -> bool {
        let leader = entries(self.list).next().map(file_name);
        self.first.is_none_or(|first| leader == Some(file_name(first)))
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.has_library && self.is_led()
    }

    /// The sanitizer's runtime, where it is put into the list: it is there for this program alone.
    pub fn borrowed(&self) -> Option<&'a [u8]> {
        let is_named = |first: &&[u8]| entries(self.list).any(|entry| file_name(entry) == file_name(first));
        self.first.filter(|first| !is_named(first))
    }

    /// Hands on the pieces of the completed list: ours before all others but for runtimes of sanitizers, and
    /// others in the order they had.
    pub fn compose(&self, add: &mut impl FnMut(&[u8])) {
        let mut any = false;
        let mut entry = |entry: &[u8]| {
            if std::mem::replace(&mut any, true) {
                add(b":");
            }
            add(entry);
        };
        let moved = self.first.filter(|_| !self.is_led());
        moved.iter().for_each(|first| entry(first));
        let mut missing = !self.has_library;
        for other in entries(self.list).filter(|other| moved.map(file_name) != Some(file_name(other))) {
            if missing && !is_sanitizer(other) {
                entry(self.library);
                missing = false;
            }
            entry(other);
        }
        if missing {
            entry(self.library);
        }
    }

    /// The completed list.
    pub fn completed(&self) -> Vec<u8> {
        let mut list = Vec::new();
        self.compose(&mut |piece| list.extend_from_slice(piece));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(list: &str, first: Option<&str>) -> String {
        let library = b"/opt/libheadstart.so";
        let has_library = entries(list.as_bytes()).any(|entry| entry == library);
        let preload = Preload { list: list.as_bytes(), library, has_library, first: first.map(str::as_bytes) };
        let text = String::from_utf8(preload.completed()).unwrap();
        assert_eq!(preload.is_complete(), entries(list.as_bytes()).eq(entries(text.as_bytes())), "{list}");
        text
    }

    #[test]
    fn ours_comes_before_others_that_keep_their_order_and_stays_where_it_is() {
        assert_eq!(completed("", None), "/opt/libheadstart.so");
        assert_eq!(completed("libm.so.6", None), "/opt/libheadstart.so:libm.so.6");
        assert_eq!(completed(" a:  b :c", None), "/opt/libheadstart.so:a:b:c");
        assert_eq!(completed("a:/opt/libheadstart.so:b", None), "a:/opt/libheadstart.so:b");
    }

    #[test]
    fn a_sanitizer_comes_first() {
        assert_eq!(completed("libasan.so.8", None), "libasan.so.8:/opt/libheadstart.so");
        assert_eq!(
            completed("/x/libclang_rt.asan-x86_64.so a", None),
            "/x/libclang_rt.asan-x86_64.so:/opt/libheadstart.so:a"
        );
        let both = "libasan.so.8:/opt/libheadstart.so";
        assert_eq!(completed("", Some("libasan.so.8")), both);
        assert_eq!(completed("/opt/libheadstart.so", Some("libasan.so.8")), both);
        assert_eq!(completed("/opt/libheadstart.so /usr/lib/libasan.so.8", Some("libasan.so.8")), both);
        assert_eq!(
            completed("/usr/lib/libasan.so.8:a", Some("libasan.so.8")),
            "/usr/lib/libasan.so.8:/opt/libheadstart.so:a"
        );
    }

    #[test]
    fn a_path_that_the_linker_would_split_or_expand_cannot_be_named() {
        assert!(is_nameable(b"/opt/lib/libheadstart.so"));
        for path in ["", "libheadstart.so", "/my tools/l.so", "/tools:2/l.so", "/$LIB/l.so"] {
            assert!(!is_nameable(path.as_bytes()), "{path}");
        }
    }
}
