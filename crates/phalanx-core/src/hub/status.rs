//! What executors run, as they tell it.

use super::{Hub, Presence, Who};
use crate::wire::hub::{MOST_ROWS, Status, StatusRow};
use std::ops::Bound;

const EXECUTOR: &str = "executor";

impl Hub {
    /// Records the status that an executor tells over its link.
    pub fn runs(&mut self, link: u64, who: &Who, status: Status) {
        let presence = self.present.get_mut(who).filter(|it| it.link == link);
        presence.into_iter().for_each(|it| it.status = Some(status.clone()));
    }

    /// The status of the next executors after one, and whether there are more executors.
    pub fn statuses(&self, after: Option<&str>) -> (Vec<StatusRow>, bool) {
        let from = Bound::Excluded(Who::new(EXECUTOR, after.unwrap_or_default()));
        let all = self.members.range((from, Bound::Unbounded)).take_while(|(who, _)| who.role == EXECUTOR);
        let mut executors = all.filter(|(_, member)| member.state.is_in());
        let row = |(who, member): (&Who, &super::Member)| {
            let present: Option<&Presence> = self.present.get(who);
            StatusRow {
                name: who.name.clone(),
                is_here: present.is_some(),
                since: present.map_or(member.seen, |it| it.since),
                status: present.and_then(|it| it.status.clone()),
            }
        };
        let rows = executors.by_ref().take(MOST_ROWS).map(row).collect();
        (rows, executors.next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asking, good, hub};
    use super::*;
    use crate::hub::{CLOSED, Facts, Id};

    const ID: Id = [1; 32];

    fn names(rows: &[StatusRow]) -> Vec<&str> {
        rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn what_an_executor_runs_is_known_while_it_is_here() {
        let mut hub = hub();
        hub.invite(0, "ada", (ID, "executor"), 2, 60).expect("ada is an owner");
        let [ws7, ws8] = ["ws7", "ws8"].map(|name| asking("executor", name));
        for it in [&ws7, &ws8] {
            hub.join(1, ID, it.clone(), good(&it.who.name, 1000)).expect("is invited");
        }
        hub.enter(2, 7, &ws7.who, Vec::new(), Facts::new()).expect("is a member");
        let status = Status { capacity: 4, used: 3, ..Status::default() };
        hub.runs(8, &ws7.who, Status::default());
        hub.runs(7, &ws8.who, Status::default());
        assert!(hub.statuses(None).0.iter().all(|row| row.status.is_none()), "over another link, or not here");
        hub.runs(7, &ws7.who, status.clone());
        let (rows, goes_on) = hub.statuses(None);
        assert_eq!((names(&rows), goes_on), (vec!["ws7", "ws8"], false));
        assert_eq!((rows[0].is_here, rows[0].since, &rows[0].status), (true, 2, &Some(status)));
        assert_eq!((rows[1].is_here, &rows[1].status), (false, &None));
        let fact = |hub: &Hub| hub.rows(None).0.into_iter().find_map(|row| row.facts.get(CLOSED).cloned());
        assert_eq!(fact(&hub), None);
        hub.runs(7, &ws7.who, Status { closed: "its owner uses it".into(), ..Status::default() });
        assert_eq!(fact(&hub).as_deref(), Some("its owner uses it"), "members see it too");
        hub.enter(3, 9, &ws7.who, Vec::new(), Facts::new()).expect("is a member");
        assert_eq!(hub.statuses(None).0[0].status, None, "it has started again");
        hub.go(4, 9, &ws7.who);
        assert!(!hub.statuses(None).0[0].is_here);
        hub.expel(5, "ada", "ws7").expect("ada is an owner");
        assert_eq!(names(&hub.statuses(None).0), ["ws8"]);
    }

    #[test]
    fn executors_come_in_pages_and_nobody_else_does() {
        let mut hub = hub();
        hub.found(0, asking("hub", "labpc"), good("hub", 1000), false);
        hub.invite(0, "ada", (ID, "executor"), 1000, 60).expect("ada is an owner");
        for number in 0..MOST_ROWS + 50 {
            hub.join(1, ID, asking("executor", &format!("ws{number}")), good("x", 100)).expect("is invited");
        }
        let (first, goes_on) = hub.statuses(None);
        let (second, ends) = hub.statuses(first.last().map(|row| row.name.as_str()));
        assert_eq!((first.len(), goes_on, second.len(), ends), (MOST_ROWS, true, 50, false));
    }
}
