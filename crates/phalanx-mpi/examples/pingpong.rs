use phalanx_mpi::comm::{Comm, Use};
use phalanx_mpi::engine::{Mode, Outgoing, Target};
use phalanx_mpi::world::World;
use std::time::Instant;
fn main() {
    let w = World::join().unwrap();
    let c = Comm::of(0x101).unwrap();
    let other = 1 - w.rank as i32;
    let send = |b: &[u8]| {
        let to = c.destination(other).unwrap().unwrap();
        let r = w.engine().send(to, c.envelope(Use::Point, 1), Outgoing::Borrowed(b.as_ptr(), b.len()), Mode::Standard);
        if let Some(r) = r {
            w.wait(|e| e.outcome(r));
        }
    };
    let recv = |b: &mut [u8]| {
        let r = w
            .engine()
            .receive(c.pattern(Use::Point, other, 1).unwrap().unwrap(), Target::Plain(b.as_mut_ptr(), b.len()));
        w.wait(|e| e.outcome(r))
    };
    for size in [8usize, 1024, 16384, 65536, 1 << 20, 4 << 20] {
        let (a, mut b) = (vec![1u8; size], vec![0u8; size]);
        let reps = (200_000_000 / (size + 2000)).min(100000);
        let mut best = f64::MAX;
        for _ in 0..5 {
            let t = Instant::now();
            for _ in 0..reps / 5 {
                if w.rank == 0 {
                    send(&a);
                    recv(&mut b);
                } else {
                    recv(&mut b);
                    send(&a);
                }
            }
            best = best.min(t.elapsed().as_secs_f64() / (reps / 5) as f64 / 2.0 * 1e6);
        }
        if w.rank == 0 {
            println!("{size} {best:.2} us half round trip");
        }
    }
}
