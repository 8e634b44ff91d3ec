//! How the fields of messages are laid out: little-endian, one behind the other.

use super::DecodeError;
use headstart_policy::client::carl::Wanted;
use headstart_policy::cost::benefit::{Parameters, SeekPoint};
use headstart_units::request::Range;

/// Bytes of a region in a reply.
pub(super) const REGION_BYTES: usize = 24;

pub(super) struct Writer<'a> {
    pub(super) buffer: &'a mut Vec<u8>,
}

/// Each writes one field and returns itself for the next.
impl Writer<'_> {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }
    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }
    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }
    pub(super) fn f64(&mut self, value: f64) -> &mut Self {
        self.u64(value.to_bits())
    }
    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(value);
        self
    }
}

pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError)?;
        self.rest = rest;
        Ok(*head)
    }
    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take::<1>()?[0])
    }
    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.take()?))
    }
    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.take()?))
    }
    pub(super) fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_bits(self.u64()?))
    }
    pub(super) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError),
        }
    }
    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError)?;
        self.rest = rest;
        Ok(head)
    }
    pub(super) fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
    pub(super) fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError) }
    }
}

/// Regions as a reply holds them: offset, length and benefit of each. Their gain is the agent's business.
pub fn encode_regions<'a>(regions: impl IntoIterator<Item = &'a Wanted>) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut w = Writer { buffer: &mut packed };
    for Wanted { range, benefit_ns, .. } in regions {
        w.u64(range.offset);
        w.u64(range.length);
        w.u64(*benefit_ns);
    }
    packed
}

/// The regions of a reply; they follow one another and share no byte.
pub fn decode_regions(packed: &[u8]) -> Result<Vec<Wanted>, DecodeError> {
    let mut regions: Vec<Wanted> = Vec::with_capacity(packed.len() / REGION_BYTES);
    let mut r = Reader { rest: packed };
    while r.end().is_err() {
        let (offset, length, benefit_ns) = (r.u64()?, r.u64()?, r.u64()?);
        let end = offset.checked_add(length).ok_or(DecodeError)?;
        if length == 0 || end > i64::MAX as u64 || regions.last().is_some_and(|last| last.range.end() > offset) {
            return Err(DecodeError);
        }
        regions.push(Wanted { range: Range::new(offset, length), benefit_ns, gain_ns: 0 });
    }
    Ok(regions)
}

pub(super) fn encode_parameters(w: &mut Writer<'_>, parameters: &Parameters) {
    w.u32(parameters.hdd_servers);
    w.u32(parameters.ssd_servers);
    w.u64(parameters.stripe_bytes);
    w.f64(parameters.rotation_s);
    w.f64(parameters.seek_s_max);
    w.f64(parameters.hdd_s_per_byte);
    w.f64(parameters.ssd_s_per_byte);
    w.u32(parameters.seek_curve.len() as u32);
    for point in &parameters.seek_curve {
        w.u64(point.distance_bytes);
        w.f64(point.seek_s);
    }
    w.u8(parameters.near_stays.into());
    w.u8(parameters.interleaved_stays.into());
}

pub(super) fn decode_parameters(r: &mut Reader<'_>) -> Result<Parameters, DecodeError> {
    let mut parameters = Parameters {
        hdd_servers: r.u32()?,
        ssd_servers: r.u32()?,
        stripe_bytes: r.u64()?,
        rotation_s: r.f64()?,
        seek_s_max: r.f64()?,
        hdd_s_per_byte: r.f64()?,
        ssd_s_per_byte: r.f64()?,
        seek_curve: Vec::new(),
        near_stays: false,
        interleaved_stays: false,
        // How the agent writes back is no thread's business.
        write_back_leap_bytes: 0,
    };
    let points = r.u32()?;
    for _ in 0..points {
        parameters.seek_curve.push(SeekPoint { distance_bytes: r.u64()?, seek_s: r.f64()? });
    }
    parameters.near_stays = r.flag()?;
    parameters.interleaved_stays = r.flag()?;
    Ok(parameters)
}
