use super::*;

fn opened() -> (tempfile::TempDir, FileRegister) {
    let directory = tempfile::tempdir().unwrap();
    let register = FileRegister::open(&directory.path().join("views")).unwrap();
    (directory, register)
}

fn again(register: &FileRegister) -> FileRegister {
    FileRegister::open(&register.directory).unwrap()
}

fn swap(register: &mut FileRegister, expected: u64, bytes: &[u8]) -> u64 {
    match register.swap(Version(expected), bytes).unwrap() {
        Swap::Done(value) => value.version.0,
        Swap::Lost(value) => panic!("lost to {value:?}"),
    }
}

#[test]
fn a_register_holds_nothing_then_what_was_swapped_in() {
    let (_directory, mut register) = opened();
    let before_ns = now_ns();
    let read = register.read().unwrap();
    assert_eq!((read.version, read.bytes.len()), (Version::NOTHING, 0));
    assert!((before_ns..=now_ns()).contains(&read.began_ns));
    assert_eq!(swap(&mut register, 0, b"one"), 1);
    let mut other = again(&register);
    assert_eq!(&other.read().unwrap().bytes[..], b"one");
    assert_eq!(swap(&mut other, 1, b"two"), 2);
    assert_eq!(&register.read().unwrap().bytes[..], b"two");
    let Swap::Lost(found) = register.swap(Version(1), b"late").unwrap() else { panic!("it was swapped") };
    assert_eq!((found.version, &found.bytes[..]), (Version(2), &b"two"[..]));
}

#[test]
fn old_versions_are_emptied_then_removed_and_who_knows_one_of_them_finds_the_newest() {
    let (_directory, mut register) = opened();
    let mut asleep = again(&register);
    for version in 0..20 {
        swap(&mut register, version, b"view");
    }
    let mut dozing = again(&register);
    assert_eq!(dozing.read().unwrap().version.0, 20);
    for version in 20..KEPT_NAMES + 100 {
        swap(&mut register, version, format!("view {version}").as_bytes());
    }
    let newest = KEPT_NAMES + 100;
    let length = |version| std::fs::metadata(register.view(version)).map(|found| found.len()).ok();
    assert_eq!(length(0), None, "it was removed");
    assert_eq!(length(newest - 100), Some(0), "it was emptied");
    assert!(length(newest - 5).unwrap() > 0);
    let files = std::fs::read_dir(&register.directory).unwrap().count() as u64;
    assert!(files <= KEPT_NAMES + KEPT_WHOLE + 1, "{files}");
    for register in [&mut asleep, &mut dozing] {
        let read = register.read().unwrap();
        assert_eq!((read.version.0, &read.bytes[..]), (newest, format!("view {}", newest - 1).as_bytes()));
    }
}

#[test]
fn one_who_slept_until_the_name_was_free_again_is_not_told_that_he_swapped() {
    let (_directory, mut register) = opened();
    swap(&mut register, 0, b"one");
    let sleeper = again(&register);
    let nonce = envelope::fresh_nonce().unwrap();
    let proposal = sleeper.propose(&nonce, b"late").unwrap();
    for version in 1..KEPT_NAMES + 2 * KEPT_WHOLE {
        swap(&mut register, version, b"view");
    }
    assert!(!register.is_there(2).unwrap(), "its name is free again");
    let error = sleeper.publish(&proposal, 2, &nonce).unwrap_err();
    assert!(matches!(error, Error::Unsure { .. }), "{error}");
    assert!(!register.is_there(2).unwrap(), "it was taken back");
}

#[test]
fn a_link_that_is_repeated_because_its_answer_was_lost_counts() {
    let (_directory, register) = opened();
    let nonce = envelope::fresh_nonce().unwrap();
    let proposal = register.propose(&nonce, b"one").unwrap();
    assert!(register.publish(&proposal, 1, &nonce).unwrap());
    assert!(register.publish(&proposal, 1, &nonce).unwrap(), "it is its own");
    let other = envelope::fresh_nonce().unwrap();
    let proposal = register.propose(&other, b"another").unwrap();
    assert!(!register.publish(&proposal, 1, &other).unwrap(), "it is another's");
}

#[test]
fn a_damaged_or_newer_view_is_named_and_never_taken_for_an_older_one() {
    for (sealed, newer) in [(&b""[..], false), (b"HSVIEW01 torn", false), (b"HSVIEW02 of tomorrow", true)] {
        let (_directory, mut register) = opened();
        swap(&mut register, 0, b"one");
        std::fs::write(register.view(2), sealed).unwrap();
        for mut reader in [again(&register), register] {
            let error = reader.read().unwrap_err();
            assert_eq!(matches!(error, Error::Newer { .. }), newer, "{error}");
            assert!(matches!(error, Error::Newer { .. } | Error::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("view.00000000000000000002"), "{error}");
            assert!(reader.swap(Version(1), b"two").is_err());
        }
    }
}

#[test]
fn a_register_that_is_gone_or_older_is_no_empty_one() {
    let (_directory, mut register) = opened();
    for version in 0..3 {
        swap(&mut register, version, b"view");
    }
    for version in 2..=3 {
        std::fs::remove_file(register.view(version)).unwrap();
    }
    let error = register.read().unwrap_err();
    assert!(matches!(error, Error::WentBack { known: 3, .. }), "{error}");
    std::fs::remove_dir_all(&register.directory).unwrap();
    let error = register.read().unwrap_err();
    assert!(matches!(error, Error::WentBack { known: 3, .. }), "{error}");
    assert!(!register.directory.exists(), "a read makes nothing");
}

#[test]
fn proposals_of_the_killed_are_removed_once_they_are_old_and_no_others() {
    let (_directory, mut register) = opened();
    let old = register.propose(&[1; 16], b"old").unwrap();
    let young = register.propose(&[2; 16], b"young").unwrap();
    let long_ago = std::time::SystemTime::now() - 2 * ABANDONED_AFTER;
    File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    for version in 0..KEPT_WHOLE {
        swap(&mut register, version, b"view");
    }
    assert!(!old.exists() && young.exists());
}

#[test]
fn a_view_too_long_is_refused_and_one_as_long_as_may_be_is_not() {
    let (_directory, mut register) = opened();
    let error = register.swap(Version(0), &vec![0; VALUE_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    swap(&mut register, 0, &vec![7; VALUE_BYTES_MAX]);
    assert_eq!(again(&register).read().unwrap().bytes.len(), VALUE_BYTES_MAX);
}
