//! Where a file is cut so that the same content is cut in the same way wherever in a file it stands.
//!
//! Content-defined chunks with a gear hash and normalized chunk sizes: FastCDC (Xia and others, USENIX ATC 2016, sections
//! 3.2 to 3.4). An insertion changes the chunk that it is in; the cuts behind it come where they came before.

/// Shorter files are not compared with an older version, because comparing them costs about as much as sending them.
pub const LEAST_COMPARED: u64 = 1 << 20;
/// Longer files are not compared, because their chunks would not fit into memory.
pub const MOST_COMPARED: u64 = 1 << 40;
/// Chunks of one file: `MOST_COMPARED` in chunks of the least length then. Their digests take 2.6 MB.
pub const MOST_CHUNKS: u32 = 1 << 17;
/// The usual chunk is not shorter: a digest for each 8 KiB is 0.2 % of the file.
const SHORTEST: u64 = 8 << 10;

/// How long the chunks of one file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    least: u32,
    usual: u32,
    most: u32,
    /// Bits of the hash that are zero where a chunk ends that is shorter, or longer, than usual.
    before: u64,
    after: u64,
}

impl Chunking {
    /// For a file of `size` bytes; both ends cut by the size of the new version. Chunks are about as long as there are many, as
    /// rsync's blocks are, since their digests then cost about what the chunk around a change does.
    pub fn of(size: u64) -> Chunking {
        let size = size.min(MOST_COMPARED);
        let usual = size.isqrt().max(size.div_ceil(u64::from(MOST_CHUNKS / 2))).max(SHORTEST).next_power_of_two();
        let bits = usual.trailing_zeros();
        let mask = |bits: u32| !(u64::MAX >> bits); // the highest bits, which depend on the most bytes
        let (least, most) = (usual as u32 / 2, usual as u32 * 4);
        Chunking { least, usual: usual as u32, most, before: mask(bits + 1), after: mask(bits - 1) }
    }

    /// Bytes of the longest chunk.
    pub fn most(&self) -> usize {
        self.most as usize
    }

    /// The length of the first chunk in `bytes`, which are as many as the longest chunk has, or all that are left.
    pub fn cut(&self, bytes: &[u8]) -> usize {
        let end = bytes.len().min(self.most as usize);
        let middle = end.min(self.usual as usize);
        let mut hash = 0u64;
        let mut at = self.least as usize;
        for (until, mask) in [(middle, self.before), (end, self.after)] {
            while at < until {
                hash = (hash << 1).wrapping_add(GEAR[usize::from(bytes[at])]);
                at += 1;
                if hash & mask == 0 {
                    return at;
                }
            }
        }
        end
    }

    /// Whether a file of `size` bytes may have a chunk of `length`, its last or another.
    pub fn allows(&self, length: u32, is_last: bool) -> bool {
        length <= self.most && (length >= self.least || (is_last && length > 0))
    }
}

/// A number for each byte, drawn once (SplitMix64): part of the protocol, since both ends cut alike.
const GEAR: [u64; 256] = {
    let (mut gear, mut state, mut at) = ([0; 256], 0x7068_616c_616e_7800_u64, 0);
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        gear[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    gear
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn random(count: usize, mut state: u64) -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    fn chunks(bytes: &[u8], chunking: Chunking) -> Vec<&[u8]> {
        let (mut chunks, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let (chunk, left) = rest.split_at(chunking.cut(rest));
            chunks.push(chunk);
            rest = left;
        }
        chunks
    }

    #[test]
    fn what_stands_behind_an_insertion_is_cut_as_before() {
        let old = random(4 << 20, 1);
        let mut new = old.clone();
        new.splice(1_000_000..1_000_000, random(777, 2));
        let chunking = Chunking::of(new.len() as u64);
        let known: HashSet<_> = chunks(&old, chunking).into_iter().collect();
        let fresh: usize =
            chunks(&new, chunking).iter().filter(|chunk| !known.contains(*chunk)).map(|it| it.len()).sum();
        assert!(777 <= fresh && fresh <= 777 + 3 * chunking.most(), "{fresh} bytes differ");
    }

    #[test]
    fn the_longest_files_have_no_more_chunks_than_memory_for_their_digests() {
        for size in [LEAST_COMPARED, 60 << 20, 1 << 30, MOST_COMPARED - 1, MOST_COMPARED] {
            let chunking = Chunking::of(size);
            assert!(size.div_ceil(u64::from(chunking.least)) <= u64::from(MOST_CHUNKS), "{size}: {chunking:?}");
            assert!(chunking.most() <= 64 << 20, "{chunking:?}");
        }
        assert_eq!(Chunking::of(u64::MAX), Chunking::of(MOST_COMPARED));
    }

    proptest! {
        #[test]
        fn every_chunk_is_as_long_as_it_may_be(seed: u64, size in 1usize..80_000, byte in proptest::option::of(any::<u8>())) {
            let bytes = byte.map_or_else(|| random(size, seed), |byte| vec![byte; size]);
            let chunking = Chunking::of(size as u64);
            let all = chunks(&bytes, chunking);
            prop_assert_eq!(all.concat(), &bytes[..]);
            for (at, chunk) in all.iter().enumerate() {
                prop_assert!(chunking.allows(chunk.len() as u32, at + 1 == all.len()), "{} of {}", chunk.len(), size);
            }
        }
    }
}
