//! Compression of frames. Each frame is compressed by itself, so that any thread can compress it, and the loss of one frame
//! does not affect others.

use phalanx_core::error::WireError;
use phalanx_core::wire::transfer::{MOST_PAYLOAD, Packed, RECORD};
use zstd_safe::{CCtx, DCtx};

/// From this length on, a sample of a frame is compressed first: `PIECES` pieces of `PIECE` bytes.
const LONG: usize = 64 << 10;
/// Number of pieces in a sample.
const PIECES: usize = 4;
/// Bytes of each piece.
const PIECE: usize = 4 << 10;
/// Compression level for the sample.
const QUICK: i32 = 1;
/// A shorter frame is not compressed.
const SHORT: usize = 256;
/// A frame is sent uncompressed if compression saves less than 1/`LEAST` of it, which spares the other end the work.
const LEAST: usize = 16;

/// Compresses frames, for one thread.
#[derive(Default)]
pub struct Compressor {
    /// The context and the output buffer, created at first use.
    tools: Option<(CCtx<'static>, Box<[u8]>)>,
}

impl Compressor {
    /// Compresses a frame in place. Returns its new length, or the old one if the frame stays as it is.
    pub fn pack(&mut self, payload: &mut [u8], level: i32) -> usize {
        let length = payload.len();
        if length < SHORT {
            return length;
        }
        let make = || Some((CCtx::try_create()?, vec![0; MOST_PAYLOAD].into_boxed_slice()));
        self.tools = self.tools.take().or_else(make);
        let Some((context, packed)) = &mut self.tools else { return length };
        if length >= LONG && !is_promising(context, payload, packed) {
            return length;
        }
        let room = length - length / LEAST - RECORD;
        let Ok(count) = context.compress(&mut packed[..room], payload, level) else { return length };
        payload[..RECORD].copy_from_slice(&Packed { length: length as u32 }.encode());
        payload[RECORD..][..count].copy_from_slice(&packed[..count]);
        RECORD + count
    }
}

/// Whether a sample of a frame compresses. So data that is compressed already costs only the sample.
fn is_promising(context: &mut CCtx<'_>, payload: &[u8], packed: &mut [u8]) -> bool {
    let mut sample = [0; PIECES * PIECE];
    let apart = (payload.len() - PIECE) / (PIECES - 1);
    for (at, piece) in sample.chunks_exact_mut(PIECE).enumerate() {
        piece.copy_from_slice(&payload[at * apart..][..PIECE]);
    }
    let room = sample.len() - sample.len() / LEAST;
    context.compress(&mut packed[..room], &sample, QUICK).is_ok()
}

/// Decompresses frames, for one thread.
#[derive(Default)]
pub struct Decompressor {
    tools: Option<(DCtx<'static>, Box<[u8]>)>,
}

impl Decompressor {
    /// The records of a frame. They never take more memory than an uncompressed frame, whatever a peer sends.
    pub fn unpack<'a>(&'a mut self, payload: &'a [u8]) -> Result<&'a [u8], WireError> {
        let Some((Packed { length }, packed)) = Packed::split(payload)? else { return Ok(payload) };
        let make = || Some((DCtx::try_create()?, vec![0; MOST_PAYLOAD].into_boxed_slice()));
        self.tools = self.tools.take().or_else(make);
        let (context, records) = self.tools.as_mut().ok_or(WireError::Compressed)?;
        let records = &mut records[..length as usize];
        match context.decompress(records, packed) {
            Ok(count) if count == records.len() => Ok(records),
            _ => Err(WireError::Compressed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(length: usize) -> Vec<u8> {
        b"one line of a log like another, ".iter().copied().cycle().take(length).collect()
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_compresses_comes_back_and_what_does_not_stays_as_it_is() {
        let (mut packer, mut unpacker) = (Compressor::default(), Decompressor::default());
        for length in [SHORT, 5000, LONG, MOST_PAYLOAD] {
            for level in 1..=9 {
                let mut payload = text(length);
                let count = packer.pack(&mut payload, level);
                assert!(count < length / 2, "{length}: {count}");
                assert_eq!(unpacker.unpack(&payload[..count]).expect("it was packed here"), text(length));
            }
            let mut payload = noise(length);
            assert_eq!(packer.pack(&mut payload, 9), length);
            assert_eq!(payload, noise(length), "nothing was changed");
        }
        assert_eq!(packer.pack(&mut text(SHORT - 1), 9), SHORT - 1);
    }

    #[test]
    fn frames_that_do_not_hold_what_they_announce_are_refused() {
        let (mut packer, mut unpacker) = (Compressor::default(), Decompressor::default());
        let mut payload = text(100_000);
        let count = packer.pack(&mut payload, 3);
        let packed = &payload[..count];
        let announced = |length: u32| [&Packed { length }.encode()[..], &packed[RECORD..]].concat();
        for length in [99_999, 100_001, 1000, MOST_PAYLOAD as u32, MOST_PAYLOAD as u32 + 1, u32::MAX, 0] {
            assert!(unpacker.unpack(&announced(length)).is_err(), "{length}");
        }
        assert!(unpacker.unpack(&packed[..count - 1]).is_err(), "it is cut off");
        assert!(unpacker.unpack(&[packed, b"more"].concat()).is_err(), "something follows it");
        assert_eq!(unpacker.unpack(packed).expect("it still works"), text(100_000));
    }

    proptest! {
        #[test]
        fn hostile_frames_are_refused_or_as_long_as_they_say(
            length: u32, bytes in proptest::collection::vec(any::<u8>(), 0..300), damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..5)
        ) {
            let mut unpacker = Decompressor::default();
            let length = length % (2 * MOST_PAYLOAD as u32);
            let _ = unpacker.unpack(&[&Packed { length }.encode()[..], &bytes].concat());
            let mut payload = text(50_000);
            let count = Compressor::default().pack(&mut payload, 3);
            for (at, bits) in damage {
                payload[usize::from(at) % count] ^= bits;
            }
            if let Ok(records) = unpacker.unpack(&payload[..count]) {
                prop_assert!(records.len() <= MOST_PAYLOAD);
            }
        }
    }
}
