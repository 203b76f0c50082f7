//! Files of identities, authorities, requests and revoked certificates. Certificates, delegations and news of peers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::{News, decode};
use phalanx_fuzz::cut;
use phalanx_net::identity::{
    Authority, Joining, KeyedCertificate, Member, RevokedList, Role, Scope, first_certificate, role_and_name,
};
use phalanx_net::news::Exchange;
use std::sync::LazyLock;
use std::time::Duration;

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::create().expect("a new grid"));

/// An authority of the same grid, whose members have an issuer.
static ISSUER: LazyLock<Authority> = LazyLock::new(|| AUTHORITY.issuer("hub").expect("a new root allows it"));

/// The grid's hub, and the text of its list of revoked certificates, which names nobody.
static HUB: LazyLock<(Member, String)> = LazyLock::new(|| {
    let text = ISSUER.issue(Role::Hub, "hub").expect("a hub");
    let hub = Member::parse(&text, Role::Hub).expect("a hub");
    let list = hub.revoke_after(&[], Vec::new()).expect("a list");
    (hub, list)
});

/// A machine that joins this grid.
static JOINING: LazyLock<Joining> = LazyLock::new(|| Joining::new(Role::Executor, "ws8", [7; 32]).expect("a name"));

static MEMBER: LazyLock<Member> = LazyLock::new(|| {
    let text = AUTHORITY.issue(Role::User, "ada").expect("a member");
    let member = Member::parse(&text, Role::User).expect("a member");
    member.renewing(None, Vec::new()).expect("has a role and a name")
});

/// The certificates of a process, of the user for whom it acts, and of the executor that started it; and the user's delegation.
static DELEGATED: LazyLock<([Vec<u8>; 3], String)> = LazyLock::new(|| {
    let text = AUTHORITY.issue(Role::Executor, "ws7").expect("a member");
    let executor = first_certificate(&text).expect("was just issued");
    let process = KeyedCertificate::ephemeral().expect("a new key").certificate.clone();
    let user = MEMBER.own().certificate.to_vec();
    let lasts = Duration::from_secs(30 * 24 * 3600); // longer than any run of this target
    let delegation =
        MEMBER.delegate([&process, &executor], &Scope::default(), [7; 16], lasts).expect("a user delegates");
    ([process.to_vec(), user, executor.to_vec()], delegation)
});

fuzz_target!(|bytes: &[u8]| {
    let certificate = bytes.to_vec().into();
    let _ = role_and_name(&certificate);
    act(bytes);
    join(bytes);
    let brought = MEMBER.renewals().expect("takes them").take(bytes);
    assert!(brought.own.is_none(), "nothing was renewed");
    tell(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    revoke(text);
    assert!(JOINING.identity(text).is_err(), "no root has this digest");
    if let Ok(returning) = Joining::returning(text) {
        let _ = returning.identity(text);
    }
    for role in [Role::User, Role::Executor, Role::Hub] {
        let _ = Member::parse(text, role);
    }
    // A locked key is not tried: each attempt takes a second on purpose.
    if let Ok(authority) = Authority::parse(text, None) {
        let again = authority.to_pem(None).expect("without a passphrase it is only written");
        assert!(Authority::parse(&again, None).is_ok());
        let _ = authority.issuer("hub").and_then(|issuer| issuer.issue(Role::User, "ada"));
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

/// A process shows these bytes as its delegation, or as the end of one. The user has signed only one, which holds.
fn act(bytes: &[u8]) {
    let (certificates, delegation) = &*DELEGATED;
    let acts = |delegation: Vec<u8>| {
        let shown: Vec<_> = certificates.iter().cloned().chain([delegation]).map(Into::into).collect();
        MEMBER.acting(&shown).is_ok_and(|acting| acting.is_some())
    };
    assert!(acts(delegation.clone().into_bytes()));
    let scope = delegation.find("signature ").expect("is signed");
    for begin in [&delegation[..0], &delegation[..scope]] {
        let changed = [begin.as_bytes(), bytes].concat();
        assert!(changed == delegation.as_bytes() || !acts(changed));
    }
}

/// A peer that joins shows these bytes, or some that end with them. It is no member.
fn join(bytes: &[u8]) {
    let (hub, _) = &*HUB;
    let own = MEMBER.own().certificate.clone();
    assert!(hub.ended_member(&[bytes.to_vec().into()]).is_err() || bytes == &*own);
    let _ = hub.ended_member(&[own, bytes.to_vec().into()]);
    if let Ok((role, ..)) = ISSUER.sign_request(&bytes.to_vec().into(), Some(Duration::from_secs(60))) {
        assert_ne!(role, Role::Hub);
    }
}

/// A list whose title is this grid's, but which ends in these bytes, and one that is altered by them. Only the hub's own one holds.
fn revoke(text: &str) {
    let (hub, list) = &*HUB;
    let root = hub.authority().to_vec().into();
    let title = list.find('\n').expect("has lines") + 1;
    let signature = list.rfind("signature ").expect("is signed");
    for begin in [&list[..title], &list[..signature]] {
        let changed = [begin, text].concat();
        let parsed = RevokedList::parse(&changed, &root);
        assert!(changed.trim_end() == list.trim_end() || !matches!(parsed, Ok(Some(_))));
    }
}

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
