//! Which executors have a program: users ask the hub, the hub asks the executors that are here, and remembers what they answer.
//!
//! A machine has thousands of programs, too many to tell all of them as facts. So an executor looks when a user asks. The hub passes on
//! few questions, however many users ask and however often.

use super::{HAS, Hub, Refusal, Who};
use crate::wire::hub::Row;
use std::collections::BTreeMap;

/// An answer is asked for anew after so many seconds, because programs are installed and removed.
const AGAIN: u64 = 60;
/// The hub forgets a program when no user has asked for it for so many seconds.
const FORGOTTEN: u64 = 120;
/// Most programs that are asked for at a time, and most of one user.
const MOST_SOUGHT: (usize, usize) = (64, 16);

/// The programs that users ask for.
pub type Sought = BTreeMap<String, Asked>;
/// The programs that an executor was asked for, each with the time of the question, and the answer.
pub type Answers = BTreeMap<String, (u64, Option<bool>)>;
/// That users ask for a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// The first user that asked.
    by: String,
    /// The times of the first and of the newest question. Executors' answers from before the first one are forgotten.
    first: u64,
    last: u64,
}
/// A question to an executor: the number of its link, and the programs.
pub type Question = (u64, Vec<String>);

/// A page of members with what is known of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The rows. Their facts tell the answers, as [`HAS`] with the program's name.
    pub rows: Vec<Row>,
    /// Whether there are more rows.
    pub goes_on: bool,
    /// The questions that the driver sends to executors.
    pub questions: Vec<Question>,
}

impl Hub {
    /// Returns the next members after one, for a user, and which of them find these programs.
    ///
    /// # Errors
    /// Too many programs are asked for at this time.
    pub fn seek(&mut self, now: u64, by: &str, programs: &[String], after: Option<&Who>) -> Result<Found, Refusal> {
        self.note_sought(now, by, programs)?;
        let (mut rows, goes_on) = self.rows(after);
        let mut questions = Vec::new();
        for row in &mut rows {
            let Some(presence) = self.present.get_mut(&Who::new(&row.role, &row.name)) else { continue };
            if row.role != "executor" {
                continue;
            }
            // Here, and not when a program is forgotten: that would look at all members.
            let sought = &self.sought;
            presence.answers.retain(|program, (when, _)| sought.get(program).is_some_and(|it| it.first <= *when));
            let mut asked = Vec::new();
            for program in programs {
                let known = presence.answers.entry(program.clone()).or_insert((0, None));
                if known.0 + AGAIN <= now || known.0 == 0 {
                    known.0 = now.max(1);
                    asked.push(program.clone());
                }
                if let Some(is_found) = known.1 {
                    let word = if is_found { "yes" } else { "no" };
                    row.facts.insert(format!("{HAS}{program}"), word.to_owned());
                }
            }
            if !asked.is_empty() {
                questions.push((presence.link, asked));
            }
        }
        Ok(Found { rows, goes_on, questions })
    }

    /// Takes the answer of an executor over its link. Programs that the executor was not asked for are left out.
    pub fn answered(&mut self, link: u64, who: &Who, found: &BTreeMap<String, bool>) {
        let Some(presence) = self.present.get_mut(who).filter(|it| it.link == link) else { return };
        for (program, is_found) in found {
            presence.answers.get_mut(program).into_iter().for_each(|known| known.1 = Some(*is_found));
        }
    }

    /// Notes that a user asks, if there is room.
    fn note_sought(&mut self, now: u64, by: &str, programs: &[String]) -> Result<(), Refusal> {
        self.sought.retain(|_, it| it.last + FORGOTTEN > now);
        for program in programs {
            if let Some(known) = self.sought.get_mut(program) {
                known.last = now;
                continue;
            }
            let own = self.sought.values().filter(|it| it.by == by).count();
            if self.sought.len() >= MOST_SOUGHT.0 || own >= MOST_SOUGHT.1 {
                return Err(Refusal::Full("as many questions about programs as it passes on within two minutes"));
            }
            self.sought.insert(program.clone(), Asked { by: by.to_owned(), first: now, last: now });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asking, good, hub};
    use super::*;
    use crate::hub::{Facts, Id};

    const ID: Id = [1; 32];

    /// A hub with the executors `ws7` and `ws8` at the links 7 and 8.
    fn with_two() -> Hub {
        let mut hub = hub();
        hub.invite(0, "ada", (ID, "executor"), 2, 60).expect("ada is an owner");
        for (link, name) in [(7, "ws7"), (8, "ws8")] {
            let asking = asking("executor", name);
            hub.join(1, ID, asking.clone(), good(name, 1000)).expect("is invited");
            hub.enter(1, link, &asking.who, Vec::new(), Facts::new()).expect("is a member");
        }
        hub
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|it| (*it).to_owned()).collect()
    }

    fn told(found: &Found, name: &str, program: &str) -> Option<String> {
        let row = found.rows.iter().find(|row| row.name == name).expect("is a member");
        row.facts.get(&format!("{HAS}{program}")).cloned()
    }

    #[test]
    fn executors_are_asked_once_and_their_answers_are_told() {
        let mut hub = with_two();
        let first = hub.seek(10, "ada", &words(&["ffmpeg"]), None).expect("there is room");
        assert_eq!(first.questions, [(7, words(&["ffmpeg"])), (8, words(&["ffmpeg"]))]);
        assert_eq!(told(&first, "ws7", "ffmpeg"), None);
        hub.answered(7, &Who::new("executor", "ws7"), &BTreeMap::from([("ffmpeg".into(), true), ("sox".into(), true)]));
        hub.answered(7, &Who::new("executor", "ws8"), &BTreeMap::from([("ffmpeg".into(), true)]));
        let second = hub.seek(11, "bob", &words(&["ffmpeg"]), None).expect("there is room");
        assert_eq!(second.questions, [], "were asked");
        assert_eq!(told(&second, "ws7", "ffmpeg"), Some("yes".into()));
        assert_eq!(told(&second, "ws8", "ffmpeg"), None, "another member's link tells nothing of it");
        let more = hub.seek(12, "ada", &words(&["sox"]), None).expect("there is room");
        assert_eq!(told(&more, "ws7", "sox"), None, "an answer to no question is none");
        assert_eq!(told(&more, "ada", "ffmpeg"), None);
    }

    #[test]
    fn an_answer_stays_until_the_next_one_which_is_asked_for_in_time() {
        let mut hub = with_two();
        let ws7 = Who::new("executor", "ws7");
        hub.seek(10, "ada", &words(&["ffmpeg"]), None).expect("there is room");
        hub.answered(7, &ws7, &BTreeMap::from([("ffmpeg".into(), false)]));
        let again = hub.seek(10 + AGAIN, "ada", &words(&["ffmpeg"]), None).expect("there is room");
        assert_eq!(again.questions.len(), 2);
        assert_eq!(told(&again, "ws7", "ffmpeg"), Some("no".into()));
        hub.enter(80, 9, &ws7, Vec::new(), Facts::new()).expect("is a member");
        let anew = hub.seek(81, "ada", &words(&["ffmpeg"]), None).expect("there is room");
        assert_eq!(anew.questions, [(9, words(&["ffmpeg"]))], "it has started again");
    }

    #[test]
    fn who_asks_for_much_is_refused_and_others_are_not() {
        let mut hub = with_two();
        let many: Vec<String> = (0..MOST_SOUGHT.1).map(|number| format!("a{number}")).collect();
        hub.seek(10, "eve", &many, None).expect("there is room");
        assert!(matches!(hub.seek(11, "eve", &words(&["b"]), None), Err(Refusal::Full(_))));
        hub.seek(12, "ada", &words(&["b"]), None).expect("there is room");
        hub.seek(13, "eve", &words(&["b"]), None).expect("ada asks for it");
        for user in 0..10 {
            let many: Vec<String> = (0..MOST_SOUGHT.1).map(|number| format!("{user}x{number}")).collect();
            let _ = hub.seek(14, &format!("user {user}"), &many, None);
        }
        assert_eq!(hub.sought.len(), MOST_SOUGHT.0);
        hub.seek(14 + FORGOTTEN, "eve", &words(&["c"]), None).expect("the others are forgotten");
        assert_eq!(hub.sought.len(), 1);
        assert!(hub.present.values().all(|it| it.answers.len() == 1), "answers are forgotten, too");
    }

    #[test]
    fn a_member_cannot_tell_a_program_as_a_fact() {
        let mut hub = with_two();
        let claims = Facts::from([("has ffmpeg".to_owned(), "yes".to_owned()), ("cores".to_owned(), "4".to_owned())]);
        hub.enter(2, 7, &Who::new("executor", "ws7"), Vec::new(), claims).expect("is a member");
        let found = hub.seek(3, "ada", &words(&["ffmpeg"]), None).expect("there is room");
        assert_eq!(told(&found, "ws7", "ffmpeg"), None);
        assert!(found.rows.iter().any(|row| row.facts.get("cores").is_some_and(|it| it == "4")));
    }
}
