//! The register in a real etcd.

use std::time::Duration;

use headstart_membership::{Error, EtcdRegister, EtcdSettings, Register, Swap, Value, Version};
use headstart_units::chance::Random;
use nix::sys::signal::Signal;

use crate::etcd_servers::{Certificates, Cluster, free_port};
use crate::history::{Recorder, calls, ended, play, refute};
use crate::roles::{seed, until};

const KEY: &str = "/headstart/test/view";

fn settings(endpoints: Vec<String>) -> EtcdSettings {
    // A server that answers may do so as late as a busy machine makes it; Debian's is an old one.
    EtcdSettings { accept_old: true, attempt: Duration::from_secs(60), ..EtcdSettings::new(endpoints, KEY) }
}

/// For tests in which servers do not answer.
fn impatient(endpoints: Vec<String>) -> EtcdSettings {
    EtcdSettings { attempt: Duration::from_millis(500), ..settings(endpoints) }
}

fn register(settings: &EtcdSettings) -> EtcdRegister {
    EtcdRegister::new(settings).unwrap()
}

fn done(swap: Swap) -> Value {
    match swap {
        Swap::Done(value) => value,
        Swap::Lost(value) => panic!("lost to {value:?}"),
    }
}

#[test]
fn one_server_holds_a_view_over_its_restart_and_swaps_it_by_version() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let settings = settings(cluster.endpoints());
    let (mut first, mut second) = (register(&settings), register(&settings));
    until("a server that answers", || first.check().is_ok());
    assert_eq!(first.check().unwrap()[0].0, settings.endpoints[0]);
    let nothing = second.read().unwrap();
    assert_eq!((nothing.version, nothing.bytes.len()), (Version::NOTHING, 0));
    let one = done(first.swap(Version::NOTHING, b"one").unwrap());
    let Swap::Lost(found) = second.swap(Version::NOTHING, b"also one").unwrap() else { panic!("it was swapped") };
    assert_eq!((found.version, &found.bytes[..]), (one.version, &b"one"[..]));
    let two = done(second.swap(one.version, &[2; 100 << 10]).unwrap());
    assert!(two.version > one.version);
    for _ in 0..2 {
        let read = first.read().unwrap();
        assert_eq!((read.version, &read.bytes[..]), (two.version, &[2; 100 << 10][..]), "read anew, then as known");
    }
    cluster.kill(0);
    let error = first.read().unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { .. }) && error.to_string().contains(&settings.endpoints[0]),
        "{error}"
    );
    cluster.restart(0);
    until("a server that answers again", || first.read().is_ok());
    assert_eq!(first.read().unwrap().version, two.version);
    assert!(matches!(first.swap(one.version, b"old").unwrap(), Swap::Lost(_)));
    let error = first.swap(two.version, &vec![0; 2 << 20]).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
}

#[test]
fn what_is_no_view_or_a_newer_one_or_was_removed_is_refused() {
    let Some(cluster) = Cluster::start(1) else { return };
    let settings = settings(cluster.endpoints());
    let mut known = register(&settings);
    until("a server that answers", || known.read().is_ok());
    let one = done(known.swap(Version::NOTHING, b"one").unwrap());
    for (stored, newer) in [(&b"HSVIEW07 of tomorrow"[..], true), (b"something else", false)] {
        cluster.put(KEY, stored);
        for mut reader in [register(&settings), register(&settings)] {
            let error = reader.read().unwrap_err();
            assert_eq!(matches!(error, Error::Newer { format: 7, .. }), newer, "{error}");
            assert!(matches!(error, Error::Newer { .. } | Error::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(KEY), "{error}");
            assert!(reader.swap(one.version, b"two").is_err());
        }
    }
    cluster.delete(KEY);
    let error = known.read().unwrap_err();
    assert!(matches!(error, Error::WentBack { .. }), "{error}");
    assert!(matches!(known.swap(one.version, b"two").unwrap_err(), Error::WentBack { .. }));
}

#[test]
fn an_old_server_is_refused_by_name_and_version_unless_it_is_accepted() {
    let Some(cluster) = Cluster::start(1) else { return };
    let accepting = settings(cluster.endpoints());
    let mut accepted = register(&accepting);
    until("a server that answers", || accepted.read().is_ok());
    let version = accepted.check().unwrap()[0].1.clone().unwrap();
    if !version.starts_with("3.4.") {
        return println!("SKIPPED: etcd {version} is not old enough to be refused");
    }
    let mut refused = register(&EtcdSettings { accept_old: false, ..accepting.clone() });
    for error in [refused.check().unwrap_err(), refused.read().unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains(&accepting.endpoints[0]) && text.contains(&version), "{text}");
        assert!(text.contains("3.5.23"), "{text}");
    }
    let error = refused.swap(Version::NOTHING, b"one").unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "nothing was swapped: {error}");
    assert_eq!(accepted.read().unwrap().version, Version::NOTHING);
}

#[test]
fn wrong_endpoints_are_passed_over_and_all_of_them_are_named_where_none_is_right() {
    let Some(cluster) = Cluster::start(1) else { return };
    let (closed, silent) = (free_port(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let wrong = [
        format!("http://127.0.0.1:{closed}"),
        format!("http://{}", silent.local_addr().unwrap()),
        "http://no-such-host.invalid:2379".to_owned(),
    ];
    let all = impatient(wrong.iter().cloned().chain(cluster.endpoints()).collect());
    let mut register_of_all = register(&all);
    until("a swap", || match register_of_all.swap(Version::NOTHING, b"one") {
        Ok(Swap::Done(_)) => true,
        // An attempt before was late.
        Ok(Swap::Lost(found)) => &found.bytes[..] == b"one",
        Err(_) => false,
    });
    until("a check that passes over three", || {
        let checked = register_of_all.check().unwrap_or_default();
        checked.iter().map(|(_, version)| version.is_ok()).eq([false, false, false, true])
    });
    let mut lost = register(&impatient(wrong.to_vec()));
    let text = lost.read().unwrap_err().to_string();
    assert!(wrong.iter().all(|endpoint| text.contains(endpoint)), "{text}");
    let error = lost.swap(Version::NOTHING, b"one").unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "nobody was asked for the swap: {error}");
}

#[test]
fn servers_of_two_clusters_are_no_register() {
    let (Some(one), Some(other)) = (Cluster::start(1), Cluster::start(1)) else { return };
    let both = settings([one.endpoints(), other.endpoints()].concat());
    for cluster in [&one, &other] {
        until("a server that answers", || register(&settings(cluster.endpoints())).read().is_ok());
    }
    let mut register_of_both = register(&both);
    register_of_both.read().unwrap();
    let text = register_of_both.check().unwrap_err().to_string();
    assert!(text.contains(&both.endpoints[1]) && text.contains("another etcd cluster"), "{text}");
}

#[test]
fn over_tls_both_sides_show_certificates_and_strangers_are_refused() {
    let (Some(certificates), Some(other)) = (Certificates::make(), Certificates::make()) else { return };
    let Some(cluster) = Cluster::start_with(1, Some(&certificates)) else { return };
    let path = |name: &str| certificates.path(name);
    let identity = Some((path("client.pem"), path("client.key")));
    let both = EtcdSettings { ca: Some(path("ca.pem")), identity, ..settings(cluster.endpoints()) };
    let mut known = register(&both);
    until("a server that answers", || known.read().is_ok());
    assert!(matches!(known.swap(Version::NOTHING, b"one").unwrap(), Swap::Done(_)));
    let named = EtcdSettings { server_name: Some("etcd.example".into()), ..both.clone() };
    assert_eq!(&register(&named).read().unwrap().bytes[..], b"one");
    for (what, settings) in [
        ("a client without a certificate", EtcdSettings { identity: None, ..both.clone() }),
        ("a server that somebody else signed", EtcdSettings { ca: Some(other.path("ca.pem")), ..both.clone() }),
        ("a server of another name", EtcdSettings { server_name: Some("other.example".into()), ..both.clone() }),
    ] {
        let error = register(&settings).read().unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{what}: {error}");
        assert!(error.to_string().to_lowercase().contains("certificate"), "{what}: {error}");
    }
}

#[test]
fn a_password_is_shown_again_after_the_server_forgot_and_a_wrong_one_is_refused() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let directory = tempfile::tempdir().unwrap();
    let password = |text: &str| {
        let file = directory.path().join(text);
        std::fs::write(&file, format!("{text}\n")).unwrap();
        Some(("root".to_owned(), file))
    };
    let without = settings(cluster.endpoints());
    until("a server that answers", || register(&without).read().is_ok());
    cluster.require_password("sesame");
    let mut known = register(&EtcdSettings { user: password("sesame"), ..without.clone() });
    let one = done(known.swap(Version::NOTHING, b"one").unwrap());
    // Its tokens are in memory.
    cluster.kill(0);
    cluster.restart(0);
    until("a server that answers again", || known.read().is_ok());
    assert_eq!(known.read().unwrap().version, one.version);
    for settings in [EtcdSettings { user: password("wrong"), ..without.clone() }, without] {
        let error = register(&settings).read().unwrap_err();
        assert!(error.to_string().contains("etcdserver: "), "{error}");
    }
}

#[test]
fn three_servers_killed_and_stopped_in_turn_lose_no_update_and_answer_by_their_majority() {
    let seed = seed();
    let Some(mut cluster) = Cluster::start(3) else { return };
    let settings = impatient(cluster.endpoints());
    until("servers that answer", || register(&settings).check().is_ok());
    let directory = tempfile::tempdir().unwrap();
    let over = directory.path().join("over");
    let records: Vec<_> = (0..3).map(|number| directory.path().join(format!("calls.{number}"))).collect();
    std::thread::scope(|scope| {
        for (number, record) in records.iter().enumerate() {
            let (settings, over) = (&settings, &over);
            scope.spawn(move || {
                let mut endpoints = settings.endpoints.clone();
                endpoints.rotate_left(number);
                let mut register = register(&EtcdSettings { endpoints, ..settings.clone() });
                let name = number.to_string();
                play(&mut register, &name, &mut Recorder::new(record), seed ^ number as u64, || over.exists());
            });
        }
        let all_went_on = |what: &str| {
            let before: Vec<usize> = records.iter().map(|record| ended(record)).collect();
            let count = |record| ended(record);
            until(what, || records.iter().zip(&before).all(|(record, before)| count(record) >= before + 10));
        };
        let mut random = Random(seed);
        for _ in 0..6 {
            all_went_on("calls with three servers");
            let at = random.below(3) as usize;
            if random.chance(50) {
                cluster.kill(at);
                all_went_on("calls with one of three killed");
                cluster.restart(at);
            } else {
                cluster.signal(at, Signal::SIGSTOP);
                all_went_on("calls with one of three cut off");
                cluster.signal(at, Signal::SIGCONT);
            }
        }
        std::fs::write(&over, "").unwrap();
    });
    let history: Vec<_> = records.iter().flat_map(|record| calls(record)).collect();
    if let Some(problem) = refute(&history, false) {
        let kept = directory.keep();
        panic!("SEED={seed}: {problem}; the calls are in {}", kept.display());
    }
    println!("{} calls", history.len());
    cluster.signal(0, Signal::SIGSTOP);
    cluster.signal(1, Signal::SIGSTOP);
    let mut register = register(&settings);
    let error = register.read().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "a minority answers nothing: {error}");
    cluster.signal(0, Signal::SIGCONT);
    cluster.signal(1, Signal::SIGCONT);
    until("an answer of the majority", || register.read().is_ok());
}
