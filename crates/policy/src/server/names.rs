//! Which policies a volume has, by the names that commands, superblocks and scenarios give them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which policies a volume has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Names {
    /// Every write up to a size.
    #[default]
    None,
    /// iTransformer.
    ITransformer,
    /// LiU.
    Liu,
    /// Both.
    LiuITransformer,
    /// Both, or iTransformer alone where there is no room for heads.
    Auto,
}

impl Names {
    /// All there are.
    pub const ALL: [Names; 5] = [Names::Auto, Names::Liu, Names::ITransformer, Names::LiuITransformer, Names::None];
    /// Their names.
    pub const KNOWN: &str = "auto|liu|itransformer|liu,itransformer|none";

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Names::None => "none",
            Names::ITransformer => "itransformer",
            Names::Liu => "liu",
            Names::LiuITransformer => "liu,itransformer",
            Names::Auto => "auto",
        }
    }

    /// As superblocks have it.
    pub fn number(self) -> u32 {
        match self {
            Names::None => 0,
            Names::ITransformer => 1,
            Names::Liu => 2,
            Names::LiuITransformer => 3,
            Names::Auto => 4,
        }
    }

    /// Of that number; one of a later version's is not known here, and nothing depends on it.
    pub fn of_number(number: u32) -> Names {
        Names::ALL.into_iter().find(|names| names.number() == number).unwrap_or_default()
    }

    /// Whether LiU is one of them, given room for heads.
    pub fn has_liu(self) -> bool {
        matches!(self, Names::Liu | Names::LiuITransformer | Names::Auto)
    }

    /// Whether they make no sense without room for heads.
    pub fn needs_heads(self) -> bool {
        matches!(self, Names::Liu | Names::LiuITransformer)
    }

    /// Whether iTransformer is one of them.
    pub(crate) fn has_itransformer(self) -> bool {
        matches!(self, Names::ITransformer | Names::LiuITransformer | Names::Auto)
    }

    /// Of a hundred parts of the flash, how many should be heads'. LiU alone needs a log for heads that are
    /// written; both need one for all writes, as long as iTransformer's alone (layout.rs).
    pub fn heads_percent(self) -> u64 {
        match self {
            Names::None | Names::ITransformer => 0,
            Names::Liu => 80,
            Names::LiuITransformer | Names::Auto => 29,
        }
    }
}

/// A word that names no policies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not one of {known}", known = Names::KNOWN)]
pub struct UnknownNames(String);

impl FromStr for Names {
    type Err = UnknownNames;

    fn from_str(text: &str) -> Result<Names, UnknownNames> {
        Names::ALL.into_iter().find(|names| names.name() == text).ok_or_else(|| UnknownNames(text.to_owned()))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TryFrom<String> for Names {
    type Error = UnknownNames;

    fn try_from(text: String) -> Result<Names, UnknownNames> {
        text.parse()
    }
}

impl From<Names> for String {
    fn from(names: Names) -> String {
        names.name().into()
    }
}
