use super::*;
use proptest::prelude::*;

fn place(reach: Reach) -> Place<'static> {
    let address = (reach != Reach::SameMachine).then(|| "10.1.2.3".parse().unwrap());
    Place { reach, address, role: "executor" }
}

fn rule(bound: Bound) -> Rule {
    Rule { network: Network::Any, role: None, mark: None, bound }
}

fn level(policy: &Policy, reach: Reach, mark: Mark) -> Level {
    policy.decide(&place(reach), mark, LevelSet::EVERY).unwrap().level
}

#[test]
fn defaults_are_safe() {
    use super::Usual as D;
    for (usual, reach, mark, expected) in [
        (D::Links, Reach::SameMachine, Mark::None, Level::Clear),
        (D::Links, Reach::Trusted, Mark::Data, Level::Clear),
        (D::Links, Reach::Untrusted, Mark::None, Level::Private),
        (D::Marked, Reach::SameMachine, Mark::Data, Level::Clear),
        (D::Marked, Reach::Untrusted, Mark::None, Level::Authenticated),
        (D::Marked, Reach::Untrusted, Mark::Data, Level::Private),
        (D::Marked, Reach::Untrusted, Mark::Code, Level::Private),
        (D::All, Reach::SameMachine, Mark::None, Level::Private),
        (D::All, Reach::Trusted, Mark::None, Level::Private),
    ] {
        let policy = Policy { usual, ..Policy::default() };
        assert_eq!(level(&policy, reach, mark), expected, "{usual:?} {reach:?} {mark:?}");
    }
}

#[test]
fn the_network_says_what_is_trusted() {
    let policy = Policy { trusted: vec!["10.0.0.0/8".parse().unwrap()], ..Policy::default() };
    assert_eq!(policy.reach(None), Reach::SameMachine);
    assert_eq!(policy.reach(Some("10.9.9.9".parse().unwrap())), Reach::Trusted);
    assert_eq!(policy.reach(Some("::ffff:10.9.9.9".parse().unwrap())), Reach::Trusted);
    assert_eq!(policy.reach(Some("11.9.9.9".parse().unwrap())), Reach::Untrusted);
    assert_eq!(policy.reach(Some("127.0.0.1".parse().unwrap())), Reach::Untrusted);
}

#[test]
fn rules_are_about_their_network_role_and_mark_only() {
    let range = Network::Range("10.1.0.0/16".parse().unwrap());
    let about = Rule {
        network: range,
        role: Some("executor".into()),
        mark: Some(Mark::Data),
        bound: Bound::Preferred(Level::Safe),
    };
    let policy = Policy { rules: vec![about], ..Policy::default() };
    assert_eq!(level(&policy, Reach::Untrusted, Mark::Data), Level::Safe);
    assert_eq!(level(&policy, Reach::Untrusted, Mark::None), Level::Private);
    assert_eq!(level(&policy, Reach::SameMachine, Mark::Data), Level::Clear);
    let hub = Place { role: "hub", ..place(Reach::Untrusted) };
    assert_eq!(policy.decide(&hub, Mark::Data, LevelSet::EVERY).unwrap().level, Level::Private);
}

#[test]
fn a_verdict_names_what_decided_and_whether_it_is_weak() {
    let policy = Policy {
        rules: vec![rule(Bound::Preferred(Level::Clear)), rule(Bound::Required(Level::Authenticated))],
        ..Policy::default()
    };
    let verdict = policy.decide(&place(Reach::Untrusted), Mark::None, LevelSet::EVERY).unwrap();
    assert_eq!((verdict.level, verdict.is_weaker), (Level::Authenticated, true));
    assert_eq!(verdict.why, "rule 2 requires authenticated");
    let verdict = policy.decide(&place(Reach::Untrusted), Mark::None, LevelSet::from(Level::Safe)).unwrap();
    assert_eq!((verdict.level, verdict.is_weaker), (Level::Safe, true));
    assert!(verdict.why.contains("other end"), "{}", verdict.why);
}

#[test]
fn never_takes_the_next_stronger_level_and_a_weaker_one_only_where_there_is_none() {
    let never = |levels: &[Level]| Policy {
        rules: levels.iter().map(|level| rule(Bound::Never(*level))).collect(),
        ..Policy::default()
    };
    assert_eq!(level(&never(&[Level::Clear]), Reach::SameMachine, Mark::None), Level::Authenticated);
    assert_eq!(level(&never(&[Level::Private]), Reach::Untrusted, Mark::None), Level::Safe);
    let none = never(&Level::ALL).decide(&place(Reach::Untrusted), Mark::None, LevelSet::EVERY);
    assert!(none.unwrap_err().to_string().contains("this end takes none"));
}

#[test]
fn the_other_end_cannot_lower_a_level() {
    let clear_only = LevelSet::EVERY.without(Level::Private).without(Level::Safe).without(Level::Authenticated);
    assert!(Policy::default().decide(&place(Reach::Untrusted), Mark::None, clear_only).is_err());
}

#[test]
fn an_executor_takes_less_than_safe_only_where_its_owner_says_so() {
    let offered = |policy: &Policy, reach| policy.offered(&place(reach), Mark::None);
    assert_eq!(offered(&Policy::default(), Reach::Untrusted), LevelSet::from(Level::Safe));
    assert_eq!(offered(&Policy::default(), Reach::Trusted), LevelSet::EVERY);
    let generous = Policy { rules: vec![rule(Bound::Preferred(Level::Authenticated))], ..Policy::default() };
    assert_eq!(offered(&generous, Reach::Untrusted), LevelSet::from(Level::Authenticated));
    assert_eq!(offered(&generous, Reach::Trusted), LevelSet::from(Level::Authenticated));
    let strict = Policy { rules: vec![rule(Bound::Required(Level::Private))], ..Policy::default() };
    assert_eq!(offered(&strict, Reach::Trusted), LevelSet::from(Level::Private));
}

fn any_level() -> impl Strategy<Value = Level> {
    (0..4usize).prop_map(|index| Level::ALL[index])
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let bound = prop_oneof![
        any_level().prop_map(Bound::Required),
        any_level().prop_map(Bound::Preferred),
        any_level().prop_map(Bound::Never)
    ];
    let mark = prop_oneof![Just(None), (0..3usize).prop_map(|index| Some(Mark::ALL[index]))];
    (bound, mark).prop_map(|(bound, mark)| Rule { network: Network::Any, role: None, mark, bound })
}

proptest! {
    #[test]
    fn no_rule_is_ever_broken(rules in proptest::collection::vec(any_rule(), 0..6), least in any_level(), mark in 0..3usize) {
        let (policy, mark) = (Policy { rules, ..Policy::default() }, Mark::ALL[mark]);
        for reach in [Reach::SameMachine, Reach::Trusted, Reach::Untrusted] {
            let Ok(verdict) = policy.decide(&place(reach), mark, LevelSet::from(least)) else { continue };
            prop_assert!(verdict.level >= least);
            for rule in policy.rules.iter().filter(|rule| rule.mark.is_none_or(|its| its == mark)) {
                match rule.bound {
                    Bound::Required(level) => prop_assert!(verdict.level >= level),
                    Bound::Never(level) => prop_assert!(verdict.level != level),
                    Bound::Preferred(_) => {}
                }
            }
            let says_less = |rule: &Rule| !matches!(rule.bound, Bound::Required(_));
            if !policy.rules.iter().any(says_less) {
                prop_assert!(!verdict.is_weaker, "weaker without explicit words");
            }
        }
    }
}
