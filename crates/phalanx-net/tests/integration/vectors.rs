//! The test vectors of docs/security/link-protocol.md. tests/vectors/link.json must have what the library makes, and what
//! its primitives make when the page is followed without the library.
//!
//! To write the file anew: `PHALANX_WRITE_VECTORS=1 cargo test -p phalanx-net --test integration vectors`. It is compared all the same.

use aegis::aegis128x2::Aegis128X2Mac;
use phalanx_core::level::{Level, LevelSet, Levels, Mark};
use phalanx_core::wire::{NewsDigest, PREFIX, encode};
use phalanx_net::blocks::{Cut, Opener, Sealer};
use phalanx_net::preamble::Preamble;
use phalanx_net::seal::{BLOCK, Context, SECRET, TAG};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::fs;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/link.json");
const BLOCKS_PER_SECRET: u64 = 1 << 18;
const CHECKSUM: [u8; SECRET] = *b"phalanx: checksum, not a secret!";

#[test]
fn the_file_has_what_the_library_makes() {
    let text = format!(
        "{{\n\"exporter\": {},\n\"handshakes\": [\n{}\n],\n\"links\": [\n{}\n]\n}}\n",
        exporter(),
        handshakes().join(",\n"),
        links().iter().map(Link::text).collect::<Vec<_>>().join(",\n")
    );
    if std::env::var_os("PHALANX_WRITE_VECTORS").is_some() {
        fs::write(FILE, &text).expect("the file can be written");
    }
    let found = fs::read_to_string(FILE).expect("the file can be read");
    for (line, (is, wanted)) in (1..).zip(found.lines().zip(text.lines())) {
        assert_eq!(is, wanted, "line {line}");
    }
    assert_eq!(found, text);
}

/// The exporter of TLS 1.3 (RFC 8446, section 7.5) with SHA-256, for the secrets of one link.
fn exporter() -> String {
    let (secret, label) = ([0x42; 32], "EXPORTER-phalanx-link");
    let context = [&[1, 3, 3][..], &Preamble::Space { shakes: true }.bytes()].concat();
    let derived: [u8; 32] = expand_label(&secret, label, digest(&SHA256, b"").as_ref());
    let exported: [u8; 2 * SECRET] = expand_label(&derived, "exporter", digest(&SHA256, &context).as_ref());
    let (client, server) = exported.split_at(SECRET);
    format!(
        r#"{{"secret": "{}", "label": "{label}", "context": "{}", "client": "{}", "server": "{}"}}"#,
        hex(&secret),
        hex(&context),
        hex(client),
        hex(server)
    )
}

fn expand_label<const N: usize>(secret: &[u8], label: &str, context: &[u8]) -> [u8; N] {
    let label = format!("tls13 {label}");
    let lengths = [&(N as u16).to_be_bytes()[..], &[label.len() as u8]].concat();
    expand(secret, &[&lengths, label.as_bytes(), &[context.len() as u8], context].concat())
}

fn handshakes() -> Vec<String> {
    let every = [LevelSet::EVERY; 3];
    let [clear, authenticated, safe, private] = Level::ALL;
    let of = |base, data, code| Levels { base, data, code };
    let strict = [LevelSet::from(safe), LevelSet::only(private), LevelSet::only(private)];
    let stream = Preamble::Stream { token: *b"twelve bytes", number: 0x0102_0304 };
    [
        ("control", Preamble::Control, Levels::all(private).exactly(), Levels::all(private)),
        ("data", Preamble::Data { token: [7; 16] }, every, of(authenticated, private, safe)),
        ("space", Preamble::Space { shakes: true }, every, of(clear, private, safe)),
        ("replica", Preamble::Replica, Levels::all(private).exactly(), Levels::all(private)),
        ("ranks", Preamble::Ranks, Levels::all(private).exactly(), Levels::all(private)),
        ("transfer", Preamble::Transfer, Levels::all(private).exactly(), Levels::all(private)),
        ("stream", stream, Levels::all(safe).exactly(), Levels::all(safe)),
        ("executor", Preamble::Executor, Levels::all(private).exactly(), Levels::all(private)),
        ("files", Preamble::Files, strict, of(safe, private, private)),
        ("rank", Preamble::Rank { rank: 5 }, every, Levels::all(authenticated)),
        ("news", Preamble::News, Levels::all(private).exactly(), Levels::all(private)),
        ("marks below the base", Preamble::Space { shakes: true }, every, of(safe, clear, authenticated)),
    ]
    .map(|(name, preamble, offered, levels)| handshake(name, preamble, offered, levels))
    .into()
}

fn handshake(name: &str, preamble: Preamble, offered: [LevelSet; 3], levels: Levels) -> String {
    let bound = preamble.bound();
    let choice = [&encode(&levels, 0)[PREFIX..], digest(&SHA256, &bound).as_ref()].concat();
    let context = [&Mark::ALL.map(|mark| levels.of(mark) as u8)[..], &bound].concat();
    let news = match preamble {
        Preamble::Data { .. } | Preamble::Rank { .. } => NewsDigest::NONE,
        _ => NewsDigest { revoked: 0x0102_0304_0506_0708, renewed: std::array::from_fn(|at| 0xa0 + at as u8) },
    };
    format!(
        r#"  {{"name": "{name}", "preamble": "{}", "bound": "{}", "levels": {:?}, "offer": "{}", "choice": "{}", "context": "{}"}}"#,
        hex(&preamble.bytes()),
        hex(&bound),
        [levels.base as u8, levels.data as u8, levels.code as u8],
        hex(&[&encode(&offered, 0)[PREFIX..], &news.to_bytes()].concat()),
        hex(&choice),
        hex(&context)
    )
}

struct Link {
    name: &'static str,
    secret: [u8; SECRET],
    begins_at: u64,
    blocks: Vec<(Level, Payload)>,
}

enum Payload {
    Bytes(Vec<u8>),
    Fill(u8, usize),
}

fn links() -> Vec<Link> {
    let [clear, authenticated, safe, private] = Level::ALL;
    let secret: [u8; SECRET] = std::array::from_fn(|at| at as u8);
    let of_level = |name, level, longest| {
        let texts = [Vec::new(), b"phalanx".to_vec(), (0..=255).collect()].map(Payload::Bytes);
        let blocks = texts.into_iter().chain([Payload::Fill(0x61, longest)]).map(|payload| (level, payload));
        Link { name, secret, begins_at: 0, blocks: blocks.collect() }
    };
    let texts = |blocks: &[(Level, &str)]| {
        blocks.iter().map(|(level, text)| (*level, Payload::Bytes(text.as_bytes().to_vec()))).collect()
    };
    let mixed = texts(&[
        (authenticated, "unprotected"),
        (private, "marked data"),
        (authenticated, ""),
        (safe, "marked code"),
        (private, "the number counts all levels"),
    ]);
    let ratchet = texts(&[
        (private, "the last but one"),
        (safe, "the last under this secret"),
        (private, "the first under the next one"),
        (safe, "the second"),
    ]);
    let unprotected = texts(&[
        (private, "the last under this secret"),
        (authenticated, "counts as the first under the next one"),
        (private, "the second"),
    ]);
    let last = BLOCKS_PER_SECRET - 1;
    vec![
        of_level("clear", clear, BLOCK + 1),
        of_level("authenticated", authenticated, BLOCK + 1),
        of_level("safe", safe, BLOCK),
        of_level("private", private, BLOCK),
        Link { name: "mixed", secret, begins_at: 0, blocks: mixed },
        Link { name: "ratchet", secret, begins_at: last - 1, blocks: ratchet },
        Link { name: "ratchet at an unprotected block", secret, begins_at: last, blocks: unprotected },
        Link { name: "checksums", secret: CHECKSUM, begins_at: 0, blocks: texts(&[(safe, "a stream's frame")]) },
    ]
}

impl Link {
    /// Makes the blocks with the library and with [`by_hand`], and opens them.
    fn text(&self) -> String {
        let keys = || Some(Context::new(self.secret));
        let all = Level::Clear..=Level::Private;
        let (mut sender, mut receiver) = (Sealer::new(keys(), all.clone()), Opener::new(keys(), all));
        for _ in 0..self.begins_at {
            open(&mut receiver, &seal(&mut sender, Level::Clear, &[]), &[]);
        }
        let (mut secret, mut number, mut blocks) = (self.secret, self.begins_at, Vec::new());
        for (level, payload) in &self.blocks {
            if number == BLOCKS_PER_SECRET {
                (secret, number) = (expand(&secret, b"phalanx next"), 0);
            }
            let plain = payload.bytes();
            let wire = seal(&mut sender, *level, &plain);
            assert_eq!(wire, by_hand(&secret, number, *level, &plain), "{} {number}", self.name);
            open(&mut receiver, &wire, &plain);
            blocks.push(block(&secret, number, *level, payload, &wire));
            number += 1;
        }
        format!(
            "  {{\"name\": \"{}\", \"secret\": \"{}\", \"begins_at\": {}, \"blocks\": [\n{}\n  ]}}",
            self.name,
            hex(&self.secret),
            self.begins_at,
            blocks.join(",\n")
        )
    }
}

impl Payload {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Payload::Bytes(bytes) => bytes.clone(),
            Payload::Fill(byte, count) => vec![*byte; *count],
        }
    }
}

fn block(secret: &[u8], number: u64, level: Level, payload: &Payload, wire: &[u8]) -> String {
    let [private, safe] = [&b"phalanx private"[..], b"phalanx safe"].map(|info| hex(&expand::<16>(secret, info)));
    let keys = format!(r#""key_private": "{private}", "key_safe": "{safe}", "iv": "{}""#, hex(&iv(secret)));
    let bytes = match payload {
        Payload::Bytes(bytes) => format!(r#""payload": "{}", "wire": "{}""#, hex(bytes), hex(wire)),
        Payload::Fill(byte, count) => format!(r#""fill": {byte}, "count": {count}"#),
    };
    let (level, secret, sum) = (level as u8, hex(secret), hex(digest(&SHA256, wire).as_ref()));
    format!(r#"    {{"number": {number}, "level": {level}, "secret": "{secret}", {keys}, {bytes}, "sha256": "{sum}"}}"#)
}

/// A block, as the library's writers make it.
fn seal(by: &mut Sealer, level: Level, payload: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    by.append(level, std::iter::once(payload), &mut wire).expect("the link carries it");
    wire
}

/// Opens a block as the library's readers do.
fn open(by: &mut Opener, wire: &[u8], payload: &[u8]) {
    let mut bytes = wire.to_vec();
    let opened = match by.cut(wire).expect("is a block") {
        Cut::Plain(_, range) => range,
        Cut::Whole(block) => by.open_at(block, &mut bytes).expect("is what was sealed"),
        Cut::Part(_) => panic!("the block is whole"),
    };
    assert_eq!(&bytes[opened], payload);
}

/// The same block without the library: sections 5 and 6 of the page.
fn by_hand(secret: &[u8], number: u64, level: Level, payload: &[u8]) -> Vec<u8> {
    let mut block = (payload.len() as u32).to_le_bytes().to_vec();
    block.rotate_right(1);
    block[0] = 0x58 + level as u8;
    let mut nonce = iv(secret);
    nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
    match level {
        Level::Clear | Level::Authenticated => block.extend(payload),
        Level::Safe => {
            let nonce = [&nonce[..], &[0; 4]].concat().try_into().expect("16 bytes");
            let mut mac = Aegis128X2Mac::<TAG>::new_with_nonce(&expand(secret, b"phalanx safe"), &nonce);
            block.extend(payload);
            mac.update(&block);
            block.extend(mac.finalize());
        }
        Level::Private => {
            let key = UnboundKey::new(&AES_128_GCM, &expand::<16>(secret, b"phalanx private")).expect("16 bytes");
            let (key, aad, mut sealed) = (LessSafeKey::new(key), Aad::from(block.clone()), payload.to_vec());
            let nonce = Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce, aad, &mut sealed).expect("is short");
            block.extend(sealed);
        }
    }
    block
}

fn iv(secret: &[u8]) -> [u8; 12] {
    expand(secret, b"phalanx iv")
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand (RFC 5869) with SHA-256.
fn expand<const N: usize>(secret: &[u8], info: &[u8]) -> [u8; N] {
    let (mut bytes, info) = ([0; N], [info]);
    let okm = Prk::new_less_safe(HKDF_SHA256, secret);
    okm.expand(&info, Length(N)).and_then(|okm| okm.fill(&mut bytes)).expect("is short");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
