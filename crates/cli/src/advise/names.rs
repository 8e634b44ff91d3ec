//! What policies are called.

use headstart_insight::advice::Policy;

/// What a policy is called on the command line.
pub fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Off => "off",
        Policy::Carl => "carl",
        Policy::S4d => "s4d",
        Policy::S4dFirst => "s4d, first run",
        Policy::CarlS4d => "carl,s4d",
        Policy::Random => "random",
    }
}

/// What `--policy` calls it.
pub fn option(policy: Policy) -> &'static str {
    if policy == Policy::S4dFirst { "s4d" } else { name(policy) }
}
