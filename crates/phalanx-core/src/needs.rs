//! The needs of a program, and the members that meet them.
//!
//! Members tell facts about themselves, as text. A fact that is missing or damaged is one that a member does not have.

use crate::cage::{self, CAGE, Kind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a member tells about its machine: the name of each fact, and the fact as text.
pub type Facts = BTreeMap<String, String>;

/// How the fact begins by which a hub tells that an executor finds a program, or does not. No member can tell it by itself.
pub const HAS: &str = "has ";
/// Most programs, and most labels, that a program needs.
pub const MOST_WORDS: usize = 16;
/// Longest name of a program, and longest label, in bytes.
pub const LONGEST_WORD: usize = 64;
/// Most members that an error names.
const MOST_NAMED: usize = 4;

/// The needs of a program, which each of its machines must meet. The number 0 and an empty list need nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// The least number of cores.
    pub cores: u64,
    /// The least memory, in bytes.
    pub memory: u64,
    /// The least number of graphics processors that are granted to users.
    pub gpus: u64,
    /// Programs that are found by their names.
    pub software: Vec<String>,
    /// Labels that the owner has given to the machine.
    pub labels: Vec<String>,
    /// How much the cage must keep apart at least.
    pub cage: Kind,
}

/// The fact of [`HAS`] as text.
pub fn answer(is_found: bool) -> &'static str {
    if is_found { "yes" } else { "no" }
}

/// Whether this can be the name of a program, or a label. It is no path.
pub fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    text.len() <= LONGEST_WORD
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(is_letter)
}

/// Whether a user may ask for programs with these names.
pub fn are_words(texts: &[String]) -> bool {
    texts.len() <= MOST_WORDS && texts.iter().all(|text| is_word(text))
}

impl Needs {
    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        *self == Needs::default()
    }

    /// The needs, each in words.
    pub fn words(&self) -> Vec<String> {
        let number = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        let mut words = Vec::new();
        words.extend((self.cores > 0).then(|| number(self.cores, "core")));
        words.extend((self.memory > 0).then(|| format!("{} of memory", bytes(self.memory))));
        words.extend((self.gpus > 0).then(|| number(self.gpus, "GPU")));
        words.extend(self.software.iter().cloned());
        words.extend(self.labels.iter().map(|label| format!("the label {label}")));
        words.extend((self.cage > Kind::None).then(|| format!("a cage that is {}", self.cage.name())));
        words
    }

    /// The needs that a member does not meet, in the order of [`Needs::words`]: the number of the need, and the lack in words.
    pub fn lacks(&self, facts: &Facts) -> Vec<(usize, String)> {
        let told = |name: &str| facts.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let mut has = Vec::new();
        for (needed, name) in [(self.cores, "cores"), (self.memory, "memory"), (self.gpus, "gpus")] {
            let there = told(name);
            let shown = if name == "memory" { bytes(there) } else { there.to_string() };
            has.extend((needed > 0).then(|| (there >= needed, format!(" (it has {shown})"))));
        }
        for program in &self.software {
            let (is_found, why) = match facts.get(&format!("{HAS}{program}")).map(String::as_str) {
                Some("yes") => (true, ""),
                Some(_) => (false, ""),
                None => (false, " (it has not said)"),
            };
            has.push((is_found, why.to_owned()));
        }
        let labels: BTreeSet<&str> =
            facts.get("labels").into_iter().flat_map(|it| it.split_ascii_whitespace()).collect();
        has.extend(self.labels.iter().map(|label| (labels.contains(label.as_str()), String::new())));
        let caged = cage::told(facts.get(CAGE));
        has.extend((self.cage > Kind::None).then(|| (caged >= self.cage, format!(" (it is {})", caged.name()))));
        let lack = |(number, (word, (is_met, why))): (usize, (String, (bool, String)))| {
            (!is_met).then(|| (number, format!("{word}{why}")))
        };
        self.words().into_iter().zip(has).enumerate().filter_map(lack).collect()
    }

    /// Whether a member has everything.
    pub fn are_met(&self, facts: &Facts) -> bool {
        self.lacks(facts).is_empty()
    }

    /// Why none of these members has everything: the needs that no member meets, and what each member lacks.
    pub fn unmet(&self, grid: &str, members: &[(&str, &Facts)]) -> String {
        self.unmet_by(&format!("no executor of the grid {grid}"), members)
    }

    /// The same, where `none` names the machines, like `no executor of the grid lab`.
    pub fn unmet_by(&self, none: &str, members: &[(&str, &Facts)]) -> String {
        let words = self.words();
        let lacking: Vec<_> = members.iter().map(|(name, facts)| (name, self.lacks(facts))).collect();
        let is_unmet = |number: &usize| lacking.iter().all(|(_, lacks)| lacks.iter().any(|(lack, _)| lack == number));
        let unmet: Vec<&str> = (0..words.len()).filter(is_unmet).map(|number| words[number].as_str()).collect();
        let what = if unmet.is_empty() { format!("all of {}", words.join(", ")) } else { unmet.join(", or ") };
        let lack = |(name, lacks): &(&&str, Vec<(usize, String)>)| {
            let lacks: Vec<&str> = lacks.iter().map(|(_, lack)| lack.as_str()).collect();
            format!("{name} lacks {}", lacks.join(", "))
        };
        let mut named: Vec<String> = lacking.iter().take(MOST_NAMED).map(lack).collect();
        named.extend((members.len() > MOST_NAMED).then(|| format!("and {} more", members.len() - MOST_NAMED)));
        let why = if named.is_empty() { "none runs".to_owned() } else { named.join("; ") };
        format!("{none} has {what}: {why}")
    }
}

/// Bytes as people read them, like `4 GB` and `2.1 GB`.
fn bytes(number: u64) -> String {
    let (size, unit) = match number {
        0..1_000_000 => (1e3, "KB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    let tenths = (number as f64 / size * 10.0).floor() / 10.0;
    format!("{tenths} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(told: &[(&str, &str)]) -> Facts {
        told.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect()
    }

    fn all() -> Needs {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        let (software, labels) = (words(&["ffmpeg"]), words(&["lab-b"]));
        Needs { cores: 2, memory: 4_000_000_000, gpus: 1, software, labels, cage: Kind::Files }
    }

    const RICH: [(&str, &str); 6] = [
        ("cores", "2"),
        ("memory", "4000000000"),
        ("gpus", "1"),
        ("has ffmpeg", "yes"),
        ("labels", "fast lab-b"),
        ("cage", "limits with accounts"),
    ];

    #[test]
    fn a_member_meets_needs_when_it_has_all_of_them() {
        let rich = facts(&RICH);
        assert!(all().are_met(&rich));
        assert!(Needs::default().are_met(&Facts::new()) && Needs::default().is_empty());
        for (number, (name, _)) in RICH.iter().enumerate() {
            let mut poor = rich.clone();
            poor.remove(*name);
            let lacks: Vec<usize> = all().lacks(&poor).into_iter().map(|(need, _)| need).collect();
            assert_eq!(lacks, [number], "{name}");
        }
    }

    #[test]
    fn facts_that_are_damaged_are_none() {
        for wrong in ["", "-3", "two", "99999999999999999999999", "2 ", "0x4", "\u{1b}[2J"] {
            let told = RICH.map(|(name, _)| (name, wrong));
            assert_eq!(all().lacks(&facts(&told)).len(), 6, "{wrong:?}");
        }
        assert!(!all().are_met(&facts(&[RICH[0], RICH[1], RICH[2], RICH[3], RICH[5], ("labels", "lab-bc xlab-b")])));
    }

    #[test]
    fn the_error_says_which_need_no_member_meets_and_what_each_one_lacks() {
        let (poor, software) = (facts(&[("cores", "1"), ("has ffmpeg", "no")]), |name: &str| Needs {
            software: vec![name.to_owned()],
            ..Needs::default()
        });
        assert_eq!(
            software("ffmpeg").unmet("lab", &[("ws7", &poor)]),
            "no executor of the grid lab has ffmpeg: ws7 lacks ffmpeg"
        );
        assert_eq!(
            Needs { cage: Kind::Files, ..Needs::default() }.unmet("lab", &[("ws7", &facts(&[("cage", "limits")]))]),
            "no executor of the grid lab has a cage that is files: ws7 lacks a cage that is files (it is limits)"
        );
        assert_eq!(
            Needs { cores: 2, ..software("sox") }.unmet("lab", &[("ws7", &poor)]),
            "no executor of the grid lab has 2 cores, or sox: ws7 lacks 2 cores (it has 1), sox (it has not said)"
        );
        let many = facts(&[("cores", "64"), ("memory", "2150000000")]);
        let each = Needs { cores: 2, memory: 4_000_000_000, ..Needs::default() };
        let large = facts(&[("cores", "1"), ("memory", "9000000000")]);
        assert_eq!(
            each.unmet("lab", &[("ws7", &many), ("ws8", &large)]),
            "no executor of the grid lab has all of 2 cores, 4 GB of memory: ws7 lacks 4 GB of memory (it has 2.1 GB); ws8 \
             lacks 2 cores (it has 1)"
        );
        let ten = [("ws", &poor); 10];
        assert!(each.unmet("lab", &ten).ends_with("; and 6 more"));
        assert!(each.unmet("lab", &[]).ends_with("has 2 cores, or 4 GB of memory: none runs"));
    }

    #[test]
    fn words_are_no_paths() {
        for good in ["ffmpeg", "g++", "python3.12", "7z", "lab-b", "x"] {
            assert!(is_word(good), "{good}");
        }
        for wrong in ["", ".", "..", "-x", "a/b", "/bin/sh", "a b", "é", "a\n", "a\0", &"x".repeat(65)] {
            assert!(!is_word(wrong), "{wrong:?}");
        }
        assert!(!are_words(&vec!["x".to_owned(); MOST_WORDS + 1]));
    }

    proptest! {
        #[test]
        fn what_a_member_tells_makes_nothing_panic_and_no_error_long(
            told in proptest::collection::btree_map("(cores|memory|gpus|labels|has ffmpeg|cage)", "\\PC{0,200}", 0..6),
        ) {
            let needs = all();
            let lacks = needs.lacks(&told);
            prop_assert_eq!(needs.are_met(&told), lacks.is_empty());
            prop_assert!(needs.unmet("lab", &[("ws7", &told)]).len() < 500);
        }
    }
}
