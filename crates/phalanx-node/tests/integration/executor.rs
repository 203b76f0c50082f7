//! What an executor makes of a user who does not keep to what it said.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::options;
use phalanx_core::level::{Level, Levels, Mark, Policy};
use phalanx_core::wire::{FromExecutor, MAX_CONTROL_BODY, News, ToExecutor, decode, encode};
use phalanx_net::dial::{Expected, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Authority, Client, Issued, Member, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::log::Log;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn start(member: Member, policy: Policy) -> Executor {
    let lasting = vec!["sleep".into(), "1000".into()]; // one that ends at once may end before it is told what to do
    let options = Options { policy, command: lasting, capacity: 2, ..options() };
    Executor::start("127.0.0.1:0", member, options, phalanx_node::log::Log::nowhere()).unwrap()
}

/// Asks an executor with that policy for an interpreter with a link of these levels; why it refuses.
fn refusal(policy: Policy, levels: Levels) -> Option<String> {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let executor = start(member(Role::Executor, "labpc"), policy);
    let patience = Duration::from_secs(60);
    let client = member(Role::User, "ada").client_of(Role::Executor).unwrap();
    let (labpc, private) = (Expected::Named(&client, "labpc"), Levels::all(Level::Private));
    let dialled = dial(&executor.address().into(), patience).unwrap();
    let introduced = dialled.introduce(Preamble::Control, labpc, private, patience).unwrap();
    let (link, mut reader) = introduced.link(MAX_CONTROL_BODY).unwrap();
    link.send(
        Mark::None,
        encode(&ToExecutor::Recruit { request: 1, levels, program: [0; 16], waits: false, memory: None, gpus: 0 }, 0),
        Vec::new(),
    )
    .unwrap();
    let mut answer = None;
    let until = Instant::now() + patience;
    while answer.is_none() && Instant::now() < until {
        let mut on_frame = |frame: Frame| match decode(&frame.header).unwrap() {
            FromExecutor::Refused { reason, .. } => answer = Some(Some(reason)),
            FromExecutor::Recruited { .. } => answer = Some(None),
            FromExecutor::Offer { .. }
            | FromExecutor::Away { .. }
            | FromExecutor::Ended { .. }
            | FromExecutor::Exceeded { .. }
            | FromExecutor::Found { .. }
            | FromExecutor::Share { .. }
            | FromExecutor::Taken { .. }
            | FromExecutor::News(_)
            | FromExecutor::Waits { .. }
            | FromExecutor::Closed { .. }
            | FromExecutor::Status(_)
            | FromExecutor::Beat { .. } => {}
        };
        reader.poll(Duration::from_millis(100), &mut on_frame).unwrap();
    }
    executor.close();
    answer.expect("the executor answers")
}

#[test]
fn an_executor_refuses_levels_that_it_does_not_take_whoever_asks() {
    for weak in [Level::Clear, Level::Authenticated] {
        let reason = refusal(Policy::default(), Levels::all(weak)).expect("is refused");
        assert!(reason.contains("this machine takes safe, private"), "{reason}");
        let marked = Levels { base: Level::Private, data: weak, code: weak };
        assert_eq!(refusal(Policy::default(), marked), None, "what is marked gets no less than the rest");
    }
    assert_eq!(refusal(Policy::default(), Levels::all(Level::Safe)), None);
    let trusting = Policy { trusted: vec!["127.0.0.0/8".parse().unwrap()], ..Policy::default() };
    assert_eq!(refusal(trusting, Levels::all(Level::Clear)), None);
}

/// A manager's link to an executor, and its first message.
fn first_message(executor: &Executor, client: &Client) -> (Arc<Link>, Reader, FromExecutor) {
    let (patience, private) = (Duration::from_secs(60), Levels::all(Level::Private));
    let dialled = dial(&executor.address().into(), patience).unwrap();
    let introduced = dialled.introduce(Preamble::Control, Expected::Named(client, "labpc"), private, patience).unwrap();
    let (link, mut reader) = introduced.link(MAX_CONTROL_BODY).unwrap();
    let (mut first, until) = (None, Instant::now() + patience);
    while first.is_none() && Instant::now() < until {
        let mut on_frame = |frame: Frame| first = first.take().or(Some(decode(&frame.header).unwrap()));
        reader.poll(Duration::from_millis(100), &mut on_frame).unwrap();
    }
    (link, reader, first.expect("the executor answers"))
}

#[test]
fn one_user_cannot_take_all_links_and_is_told_so() {
    let ((executor, client), patience) = (grid(), Duration::from_secs(60));
    let (ada, bob) = (client("ada"), client("bob"));
    let mut links = Vec::new();
    let reason = loop {
        match first_message(&executor, &ada) {
            (link, reader, FromExecutor::Offer { .. }) => links.push((link, reader)),
            (.., FromExecutor::Away { reason }) => break reason,
            (.., other) => panic!("{other:?}"),
        }
        assert!(links.len() <= 256, "there is no limit");
    };
    let most = links.len();
    assert_eq!(reason, format!("ada has {most} links of managers here, which is one user's share"));
    assert!(matches!(first_message(&executor, &bob).2, FromExecutor::Offer { .. }));
    links.clear();
    let until = Instant::now() + patience;
    while !matches!(first_message(&executor, &ada).2, FromExecutor::Offer { .. }) {
        assert!(Instant::now() < until, "the links are gone, and their places are not");
    }
    executor.close();
}

/// An executor of a new grid, and users of that grid by name.
fn grid() -> (Executor, impl Fn(&str) -> Client) {
    let authority = Authority::create().unwrap();
    let member = move |role, name: &str| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let executor = start(member(Role::Executor, "labpc"), Policy::default());
    (executor, move |name: &str| member(Role::User, name).client_of(Role::Executor).unwrap())
}

/// What a manager's link hears, until this many messages fit. Beats keep these links.
fn hear(
    links: &[&Link],
    reader: &mut Reader,
    count: usize,
    fits: impl Fn(&FromExecutor) -> bool,
) -> (Vec<FromExecutor>, Duration) {
    let (mut heard, began) = (Vec::new(), Instant::now());
    while heard.iter().filter(|message| fits(message)).count() < count {
        assert!(began.elapsed() < Duration::from_secs(60), "heard only {heard:?}");
        for link in links {
            link.send(Mark::None, encode(&ToExecutor::Beat, 0), Vec::new()).unwrap();
        }
        reader
            .poll(Duration::from_millis(100), &mut |frame: Frame| heard.push(decode(&frame.header).unwrap()))
            .unwrap();
    }
    (heard, began.elapsed())
}

fn recruit(link: &Link, requests: std::ops::Range<u32>) {
    let levels = Levels::all(Level::Private);
    for request in requests {
        let message = ToExecutor::Recruit { request, levels, program: [0; 16], waits: true, memory: None, gpus: 0 };
        link.send(Mark::None, encode(&message, 0), Vec::new()).unwrap();
    }
}

/// Everything is held by a manager that never answers: it reads nothing, and only its beats keep its link.
#[test]
fn what_a_silent_manager_holds_is_taken_for_another_user() {
    let (executor, client) = grid();
    let (adas, mut adas_reader, offer) = first_message(&executor, &client("ada"));
    let FromExecutor::Offer { capacity, .. } = offer else { panic!("{offer:?}") };
    recruit(&adas, 0..capacity);
    let started = |message: &FromExecutor| matches!(message, FromExecutor::Recruited { .. });
    hear(&[&adas], &mut adas_reader, capacity as usize, started);
    let (bobs, mut bobs_reader, _) = first_message(&executor, &client("bob"));
    recruit(&bobs, 0..1);
    let (_, waited) = hear(&[&bobs, &adas], &mut bobs_reader, 1, started);
    assert!((9..20).contains(&waited.as_secs()), "bob waited {waited:?}");
    let taken = |message: &FromExecutor| matches!(message, FromExecutor::Taken { .. });
    let (heard, _) = hear(&[&adas], &mut adas_reader, 1, taken);
    let keeps = |message: &FromExecutor| matches!(message, FromExecutor::Share { keep: Some(keep), .. } if *keep + 1 == capacity);
    assert!(heard.iter().any(keeps) && heard.iter().filter(|message| taken(message)).count() == 1, "{heard:?}");
    executor.close();
}

#[test]
fn one_user_cannot_fill_the_queue_of_requests_and_is_told_so() {
    let (executor, client) = grid();
    let (adas, mut adas_reader, _) = first_message(&executor, &client("ada"));
    recruit(&adas, 0..300);
    let refused = |message: &FromExecutor| matches!(message, FromExecutor::Refused { .. });
    let (heard, _) = hear(&[&adas], &mut adas_reader, 100, refused);
    let reason = "ada has 64 requests that wait for a place here, which is one user's share";
    let told = |message: &FromExecutor| matches!(message, FromExecutor::Refused { reason: told, .. } if told == reason);
    assert!(heard.iter().any(told), "{heard:?}");
    let (bobs, mut bobs_reader, _) = first_message(&executor, &client("bob"));
    recruit(&bobs, 0..1);
    let answered = |message: &FromExecutor| matches!(message, FromExecutor::Recruited { .. });
    hear(&[&bobs, &adas], &mut bobs_reader, 1, answered);
    executor.close();
}

/// The certificate that an executor shows to the next link.
fn shown(executor: &Executor, client: &Client) -> Vec<u8> {
    let (patience, private) = (Duration::from_secs(60), Levels::all(Level::Private));
    let dialled = dial(&executor.address().into(), patience).unwrap();
    dialled.introduce(Preamble::Control, Expected::Named(client, "labpc"), private, patience).unwrap().certificate()
}

/// Sends certificates to an executor over a link of their own, and keeps the link open until the executor has done what is awaited.
fn send(executor: &Executor, client: &Client, pem: &str, is_done: impl Fn() -> bool) {
    let (link, mut reader, _) = first_message(executor, client);
    let message = encode(&ToExecutor::News(News::Renewed), pem.len() as u64);
    link.send(Mark::None, message, vec![pem.as_bytes().to_vec().into()]).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < until && !link.is_closed(), "the link stays, and the executor hears it");
        reader.poll(Duration::from_millis(20), &mut |_: Frame| ()).unwrap();
    }
}

#[test]
fn an_executor_takes_a_renewed_certificate_of_its_own_and_nothing_else() {
    let (authority, stranger) = (Authority::create().unwrap(), Authority::create().unwrap());
    let day = Duration::from_secs(24 * 3600);
    let text = authority.issue_for(Role::Executor, "labpc", Some(day)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [identity, renewed] = ["labpc.pem", "renewed.pem"].map(|name| folder.path().join(name));
    std::fs::write(&identity, &*text).unwrap();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let member = Member::parse(&text, Role::Executor).unwrap();
    let member = member.renewing(Some(identity.clone()), vec![renewed.clone()]).unwrap();
    let (options, lines) = (options(), Arc::new(Mutex::new(Vec::new())));
    let taken = lines.clone();
    let log = Log::new(move |_, line| taken.lock().unwrap().push(line.to_owned()));
    let said = |words: &str| lines.lock().unwrap().iter().filter(|line| line.contains(words)).count();
    let executor = Executor::start("127.0.0.1:0", member, options, log).unwrap();
    let ada = Member::parse(&authority.issue(Role::User, "ada").unwrap(), Role::User).unwrap();
    let client = ada.client_of(Role::Executor).unwrap();
    let renew = |by: &Authority, text: &str| {
        let pem = by.to_pem(None).unwrap();
        let end = text.find("-----END CERTIFICATE-----").unwrap() + 26;
        by.renew(&Issued::all(&text[..end], &pem).unwrap()[0], Some(30 * day)).unwrap().to_pem()
    };
    let before = shown(&executor, &client);
    executor.look_at_certificate();
    assert_eq!(said("certificate of labpc"), 0, "it has just begun");

    let theirs = renew(&stranger, &stranger.issue(Role::Executor, "labpc").unwrap());
    send(&executor, &client, &theirs, || said("a certificate that ada brought is ignored") == 1);
    let other = renew(&authority, &authority.issue_for(Role::Executor, "labpc", Some(day)).unwrap());
    send(&executor, &client, &other, || read(&renewed) == other);
    assert_eq!((shown(&executor, &client), read(&identity)), (before.clone(), text.to_string()));

    let new = renew(&authority, &text);
    send(&executor, &client, &new, || said("ada brought a new certificate of this machine, good until 20") == 1);
    assert_ne!(shown(&executor, &client), before);
    assert!(read(&identity).starts_with(&new));
    assert!(read(&renewed).contains(&new) && read(&renewed).contains(&other) && !read(&renewed).contains(&theirs));
    executor.close();
}

#[test]
fn an_executor_warns_once_of_a_certificate_that_ends_soon_and_once_more_when_it_has_ended() {
    let authority = Authority::create().unwrap();
    let text = authority.issue_for(Role::Executor, "labpc", Some(Duration::from_secs(2))).unwrap();
    let (options, lines) = (options(), Arc::new(Mutex::new(Vec::new())));
    let taken = lines.clone();
    let log = Log::new(move |_, line| taken.lock().unwrap().push(line.to_owned()));
    let executor = Executor::start("127.0.0.1:0", Member::parse(&text, Role::Executor).unwrap(), options, log).unwrap();
    let said = |words: &str| lines.lock().unwrap().iter().filter(|line| line.contains(words)).count();
    let until = Instant::now() + Duration::from_secs(60);
    while said("the certificate of labpc ended on 20") == 0 {
        executor.look_at_certificate();
        assert!(Instant::now() < until, "it ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    executor.look_at_certificate();
    let told =
        ["the certificate of labpc ends on 20", "the certificate of labpc ended on 20", "phalanx grid renew labpc"];
    assert_eq!(told.map(said), [1, 1, 2]);
    executor.close();
}
