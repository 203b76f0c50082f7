//! Who may do what, and over which links.

use super::common::*;
use phalanx_core::error::SpaceError;
use phalanx_core::level::{Level, Mark, Policy};
use phalanx_core::space::{Options, OutOptions, Pattern, Value};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_node::space::{Access, Client, ClientError, Rights, Verb, Who};
use std::time::Duration;

const RULES: &str = r#"
[[rule]]
space = "passwords"
user = "ada"
may = ["out", "rd", "in", "create"]

[[rule]]
space = "passwords"
user = ["bob", "eve"]
first = "found"
may = ["out", "rd"]

[[rule]]
space = "passwords"
user = "joe"
may = ["out"]

[[rule]]
space = "public.*"
may = ["rd"]
"#;

fn forbidden<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> String {
    match space_error(outcome) {
        SpaceError::Forbidden(what) => what,
        other => panic!("{other}"),
    }
}

/// One who proves who he is, also on this machine.
fn user(at: &AtPort, name: &str, space: &str) -> Result<std::sync::Arc<Client>, ClientError> {
    at.user(name, all_private(), space)
}

#[test]
fn rules_say_who_may_do_what() {
    let access = Access::parse(RULES).unwrap();
    let rights = |name: &str, space: &str| access.rights(&Who::user(name), space);
    let found = Value::Str("found".into()).to_bytes();
    let other = Value::Str("todo".into()).to_bytes();
    assert!(rights("Ada", "passwords").allow(Verb::In, None));
    assert!(!rights("bob", "passwords").allow(Verb::In, Some(&found)));
    assert!(rights("bob", "passwords").allow(Verb::Out, Some(&found)));
    assert!(!rights("bob", "passwords").allow(Verb::Out, Some(&other)));
    assert!(!rights("bob", "passwords").allow(Verb::Rd, None), "a template that would match others too");
    assert!(rights("mallory", "public.news").allow(Verb::Rd, None));
    assert!(!rights("mallory", "passwords").are_any());
    assert!(matches!(access.rights(&Who::Owner, "passwords"), Rights::Everything));
    for (text, what) in [
        ("[[rule]]\nmay = []", "rule 1: write what they may"),
        ("[[rule]]\nmay = [\"out\"]\n[[rule]]\nmay = [\"write\"]", "unknown variant `write`"),
        ("[[rule]]\nuser = []\nmay = [\"rd\"]", "user names nobody"),
        ("[[rule]]\nfirst = 1.5\nmay = [\"rd\"]", "a text or an integer"),
        ("[[rule]]\nwho = \"a\"\nmay = [\"rd\"]", "unknown field `who`"),
    ] {
        let error = Access::parse(text).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_lease_is_its_users_and_of_who_may_take() {
    let at = AtPort::start(Policy::default(), Some(RULES));
    let ada = user(&at, "ada", "passwords").unwrap();
    let leased = |client: &Client| {
        let options = OutOptions { lease: Some(Duration::from_secs(600)), ..OutOptions::default() };
        let out = |request| ToSpace::Out { request, tuples: 1, options, transaction: None };
        let answer = finish(client, client.ask(out, vec![tuple("found", 1)]).unwrap()).unwrap();
        let FromSpace::Done { number, .. } = answer.message else { panic!("{:?}", answer.message) };
        number
    };
    let end = |client: &Client, number| {
        let renew = |request| ToSpace::Renew { request, number, lease: Some(Duration::ZERO) };
        finish(client, client.ask(renew, vec![]).unwrap()).map(drop)
    };
    let everything = || template(vec![Pattern::Any, Pattern::Any]);
    let (first, second) = {
        let bob = user(&at, "bob", "passwords").unwrap();
        (leased(&bob), leased(&bob))
    };
    let eve = user(&at, "eve", "passwords").unwrap();
    assert_eq!(space_error(end(&eve, first)), SpaceError::NoLease);
    assert_eq!(count(&ada, everything()), 2);
    // In another session.
    end(&user(&at, "bob", "passwords").unwrap(), first).unwrap();
    end(&ada, second).unwrap();
    assert_eq!(count(&ada, everything()), 0);
}

#[test]
fn a_server_keeps_users_to_their_rights() {
    let at = AtPort::start(Policy::default(), Some(RULES));
    assert!(forbidden(user(&at, "bob", "passwords").map(drop)).contains("create"));
    let ada = user(&at, "ada", "passwords").unwrap();
    let bob = user(&at, "bob", "passwords").unwrap();
    out(&ada, tuple("todo", 1)).unwrap();
    out(&bob, tuple("found", 1)).unwrap();
    assert!(forbidden(out(&bob, tuple("todo", 2))).contains("out with this first field"));
    assert!(forbidden(get(&bob, some("todo"), false)).contains("rd with this first field"));
    let everything = template(vec![Pattern::Any, Pattern::Any]);
    assert!(forbidden(get(&bob, everything.clone(), false)).contains("rd"));
    assert_eq!(forbidden(get(&bob, some("found"), true)), "in in this space");
    assert_eq!(get(&bob, some("found"), false).unwrap(), Some(tuple("found", 1)));
    assert_eq!(count(&ada, everything), 2);
    assert!(!info(&ada).partitions.is_empty());
    assert!(info(&bob).partitions.is_empty(), "he may not see what other tuples look like");
    let joe = user(&at, "joe", "passwords").unwrap();
    let asked = joe.ask(|request| ToSpace::Info { request }, Vec::new()).unwrap();
    assert_eq!(forbidden(finish(&joe, asked)), "rd in this space");
    assert!(forbidden(user(&at, "mallory", "passwords").map(drop)).contains("nothing in the space"));
    assert!(forbidden(user(&at, "ada", "others").map(drop)).contains("nothing in the space"));
}

#[test]
fn only_members_of_the_grid_come_in() {
    let at = AtPort::start(Policy::default(), None);
    let others = Authority::create().unwrap();
    let stranger = Member::parse(&others.issue(Role::User, "eve").unwrap(), Role::User).unwrap();
    let address = format!("{}/todo", at.server.address());
    assert!(reach(&address, Some(stranger), all_private(), None).is_err());
    let nobody = reach(&address, None, all_private(), None).err().unwrap();
    assert!(matches!(nobody, ClientError::Identity(_)), "{nobody}");
    assert!(user(&at, "ada", "todo").is_ok());
}

#[test]
fn links_have_the_levels_that_both_ends_agree_on() {
    let at = AtPort::start(Policy::default(), None);
    let by_path = at.user("ada", Policy::default(), "todo").unwrap();
    assert_eq!(by_path.agreed().levels.base, Level::Clear, "this machine's own");
    let private = user(&at, "ada", "todo").unwrap();
    assert_eq!(private.agreed().levels.base, Level::Private);
    out(&private, tuple("a", 1)).unwrap();
    assert_eq!(get(&by_path, some("a"), true).unwrap(), Some(tuple("a", 1)));
    let strict = AtPort::start(all_private(), None);
    let refused = strict.user("ada", Policy::default(), "todo").err().unwrap();
    assert!(matches!(refused, ClientError::Ended { .. } | ClientError::Unreachable(_)), "{refused}");
}

#[test]
fn a_secure_space_travels_as_marked_data_does() {
    let at = AtPath::start(phalanx_node::space::ServerOptions::default());
    let secure = Options { secure: true, ..Options::default() };
    let client = at.try_client("todo", Some(secure)).unwrap();
    assert_eq!(client.mark(), Mark::Data);
    assert_eq!(at.client("todo").mark(), Mark::Data, "whoever opens it");
    assert_eq!(at.client("other").mark(), Mark::None);
    out(&client, tuple("a", 1)).unwrap();
}

#[test]
fn members_are_changed_by_who_may_create_the_space() {
    let at = AtPort::start(all_private(), Some(RULES));
    let (ada, joe) = (user(&at, "ada", "passwords").unwrap(), user(&at, "joe", "passwords").unwrap());
    let change = |client: &Client| {
        let message = |request| ToSpace::Members { request, add: Vec::new(), remove: Vec::new() };
        finish(client, client.ask(message, Vec::new()).unwrap())
    };
    assert!(forbidden(change(&joe)).contains("create"));
    assert!(matches!(space_error(change(&ada)), SpaceError::Options(why) if why.contains("has no members")));
}

const GROUPS: &str = r#"
[[group]]
name = "lab"
members = ["ada", "Bob"]

[[rule]]
group = "lab"
space = "lab.*"
may = ["out", "rd", "in", "create"]

[[rule]]
role = ["executor"]
space = "news"
may = ["rd"]

[[rule]]
space = "public.*"
may = ["out", "rd", "in", "create"]
"#;

#[test]
fn rules_name_users_roles_and_groups() {
    let access = Access::parse(GROUPS).unwrap();
    let executor = |name: &str| Who::Member { role: Role::Executor, name: name.into() };
    assert!(access.rights(&Who::user("bob"), "lab.a").allow(Verb::In, None));
    assert!(!access.rights(&Who::user("mallory"), "lab.a").are_any());
    assert!(!access.rights(&executor("bob"), "lab.a").are_any(), "an executor is no user of this name");
    assert!(access.rights(&executor("pc"), "news").allow(Verb::Rd, None));
    assert!(!access.rights(&executor("pc"), "news").allow(Verb::Out, None));
    assert!(!access.rights(&executor("pc"), "public.a").are_any(), "a rule without a role is about users");
    assert!(!access.rights(&Who::user("ada"), "news").are_any());
    assert!(access.is_about(Role::Executor) && !Access::parse(RULES).unwrap().is_about(Role::Executor));
    assert!(access.has_member("lab", &Who::user("ADA")));
    for nobody in [Who::user("mallory"), executor("ada"), Who::Owner] {
        assert!(!access.has_member("lab", &nobody));
    }
    assert!(!access.has_member("others", &Who::user("ada")));
    for (text, what) in [
        ("[[rule]]\nuser = \"a\"\ngroup = \"b\"\nmay = [\"rd\"]", "rule 1: write one of: user, role, group"),
        ("[[rule]]\nrole = \"boss\"\nmay = [\"rd\"]", "\"boss\" is no role"),
        ("[[rule]]\ngroup = \"lab\"\nmay = [\"rd\"]", "no [[group]] is named lab"),
        ("[[group]]\nname = \"a\"\nmembers = []\n[[group]]\nname = \"a\"\nmembers = []", "group 2: another group"),
        ("[[group]]\nname = \"\"\nmembers = []", "group 1: a group needs a name"),
        ("[[group]]\nname = \"a\"", "missing field `members`"),
        ("[[rule]]\nuser = 3\nmay = [\"rd\"]", "a name or a list of names"),
    ] {
        let error = Access::parse(text).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let many = "[[rule]]\nmay = [\"rd\"]\n".repeat(1001);
    assert!(Access::parse(&many).unwrap_err().to_string().contains("more than 1000"));
}

/// Everybody may do everything, but the group's spaces are its.
const OPEN: &str = "[[group]]\nname = \"lab\"\nmembers = [\"ada\", \"bob\"]\n\
    [[group]]\nname = \"others\"\nmembers = [\"ada\"]\n[[rule]]\nmay = [\"out\", \"rd\", \"in\", \"create\"]";

#[test]
fn a_groups_space_is_opened_by_its_members_only_whatever_is_said() {
    let at = AtPort::start(Policy::default(), Some(OPEN));
    let of = |group: &str| Options { group: Some(group.into()), ..Options::default() };
    let open = |name: &str, create: Option<Options>| at.user_with(name, all_private(), "plans", create);
    assert!(forbidden(open("mallory", Some(of("lab"))).map(drop)).contains("mallory is no member"));
    assert!(forbidden(open("ada", Some(of("nobody"))).map(drop)).contains("no member"));
    let ada = open("ada", Some(of("lab"))).unwrap();
    out(&ada, tuple("plan", 1)).unwrap();
    assert_eq!(ada.mark(), Mark::Data, "it travels as marked data does");
    for create in [None, Some(Options::default()), Some(of("lab")), Some(of("others"))] {
        assert!(forbidden(open("mallory", create).map(drop)).contains("no member"));
    }
    let bob = open("bob", Some(Options::default())).unwrap();
    assert_eq!(get(&bob, some("plan"), true).unwrap(), Some(tuple("plan", 1)));
    let told = info(&bob).options;
    assert_eq!((told.group.as_deref(), told.maker.as_deref(), told.secure), (Some("lab"), Some("ada"), true));
    assert!(forbidden(open("ada", Some(of("others"))).map(drop)).contains("is not the group others's"));
    let forged = Options { maker: Some("bob".into()), ..Options::default() };
    let plain = at.user_with("mallory", all_private(), "plain", Some(forged)).unwrap();
    assert_eq!(info(&plain).options.maker.as_deref(), Some("mallory"), "who made it the server says");
    let late = at.user_with("ada", all_private(), "plain", Some(of("lab")));
    assert!(forbidden(late.map(drop)).contains("is there already"), "what is a group's goes into no open space");
}

#[test]
fn without_a_list_of_groups_there_are_no_spaces_of_groups_for_users() {
    let at = AtPort::start(Policy::default(), None);
    let create = Options { group: Some("lab".into()), ..Options::default() };
    assert!(forbidden(at.user_with("ada", all_private(), "plans", Some(create)).map(drop)).contains("no member"));
}

#[test]
fn members_in_another_role_come_in_where_a_rule_is_about_it() {
    let at = AtPort::start(
        Policy::default(),
        Some(&format!("{GROUPS}[[rule]]\nuser = \"ada\"\nspace = \"news\"\nmay = [\"create\"]")),
    );
    at.user_with("ada", all_private(), "news", Some(Options::default())).unwrap();
    let machine = at.member_as(Role::Executor, "pc", all_private(), "news", None).unwrap();
    assert_eq!(get(&machine, some("x"), false).unwrap(), None);
    assert!(forbidden(out(&machine, tuple("x", 1))).contains("out"));
    let other = AtPort::start(Policy::default(), None);
    assert!(other.member_as(Role::Executor, "pc", all_private(), "news", None).is_err());
}
