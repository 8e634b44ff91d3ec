//! Making the regions of a plan known to the agent: whether its files are still the ones that were traced,
//! then their regions.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use headstart_agent::site::Site;
use headstart_agent::status::{Command, RegionsOfFile};
use headstart_insight::plan::{Plan, PlanFile};
use headstart_policy::client::carl::Wanted;
use headstart_units::ByteSize;
use headstart_units::request::Range;

/// Regions in one packet.
const REGIONS_PER_PACKET: usize = 1000;

/// What the regions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be copied: those that the files have now, of the files that were traced.
    Placing,
    /// For a run, which may make its files anew and write behind their end.
    Running,
}

/// One file whose regions the agent knows.
#[derive(Debug)]
pub struct FollowedFile {
    pub path: PathBuf,
    /// Its inode, if it is there.
    pub inode: Option<u64>,
    pub regions: Vec<Wanted>,
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Followed {
    pub files: Vec<FollowedFile>,
    /// Files whose regions are left out, and why; each begins with the path.
    pub problems: Vec<String>,
}

impl Followed {
    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.files.iter().map(|file| file.regions.len()).sum()
    }

    /// Bytes of the regions.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.regions).map(|region| region.range.length).sum()
    }
}

/// Gives commands to one agent, all or none of them.
type Tell<'a> = &'a dyn Fn(&[Command]) -> headstart_agent::Result<()>;

/// Tells the agent of every file of the plan. What it says of a file, and what the user should know of one,
/// goes to stderr.
pub fn follow(tell_agent: Tell<'_>, site: &Site, plan: &Plan, purpose: Purpose) -> Result<Followed> {
    let mut followed = Followed::default();
    for file in &plan.files {
        match look(file, site, purpose) {
            Err(problem) => followed.problems.push(format!("{}: {problem}", file.path)),
            Ok(found) => match tell(tell_agent, &found, purpose) {
                Err(headstart_agent::Error::Refused(problem)) => followed.problems.push(problem),
                Err(error) => return Err(error.into()),
                Ok(()) => followed.files.push(found),
            },
        }
    }
    followed.files.retain(|file| !file.regions.is_empty());
    Ok(followed)
}

/// Whether the file is still the one that was traced, and its regions.
fn look(file: &PlanFile, site: &Site, purpose: Purpose) -> std::result::Result<FollowedFile, String> {
    let mut regions: Vec<Wanted> = file.wanted().iter().collect();
    let path = match Path::new(&file.path).canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => match (purpose, name_of_none(&file.path)) {
            (Purpose::Running, Some(path)) => return Ok(FollowedFile { path, inode: None, regions }),
            _ => return Err("it has vanished since it was traced".into()),
        },
        path => path.map_err(|error| error.to_string())?,
    };
    if !path.starts_with(&site.slow) {
        return Err(format!("it does not lie in the slow directory {}", site.slow.display()));
    }
    let found = path.metadata().map_err(|error| error.to_string())?;
    if purpose == Purpose::Placing {
        if file.inode.is_some_and(|inode| inode != found.ino()) {
            let hint = "trace it again, or take its inode out of the plan if the new one is used alike";
            return Err(format!("another file has its name since it was traced; {hint}"));
        }
        clip(file, found.len(), &mut regions);
    }
    Ok(FollowedFile { path, inode: Some(found.ino()), regions })
}

/// The path that a file would have which is not there.
fn name_of_none(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// The path by which the agent knows a file of a plan, also one that is gone.
pub fn path_of(path: &str) -> PathBuf {
    Path::new(path).canonicalize().ok().or_else(|| name_of_none(path)).unwrap_or_else(|| path.into())
}

/// Says how the file's size has changed; regions behind its end are left out.
fn clip(file: &PlanFile, now: u64, regions: &mut Vec<Wanted>) {
    let size = |bytes| ByteSize(bytes).to_string();
    let changed = format!("{}: {} when it was traced, {} now", file.path, size(file.size_bytes), size(now));
    if now > file.size_bytes && !regions.is_empty() {
        eprintln!("headstart: {changed}; its regions are taken as they are, what was added has none");
    }
    if now < file.size_bytes {
        let before = regions.len();
        regions.iter_mut().for_each(|region| region.range = region.range.intersection(Range::new(0, now)));
        regions.retain(|region| !region.range.is_empty());
        let left_out = before - regions.len();
        eprintln!("headstart: {changed}; {left_out} of its {before} regions lie beyond its end and are left out");
    }
}

fn tell(
    tell_agent: Tell<'_>,
    file: &FollowedFile,
    purpose: Purpose,
) -> std::result::Result<(), headstart_agent::Error> {
    let Some(path) = file.path.to_str() else {
        return Err(headstart_agent::Error::Refused(format!("{}: its name is not UTF-8", file.path.display())));
    };
    let inode = file.inode.filter(|_| purpose == Purpose::Placing);
    let by_name = purpose == Purpose::Running;
    let packed = |region: &Wanted| [region.range.offset, region.range.length, region.benefit_ns, region.gain_ns];
    let mut rest = file.regions.as_slice();
    let mut commands = Vec::new();
    loop {
        let (page, after) = rest.split_at(rest.len().min(REGIONS_PER_PACKET));
        rest = after;
        let (path, regions, more) = (path.to_string(), page.iter().map(packed).collect(), !rest.is_empty());
        commands.push(Command::Want(RegionsOfFile { path, inode, by_name, regions, more }));
        if !more {
            return tell_agent(&commands);
        }
    }
}
