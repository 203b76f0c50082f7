//! What two processes that share a channel do to its memory: atomics, and words about all other accesses. In tests each
//! access is watched, and one that the other side's may overlap with is found, whatever the machine makes of it.

#[cfg(not(test))]
pub use plain::*;
#[cfg(test)]
pub use tests::*;

#[cfg(not(test))]
mod plain {
    pub use std::sync::atomic::{AtomicU32, AtomicU64};

    /// This side has read this memory.
    #[inline(always)]
    pub fn has_read(_: *const u8, _: usize) {}

    /// This side writes this memory.
    #[inline(always)]
    pub fn writes(_: *const u8, _: usize) {}
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::sync::atomic::{self, Ordering};

    /// How far each side has come, as far as somebody knows.
    type Clocks = [u64; 2];

    /// Happens-before by vector clocks (Lamport 1978, Mattern 1989): an access is in order only if all that the other side did
    /// to the same byte is known, by a store that releases and a load that acquires, to have been before.
    pub struct Watch {
        /// Which side acts now.
        pub side: usize,
        /// An ordering that counts as relaxed: of the atomics of so many bytes, that of stores or of loads.
        pub weakened: Option<(usize, bool)>,
        pub races: usize,
        clocks: [Clocks; 2],
        released: HashMap<usize, Clocks>,
        read: HashMap<usize, Clocks>,
        written: HashMap<usize, Clocks>,
    }

    thread_local!(static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) });

    /// Watches what this thread does from now on, for both sides.
    pub fn watch(weakened: Option<(usize, bool)>) {
        let (clocks, released, read, written) = ([[1, 0], [0, 1]], HashMap::new(), HashMap::new(), HashMap::new());
        WATCH.set(Some(Watch { side: 0, weakened, races: 0, clocks, released, read, written }));
    }

    /// Nothing where nobody watches.
    pub fn watched<T>(act: impl FnOnce(&mut Watch) -> T) -> Option<T> {
        WATCH.with_borrow_mut(|watch| watch.as_mut().map(act))
    }

    pub fn has_read(start: *const u8, length: usize) {
        watched(|watch| watch.access(start.addr(), length, false));
    }

    pub fn writes(start: *const u8, length: usize) {
        watched(|watch| watch.access(start.addr(), length, true));
    }

    impl Watch {
        fn access(&mut self, start: usize, length: usize, writes: bool) {
            let (side, other) = (self.side, 1 - self.side);
            let knows = self.clocks[side][other];
            for byte in start..start + length {
                let unknown = |seen: &HashMap<usize, Clocks>| seen.get(&byte).is_some_and(|seen| seen[other] > knows);
                self.races += usize::from(unknown(&self.written) || writes && unknown(&self.read));
                let seen = if writes { &mut self.written } else { &mut self.read };
                seen.entry(byte).or_default()[side] = self.clocks[side][side];
            }
        }

        fn counts(&self, bytes: usize, store: bool, ordering: Ordering) -> bool {
            ordering != Ordering::Relaxed && self.weakened != Some((bytes, store))
        }

        fn store(&mut self, address: usize, bytes: usize, ordering: Ordering) {
            let side = self.side;
            if self.counts(bytes, true, ordering) {
                self.released.insert(address, self.clocks[side]);
            } else {
                self.released.remove(&address);
            }
            self.clocks[side][side] += 1;
        }

        fn load(&mut self, address: usize, bytes: usize, ordering: Ordering) {
            let other = 1 - self.side;
            if let (true, Some(released)) = (self.counts(bytes, false, ordering), self.released.get(&address)) {
                let known = &mut self.clocks[self.side][other];
                *known = released[other].max(*known);
            }
        }
    }

    macro_rules! atomic {
        ($name:ident, $number:ty) => {
            #[repr(transparent)]
            pub struct $name(atomic::$name);

            impl $name {
                pub fn load(&self, ordering: Ordering) -> $number {
                    watched(|watch| watch.load(&raw const *self as usize, size_of::<$number>(), ordering));
                    self.0.load(ordering)
                }

                pub fn store(&self, value: $number, ordering: Ordering) {
                    watched(|watch| watch.store(&raw const *self as usize, size_of::<$number>(), ordering));
                    self.0.store(value, ordering);
                }
            }
        };
    }
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);

    impl AtomicU32 {
        pub fn swap(&self, value: u32, ordering: Ordering) -> u32 {
            self.0.swap(value, ordering)
        }
    }
}
