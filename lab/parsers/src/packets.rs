//! Messages, and sizes as people write them.

use headstart_protocol::message::{Reply, Request};
use headstart_units::ByteSize;
use headstart_units::Capacity;

pub fn request(bytes: &[u8]) {
    if let Ok((envelope, request)) = Request::decode(bytes) {
        let mut again = Vec::new();
        request.encode(envelope, &mut again);
        assert_eq!(again, bytes, "a request has one form");
    }
}

pub fn reply(bytes: &[u8]) {
    if let Ok((envelope, reply)) = Reply::decode(bytes) {
        let mut again = Vec::new();
        reply.encode(envelope, &mut again);
        assert_eq!(again, bytes, "a reply has one form");
    }
}

pub fn size(bytes: &[u8]) {
    let digits = b"0123456789.KMGTiBe%+- ";
    let near: String = bytes.iter().map(|byte| digits[usize::from(*byte) % digits.len()] as char).collect();
    for text in [near.as_str(), &String::from_utf8_lossy(bytes)] {
        if let Ok(size) = text.parse::<ByteSize>() {
            assert!(size.to_string().parse::<ByteSize>().is_ok(), "{text}: {size} is a size");
        }
        if let Ok(capacity) = text.parse::<Capacity>() {
            assert!(capacity.to_string().parse::<Capacity>().is_ok(), "{text}: {capacity} is a capacity");
        }
    }
}
