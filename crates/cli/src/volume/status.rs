//! `headstart volume status`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_units::ByteSize;
use headstart_volume::control::{Answer, Client, Command, directory};
use headstart_volume::status::{DeviceStatus, RequestStatus, State, Status};
use headstart_volume::trace::{Access, DeviceName, Operation};

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// The UUID, the disk or the flash of a volume [default: all that are served here]
    volume: Option<String>,

    /// Print JSON: an object for a volume that is named, else a list
    #[arg(long)]
    json: bool,

    /// Print the last operations of the devices instead, as CSV, and remember COUNT of them from now on; 0 ends that
    #[arg(long, value_name = "COUNT", requires = "volume", conflicts_with = "json")]
    trace_addresses: Option<usize>,
}

/// The volumes that are served on this machine, by this user.
pub fn served() -> Vec<Client> {
    let sockets = directory::sockets();
    let uuid = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    // A killed server leaves its socket, where nobody answers.
    sockets.iter().filter_map(|path| Client::connect(&uuid(path)?).ok()).collect()
}

impl StatusArguments {
    pub fn execute(&self) -> Result<ExitCode> {
        if let Some(volume) = &self.volume {
            let mut client = Client::connect(volume)?;
            if let Some(count) = self.trace_addresses {
                return trace(&mut client, count);
            }
            let status = client.status()?;
            match self.json {
                true => println!("{}", serde_json::to_string_pretty(&status)?),
                false => print(&status),
            }
            return Ok(ExitCode::SUCCESS);
        }
        let all = served().iter_mut().map(Client::status).collect::<Result<Vec<_>, _>>()?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&all)?);
            return Ok(ExitCode::SUCCESS);
        }
        if all.is_empty() {
            println!("no volume is served; 'headstart volume serve' serves one");
        }
        for (index, status) in all.iter().enumerate() {
            if index > 0 {
                println!();
            }
            print(status);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(status: &Status) {
    let size = |bytes| ByteSize(bytes).to_string();
    let doing = match status.state {
        State::Serving => "",
        State::Draining => ", writing back",
        State::Stopping => ", stopping",
    };
    println!("volume     {}", status.uuid);
    println!("server     process {}{doing}, {}, {}, {}", status.pid, status.mode, status.policy, status.storage);
    print_device("disk", &status.disk, if status.guard { ", guarded" } else { "" });
    print_device("flash", &status.flash, "");
    let used = status.log_bytes.saturating_sub(status.log_free_bytes);
    println!("dirty      {}; the log holds {} of {}", size(status.dirty_bytes), size(used), size(status.log_bytes));
    if let Some(segments) = &status.segments {
        println!(
            "segments   of {} with heads of {}: {} of {} lifted, {} to be; {} in memory, {} measured",
            size(segments.segment_bytes),
            size(segments.head_bytes),
            segments.lifted,
            segments.slots,
            segments.lifts_waiting,
            segments.loaded,
            segments.ghosts
        );
        println!("sizes      {}", segments.basis);
        let counters = &status.counters;
        println!(
            "loads      {}, {} seeks hidden; heads answered {} of reads at once, memory {}",
            counters.loads_total,
            counters.seeks_hidden_total,
            size(counters.head_read_bytes_total),
            size(counters.buffer_read_bytes_total)
        );
    }
    let requests = &status.requests;
    for (kind, figures) in [
        ("reads", &requests.read),
        ("writes", &requests.write),
        ("zeros", &requests.zero),
        ("flushes", &requests.flush),
    ] {
        print_requests(kind, figures);
    }
    if status.requests_waiting > 0 {
        println!("waiting    {} requests", status.requests_waiting);
    }
}

fn print_device(kind: &str, device: &DeviceStatus, guarded: &str) {
    let failed = match (device.failed, device.errors_total) {
        (true, _) => ", FAILED: serve the volume anew once it is mended",
        (false, 1..) => ", errors",
        (false, 0) => "",
    };
    let zeroed = match device.zeroed_bytes_total {
        0 => String::new(),
        bytes => format!("{} made zeros, ", ByteSize(bytes)),
    };
    println!(
        "{kind:<10} {} ({}{guarded}{failed}): {} read, {} written, {zeroed}{} flushes, {} errors",
        device.name,
        ByteSize(device.bytes),
        ByteSize(device.read_bytes_total),
        ByteSize(device.written_bytes_total),
        device.flushes_total,
        device.errors_total
    );
}

fn print_requests(kind: &str, figures: &RequestStatus) {
    if figures.requests_total == 0 {
        return;
    }
    let ms = |seconds: f64| seconds * 1e3;
    println!(
        "{kind:<10} {}, {}, {} failed; half within {:.3} ms, 99 % within {:.3} ms, all within {:.3} ms",
        figures.requests_total,
        ByteSize(figures.bytes_total),
        figures.failed_total,
        ms(figures.p50_seconds),
        ms(figures.p99_seconds),
        ms(figures.max_seconds)
    );
}

fn trace(client: &mut Client, count: usize) -> Result<ExitCode> {
    let Answer::Trace(accesses) = client.ask(&Command::TraceAddresses { count })? else {
        bail!("the volume's server gave an answer to something else");
    };
    let mut table = csv::Writer::from_writer(std::io::stdout().lock());
    table.write_record(["seconds", "device", "operation", "offset", "bytes"])?;
    for access in accesses {
        table.write_record(row(&access))?;
    }
    table.flush().context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

fn row(access: &Access) -> [String; 5] {
    let device = match access.device {
        DeviceName::Disk => "disk",
        DeviceName::Flash => "flash",
    };
    let operation = match access.operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Zero => "zero",
        Operation::Flush => "flush",
    };
    let seconds = format!("{}.{:09}", access.at_ns / 1_000_000_000, access.at_ns % 1_000_000_000);
    [seconds, device.into(), operation.into(), access.offset.to_string(), access.length.to_string()]
}
