//! LiU's heads, through the real event loop.

use headstart_units::request::Range;
use headstart_volume::block::{Block, Request};
use headstart_volume::export::opening::Wishes;
use headstart_volume::server::Server;
use headstart_volume::settings::{PolicyName, Settings};

use crate::bench::{SEGMENTS, backing, flash_bytes, memory_with_heads, settings};

#[test]
fn a_segment_is_lifted_when_as_much_of_it_is_asked_for_as_the_user_said() {
    let lifts = |threshold_percent| {
        let (media, given) = memory_with_heads(vec![7; 1 << 20], flash_bytes(60));
        let settings = Settings { policy: PolicyName::Liu, threshold_percent, ..settings() };
        let server = Server::start_on(backing(&media, given), settings).expect("it is served");
        let handle = server.handle();
        // Half of one, from its second block on.
        let half = Range::new(2 * SEGMENTS.segment_bytes() + 4096, SEGMENTS.segment_bytes() / 2);
        assert_eq!(handle.call(Request::Read(half)).expect("it is read")[..], vec![7; half.length as usize][..]);
        let segments = handle.status().unwrap().segments.expect("it has heads");
        server.stop(false).unwrap();
        segments.lifted + segments.lifts_waiting
    };
    assert_eq!([1, 50, 51, 100].map(lifts), [1, 1, 0, 0]);
    assert_eq!(Settings::default().threshold_percent, 30);
    assert_eq!(Wishes::default().threshold_percent, None, "as the default is");
}
