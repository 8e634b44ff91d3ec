//! The streams and files of languages: C stdio, C++ fstream, Fortran, Perl, Java.

use crate::comparison::{Comparison, compiled, has};

/// Runs a program's forms in turn, bytes left dirty from one to the next.
fn forms(comparison: &Comparison, program: &str, forms: &[&str]) {
    comparison.same_and_kept_dirty("seq 1 50000 | dd of=input bs=5000 iflag=fullblock status=none");
    for form in forms {
        let printed = comparison.same_and_kept_dirty(&format!("{program} {form}; echo $?"));
        assert!(printed.ends_with("0\n"), "{form}: {printed}");
    }
    comparison.same("ls");
    for form in forms {
        comparison.same(&format!("{program} {form}"));
    }
}

#[test]
fn c_streams() {
    let Some(comparison) = Comparison::new(&[("cc", "build-essential")]) else { return };
    let comparison = comparison.with("STREAMS", compiled("cc", &["streams.c"], &["-Wall", "-Wextra", "-D_GNU_SOURCE"]));
    forms(&comparison, "$STREAMS", &["write", "update", "mixed", "append", "reopen", "read"]);
    comparison.flash_took_part();
}

#[test]
fn c_streams_with_fortified_calls() {
    let Some(comparison) = Comparison::new(&[("cc", "build-essential")]) else { return };
    let options = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_GNU_SOURCE", "-w", "-D_FILE_OFFSET_BITS=64"];
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sources/./streams.c");
    let target =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fortified-{}.c", std::process::id()));
    std::fs::copy(source, &target).unwrap();
    let comparison = comparison.with("STREAMS", compiled("cc", &[&target], &options));
    std::fs::remove_file(target).unwrap();
    forms(&comparison, "$STREAMS", &["write", "mixed", "read"]);
}

#[test]
fn cpp_file_streams() {
    let Some(comparison) = Comparison::new(&[("g++", "build-essential")]) else { return };
    let comparison =
        comparison.with("FSTREAMS", compiled("g++", &["fstreams.cpp"], &["-std=c++17", "-Wall", "-Wextra"]));
    forms(&comparison, "$FSTREAMS", &["write", "update", "append", "files", "read"]);
}

#[test]
fn fortran_units() {
    let Some(comparison) = Comparison::new(&[("gfortran", "gfortran")]) else { return };
    let comparison = comparison.with("UNITS", compiled("gfortran", &["units.f90"], &["-Wall"]));
    forms(&comparison, "$UNITS", &["sequential", "direct", "stream", "formatted", "again"]);
    comparison.flash_took_part();
}

#[test]
fn perl_handles() {
    let Some(comparison) = Comparison::new(&[("perl", "perl")]) else { return };
    forms(&comparison, "perl $SOURCES/handles.pl", &["handles", "system", "inplace"]);
    comparison.flash_took_part();
}

#[test]
fn java_channels() {
    if !has(&[("java", "default-jdk-headless"), ("javac", "default-jdk-headless")]) {
        return;
    }
    let comparison = Comparison::new(&[]).unwrap();
    let classes = comparison.sites[0].path("classes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sources/Channels.java");
    let mut command = comparison.sites[0].command("javac");
    let output = command.arg("-d").arg(&classes).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", comparison.sites[0].say(&output));
    let comparison = comparison.with("CLASSES", classes);
    let java = "java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -cp $CLASSES Channels";
    comparison.same_and_kept_dirty("seq 1 50000 | dd of=input bs=5000 iflag=fullblock status=none");
    for form in ["channels", "streams"] {
        let printed = comparison.same_and_kept_dirty(&format!("{java} {form}; echo $?"));
        assert!(printed.ends_with("\n0\n"), "{printed}");
    }
    comparison.same(&format!("{java} channels"));
    comparison.flash_took_part();
}
