//! Which policies a run asks, and in which order: one name for each choice, in the command line and in the environment.

use std::fmt;
use std::str::FromStr;

use super::carl::Regions;
use super::disk_only::DiskOnly;
use super::s4d::S4d;
use super::{Decision, Policy, Reason, parts};
use crate::client::Request;
use headstart_units::request::Range;

/// The choice of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chain {
    /// No policy: nothing new goes to flash.
    Off,
    /// S4D-Cache.
    #[default]
    S4d,
    /// CARL: the regions of a plan, nothing else.
    Carl,
    /// CARL; what it has no opinion of goes by S4D-Cache.
    CarlS4d,
    /// CARL where regions of a file are known, S4D-Cache elsewhere.
    Auto,
}

impl Chain {
    /// All of them.
    pub const ALL: [Chain; 5] = [Chain::S4d, Chain::Carl, Chain::CarlS4d, Chain::Auto, Chain::Off];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Chain::Off => "off",
            Chain::S4d => "s4d",
            Chain::Carl => "carl",
            Chain::CarlS4d => "carl,s4d",
            Chain::Auto => "auto",
        }
    }

    /// Whether it asks for the regions of files.
    pub const fn asks_regions(self) -> bool {
        match self {
            Chain::Off | Chain::S4d => false,
            Chain::Carl | Chain::CarlS4d | Chain::Auto => true,
        }
    }

    /// Whether it asks S4D-Cache.
    pub const fn asks_s4d(self) -> bool {
        match self {
            Chain::Off | Chain::Carl => false,
            Chain::S4d | Chain::CarlS4d | Chain::Auto => true,
        }
    }

    /// What its policies want of the first part of a request, which is not empty; how far that reaches is
    /// where the part ends. Most requests are one part. `regions` are those of the request's file; without
    /// cost models there is no policy.
    #[inline]
    pub fn first_part(self, s4d: Option<&S4d>, regions: &Regions, request: &Request) -> (Request, Decision) {
        match s4d {
            Some(s4d) if self == Chain::S4d => first_part_alone(s4d, request),
            Some(s4d) if self.asks_s4d() => first_part(&[regions, s4d], request),
            Some(_) if self.asks_regions() => first_part(&[regions], request),
            _ => first_part(&[&DiskOnly], request),
        }
    }
}

/// Of one policy, which is known here: the request of most programs.
#[inline]
fn first_part_alone(policy: &impl Policy, request: &Request) -> (Request, Decision) {
    let part = Request { range: Range::between(request.range.offset, policy.bound(request.range)), ..*request };
    match policy.on_request(&part) {
        Decision::Pass => (part, Decision::Disk(Reason::NoBenefit)),
        decision => (part, decision),
    }
}

fn first_part(policies: &[&dyn Policy], request: &Request) -> (Request, Decision) {
    parts(policies, *request).next().expect("the request is not empty")
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Chain {
    type Err = String;

    fn from_str(text: &str) -> Result<Chain, String> {
        Chain::ALL.into_iter().find(|chain| chain.name() == text).ok_or_else(|| {
            let names = Chain::ALL.map(Chain::name);
            format!("there is no policy '{text}'; there are {}", names.join(" | "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_read_back_by_its_name_and_others_are_refused_with_the_names_there_are() {
        for chain in Chain::ALL {
            assert_eq!(chain.name().parse(), Ok(chain));
        }
        for wrong in ["", "CARL", "s4d,carl", "carl, s4d", "carl,"] {
            assert!(wrong.parse::<Chain>().unwrap_err().contains("carl,s4d"), "{wrong}");
        }
    }
}
