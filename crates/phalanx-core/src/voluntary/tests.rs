use super::*;
use proptest::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The rules of `--when-idle`.
fn when_idle() -> Rules {
    Rules { idle_after: Some(5 * MINUTE), on_battery: false, on_metered: false, ..Rules::default() }
}

/// A machine that has been idle for an hour.
fn quiet() -> Seen {
    Seen { idle: Some(60 * MINUTE), load: Some(0.0), ..Seen::default() }
}

fn closed(machine: &Voluntary) -> Option<String> {
    machine.closed().map(Reason::to_string)
}

/// The answers of the engine after each of these observations, a second apart.
fn told(rules: Rules, seen: impl IntoIterator<Item = Seen>) -> Vec<Option<String>> {
    let mut machine = Voluntary::new(rules);
    let tell = |(second, seen): (u64, Seen)| {
        machine.on_seen(seconds(second), &seen);
        closed(&machine)
    };
    (0..).zip(seen).map(tell).collect()
}

#[test]
fn a_machine_without_rules_is_open_unless_its_owner_pauses_it() {
    let mut machine = Voluntary::new(Rules::default());
    assert_eq!(machine.closed(), None);
    assert!(!machine.on_seen(seconds(0), &Seen::default()));
    assert!(machine.on_seen(seconds(1), &Seen { is_paused: true, ..Seen::default() }));
    assert_eq!(closed(&machine).as_deref(), Some("its owner has paused it"));
    assert!(!machine.on_time(MINUTE), "no sensor is needed");
    assert!(machine.on_seen(seconds(2), &Seen::default()));
    assert_eq!(machine.closed(), None, "it opens at once");
}

#[test]
fn a_key_closes_the_machine_and_it_opens_when_none_was_pressed_for_long_enough() {
    let mut machine = Voluntary::new(when_idle());
    assert_eq!(closed(&machine).as_deref(), Some("nothing tells whether its owner uses it"), "before the first look");
    let mut look = |at: u64, idle: u64| {
        machine.on_seen(seconds(at), &Seen { idle: Some(seconds(idle)), ..quiet() });
        closed(&machine)
    };
    assert_eq!(look(0, 299).as_deref(), Some("its owner uses it"));
    assert_eq!(look(1, 300), None);
    assert_eq!(look(2, 0).as_deref(), Some("its owner uses it"));
    assert_eq!(look(300, 298).as_deref(), Some("its owner uses it"));
    assert_eq!(look(302, 300), None);
}

#[test]
fn hours_pass_midnight() {
    let night = Hours { from: 22 * 60, to: 7 * 60 };
    let at =
        |minute| told(Rules { hours: vec![night], ..Rules::default() }, [Seen { minute, ..Seen::default() }]).remove(0);
    let out = Some("it works only at 22:00-07:00".to_owned());
    assert_eq!(
        [at(21 * 60 + 59), at(22 * 60), at(0), at(6 * 60 + 59), at(7 * 60)],
        [out.clone(), None, None, None, out]
    );
    let noon = Hours { from: 12 * 60, to: 13 * 60 };
    assert_eq!([719, 720, 779, 780].map(|minute| noon.contains(minute)), [false, true, true, false]);
    assert!((0..DAY).all(|minute| Hours { from: 60, to: 60 }.contains(minute)), "the whole day");
}

#[test]
fn a_loose_plug_closes_the_machine_once() {
    let plug = (0..100).map(|second| Seen { on_battery: second < 50 && second % 2 == 0, ..quiet() });
    let told = told(when_idle(), plug);
    let changes = told.windows(2).filter(|two| two[0] != two[1]).count();
    assert_eq!((told[0].as_deref(), changes), (Some("it runs on battery"), 1), "{told:?}");
    assert_eq!(told.iter().position(Option::is_none), Some(48 + SETTLE.as_secs() as usize));
}

#[test]
fn the_owner_may_allow_battery_and_metered_networks() {
    let rules = Rules { on_battery: true, on_metered: true, ..when_idle() };
    let seen = Seen { on_battery: true, is_metered: true, ..quiet() };
    assert_eq!(told(rules, [seen.clone()]), [None]);
    assert_eq!(told(Rules { on_battery: true, ..when_idle() }, [seen])[0].as_deref(), Some("its network is metered"));
}

#[test]
fn programs_of_the_owner_count_only_when_they_go_on() {
    let rules = Rules { most_load: Some(0.5), ..when_idle() };
    let load = |load| Seen { load: Some(load), ..quiet() };
    let short = told(rules.clone(), [load(0.0), load(1.0), load(1.0), load(0.4), load(1.0)]);
    assert!(short.iter().all(Option::is_none), "{short:?}");
    let long = told(rules, (0..400).map(|second| load(if second < 20 { 1.0 } else { 0.0 })));
    assert_eq!(long.iter().position(Option::is_some), Some(BUSY.as_secs() as usize));
    assert_eq!(long[19].as_deref(), Some("its owner's programs use it"));
    assert_eq!(long.iter().rposition(Option::is_some), Some(19 + 299), "calm for as long as it must be idle");
}

#[test]
fn load_stands_for_keys_where_nothing_tells_of_them() {
    let blind = Seen { idle: None, ..quiet() };
    assert_eq!(told(when_idle(), [blind.clone()]), [None]);
    let busy = told(when_idle(), (0..10).map(|_| Seen { load: Some(1.0), ..blind.clone() }));
    assert_eq!(busy[9].as_deref(), Some("its owner's programs use it"));
    let none = told(when_idle(), [Seen { load: None, ..blind }]);
    assert_eq!(none[0].as_deref(), Some("nothing tells whether its owner uses it"));
}

#[test]
fn sensors_that_say_nothing_any_more_close_the_machine() {
    let mut machine = Voluntary::new(when_idle());
    machine.on_seen(seconds(0), &quiet());
    assert!(!machine.on_time(STALE - seconds(1)));
    assert!(machine.on_time(STALE));
    assert_eq!(machine.closed(), Some(&Reason::Blind));
    assert!(machine.on_seen(STALE + seconds(1), &quiet()));
    assert_eq!(machine.closed(), None);
}

fn seen() -> impl Strategy<Value = Seen> {
    let idle = prop_oneof![Just(None), (0u64..900).prop_map(|it| Some(seconds(it)))];
    let load = prop_oneof![Just(None), (0.0..2.0).prop_map(Some)];
    let rest = (0..DAY, any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    (idle, load, rest).prop_map(|(idle, load, (minute, on_battery, is_metered, is_paused))| Seen {
        idle,
        load,
        minute,
        on_battery,
        is_metered,
        is_paused,
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let idle_after = prop_oneof![Just(None), (1u64..600).prop_map(|it| Some(seconds(it)))];
    let most_load = prop_oneof![Just(None), (0.1..1.0).prop_map(Some)];
    let hours = prop::collection::vec((0..DAY, 0..DAY).prop_map(|(from, to)| Hours { from, to }), 0..3);
    (idle_after, most_load, hours, any::<bool>(), any::<bool>()).prop_map(
        |(idle_after, most_load, hours, on_battery, on_metered)| Rules {
            idle_after,
            most_load,
            hours,
            on_battery,
            on_metered,
        },
    )
}

/// Whether the rules allow an observation by itself, without history. Load is left out, because it counts only after a while.
fn allows(rules: &Rules, seen: &Seen) -> bool {
    let is_idle = rules.idle_after.is_none_or(|after| seen.idle.map_or(seen.load.is_some(), |idle| idle >= after));
    let is_hour = rules.hours.is_empty() || rules.hours.iter().any(|hours| hours.contains(seen.minute));
    let power = (rules.on_battery || !seen.on_battery) && (rules.on_metered || !seen.is_metered);
    is_idle && is_hour && power && !seen.is_paused
}

proptest! {
    /// The engine never opens a machine against the rules. An observer that hears only changes knows the state.
    #[test]
    fn it_is_open_only_as_the_rules_allow(rules in rules(), all in prop::collection::vec((1u64..40, seen()), 1..40)) {
        let mut machine = Voluntary::new(rules.clone());
        let (mut now, mut known) = (0, machine.closed().cloned());
        for (passed, seen) in all {
            now += passed;
            if machine.on_time(seconds(now)) {
                known = machine.closed().cloned();
            }
            if machine.on_seen(seconds(now), &seen) {
                known = machine.closed().cloned();
            }
            prop_assert!(machine.closed().is_some() || allows(&rules, &seen));
            prop_assert_eq!(machine.closed(), known.as_ref());
        }
    }

    /// After any history, a machine opens and stays open once the rules allow it.
    #[test]
    fn it_opens_at_last(rules in rules(), all in prop::collection::vec((1u64..40, seen()), 0..20)) {
        let mut machine = Voluntary::new(rules.clone());
        let mut now = 0;
        for (passed, seen) in all {
            now += passed;
            machine.on_seen(seconds(now), &seen);
        }
        let minute = rules.hours.first().map_or(0, |hours| hours.from);
        let calm = Seen { minute, ..quiet() };
        let until = now + rules.calm().max(SETTLE).as_secs();
        let mut was_open = false;
        while now <= until {
            now += 1;
            machine.on_seen(seconds(now), &calm);
            prop_assert!(machine.closed().is_none() || !was_open, "it closes again for nothing");
            was_open = machine.closed().is_none();
        }
        prop_assert!(was_open, "{:?}", machine.closed());
    }

    /// Time passes between a close for battery, network or load and the next opening, for any observations.
    #[test]
    fn it_does_not_flap(all in prop::collection::vec((1u64..5, any::<bool>(), any::<bool>()), 1..200)) {
        let mut machine = Voluntary::new(when_idle());
        let (mut now, mut wrong) = (0, None);
        for (passed, on_battery, is_metered) in all {
            now += passed;
            machine.on_seen(seconds(now), &Seen { on_battery, is_metered, ..quiet() });
            if on_battery || is_metered {
                wrong = Some(now);
            }
            let is_settled = wrong.is_none_or(|wrong| seconds(now - wrong) >= SETTLE);
            prop_assert_eq!(machine.closed().is_none(), is_settled);
        }
    }
}
