//! The figures of a status as Prometheus text (exposition format 0.0.4), and the socket that serves it.

pub mod server;

use headstart_protocol::counters::families;
use headstart_protocol::counters::families::{Family, Kind, Unit};
use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::status::Status;

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A figure with its family and labels.
pub type Sample = (&'static Family, &'static [(&'static str, &'static str)], u64);

/// Every figure of a status: what was counted, and how things stand.
pub fn samples(status: &Status) -> Vec<Sample> {
    let counted = status.requests.figures().chain(status.agent.figures()).chain(status.service.figures());
    let of_nodes = status.cluster.as_ref().map(|cluster| {
        let deadline_ns = cluster.deadline_ms.unwrap_or(0).saturating_mul(1_000_000);
        [cluster.members, cluster.view, deadline_ns, cluster.waits_for.len() as u64, cluster.files_shared]
    });
    let [members, view, deadline_ns, awaited, shared] = of_nodes.unwrap_or_default();
    let traffic = status.cluster.as_ref().map(|cluster| cluster.traffic).unwrap_or_default();
    let stands: [(&'static Family, u64); 23] = [
        (&families::CAPACITY, status.capacity_bytes),
        (&families::MAPPED, status.mapped_bytes),
        (&families::DIRTY, status.dirty_bytes),
        (&families::EXTENTS, status.extents),
        (&families::THREADS, status.threads),
        (&families::FILES, status.files_known),
        (&families::FILES_DIRTY, status.files_dirty),
        (&families::FILES_FAILED, status.files_failed),
        (&families::JOURNAL, status.journal_bytes),
        (&families::DURABLE, status.durable.into()),
        (&families::MEMBERS, members),
        (&families::VIEW, view),
        (&families::DEADLINE, deadline_ns),
        (&families::AWAITED, awaited),
        (&families::SHARED, shared),
        (&families::SENT_LETTERS, traffic.sent_letters_total),
        (&families::SENT_PACKETS, traffic.sent_packets_total),
        (&families::SENT_BYTES, traffic.sent_bytes_total),
        (&families::RECEIVED_LETTERS, traffic.received_letters_total),
        (&families::RECEIVED_BYTES, traffic.received_bytes_total),
        (&families::REGION_FILES, status.placement.files),
        (&families::REGIONS, status.placement.wanted_bytes),
        (&families::REGIONS_PLACED, status.placement.placed_bytes),
    ];
    let none: &'static [(&'static str, &'static str)] = &[];
    counted
        .map(|(figure, value)| (figure.family, figure.labels, value))
        .chain(stands.map(|(family, value)| (family, none, value)))
        .collect()
}

/// The text. Each figure carries the slow directory as a label, as a node may have several agents.
pub fn text(status: &Status) -> String {
    let samples = samples(status);
    let all = families::ALL.iter().filter_map(|family| {
        let metrics: Vec<Metric> = samples
            .iter()
            .filter(|(of, ..)| *of == family)
            .map(|(_, labels, value)| metric(family, labels, &status.slow, *value))
            .collect();
        if metrics.is_empty() {
            return None;
        }
        let mut encoded = MetricFamily::default();
        encoded.set_name(family.name.into());
        encoded.set_help(family.help.into());
        encoded.set_field_type(match family.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        encoded.set_metric(metrics);
        Some(encoded)
    });
    TextEncoder::new().encode_to_string(&all.collect::<Vec<_>>()).expect("families have names and samples")
}

fn metric(family: &Family, labels: &[(&str, &str)], directory: &str, value: u64) -> Metric {
    let value = match family.unit {
        Unit::Count | Unit::Bytes => value as f64,
        Unit::Nanoseconds => value as f64 / 1e9,
    };
    let pair = |name: &str, value: &str| {
        let mut pair = LabelPair::default();
        pair.set_name(name.into());
        pair.set_value(value.into());
        pair
    };
    let mut metric = Metric::default();
    let directory = [pair("directory", directory)];
    metric.set_label(directory.into_iter().chain(labels.iter().map(|(name, value)| pair(name, value))).collect());
    match family.kind {
        Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
        Kind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
    }
    metric
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::counters::ServiceCounters;

    /// Reads the text as `promtool check metrics` does: HELP and TYPE once for each family and before its
    /// samples, samples of a family together, none twice, names and units as Prometheus wants them.
    fn parse(text: &str) -> BTreeMap<String, f64> {
        let (mut helped, mut typed) = (BTreeMap::new(), BTreeMap::<String, String>::new());
        let mut found = BTreeMap::new();
        let mut current = String::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(helped.insert(name.to_string(), help.to_string()).is_none(), "HELP twice: {name}");
                current = name.to_string();
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, current, "TYPE follows its HELP");
                assert!(typed.insert(name.to_string(), kind.to_string()).is_none(), "TYPE twice: {name}");
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            assert_eq!(name, current, "a sample stands beneath its family");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'));
            assert_eq!(typed[name] == "counter", name.ends_with("_total"), "{name}");
            check_labels(&sample[name.len()..]);
            assert!(found.insert(sample.to_string(), value.parse().unwrap()).is_none(), "twice: {sample}");
        }
        assert_eq!(helped.len(), typed.len());
        found
    }

    /// `{name="value",...}` with `\`, `"` and line breaks of the values escaped.
    fn check_labels(labels: &str) {
        let mut rest = labels.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        while !rest.is_empty() {
            let (name, value) = rest.split_once("=\"").unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{labels}");
            let mut escaped = false;
            let end = value.bytes().position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            let (value, after) = value.split_at(end.unwrap_or_else(|| panic!("no end: {labels}")));
            let unescaped = value.replace("\\\\", "").replace("\\\"", "").replace("\\n", "");
            assert!(!unescaped.contains(['\\', '"', '\n']), "{labels}");
            rest = after[1..].strip_prefix(',').unwrap_or(&after[1..]);
        }
    }

    #[test]
    fn the_text_obeys_the_format_with_any_directory_name() {
        for slow in ["/slow", "/a \"quoted\"\\ name\nof two lines", "/ü{}=,"] {
            let mut status = Status { slow: slow.into(), dirty_bytes: 7, ..Status::default() };
            status.requests.disk_write_append_requests_total = 3;
            status.agent.barrier_wait_ns_total = 1_500_000_000;
            let found = parse(&text(&status));
            assert_eq!(found.len(), samples(&status).len());
            let value = |start: &str, end: &str| {
                let mut of = found.iter().filter(|(name, _)| name.starts_with(start) && name.ends_with(end));
                *of.next().unwrap_or_else(|| panic!("no {start} {end}")).1
            };
            assert_eq!(value("headstart_dirty_bytes{", "}"), 7.0);
            assert_eq!(value("headstart_requests_total{", "outcome=\"disk\",reason=\"append\"}"), 3.0);
            assert_eq!(value("headstart_wait_seconds_total{", "cause=\"barriers\"}"), 1.5);
        }
    }

    #[test]
    fn every_family_has_a_figure_and_a_name_with_its_unit() {
        let samples = samples(&Status::default());
        for family in families::ALL {
            assert!(samples.iter().any(|(of, ..)| *of == family), "{} has no figure", family.name);
            let base = family.name.strip_suffix("_total").or(family.name.strip_suffix("_max")).unwrap_or(family.name);
            assert_eq!(base.ends_with("_bytes"), family.unit == Unit::Bytes, "{}", family.name);
            assert_eq!(base.ends_with("_seconds"), family.unit == Unit::Nanoseconds, "{}", family.name);
            assert!(family.name.starts_with("headstart_") && family.help.ends_with('.'));
        }
        assert_eq!(
            ServiceCounters::FIGURES.iter().filter(|figure| figure.family.name.contains("messages")).count(),
            25
        );
    }

    /// The document's table is the list; `BLESS=1` writes it.
    #[test]
    fn the_document_lists_every_family() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- families -->\n", "<!-- /families -->");
        let (head, rest) = document.split_once(begin).unwrap();
        let (table, tail) = rest.split_once(end).unwrap();
        let samples = samples(&Status::default());
        let mut wanted = String::from("| name | kind | labels | meaning |\n|---|---|---|---|\n");
        for family in families::ALL {
            let mut labels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (name, value) in samples.iter().filter(|(of, ..)| *of == family).flat_map(|(_, labels, _)| *labels) {
                let values = labels.entry(name).or_default();
                if !values.contains(value) {
                    values.push(value);
                }
            }
            let labels: Vec<String> =
                labels.iter().map(|(name, values)| format!("`{name}`: {}", values.join(", "))).collect();
            let kind = format!("{:?}", family.kind).to_lowercase();
            wanted += &format!("| `{}` | {kind} | {} | {} |\n", family.name, labels.join("; "), family.help);
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, [head, begin, &wanted, end, tail].concat()).unwrap();
        } else {
            assert_eq!(table, wanted, "run this test with BLESS=1");
        }
    }
}
