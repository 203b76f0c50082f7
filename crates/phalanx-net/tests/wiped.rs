//! Keys that are not needed any more are in no memory of the process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use phalanx_net::identity::{Authority, KeyedCertificate, Member, Role};
use phalanx_net::seal::Context;
use phalanx_net::sealed::SealingKey;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use zeroize::Zeroize;

/// Bytes of a key that are looked for. Shorter pieces might be there by chance.
const PIECE: usize = 32;
/// Hides a key that the test itself remembers from the search.
const MASK: u8 = 0x5a;

struct Hidden([u8; PIECE]);

impl Hidden {
    /// A piece of a key. A PKCS#8 key of P-256 has the 32 bytes of the secret number from its byte 36 on.
    fn of(key: &[u8]) -> Hidden {
        Hidden(std::array::from_fn(|at| key[at] ^ MASK))
    }

    /// How often it is in this process's memory, but for the stack of this thread, where others' libraries leave copies.
    fn count(&self) -> usize {
        let (local, memory) = (0u8, File::open("/proc/self/mem").unwrap());
        let stack = &raw const local as u64;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut count = 0;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let (from, to) = words.next().unwrap().split_once('-').unwrap();
            let [from, to] = [from, to].map(|word| u64::from_str_radix(word, 16).unwrap());
            if words.next().unwrap().starts_with("rw") && !(from..to).contains(&stack) && to - from < 256 << 20 {
                let mut bytes = vec![0; (to - from) as usize];
                if memory.read_exact_at(&mut bytes, from).is_ok() {
                    count += bytes.windows(PIECE).filter(|piece| self.is(piece)).count();
                }
                bytes.zeroize(); // or a later search finds what this one has read
            }
        }
        count
    }

    fn is(&self, piece: &[u8]) -> bool {
        piece.iter().zip(&self.0).all(|(byte, hidden)| byte ^ MASK == *hidden)
    }
}

/// One test of all, because another thread's memory may be another test's.
#[test]
fn keys_are_wiped_when_they_are_dropped() {
    let own = Box::new(KeyedCertificate::ephemeral().unwrap());
    let peer = KeyedCertificate::ephemeral().unwrap();
    let hidden = Hidden::of(&own.to_parts().1[36..]);
    assert!(hidden.count() > 0, "the search finds what is there");
    let (certificate, key) = own.to_parts();
    let again = KeyedCertificate::from_parts(certificate, key);
    drop(black_box((again.server_of(&peer.certificate).unwrap(), own.client_of(&peer.certificate).unwrap())));
    drop((again, own));
    assert_eq!(hidden.count(), 0, "of one link");

    let authority = Authority::create().unwrap();
    let member = Member::parse(&authority.issue(Role::User, "ada").unwrap(), Role::User).unwrap();
    let hidden = Hidden::of(&member.own().to_parts().1[36..]);
    assert!(hidden.count() > 0);
    drop(black_box((member.server().unwrap(), member.client_of(Role::Executor).unwrap().connect().unwrap())));
    drop(member);
    assert_eq!(hidden.count(), 0, "of a member");

    let secret = SealingKey::random();
    let hidden = Hidden::of(&secret[..]);
    let context = Box::new(Context::new(*secret));
    drop(secret);
    assert!(hidden.count() > 0);
    drop(black_box(context));
    assert_eq!(hidden.count(), 0, "of a link's direction");

    let secret = SealingKey::random();
    let hidden = Hidden::of(&secret[..]);
    let key = Box::new(SealingKey::new(&secret, b""));
    drop(secret);
    drop(black_box(key)); // with the cipher of processors, its first round keys are the key
    assert_eq!(hidden.count(), 0, "of sealed values");
}
