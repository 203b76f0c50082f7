use super::*;
use crate::identity::{Authority, KeyedCertificate, Member};
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use zeroize::Zeroizing;

const HOUR: Duration = Duration::from_secs(3600);
const PROGRAM: [u8; 16] = [7; 16];

/// A user, an executor at which a process of the user runs, and a server.
struct Grid {
    authority: Authority,
    ada: Member,
    labpc: Member,
    process: KeyedCertificate,
}

static GRID: LazyLock<Grid> = LazyLock::new(Grid::new);

fn member(authority: &Authority, role: Role, name: &str) -> Member {
    let pem = authority.issue(role, name).expect("a member");
    Member::parse(&pem, role).expect("a member")
}

fn scope(names: &[&str]) -> Scope {
    let mut scope = Scope::default();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    scope.add(Service::Spaces, Extent::Named(names)).expect("names");
    scope
}

impl Grid {
    fn new() -> Grid {
        let authority = Authority::create().expect("a grid");
        let (ada, labpc) = (member(&authority, Role::User, "ada"), member(&authority, Role::Executor, "labpc"));
        Grid { authority, ada, labpc, process: KeyedCertificate::ephemeral().expect("a key") }
    }

    fn text(&self, lasts: Duration) -> String {
        let whom = [&self.process.certificate[..], &self.labpc.own().certificate[..]];
        self.ada.delegate(whom, &scope(&["board/jobs"]), PROGRAM, lasts).expect("a delegation")
    }

    /// What the process shows with a text.
    fn shown(&self, text: impl AsRef<[u8]>) -> Vec<CertificateDer<'static>> {
        let certificates = [&self.process, self.ada.own(), self.labpc.own()].map(|keyed| keyed.certificate.clone());
        [&certificates[..], &[CertificateDer::from(text.as_ref().to_vec())]].concat()
    }

    fn judge(&self, shown: &[CertificateDer<'_>]) -> Result<Acting, String> {
        self.judge_at(shown, UnixTime::now())
    }

    /// How any other member of the grid judges what was shown.
    fn judge_at(&self, shown: &[CertificateDer<'_>], now: UnixTime) -> Result<Acting, String> {
        let judged = self.labpc.verifier.acting(shown, now);
        let verified = self.labpc.verifier.verify_client_cert(&shown[0], &shown[1..], now);
        assert_eq!(verified.is_ok(), matches!(judged, Ok(Some(_))), "the handshake judges in the same way");
        judged.map_err(|error| error.to_string())?.ok_or_else(|| "no delegation".to_owned())
    }
}

fn later(by: Duration) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()) + by)
}

#[test]
fn a_process_acts_for_its_user_at_its_executor_for_what_the_user_named() {
    let acting = GRID.judge(&GRID.shown(GRID.text(HOUR))).expect("it holds");
    assert_eq!((acting.user.as_str(), acting.executor.as_str()), ("ada", "labpc"));
    assert_eq!(acting.delegation.program, PROGRAM);
    assert_eq!(Delegation::end_of(&GRID.text(HOUR)).map(|end| end >= acting.delegation.until), Some(true));
    let scope = &acting.delegation.scope;
    assert!(scope.allows(Service::Spaces, "Board") && !scope.allows(Service::Spaces, "other"));
    assert_eq!(scope.at(Service::Spaces, "board"), Some(BTreeSet::from(["jobs".to_owned()])));
    assert_eq!(scope.at(Service::Spaces, "other"), Some(BTreeSet::new()));
}

#[test]
fn the_certificate_of_a_process_is_nobodys_by_itself() {
    let shown = GRID.shown(GRID.text(HOUR));
    assert!(role_and_name(&shown[0]).is_err());
    for part in [&shown[..1], &shown[..2], &shown[..3], &shown[1..]] {
        assert!(GRID.labpc.verifier.acting(part, UnixTime::now()).is_ok_and(|acting| acting.is_none()));
    }
    assert!(GRID.labpc.verifier.verify_client_cert(&shown[0], &shown[1..3], UnixTime::now()).is_err());
}

#[test]
fn a_chain_of_certificates_is_no_delegation() {
    let issuer = GRID.authority.issuer("hub").expect("an issuer");
    let below = issuer.issuer("lab").expect("an issuer");
    let eve = member(&below, Role::User, "eve");
    let above = [&below, &issuer, &GRID.authority].map(|it| it.certificate().expect("a certificate"));
    let chain = [&[eve.own().certificate.clone()][..], &above].concat();
    assert_eq!(chain.len(), SHOWN);
    assert!(!is_delegated(&chain));
    assert!(GRID.labpc.verifier.verify_client_cert(&chain[0], &chain[1..], UnixTime::now()).is_ok());
    // Nor is it one with a text in place of its last.
    let text = CertificateDer::from(GRID.text(HOUR).into_bytes());
    let mixed = [&chain[1..], &[text]].concat();
    GRID.judge(&[&chain[..1], &mixed[1..]].concat()).expect_err("it names others");
}

#[test]
fn a_delegation_ends() {
    let shown = GRID.shown(GRID.text(HOUR));
    assert!(GRID.judge_at(&shown, later(HOUR - Duration::from_secs(60))).is_ok());
    let error = GRID.judge_at(&shown, later(HOUR)).expect_err("it has ended");
    assert!(error.contains("has ended"), "{error}");
    let whole_day = GRID.shown(GRID.text(2 * LONGEST));
    assert!(GRID.judge(&whole_day).expect_err("it is too long").contains("too long"));
}

#[test]
fn each_certificate_is_the_one_that_the_user_named() {
    let (text, another) = (GRID.text(HOUR), Grid::new());
    let others = [
        KeyedCertificate::ephemeral().expect("a key"),
        member(&GRID.authority, Role::User, "ada").own().clone(),
        member(&GRID.authority, Role::Executor, "labpc").own().clone(),
    ];
    for (at, other) in others.iter().enumerate() {
        let mut shown = GRID.shown(&text);
        shown[at] = other.certificate.clone();
        assert!(GRID.judge(&shown).expect_err("another certificate").contains("another one's"), "{at}");
    }
    let theirs = another.shown(another.text(HOUR));
    assert!(GRID.judge(&theirs).is_err(), "another grid's");
    let forged = another.text(HOUR).replace(&fingerprint(&another.ada.authority), &fingerprint(&GRID.ada.authority));
    assert!(GRID.judge(&another.shown(forged)).is_err(), "another grid's, under the name of this one");
}

#[test]
fn only_a_user_delegates_and_only_to_a_process_at_an_executor() {
    let whom = [&GRID.process.certificate[..], &GRID.labpc.own().certificate[..]];
    assert!(GRID.labpc.delegate(whom, &scope(&["board/jobs"]), PROGRAM, HOUR).is_err());
    // As a member would sign it that does not keep to that.
    let sign = |by: &Member, at: &Member| {
        let [holder, user, executor] = [&GRID.process, by.own(), at.own()].map(|keyed| fingerprint(&keyed.certificate));
        let (until, scope) = (later(HOUR).as_secs(), scope(&["board/jobs"]));
        let delegation = Delegation { holder, user, executor, program: PROGRAM, until, scope };
        let text = delegation.signed(&by.authority, |text| by.own().sign(text)).expect("signed");
        let mut shown = GRID.shown(text);
        (shown[1], shown[2]) = (by.own().certificate.clone(), at.own().certificate.clone());
        GRID.judge(&shown)
    };
    assert!(sign(&GRID.ada, &GRID.labpc).is_ok());
    for (by, at) in [(&GRID.labpc, &GRID.labpc), (&GRID.ada, &GRID.ada), (&GRID.labpc, &GRID.ada)] {
        assert!(sign(by, at).expect_err("a wrong role").contains("only a user delegates"));
    }
}

#[test]
fn a_process_that_acts_for_a_user_cannot_delegate_further() {
    let (own, ada, labpc) = (&GRID.process, GRID.ada.own(), GRID.labpc.own());
    let known = [&ada.certificate[..], &labpc.certificate[..], GRID.ada.authority()];
    let acting = Member::delegated(own.clone(), known, &[], &GRID.text(HOUR)).expect("it holds");
    assert_eq!((acting.name.as_str(), acting.acts().is_some()), ("ada", true));
    let second = KeyedCertificate::ephemeral().expect("a key");
    let whom = [&second.certificate[..], &labpc.certificate[..]];
    assert!(acting.delegate(whom, &scope(&["board/jobs"]), PROGRAM, HOUR).is_err());
    // As it would sign it all the same, in its own name or in the user's.
    for user in [&own.certificate, &ada.certificate] {
        let [holder, executor] = [&second.certificate, &labpc.certificate].map(fingerprint);
        let (user_named, until, scope) = (fingerprint(user), later(HOUR).as_secs(), scope(&["board/jobs"]));
        let delegation = Delegation { holder, user: user_named, executor, program: PROGRAM, until, scope };
        let text = delegation.signed(&acting.authority, |text| own.sign(text)).expect("signed");
        let text = CertificateDer::from(text.into_bytes());
        let shown = [second.certificate.clone(), user.clone(), labpc.certificate.clone(), text];
        assert!(GRID.judge(&shown).is_err());
    }
}

#[test]
fn a_process_has_no_name_of_its_own_making() {
    let key = KeyPair::generate().expect("a key");
    let names = vec!["user.role.phalanx".to_owned(), "eve.name.phalanx".to_owned()];
    let certificate = CertificateParams::new(names).expect("names").self_signed(&key).expect("a certificate");
    let key = Zeroizing::new(key.serialize_der());
    let process = KeyedCertificate::from_parts(certificate.der().to_vec(), key);
    let whom = [&process.certificate[..], &GRID.labpc.own().certificate[..]];
    let error = GRID.ada.delegate(whom, &scope(&["board/jobs"]), PROGRAM, HOUR).expect_err("it has a name");
    assert!(error.to_string().contains("has a name"));
    let [holder, user, executor] =
        [&process, GRID.ada.own(), GRID.labpc.own()].map(|keyed| fingerprint(&keyed.certificate));
    let (until, scope) = (later(HOUR).as_secs(), scope(&["board/jobs"]));
    let delegation = Delegation { holder, user, executor, program: PROGRAM, until, scope };
    let text = delegation.signed(&GRID.ada.authority, |text| GRID.ada.own().sign(text)).expect("signed");
    let mut shown = GRID.shown(text);
    shown[0] = process.certificate.clone();
    assert!(GRID.judge(&shown).expect_err("it has a name").contains("has a name"));
}

#[test]
fn a_bit_that_is_changed_anywhere_ends_a_delegation() {
    let shown = GRID.shown(GRID.text(HOUR));
    let title = text::TITLE.len();
    for at in title..shown[3].len() {
        let mut changed = shown[3].to_vec();
        changed[at] ^= 1 << (at % 7);
        let mut shown = shown.clone();
        shown[3] = changed.into();
        assert!(GRID.judge(&shown).is_err(), "byte {at}");
    }
}

#[test]
fn a_scope_grows_and_names_things_only() {
    let mut some = scope(&["board/jobs"]);
    let named = |name: &str| Extent::Named(BTreeSet::from([name.to_owned()]));
    assert!(!some.add(Service::Spaces, named("BOARD/jobs")).expect("a name"), "it is there");
    assert!(some.add(Service::Spaces, named("ws7/pass-words")).expect("a name"));
    assert_eq!(some.to_string(), "spaces at board/jobs ws7/pass-words\n");
    for wrong in ["board", "board/", "/jobs", "board/a b", "board/a\nuntil 9", "*", "board/*", "b_d/x", ""] {
        assert!(some.add(Service::Spaces, named(wrong)).is_err(), "{wrong:?}");
    }
    let many = (0..65).map(|number| format!("board/{number}")).collect();
    assert!(some.clone().add(Service::Spaces, Extent::Named(many)).is_err());
    assert!(some.add(Service::Spaces, Extent::All).expect("all"));
    assert!(!some.add(Service::Spaces, named("ws9/x")).expect("a name"), "all is all");
    assert_eq!((some.to_string().as_str(), some.at(Service::Spaces, "ws9")), ("spaces at *\n", None));
    assert!(Scope::default().is_empty() && !Scope::default().allows(Service::Spaces, "board"));
}

proptest! {
    #[test]
    fn what_is_no_delegation_is_refused(
        text in "\\PC{0,400}", cut in 0usize..900, at in 22usize..900, byte in any::<u8>()
    ) {
        let whole = GRID.text(HOUR);
        let titled = format!("{}{text}", text::TITLE);
        prop_assert!(GRID.judge(&GRID.shown(titled)).is_err());
        let longer = format!("{whole}{text} ");
        prop_assert!(GRID.judge(&GRID.shown(longer)).is_err());
        let cut = cut.clamp(text::TITLE.len(), whole.len() - 1);
        prop_assert!(GRID.judge(&GRID.shown(&whole[..cut])).is_err());
        let mut changed = whole.clone().into_bytes();
        let at = at.min(changed.len() - 1);
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        prop_assert!(GRID.judge(&GRID.shown(changed)).is_err());
    }
}

#[test]
fn copies_are_delegated_as_a_whole_and_apart_from_spaces() {
    let mut copies = Scope::default();
    assert!(copies.add(Service::Copies, Extent::All).expect("all"));
    assert!(copies.allows(Service::Copies, "board") && !copies.allows(Service::Spaces, "board"));
    let (spaces, both) = (scope(&["board/jobs"]), "spaces at board/jobs\ncopies at *\n");
    assert!(!spaces.knows(Service::Copies));
    copies.add(Service::Spaces, Extent::Named(BTreeSet::from(["board/jobs".to_owned()]))).expect("a name");
    assert_eq!(copies.to_string(), both);
    let named = Extent::Named(BTreeSet::from(["board/jobs".to_owned()]));
    assert!(copies.add(Service::Copies, named).expect_err("a part").to_string().contains("as a whole"));
    let whom = [&GRID.process.certificate[..], &GRID.labpc.own().certificate[..]];
    let text = GRID.ada.delegate(whom, &copies, PROGRAM, HOUR).expect("a delegation");
    assert_eq!(GRID.judge(&GRID.shown(&text)).expect("it holds").delegation.scope, copies);
    let part = text.replace("copies at *", "copies at board/jobs");
    assert!(GRID.judge(&GRID.shown(part)).expect_err("a part").contains("not whole"));
}

#[test]
fn a_later_delegation_prolongs_the_links_of_its_process_user_and_service_only() {
    let (lasting, now) = (Lasting::default(), UnixTime::now().as_secs());
    let acting = |user: &str, holder: &str, until: u64| {
        let [holder, user_certificate, executor] = [holder, "user", "executor"].map(str::to_owned);
        let delegation =
            Delegation { holder, user: user_certificate, executor, program: PROGRAM, until, scope: Scope::default() };
        Acting { user: user.to_owned(), executor: "labpc".to_owned(), delegation }
    };
    let ended = acting("ada", "process", now - 1);
    let open = lasting.note(&ended, Service::Spaces, "board");
    let others = [acting("ada", "another process", now + 60), acting("eve", "process", now + 60)];
    let kept: Vec<Until> = others.iter().map(|other| lasting.note(other, Service::Spaces, "board")).collect();
    let copies = lasting.note(&acting("ada", "process", now + 60), Service::Copies, "board");
    assert!(open.is_over() && !copies.is_over() && kept.iter().all(|it| !it.is_over()));
    lasting.note(&acting("ada", "process", now + 60), Service::Spaces, "board");
    assert!(!open.is_over());
    lasting.note(&ended, Service::Spaces, "board");
    assert!(!open.is_over(), "an earlier delegation, of a resumed session, takes nothing back");
    drop(open);
    assert!(lasting.note(&ended, Service::Spaces, "board").is_over(), "nothing is remembered without a link");
}

#[test]
fn a_delegation_of_less_prolongs_no_link_that_needs_more() {
    let (lasting, now) = (Lasting::default(), UnixTime::now().as_secs());
    let acting = |scope: Scope, until: u64| {
        let [holder, user, executor] = ["process", "user", "executor"].map(str::to_owned);
        let delegation = Delegation { holder, user, executor, program: PROGRAM, until, scope };
        Acting { user: "ada".to_owned(), executor: "labpc".to_owned(), delegation }
    };
    let all = || {
        let mut all = Scope::default();
        all.add(Service::Spaces, Extent::All).expect("all");
        all
    };
    let note = |scope, until| lasting.note(&acting(scope, until), Service::Spaces, "board");
    let open =
        [all(), scope(&["board/jobs", "board/more"]), scope(&["board/jobs"]), scope(&["board/jobs", "ws7/more"])]
            .map(|scope| note(scope, now - 1));
    let over = || open.each_ref().map(Until::is_over);
    assert_eq!(over(), [true; 4]);
    note(scope(&["board/jobs"]), now + 60);
    assert_eq!(over(), [true, true, false, false], "names at other servers do not count");
    note(scope(&["board/jobs", "board/more", "board/other"]), now + 60);
    assert_eq!(over(), [true, false, false, false]);
    note(all(), now + 60);
    assert_eq!(over(), [false; 4]);
}
