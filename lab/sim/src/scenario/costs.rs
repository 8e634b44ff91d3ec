//! What the tiers cost, as policies are told.

use headstart_policy::client::s4d::S4d;
use headstart_policy::cost::{benefit, region};
use headstart_units::request::Direction;
use serde::{Deserialize, Serialize};

use super::ScenarioError;

/// Cost models of S4D-Cache and CARL, as a site file has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// S4D's.
    pub s4d: Directions,
    /// CARL's; made from S4D's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carl: Option<region::Costs>,
}

/// One model a direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directions {
    /// Of reads.
    pub read: benefit::Parameters,
    /// Of writes.
    pub write: benefit::Parameters,
}

impl Costs {
    /// S4D's policy.
    pub fn policy(&self) -> S4d {
        S4d { read: self.s4d.read.clone(), write: self.s4d.write.clone() }
    }

    /// What regions cost.
    pub fn regions(&self) -> region::Costs {
        let from_s4d = || region::Costs { read: (&self.s4d.read).into(), write: (&self.s4d.write).into() };
        self.carl.clone().unwrap_or_else(from_s4d)
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        for (name, parameters) in [("read", &self.s4d.read), ("write", &self.s4d.write)] {
            let wrong = |error: benefit::ParameterError| {
                ScenarioError::new(format!("[costs.s4d.{name}] {}", error.name), error.to_string())
            };
            parameters.check().map_err(wrong)?;
        }
        self.regions().check().map_err(|(direction, error)| {
            let name = if direction == Direction::Read { "read" } else { "write" };
            ScenarioError::new(format!("[costs.carl.{name}] {}", error.name), error.to_string())
        })
    }
}
