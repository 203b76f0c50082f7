//! Files of identities, authorities, requests and revoked certificates, certificates that peers show, and news that they tell.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::{News, decode};
use phalanx_fuzz::cut;
use phalanx_net::identity::{Authority, Member, RevokedList, Role, first_certificate, role_and_name};
use phalanx_net::news::Exchange;
use std::sync::LazyLock;
use std::time::Duration;

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::create().expect("a new grid"));

static MEMBER: LazyLock<Member> = LazyLock::new(|| {
    let text = AUTHORITY.issue(Role::User, "ada").expect("a member");
    let member = Member::parse(&text, Role::User).expect("a member");
    member.renewing(None, Vec::new()).expect("has a role and a name")
});

fuzz_target!(|bytes: &[u8]| {
    let certificate = bytes.to_vec().into();
    let _ = role_and_name(&certificate);
    let brought = MEMBER.renewals().expect("takes them").take(bytes);
    assert!(brought.own.is_none(), "nothing was renewed");
    tell(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for role in [Role::User, Role::Executor] {
        let _ = Member::parse(text, role);
    }
    // A locked key is not tried: each attempt takes a second on purpose.
    if let Ok(authority) = Authority::parse(text, None) {
        let again = authority.to_pem(None).expect("without a passphrase it is only written");
        assert!(Authority::parse(&again, None).is_ok());
    }
    if let Ok((role, name, signed)) = AUTHORITY.sign(text, Some(Duration::from_secs(60))) {
        let certificate = first_certificate(&signed).expect("was just signed");
        let of_certificate = role_and_name(&certificate).expect("has both");
        assert_eq!(of_certificate, (role.name().to_owned(), name.to_ascii_lowercase()));
    }
    if let Ok(authority) = first_certificate(text) {
        let _ = RevokedList::parse(text, &authority);
    }
});

/// A peer tells this, message by message. Nothing of it is signed, so that nothing is learned.
fn tell(mut bytes: &[u8]) {
    let mut exchange = Exchange::of_server(MEMBER.news());
    while let Some((header, rest)) = cut(bytes) {
        let Some((body, rest)) = cut(rest) else { return };
        bytes = rest;
        let Ok(message) = decode::<News>(header) else { return };
        let Ok(learned) = exchange.hear(message, body) else { return };
        assert!(learned.list.is_none() && learned.brought.own.is_none());
        let _ = exchange.due();
    }
}
