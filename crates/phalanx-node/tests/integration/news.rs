//! Links for news at the door of an executor: who may open them, how many, and what they may say.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::{next_line, options};
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::{MAX_CONTROL_BODY, News, NewsDigest, decode, encode};
use phalanx_net::dial::{Expected, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Authority, Member, Revoked, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::log::Log;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

struct Lab {
    authority: Authority,
    folder: TempDir,
    executor: Executor,
    log: Receiver<String>,
}

impl Lab {
    /// An executor that keeps news, and accepts only ada.
    fn new() -> Lab {
        let (authority, folder) = (Authority::create().unwrap(), tempfile::tempdir().unwrap());
        let member = Member::parse(&authority.issue(Role::Executor, "labpc").unwrap(), Role::Executor).unwrap();
        let member = member.heeding(vec![folder.path().join("list")]);
        let member = member.renewing(None, vec![folder.path().join("renewed")]).unwrap();
        let (sender, log) = channel();
        let log_to = Log::new(move |_, text| drop(sender.send(text.to_owned())));
        let options = Options { accepted: vec!["ada".to_owned()], ..options() };
        let executor = Executor::start("127.0.0.1:0", member, options, log_to).unwrap();
        Lab { authority, folder, executor, log }
    }

    fn list(&self) -> PathBuf {
        self.folder.path().join("list")
    }

    fn member(&self, role: Role, name: &str) -> Member {
        Member::parse(&self.authority.issue(role, name).unwrap(), role).unwrap()
    }

    fn signed(&self, role: Role, name: &str, fingerprint: String) -> String {
        let when = "2026-01-02T03:04:05Z".to_owned();
        self.authority
            .revoke(None, vec![Revoked { when, role, name: name.to_owned(), fingerprint, until: None }])
            .unwrap()
    }

    fn reach(&self, member: &Member) -> (Arc<Link>, Reader) {
        let client = member.client_of(Role::Executor).unwrap();
        let dialled = dial(&self.executor.address().into(), PATIENCE).unwrap();
        let (expected, private) = (Expected::Named(&client, "labpc"), Levels::all(Level::Private));
        dialled.introduce(Preamble::News, expected, private, PATIENCE).unwrap().link(MAX_CONTROL_BODY).unwrap()
    }

    /// The next line of the log with this text.
    fn hear(&self, text: &str) -> String {
        next_line(&self.log, text)
    }
}

fn say(link: &Link, message: &News, body: &[u8]) {
    link.send(Mark::None, encode(message, body.len() as u64), vec![body.to_vec().into()]).unwrap();
}

/// The messages until one fits.
fn hear(reader: &mut Reader, fits: impl Fn(&News) -> bool) {
    let (mut is_heard, until) = (false, Instant::now() + PATIENCE);
    while !is_heard {
        assert!(Instant::now() < until, "the executor says it");
        reader.poll(PATIENCE, &mut |frame: Frame| is_heard |= fits(&decode(&frame.header).unwrap())).unwrap();
    }
}

/// Reads until the executor ends the link.
fn hear_end(mut reader: Reader) {
    let until = Instant::now() + PATIENCE;
    while reader.poll(PATIENCE, &mut |_: Frame| ()).is_ok() {
        assert!(Instant::now() < until, "the executor ends the link");
    }
}

#[test]
fn every_member_brings_news_also_one_that_may_use_nothing_else() {
    for (role, name) in [(Role::User, "bob"), (Role::Executor, "ws7")] {
        let lab = Lab::new();
        let list = lab.signed(Role::User, "gone", "ab".repeat(32));
        let (link, mut reader) = lab.reach(&lab.member(role, name));
        hear(&mut reader, |message| matches!(message, News::Has(digest) if digest.revoked == 0));
        say(&link, &News::Has(NewsDigest { revoked: 1, renewed: [1; 16] }), b"");
        say(&link, &News::Revoked { number: 1, left: 0 }, list.as_bytes());
        say(&link, &News::Done, b"");
        assert_eq!(lab.hear("brought list"), format!("{name} brought list 1 of revoked certificates"));
        hear(&mut reader, |message| *message == News::Done);
        hear_end(reader);
        assert_eq!(fs::read_to_string(lab.list()).unwrap(), list);
        lab.executor.close();
    }
}

#[test]
fn a_revoked_member_brings_and_gets_none() {
    let lab = Lab::new();
    let text = lab.authority.issue(Role::User, "eve").unwrap();
    let eve = Member::parse(&text, Role::User).unwrap();
    let fingerprint = phalanx_net::identity::fingerprint(&eve.own().certificate);
    fs::write(lab.list(), lab.signed(Role::User, "eve", fingerprint)).unwrap();
    let (_link, reader) = lab.reach(&eve);
    assert!(lab.hear("refused").contains("the certificate of the user eve was revoked on 2026"));
    hear_end(reader);
    lab.executor.close();
}

#[test]
fn one_member_holds_few_links_for_news() {
    let lab = Lab::new();
    let (bob, eve) = (lab.member(Role::User, "bob"), lab.member(Role::User, "eve"));
    let mut open = Vec::new();
    for _ in 0..4 {
        let (link, mut reader) = lab.reach(&bob);
        hear(&mut reader, |message| matches!(message, News::Has(_)));
        open.push((link, reader));
    }
    let (_link, reader) = lab.reach(&bob);
    assert!(lab.hear("refused").contains("user bob has 4 links for news here, which is one user's share"));
    hear_end(reader);
    let (_link, mut reader) = lab.reach(&eve);
    hear(&mut reader, |message| matches!(message, News::Has(_)));
    lab.executor.close();
}

#[test]
fn a_link_for_news_ends_at_what_is_no_list_and_at_too_many_bytes() {
    let lab = Lab::new();
    let bob = lab.member(Role::User, "bob");
    let (link, reader) = lab.reach(&bob);
    say(&link, &News::Revoked { number: 1, left: 0 }, b"phalanx revoked 1 of nothing");
    assert!(lab.hear("refused").contains("this is no list that phalanx grid revoke has made"));
    hear_end(reader);
    let (link, mut reader) = lab.reach(&bob);
    hear(&mut reader, |message| matches!(message, News::Has(_)));
    for _ in 0..90 {
        let message = encode(&News::Renewed, 48 << 10);
        let _ = link.send(Mark::None, message, vec![vec![b'x'; 48 << 10].into()]);
        // No thread reads the link, so that none writes either.
        while link.is_blocked() && reader.poll(Duration::ZERO, &mut |_: Frame| ()).is_ok() {
            let _ = link.finish(Duration::from_millis(100));
        }
    }
    assert!(lab.hear("refused").contains("the other end tells too much"));
    assert!(!lab.list().exists());
    lab.executor.close();
}
