//! Solid-state devices against their figures.

use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::server::{Server, ServerConfig};
use headstart_units::{GIB, KIB, MIB, Nanos};

use crate::driver::{Random, assert_near, closed_loop, drain, read, write};

fn server(profile: Profile) -> Server {
    Server::new(ServerConfig { nic: NicConfig::NONE, ..ServerConfig::new(profile) })
}

fn latency_us(profile: Profile, request: headstart_model::request::Request) -> f64 {
    let mut server = server(profile);
    server.on_request(Nanos::ZERO, request);
    drain(&mut server)[0].at.0 as f64 / 1e3
}

#[test]
fn single_requests_take_startup_and_transfer() {
    let cells = [
        (Profile::RevodriveX2, read(0, 0, 64 * KIB), 500.0 + 65536.0 / 220.0),
        (Profile::RevodriveX2, write(0, 0, 64 * KIB), 250.0 + 65536.0 / 190.0),
        (Profile::Onyx, read(0, 0, 64 * KIB), 150.0 + 65536.0 / 125.0),
        (Profile::Onyx, write(0, 0, 64 * KIB), 250.0 + 65536.0 / 70.0),
        (Profile::Pm9a3, read(0, 0, 4 * KIB), 82.0),
        (Profile::Pm9a3, write(0, 0, 4 * KIB), 23.0),
        (Profile::Null, read(0, 0, 64 * KIB), 0.0),
    ];
    for (profile, request, expected) in cells {
        let what = format!("{profile} {:?} of {}, µs", request.operation, request.length);
        assert_near(&what, latency_us(profile, request), expected, 1.0, 0.1);
    }
}

#[test]
fn a_head_of_one_mib_on_the_onyx_hides_a_seek() {
    let ms = latency_us(Profile::Onyx, read(0, 0, MIB)) / 1e3;
    assert_near("onyx, 1 MiB, ms", ms, 8.5, 4.0, 0.1);
    assert!(ms < 12.0, "shorter than the 12 ms a disk needs");
}

#[test]
fn parallel_streams_share_the_device_up_to_its_cap() {
    let rate = |profile, depth, size: u64, writes: bool| {
        let (mut server, count) = (server(profile), 2000);
        // Gaps keep requests from merging.
        let end = closed_loop(&mut server, depth, count, |id| match writes {
            false => read(id, id * 2 * size, size),
            true => write(id, id * 2 * size, size),
        });
        (count * size) as f64 / end.seconds() / 1e6
    };
    let one = 65536.0 / (500.0 + 65536.0 / 220.0);
    assert_near("revodrive, one 64 KiB stream", rate(Profile::RevodriveX2, 1, 64 * KIB, false), one, 1.0, 0.0);
    assert_near("revodrive, four", rate(Profile::RevodriveX2, 4, 64 * KIB, false), 4.0 * one, 1.0, 0.0);
    assert_near(
        "revodrive, eight are served as four",
        rate(Profile::RevodriveX2, 8, 64 * KIB, false),
        4.0 * one,
        1.0,
        0.0,
    );
    assert_near("revodrive read cap", rate(Profile::RevodriveX2, 8, 512 * KIB, false), 540.0, 2.0, 0.0);
    assert_near("revodrive write cap", rate(Profile::RevodriveX2, 8, 512 * KIB, true), 480.0, 2.0, 0.0);
    let onyx = 65536.0 / (150.0 + 65536.0 / 125.0);
    assert_near("onyx serves one at a time", rate(Profile::Onyx, 8, 64 * KIB, false), onyx, 1.0, 0.0);
}

#[test]
fn the_pm9a3_meets_its_measured_figures() {
    let mut sequential = server(Profile::Pm9a3);
    let end = closed_loop(&mut sequential, 32, 20_000, |id| write(id, id * 512 * KIB, 512 * KIB));
    assert_near("sequential write, GB/s", 20_000.0 * 0.524288e6 / end.seconds() / 1e9, 2.54, 2.0, 0.0);
    let (mut scattered, mut random) = (server(Profile::Pm9a3), Random::new(7));
    let end = closed_loop(&mut scattered, 128, 200_000, |id| write(id, random.below(GIB / 4) * 4096, 4096));
    // The first 64 MiB go into the buffer.
    let steady = (200_000.0 - 64.0 * 256.0) / end.seconds();
    assert_near("random 4 KiB writes per s", steady, 124_000.0, 4.0, 0.0);
}
