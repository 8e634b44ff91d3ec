//! What a client and a server say to each other before the first request.

use std::io::{self, Read, Write};

use super::{Export, REQUEST_BYTES_MAX, REQUEST_BYTES_MIN, REQUEST_BYTES_PREFERRED};

const MAGIC: &[u8; 8] = b"NBDMAGIC";
const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_LIST: u32 = 3;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;

const REPLY_ACK: u32 = 1;
const REPLY_SERVER: u32 = 2;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = (1 << 31) + 1;
const REPLY_INVALID: u32 = (1 << 31) + 3;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

const HAS_FLAGS: u16 = 1;
const SEND_FLUSH: u16 = 1 << 2;
const SEND_FUA: u16 = 1 << 3;
/// Reads that flash does not hold make the disk seek.
const ROTATIONAL: u16 = 1 << 4;
const SEND_TRIM: u16 = 1 << 5;
const SEND_WRITE_ZEROES: u16 = 1 << 6;
const CAN_MULTI_CONN: u16 = 1 << 8;
const SEND_FAST_ZERO: u16 = 1 << 11;

/// More than any option has that is known here.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// After so many options a client has had its say.
const OPTIONS_MAX: usize = 1000;

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Requests follow.
    Transmission,
    /// The client has taken its leave.
    Goodbye,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn flags(export: &Export) -> u16 {
    let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | ROTATIONAL | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
    let trims = if export.discards { SEND_TRIM } else { 0 };
    always | trims | if export.zeros_are_fast { SEND_FAST_ZERO } else { 0 }
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

fn reply(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    stream.write_all(&bytes)
}

/// Whether the data of INFO or GO are a name and a list of what is asked for. Whatever the name, there is one export,
/// and all is told.
fn asks_for_export(data: &[u8]) -> bool {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return false };
    let Some(rest) = rest.get(u32::from_be_bytes(*length) as usize..) else { return false };
    let Some((count, asked)) = rest.split_first_chunk::<2>() else { return false };
    asked.len() == 2 * usize::from(u16::from_be_bytes(*count))
}

fn tell(stream: &mut impl Write, option: u32, export: &Export) -> io::Result<()> {
    let mut data = INFO_EXPORT.to_be_bytes().to_vec();
    data.extend_from_slice(&export.size_bytes.to_be_bytes());
    data.extend_from_slice(&flags(export).to_be_bytes());
    reply(stream, option, REPLY_INFO, &data)?;
    let mut data = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [REQUEST_BYTES_MIN, REQUEST_BYTES_PREFERRED, REQUEST_BYTES_MAX] {
        data.extend_from_slice(&bytes.to_be_bytes());
    }
    reply(stream, option, REPLY_INFO, &data)?;
    reply(stream, option, REPLY_ACK, &[])
}

/// Tells a client of the export, until it begins to use it or goes.
pub(super) fn shake_hands(stream: &mut (impl Read + Write), export: &Export) -> io::Result<End> {
    let mut greeting = MAGIC.to_vec();
    greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let client_flags = read_u32(stream)?;
    if client_flags & u32::from(FIXED_NEWSTYLE) == 0 || client_flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(malformed("the client does not speak the fixed newstyle of NBD"));
    }
    for _ in 0..OPTIONS_MAX {
        if read_u64(stream)? != OPTION_MAGIC {
            return Err(malformed("an option does not begin as one"));
        }
        let (option, length) = (read_u32(stream)?, read_u32(stream)?);
        if length > OPTION_BYTES_MAX {
            return Err(malformed("an option is too long"));
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match option {
            OPTION_EXPORT_NAME => {
                let mut answer = export.size_bytes.to_be_bytes().to_vec();
                answer.extend_from_slice(&flags(export).to_be_bytes());
                let zeros = if client_flags & u32::from(NO_ZEROES) == 0 { 124 } else { 0 };
                answer.resize(answer.len() + zeros, 0);
                stream.write_all(&answer)?;
                return Ok(End::Transmission);
            }
            OPTION_ABORT => {
                // Who does not wait for this is gone already.
                let _ = reply(stream, option, REPLY_ACK, &[]);
                return Ok(End::Goodbye);
            }
            OPTION_LIST if data.is_empty() => {
                // One, without a name.
                reply(stream, option, REPLY_SERVER, &0u32.to_be_bytes())?;
                reply(stream, option, REPLY_ACK, &[])?;
            }
            OPTION_INFO | OPTION_GO if asks_for_export(&data) => {
                tell(stream, option, export)?;
                if option == OPTION_GO {
                    return Ok(End::Transmission);
                }
            }
            OPTION_LIST | OPTION_INFO | OPTION_GO => reply(stream, option, REPLY_INVALID, &[])?,
            _ => reply(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
    Err(malformed("the client asks and asks"))
}

#[cfg(test)]
mod tests {
    use headstart_units::chance::Random;

    use super::*;

    /// What a client says is read, what it hears is kept.
    struct Client {
        says: io::Cursor<Vec<u8>>,
        hears: Vec<u8>,
    }

    impl Read for Client {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.says.read(bytes)
        }
    }

    impl Write for Client {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.hears.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whatever_bytes_a_client_sends_it_is_answered_or_left() {
        let seed = std::env::var("SEED").ok().map_or(4, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        let mut begun = 0;
        for _ in 0..20_000 {
            let mut says = vec![0, 0, 0, random.pick(&[1, 2, 3])];
            for _ in 0..random.below(4) {
                says.extend_from_slice(b"IHAVEOPT");
                says.extend_from_slice(&(random.below(10) as u32).to_be_bytes());
                let data: Vec<u8> = (0..random.below(12)).map(|_| random.pick(&[0, 0, 0, 1, 2, 3, 255])).collect();
                let length = if random.chance(90) { data.len() as u32 } else { random.next() as u32 };
                says.extend_from_slice(&length.to_be_bytes());
                says.extend_from_slice(&data);
            }
            let mut client = Client { says: io::Cursor::new(says), hears: Vec::new() };
            begun += u32::from(matches!(shake_hands(&mut client, &EXPORT), Ok(End::Transmission)));
        }
        assert!((1000..19_000).contains(&begun), "{begun} have begun");
    }

    const EXPORT: Export = Export { size_bytes: 1 << 30, discards: true, zeros_are_fast: false };

    fn shake(flags: u32, options: &[(u32, &[u8])]) -> (io::Result<End>, Vec<u8>) {
        let mut says = flags.to_be_bytes().to_vec();
        for (option, data) in options {
            says.extend_from_slice(b"IHAVEOPT");
            says.extend_from_slice(&option.to_be_bytes());
            says.extend_from_slice(&(data.len() as u32).to_be_bytes());
            says.extend_from_slice(data);
        }
        let mut client = Client { says: io::Cursor::new(says), hears: Vec::new() };
        let end = shake_hands(&mut client, &EXPORT);
        (end, client.hears.split_off(18))
    }

    /// The kinds of the replies to options.
    fn kinds(mut replies: &[u8]) -> Vec<u32> {
        let mut kinds = Vec::new();
        while let Some((head, rest)) = replies.split_first_chunk::<20>() {
            assert_eq!(head[..8], REPLY_MAGIC.to_be_bytes());
            kinds.push(u32::from_be_bytes(head[12..16].try_into().unwrap()));
            replies = &rest[u32::from_be_bytes(head[16..].try_into().unwrap()) as usize..];
        }
        kinds
    }

    #[test]
    fn a_client_that_asks_for_anything_is_told_what_there_is_and_begins() {
        let named = [0, 0, 0, 3, b'a', b'b', b'c', 0, 1, 0, 3];
        let (end, said) = shake(3, &[(8, &[]), (3, &[]), (6, &named), (7, &[0; 6])]);
        assert_eq!(end.unwrap(), End::Transmission);
        assert_eq!(kinds(&said), [REPLY_UNSUPPORTED, REPLY_SERVER, REPLY_ACK, 3, 3, REPLY_ACK, 3, 3, REPLY_ACK]);
        let (end, said) = shake(1, &[(1, b"any")]);
        assert_eq!((end.unwrap(), said.len()), (End::Transmission, 134));
        let (end, said) = shake(3, &[(1, b"")]);
        assert_eq!((end.unwrap(), said.len()), (End::Transmission, 10));
        assert_eq!(said[..8], EXPORT.size_bytes.to_be_bytes());
    }

    #[test]
    fn a_client_that_is_wrong_is_told_so_or_left() {
        let (end, said) = shake(3, &[(7, &[0; 5]), (7, &[0xff; 6]), (3, b"x"), (2, &[])]);
        assert_eq!(end.unwrap(), End::Goodbye);
        assert_eq!(kinds(&said), [REPLY_INVALID, REPLY_INVALID, REPLY_INVALID, REPLY_ACK]);
        assert!(shake(0, &[]).0.is_err() && shake(7, &[]).0.is_err(), "other styles");
        assert!(shake(3, &[(6, &vec![0; 1 << 17])]).0.is_err(), "too long");
        assert!(shake(3, &vec![(9, &b""[..]); 2000]).0.is_err(), "too many");
        assert!(shake(3, &[]).0.is_err(), "gone");
    }
}
