//! The test vectors of docs/security/link-protocol.md. tests/vectors/link.json must have what the library makes, and what
//! its primitives make when the page is followed without the library.
//!
//! To write the file anew: `PHALANX_WRITE_VECTORS=1 cargo test -p phalanx-net --test integration vectors`. It is compared all the same.

use aegis::aegis128x2::Aegis128X2Mac;
use phalanx_core::level::{Level, LevelSet, Levels, Mark};
use phalanx_core::wire::{NewsDigest, PREFIX, encode};
use phalanx_net::blocks::{Cut, Opener, Sealer};
use phalanx_net::preamble::Preamble;
use phalanx_net::seal::{BLOCK, Context, RECORD, SECRET, Secrets, TAG};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::fs;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/link.json");
const RECORDS_PER_SECRET: u64 = 1 << 22;
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
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
        ("join", Preamble::Join, Levels::all(private).exactly(), Levels::all(private)),
        ("hub", Preamble::Hub, Levels::all(private).exactly(), Levels::all(private)),
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
        Preamble::Data { .. } | Preamble::Rank { .. } | Preamble::Join => NewsDigest::NONE,
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
    keys: Keys,
    blocks: Vec<(Level, Payload)>,
}

/// One direction's secrets, and the number of its next block.
#[derive(Clone, Copy)]
struct Keys {
    traffic: [u8; SECRET],
    exported: [u8; SECRET],
    number: u64,
}

enum Payload {
    Bytes(Vec<u8>),
    Fill(u8, usize),
}

fn links() -> Vec<Link> {
    let [clear, authenticated, safe, private] = Level::ALL;
    let [traffic, exported] = [0, 0x80].map(|first| std::array::from_fn(|at| first + at as u8));
    let keys = |number| Keys { traffic, exported, number };
    let of_level = |name, level, longest| {
        let texts = [Vec::new(), b"phalanx".to_vec(), (0..=255).collect()].map(Payload::Bytes);
        let blocks = texts.into_iter().chain([Payload::Fill(0x61, longest)]).map(|payload| (level, payload));
        Link { name, keys: keys(1), blocks: blocks.collect() }
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
    let update = texts(&[
        (private, "the last under these secrets"),
        (safe, "a safe block updates nothing"),
        (private, "the first under the next ones"),
        (safe, "the second"),
        (authenticated, "the third"),
        (private, "the fourth"),
    ]);
    let checksum = Keys { traffic: CHECKSUM, exported: CHECKSUM, number: 0 };
    vec![
        of_level("clear", clear, BLOCK + 1),
        of_level("authenticated", authenticated, BLOCK + 1),
        of_level("safe", safe, BLOCK),
        of_level("private", private, RECORD),
        Link { name: "mixed", keys: keys(3), blocks: mixed },
        Link { name: "update", keys: keys(RECORDS_PER_SECRET - 1), blocks: update },
        Link { name: "checksums", keys: checksum, blocks: texts(&[(safe, "a stream's frame")]) },
    ]
}

impl Link {
    /// Makes the blocks with the library and by hand, and opens them.
    fn text(&self) -> String {
        let Keys { traffic, exported, number } = self.keys;
        let keys = || Some(Context::new(Secrets { traffic: traffic.into(), exported: exported.into(), number }));
        let all = Level::Clear..=Level::Private;
        let (mut sender, mut receiver) = (Sealer::new(keys(), all.clone()), Opener::new(keys(), all));
        let (mut keys, mut blocks) = (self.keys, Vec::new());
        for (level, payload) in &self.blocks {
            let plain = payload.bytes();
            let (mut made, mut by_hand) = (seal(&mut sender, *level, &plain), Vec::new());
            if *level == Level::Private && keys.number >= RECORDS_PER_SECRET {
                let wire = keys.record(22, &KEY_UPDATE);
                blocks.push(keys.text(
                    *level,
                    &format!(r#""message": "{}", "wire": "{}""#, hex(&KEY_UPDATE), hex(&wire)),
                    &wire,
                ));
                by_hand.extend(wire);
                keys = keys.next();
            }
            let wire = keys.block(*level, &plain);
            blocks.push(keys.text(*level, &payload.text(&wire), &wire));
            by_hand.extend(wire);
            keys.number += 1;
            assert_eq!(made, by_hand, "{}", self.name);
            open(&mut receiver, &mut made, &plain);
        }
        format!("  {{\"name\": \"{}\", \"blocks\": [\n{}\n  ]}}", self.name, blocks.join(",\n"))
    }
}

impl Payload {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Payload::Bytes(bytes) => bytes.clone(),
            Payload::Fill(byte, count) => vec![*byte; *count],
        }
    }

    /// Its part of a block in the file.
    fn text(&self, wire: &[u8]) -> String {
        match self {
            Payload::Bytes(bytes) => format!(r#""payload": "{}", "wire": "{}""#, hex(bytes), hex(wire)),
            Payload::Fill(byte, count) => format!(r#""fill": {byte}, "count": {count}"#),
        }
    }
}

/// Sections 5 to 7 of the page, without the library.
impl Keys {
    fn private(&self) -> ([u8; 16], [u8; 12]) {
        (expand_label(&self.traffic, "key", b""), expand_label(&self.traffic, "iv", b""))
    }

    fn safe(&self) -> ([u8; 16], [u8; 12]) {
        (expand(&self.exported, b"phalanx safe"), expand(&self.exported, b"phalanx iv"))
    }

    fn nonce(&self, mut iv: [u8; 12]) -> [u8; 12] {
        iv[4..].iter_mut().zip(self.number.to_be_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
        iv
    }

    fn next(&self) -> Keys {
        Keys {
            traffic: expand_label(&self.traffic, "traffic upd", b""),
            exported: expand(&self.exported, b"phalanx next"),
            number: 0,
        }
    }

    fn block(&self, level: Level, payload: &[u8]) -> Vec<u8> {
        if level == Level::Private {
            return self.record(23, payload);
        }
        let mut block = [&[0x58 + level as u8][..], &(payload.len() as u32).to_le_bytes(), payload].concat();
        if level == Level::Safe {
            let (key, iv) = self.safe();
            let nonce = [&self.nonce(iv)[..], &[0; 4]].concat().try_into().expect("16 bytes");
            let mut mac = Aegis128X2Mac::<TAG>::new_with_nonce(&key, &nonce);
            mac.update(&block);
            block.extend(mac.finalize());
        }
        block
    }

    /// A record of TLS with content of this type.
    fn record(&self, kind: u8, content: &[u8]) -> Vec<u8> {
        let (key, iv) = self.private();
        let head = [&[23, 3, 3][..], &(content.len() as u16 + 17).to_be_bytes()].concat();
        let mut sealed = [content, &[kind]].concat();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("16 bytes"));
        let nonce = Nonce::assume_unique_for_key(self.nonce(iv));
        key.seal_in_place_append_tag(nonce, Aad::from(&head), &mut sealed).expect("is short");
        [head, sealed].concat()
    }

    /// A block in the file. `content`: what is in it.
    fn text(&self, level: Level, content: &str, wire: &[u8]) -> String {
        let ((key_private, iv_private), (key_safe, iv_safe)) = (self.private(), self.safe());
        format!(
            r#"    {{"number": {}, "level": {}, "traffic": "{}", "exported": "{}", "key_private": "{}", "iv_private": "{}", "key_safe": "{}", "iv_safe": "{}", {content}, "sha256": "{}"}}"#,
            self.number,
            level as u8,
            hex(&self.traffic),
            hex(&self.exported),
            hex(&key_private),
            hex(&iv_private),
            hex(&key_safe),
            hex(&iv_safe),
            hex(digest(&SHA256, wire).as_ref())
        )
    }
}

/// A block, as the library's writers make it.
fn seal(by: &mut Sealer, level: Level, payload: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    by.append(level, std::iter::once(payload), &mut wire).expect("the link carries it");
    wire
}

/// Opens blocks as the library's readers do. All but the last are messages of TLS.
fn open(by: &mut Opener, mut wire: &mut [u8], payload: &[u8]) {
    loop {
        let (opened, used) = match by.cut(wire).expect("is a block") {
            Cut::Plain(_, range) => (range.clone(), range.end),
            Cut::Whole(block) => (by.open_at(block, wire).expect("is what was sealed"), block.length()),
            Cut::Part(_) => panic!("the block is whole"),
        };
        if used == wire.len() {
            return assert_eq!(&wire[opened], payload);
        }
        assert!(opened.is_empty());
        wire = &mut wire[used..];
    }
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
