//! Settings from the environment: `HEADSTART_KEY` for a key at the top of the site file,
//! `HEADSTART_SECTION_KEY` for one of a table. They come before the file's, and after the command line's.
//!
//! In a program under `headstart run`, `HEADSTART_SLOW` is what the library was told, and no setting.

use std::ffi::OsString;

use headstart_protocol::ENVIRONMENT_RUNTIME;
use toml::{Table, Value};

/// How a variable's text is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it stands.
    Text,
    /// A TOML array, or one pattern as it stands.
    List,
    /// A TOML value.
    Value,
}

const COSTS: &[&str] = &[
    "hdd_servers",
    "ssd_servers",
    "stripe_bytes",
    "rotation_s",
    "seek_s_max",
    "hdd_s_per_byte",
    "ssd_s_per_byte",
    "seek_curve",
    "near_stays",
    "interleaved_stays",
    "write_back_leap_bytes",
];

const REGION_COSTS: &[&str] = &[
    "hdd_servers",
    "ssd_servers",
    "stripe_bytes",
    "hdd_startup_s_min",
    "hdd_startup_s_max",
    "hdd_s_per_byte",
    "ssd_s_per_byte",
    "ssd_startup_s",
    "ssd_busy_s_per_byte",
    "near_stays",
    "interleaved_stays",
];

/// Every setting: its table, its keys, how they are read.
const SETTINGS: &[(&[&str], &[&str], Form)] = &[
    (&[], &["slow", "fast", "capacity", "strangers"], Form::Text),
    (&[], &["include", "exclude"], Form::List),
    (
        &["agent"],
        &[
            "dirty_high",
            "dirty_low",
            "dirty_full",
            "write_back_share_min",
            "copies_max",
            "journal_bytes_max",
            "log_bytes_max",
            "idle_s",
            "metrics",
        ],
        Form::Value,
    ),
    (&["agent"], &["metrics_socket"], Form::Text),
    (&["s4d", "read"], COSTS, Form::Value),
    (&["s4d", "write"], COSTS, Form::Value),
    (&["carl", "read"], REGION_COSTS, Form::Value),
    (&["carl", "write"], REGION_COSTS, Form::Value),
    (&["software"], &["processors", "request_cpu_ms", "copy_cpu_ms"], Form::Value),
    (
        &["cluster"],
        &["membership", "etcd_ca", "etcd_certificate", "etcd_key", "etcd_user", "etcd_password_file", "listen", "name"],
        Form::Text,
    ),
    (&["cluster"], &["etcd"], Form::List),
    (&["cluster"], &["etcd_accept_old", "hold_s", "margin_s"], Form::Value),
];

/// The variable of a setting.
fn variable(section: &[&str], key: &str) -> String {
    let words: Vec<&str> = ["headstart"].iter().chain(section).chain([&key]).copied().collect();
    words.join("_").to_uppercase()
}

/// Puts what the environment sets into the site file's table; false if it sets nothing.
pub(super) fn apply(table: &mut Table, lookup: impl Fn(&str) -> Option<OsString>) -> Result<bool, String> {
    let inside_run = lookup(ENVIRONMENT_RUNTIME).is_some();
    let mut applied = false;
    for (section, keys, form) in SETTINGS {
        for key in *keys {
            let name = variable(section, key);
            let Some(text) = lookup(&name).filter(|_| !(inside_run && *key == "slow")) else { continue };
            let text = text.into_string().map_err(|_| format!("{name} in the environment is not UTF-8"))?;
            let mut inner = &mut *table;
            for part in *section {
                let entry = inner.entry(part.to_string()).or_insert_with(|| Value::Table(Table::new()));
                inner = entry.as_table_mut().ok_or_else(|| format!("{part} is not a table"))?;
            }
            inner.insert(key.to_string(), value(&name, &text, *form)?);
            applied = true;
        }
    }
    Ok(applied)
}

fn value(name: &str, text: &str, form: Form) -> Result<Value, String> {
    let parsed = || {
        let mut table: Table = toml::from_str(&format!("value = {text}")).ok()?;
        table.remove("value")
    };
    match form {
        Form::Text => Ok(Value::String(text.into())),
        Form::List if text.trim().is_empty() => Ok(Value::Array(Vec::new())),
        Form::List => Ok(parsed().filter(Value::is_array).unwrap_or_else(|| Value::Array(vec![text.into()]))),
        Form::Value => parsed().ok_or_else(|| format!("{name}={text} in the environment is not a TOML value")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use headstart_insight::Software;
    use headstart_policy::cost::benefit::{Parameters, SeekPoint};
    use headstart_policy::cost::region;

    use super::*;
    use crate::site::{AgentSettings, ClusterSettings, CostModels, Site};

    /// A site that sets everything.
    fn full() -> Site {
        let seek_curve = vec![SeekPoint { distance_bytes: 1, seek_s: 0.5 }];
        let parameters = Parameters {
            seek_curve,
            near_stays: true,
            interleaved_stays: true,
            write_back_leap_bytes: 1,
            ..Parameters::default()
        };
        let region = region::Parameters { ssd_busy_s_per_byte: Some(1e-8), ..region::Parameters::from(&parameters) };
        Site {
            slow: "/slow".into(),
            fast: "/fast".into(),
            capacity: Some("20%".into()),
            include: vec!["a".into()],
            exclude: vec!["b".into()],
            strangers: Some("warn".into()),
            s4d: CostModels { read: parameters.clone(), write: parameters },
            carl: Some(region::Costs { read: region.clone(), write: region }),
            software: Some(Software::default()),
            agent: Some(AgentSettings {
                dirty_high: Some(0.5),
                dirty_low: Some(0.5),
                dirty_full: Some(0.5),
                write_back_share_min: Some(0.5),
                copies_max: Some(3),
                journal_bytes_max: Some(3),
                log_bytes_max: Some(3),
                idle_s: Some(3),
                metrics: Some(true),
                metrics_socket: Some("/m".into()),
            }),
            cluster: Some(ClusterSettings {
                membership: Some("etcd".into()),
                etcd: vec!["http://a:1".into()],
                etcd_ca: Some("/ca".into()),
                etcd_certificate: Some("/c".into()),
                etcd_key: Some("/k".into()),
                etcd_user: Some("u".into()),
                etcd_password_file: Some("/p".into()),
                etcd_accept_old: Some(true),
                listen: Some("ib0".into()),
                name: Some("n".into()),
                hold_s: Some(3),
                margin_s: Some(3),
            }),
        }
    }

    fn leaves(table: &Table, section: &[&str], found: &mut BTreeSet<String>) {
        for (key, value) in table {
            match value.as_table() {
                Some(inner) => leaves(inner, &[section, &[key.as_str()]].concat(), found),
                None => drop(found.insert(variable(section, key))),
            }
        }
    }

    #[test]
    fn every_setting_of_the_site_file_has_a_variable() {
        let mut wanted = BTreeSet::new();
        leaves(&toml::from_str(&full().to_toml()).unwrap(), &[], &mut wanted);
        let found: BTreeSet<String> =
            SETTINGS.iter().flat_map(|(section, keys, _)| keys.iter().map(|key| variable(section, key))).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_environment_comes_before_the_file() {
        let set = [
            ("HEADSTART_FAST", "/other"),
            ("HEADSTART_CAPACITY", "64GiB"),
            ("HEADSTART_INCLUDE", "[\"x\", \"y/**\"]"),
            ("HEADSTART_EXCLUDE", "*.log"),
            ("HEADSTART_AGENT_COPIES_MAX", "7"),
            ("HEADSTART_S4D_READ_HDD_SERVERS", "9"),
            ("HEADSTART_S4D_WRITE_SEEK_CURVE", "[{ distance_bytes = 5, seek_s = 0.25 }]"),
        ];
        let lookup = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, text)| text.into());
        let mut table: Table = toml::from_str(&full().to_toml()).unwrap();
        assert!(apply(&mut table, lookup).unwrap());
        let site: Site = table.try_into().unwrap();
        assert_eq!((site.slow, site.fast), ("/slow".into(), "/other".into()));
        assert_eq!((site.capacity.as_deref(), site.include.len()), (Some("64GiB"), 2));
        assert_eq!(site.exclude, ["*.log"]);
        assert_eq!(site.agent.unwrap().copies_max, Some(7));
        assert_eq!((site.s4d.read.hdd_servers, site.s4d.write.seek_curve[0].distance_bytes), (9, 5));
        assert!(!apply(&mut Table::new(), |_| None).unwrap());
    }

    #[test]
    fn what_run_sets_for_programs_is_no_setting_and_nonsense_is_named() {
        let inside = |name: &str| ["HEADSTART_SLOW", "HEADSTART_RUNTIME"].contains(&name).then(|| "/x".into());
        assert!(!apply(&mut Table::new(), inside).unwrap());
        let nonsense = |name: &str| (name == "HEADSTART_AGENT_DIRTY_LOW").then(|| "half".into());
        let error = apply(&mut Table::new(), nonsense).unwrap_err();
        assert!(error.contains("HEADSTART_AGENT_DIRTY_LOW=half"), "{error}");
    }
}
