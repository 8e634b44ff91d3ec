//! The probe between two processes, over directories that are shared, that are not, and that lie about it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use headstart_membership::Places;
use headstart_membership::probe::{Act, Action, Answer, Finding, Hands, Problem, Remedy, Tier, run};
use nix::libc;

use crate::roles::{Process, command, role, told};

const TWO_PROCESSES: &str = "probes::two_nodes_over_one_directory_find_nothing_and_leave_nothing_behind";

/// The directories at a node.
pub fn places(node: &Path) -> Places {
    std::fs::create_dir_all(node.join("fast/.headstart")).unwrap();
    std::fs::create_dir_all(node.join("slow")).unwrap();
    Places::make(&node.join("fast"), &node.join("slow")).unwrap()
}

/// A member in a process of its own, with its directories below `node`, that answers at a socket.
pub struct Member {
    _process: Process,
    answers: BufReader<UnixStream>,
}

impl Member {
    /// `test` plays `be_member` in any role.
    pub fn start(test: &str, node: &Path) -> Member {
        let meeting = tempfile::tempdir().unwrap();
        let socket = meeting.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let telling = [("NODE", node.as_os_str()), ("SOCKET", socket.as_os_str())];
        let process = Process::start(command(test, "member", &telling));
        let (stream, _) = listener.accept().unwrap();
        Member { _process: process, answers: BufReader::new(stream) }
    }

    pub fn ask(&mut self, act: &Act) -> Result<Answer, String> {
        let line = serde_json::to_string(act).unwrap() + "\n";
        self.answers.get_mut().write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(0) => Err("it has hung up".into()),
            Ok(_) => serde_json::from_str(&answer).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub fn probe(&mut self, node: &Path) -> Vec<Finding> {
        run(&places(node), "other", true, &mut |act| self.ask(&act)).unwrap()
    }
}

pub fn be_member() {
    let (node, socket): (PathBuf, PathBuf) = (told("NODE"), told("SOCKET"));
    let mut hands = Hands::new(&places(&node)).unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
        let answer = hands.act(serde_json::from_str(&line.unwrap()).unwrap());
        stream.write_all((serde_json::to_string(&answer).unwrap() + "\n").as_bytes()).unwrap();
    }
}

#[test]
fn two_nodes_over_one_directory_find_nothing_and_leave_nothing_behind() {
    if role().is_some() {
        return be_member();
    }
    let node = tempfile::tempdir().unwrap();
    let mut member = Member::start(TWO_PROCESSES, node.path());
    assert_eq!(member.probe(node.path()), []);
    for probe in ["fast/.headstart/cluster/probe", "slow/.headstart-cluster/probe"] {
        assert_eq!(std::fs::read_dir(node.path().join(probe)).unwrap().count(), 0, "{probe}");
    }
}

#[test]
fn two_nodes_with_directories_of_their_own_are_told_so() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let findings = Member::start(TWO_PROCESSES, there.path()).probe(here.path());
    let problems: Vec<_> = findings.iter().map(|finding| (finding.tier, finding.problem.clone())).collect();
    assert_eq!(problems, [(Tier::Fast, Problem::OtherDirectory), (Tier::Slow, Problem::OtherDirectory)]);
    for finding in findings {
        let text = finding.to_string();
        assert!(text.contains(here.path().to_str().unwrap()) && text.contains("same file system"), "{text}");
    }
}

#[test]
fn a_member_that_is_gone_is_a_finding() {
    let node = tempfile::tempdir().unwrap();
    let findings = run(&places(node.path()), "n2", true, &mut |_| Err("connection reset".into())).unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        assert_eq!(finding.problem.remedy(), Remedy::LookInto);
        assert!(finding.to_string().contains("n2") && finding.to_string().contains("connection reset"), "{finding}");
    }
}

/// A member whose file system is not as it should be.
struct Liar {
    hands: Hands,
    lies: fn(&mut Liar, &Act) -> Option<Answer>,
    kept: HashMap<String, Answer>,
}

impl Liar {
    fn act(&mut self, act: Act) -> Answer {
        match (self.lies)(self, &act) {
            Some(answer) => answer,
            None => self.hands.act(act),
        }
    }

    /// The first answer to the same question, for ever.
    fn cached(&mut self, act: &Act) -> Option<Answer> {
        let key = format!("{act:?}");
        if let Some(answer) = self.kept.get(&key) {
            return Some(answer.clone());
        }
        let answer = self.hands.act(act.clone());
        self.kept.insert(key, answer.clone());
        Some(answer)
    }
}

fn problems(lies: fn(&mut Liar, &Act) -> Option<Answer>) -> Vec<Problem> {
    let node = tempfile::tempdir().unwrap();
    let mut liar = Liar { hands: Hands::new(&places(node.path())).unwrap(), lies, kept: HashMap::new() };
    let findings = run(&places(node.path()), "liar", true, &mut |act| Ok(liar.act(act))).unwrap();
    let mut problems: Vec<Problem> = findings.into_iter().map(|finding| finding.problem).collect();
    problems.dedup();
    problems
}

fn failed(errno: i32) -> Option<Answer> {
    Some(Answer::Failed { errno, text: std::io::Error::from_raw_os_error(errno).to_string() })
}

#[test]
fn locks_that_are_not_seen_not_taken_or_not_given_up_are_found_and_nothing_else() {
    assert_eq!(problems(|_, _| None), []);
    assert_eq!(
        problems(|_, act| matches!(act.action, Action::Lock).then_some(Answer::Locked(true))),
        [Problem::LocksUnseen],
        "locks of the node alone"
    );
    let no_locks = problems(|_, act| if matches!(act.action, Action::Lock) { failed(libc::ENOLCK) } else { None });
    assert!(matches!(&no_locks[..], [Problem::NoLocks(why)] if why.contains("locks")), "{no_locks:?}");
    assert_eq!(
        problems(|_, act| matches!(act.action, Action::Lock).then_some(Answer::Locked(false))),
        [Problem::LocksStay],
        "locks that are not given up"
    );
}

#[test]
fn bytes_and_lengths_that_are_cached_are_found_and_nothing_else() {
    assert_eq!(
        problems(|liar, act| if matches!(act.action, Action::Read(0, 65536)) { liar.cached(act) } else { None }),
        [Problem::StaleBytes],
        "pages that are cached under an open descriptor"
    );
    assert_eq!(
        problems(|liar, act| {
            let is_data = act.name.ends_with(".data");
            if is_data && matches!(act.action, Action::ReadAnew(..)) { liar.cached(act) } else { None }
        }),
        [Problem::StaleBytes],
        "pages that are cached over an open"
    );
    assert_eq!(
        problems(|liar, act| match &act.action {
            // The page is written back whole, as it was cached.
            Action::Write(offset @ 2048, bytes) if act.name.ends_with(".page") => {
                let whole = [vec![0; 2048], bytes.clone()].concat();
                assert_eq!(*offset, 2048);
                let action = Action::Write(0, whole);
                Some(liar.hands.act(Act { action, ..act.clone() }))
            }
            _ => None,
        }),
        [Problem::LostBytes],
        "pages that are written whole"
    );
    for at_open in [true, false] {
        let lies: fn(&mut Liar, &Act) -> Option<Answer> = if at_open {
            |liar, act| if matches!(act.action, Action::LookAtOpen) { liar.cached(act) } else { None }
        } else {
            |liar, act| {
                let is_size = act.name.ends_with(".size") && matches!(act.action, Action::Look);
                if is_size { liar.cached(act) } else { None }
            }
        };
        assert_eq!(problems(lies), [Problem::StaleSize], "lengths that are cached");
    }
}

#[test]
fn names_and_links_that_are_cached_or_missing_and_other_inode_numbers_are_found() {
    assert_eq!(
        problems(|liar, act| {
            let is_name = act.name.ends_with(".name") && matches!(act.action, Action::Look);
            if is_name { liar.cached(act) } else { None }
        }),
        [Problem::StaleNames],
        "names that are cached, absent ones too"
    );
    assert_eq!(
        problems(|liar, act| {
            let is_linked = act.name.ends_with(".linked") && matches!(act.action, Action::Look);
            if is_linked { liar.cached(act) } else { None }
        }),
        [Problem::StaleNames],
        "a register whose next version is not seen"
    );
    let no_links = problems(|_, act| if matches!(act.action, Action::Link(_)) { failed(libc::EPERM) } else { None });
    assert!(matches!(&no_links[..], [.., Problem::NoLinks(_)]), "{no_links:?}");
    assert_eq!(
        problems(|_, act| matches!(act.action, Action::Link(_)).then_some(Answer::Done)),
        [Problem::NamesTakenTwice, Problem::StaleNames],
        "links that are said to be made"
    );
    let inodes = problems(|liar, act| match liar.hands.act(act.clone()) {
        Answer::Found { inode, bytes } if act.action == Action::Look => Some(Answer::Found { inode: inode + 1, bytes }),
        answer => Some(answer),
    });
    assert!(matches!(inodes[..], [Problem::InodesDiffer(here, there), ..] if here + 1 == there), "{inodes:?}");
}

#[test]
fn with_the_view_in_etcd_neither_locks_nor_links_are_asked_for() {
    let node = tempfile::tempdir().unwrap();
    let mut hands = Hands::new(&places(node.path())).unwrap();
    let mut ask = |act: Act| {
        assert!(!matches!(act.action, Action::Lock | Action::Link(_)), "{act:?}");
        Ok(hands.act(act))
    };
    assert_eq!(run(&places(node.path()), "n2", false, &mut ask).unwrap(), []);
}
