//! Placement: which machine gets which ranks.

use super::job::Block;
use phalanx_core::wire::machines::{Part, Program, Usage};
use phalanx_net::address::Address;
use phalanx_net::identity::random_token;
use std::time::Duration;

/// Most ranks on executors, because more would not fit into one message of the launcher.
const MOST_REMOTE: u64 = 1500;

/// Why there are no places for the processes.
#[derive(Debug, PartialEq, Eq)]
pub enum Miss {
    /// There will never be enough places.
    Never(String),
    /// There are not enough places now.
    Full(String),
    /// The places were free, but were taken before they were asked for.
    TooLate(String),
}

/// How many processes each chosen machine gets; machines are given by index.
pub type Choice = Vec<(usize, u32)>;

/// What a machine offers to a program.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The name shown to users.
    pub name: String,
    pub address: Option<Address>,
    /// Number of free places.
    pub free: u32,
    /// Who holds the others.
    pub usage: Usage,
    /// Why the machine takes no ranks now.
    pub closed: Option<String>,
    /// For a restarted program: how many ranks it had here, and the machine's number in it.
    pub had: u32,
    pub place: Option<usize>,
    /// Whether the program has left this machine.
    pub is_left: bool,
}

impl Offer {
    /// Whether the user's word `word` names this machine.
    pub fn is_called(&self, word: &str) -> bool {
        self.name == word || self.address.as_ref().is_some_and(|address| is_at(address, word))
    }
}

/// Whether `word` is this address, with or without its port.
pub fn is_at(address: &Address, word: &str) -> bool {
    address.host == word || word.parse().is_ok_and(|word: Address| word == *address)
}

/// Chooses the machines that get ranks, in order, and how many each gets. `asked`: the number of ranks; `None`: as many as
/// there are places.
///
/// Machines are filled one after the other, so that neighbouring ranks are together. A restarted program keeps its ranks where
/// they were, if possible, because their checkpoints are there. Other ranks go first to machines that the program did not have,
/// as a replacement for one that it leaves. Only then do they go to a machine that it has left.
pub fn fill(asked: Option<u64>, offers: &[Offer]) -> Result<Choice, String> {
    let offered: u64 = offers.iter().map(|offer| u64::from(offer.free)).sum();
    let asked = asked.unwrap_or(offered.min(MOST_REMOTE));
    if asked > MOST_REMOTE {
        return Err(format!(
            "{asked} processes are more than the {MOST_REMOTE} that a program on other machines can have"
        ));
    }
    if asked > offered || asked == 0 {
        return Err(format!("{asked} processes were asked for, but {offered} places are free{}", told(offers)));
    }
    let (mut left, mut counts) = (asked as u32, vec![0; offers.len()]);
    let mut take = |most: &dyn Fn(&Offer) -> u32| {
        for (count, offer) in counts.iter_mut().zip(offers) {
            let taken = left.min(most(offer).min(offer.free).saturating_sub(*count));
            (*count, left) = (*count + taken, left - taken);
        }
    };
    take(&|offer| if offer.is_left { 0 } else { offer.had });
    take(&|offer| if offer.is_left || offer.had > 0 { 0 } else { u32::MAX });
    take(&|offer| if offer.is_left { 0 } else { u32::MAX });
    take(&|_| u32::MAX);
    let gap = offers.iter().filter(|offer| offer.is_left).filter_map(|offer| offer.place).min().unwrap_or(usize::MAX);
    let mut order: Vec<usize> = (0..offers.len()).filter(|index| counts[*index] > 0).collect();
    order.sort_by_key(|index| (offers[*index].is_left, offers[*index].place.unwrap_or(gap)));
    Ok(order.into_iter().map(|index| (index, counts[index])).collect())
}

/// The same for programs of which some name their machine. The others go to machines that no program names.
///
/// The ranks on one machine are consecutive, as everywhere.
pub fn fill_named(programs: &[(u32, Option<String>)], offers: &[Offer]) -> Result<Choice, Miss> {
    let names: Vec<&String> = programs.iter().filter(|it| it.0 > 0).filter_map(|(_, name)| name.as_ref()).collect();
    let mut offers = offers.to_vec();
    let mut choice = Choice::new();
    for (count, name) in programs.iter().filter(|(count, _)| *count > 0) {
        let fits = |offer: &Offer| match name {
            Some(name) => offer.is_called(name),
            None => !names.iter().any(|name| offer.is_called(name)),
        };
        // Only the last machine is still being filled; the ones before it are complete.
        let last = choice.last().map(|(place, _)| *place);
        let is_over = |place: &usize| Some(*place) != last && choice.iter().any(|(had, _)| had == place);
        let all = offers.iter().cloned().enumerate().filter(|(_, offer)| fits(offer));
        let (mut its, over): (Vec<(usize, Offer)>, Vec<_>) = all.partition(|(place, _)| !is_over(place));
        its.sort_by_key(|(place, _)| Some(*place) != last);
        let offered = |its: &[(usize, Offer)]| its.iter().map(|(_, offer)| offer.clone()).collect::<Vec<_>>();
        let filled = fill(Some((*count).into()), &offered(&its)).map_err(|why| {
            let with_those = offered(&[its.as_slice(), &over].concat());
            let are_apart = name.is_some() && its.is_empty() && !over.is_empty();
            match fill(Some((*count).into()), &with_those) {
                Err(_) if !are_apart => Miss::Full(why),
                _ => Miss::Never(format!("processes on {} are to follow each other", told_names(&offered(&over)))),
            }
        })?;
        for (index, count) in filled {
            let place = its[index].0;
            offers[place].free -= count;
            match choice.last_mut().filter(|(last, _)| *last == place) {
                Some((_, its)) => *its += count,
                None => choice.push((place, count)),
            }
        }
    }
    Ok(choice)
}

fn told_names(offers: &[Offer]) -> String {
    offers.iter().map(|offer| &offer.name[..]).collect::<Vec<_>>().join(", ")
}

/// Checks that this many places are free. The error says why not.
pub fn enough(places: u32, free: &[(String, u32)]) -> Result<(), String> {
    let all: u64 = free.iter().map(|(_, free)| u64::from(*free)).sum();
    if all >= u64::from(places) {
        return Ok(());
    }
    let offers: Vec<Offer> =
        free.iter().map(|(name, free)| Offer { name: name.clone(), free: *free, ..Offer::default() }).collect();
    Err(format!("it takes {places} places on other machines, and {all} are free{}", told(&offers)))
}

fn told(offers: &[Offer]) -> String {
    let tell = |Offer { name, free, usage, closed, .. }: &Offer| match usage.holders() {
        _ if closed.is_some() => format!("{name} is closed: {}", closed.as_deref().unwrap_or_default()),
        // A program's interpreters and ranks share their places, which are free for it then.
        Some(_) if *free < usage.capacity => format!("{name} has {free} ({usage})"),
        _ => format!("{name} has {free}"),
    };
    let told: Vec<String> = offers.iter().map(tell).collect();
    if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) }
}

/// A secret shared by the processes of one program and known to no one else.
pub fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    secret.chunks_exact_mut(16).for_each(|half| half.copy_from_slice(&random_token()));
    secret
}

/// Divides a program among machines with these numbers of ranks. A machine without ranks gets no part.
pub fn parts(
    counts: &[u32],
    blocks: &[Block],
    environment: &[(Vec<u8>, Vec<u8>)],
    secret: [u8; 32],
    patience: Option<Duration>,
) -> Vec<Part> {
    let size = counts.iter().sum();
    let program = |(app, block): (u32, &Block)| {
        let (command, folder) = (block.command.clone(), block.folder.clone());
        let program = Program { app, command, environment: environment.to_vec(), folder };
        (block.processes.unwrap_or_default(), program)
    };
    let mut left: Vec<(u32, Program)> = (0..).zip(blocks).map(program).collect();
    let mut first = 0;
    let part = |count: &u32| {
        let part = Part { base: 0, size, first, secret, programs: cut(&mut left, *count), patience };
        first += count;
        part
    };
    counts.iter().map(part).collect()
}

/// Removes the first `count` ranks from `left`, and returns them.
pub fn cut(left: &mut Vec<(u32, Program)>, mut count: u32) -> Vec<(u32, Program)> {
    let mut taken = Vec::new();
    while let Some((here, program)) = left.first_mut().filter(|_| count > 0) {
        let some = count.min(*here);
        taken.push((some, program.clone()));
        (*here, count) = (*here - some, count - some);
        if *here == 0 {
            left.remove(0);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(free: &[u32]) -> Vec<Offer> {
        let offer =
            |(number, free): (u32, &u32)| Offer { name: format!("lab{number}"), free: *free, ..Offer::default() };
        (0..).zip(free).map(offer).collect()
    }

    /// Offers for a program that is restarted: `had` says how many ranks it had on which machine.
    fn offers_again(free: &[u32], had: &[(usize, u32)]) -> Vec<Offer> {
        let mut offers = offers(free);
        for (place, (index, had)) in had.iter().enumerate() {
            (offers[*index].had, offers[*index].place) = (*had, Some(place));
        }
        offers
    }

    #[test]
    fn machine_after_machine_is_filled() {
        assert_eq!(fill(Some(5), &offers(&[2, 0, 4, 4])), Ok(vec![(0, 2), (2, 3)]));
        assert_eq!(fill(None, &offers(&[2, 1])), Ok(vec![(0, 2), (1, 1)]));
    }

    #[test]
    fn too_many_ranks_are_refused_with_what_there_is() {
        let error = fill(Some(4), &offers(&[2, 1])).expect_err("they do not fit");
        assert_eq!(error, "4 processes were asked for, but 3 places are free: lab0 has 2, lab1 has 1");
        assert!(fill(None, &offers(&[0])).is_err());
        let mut taken = offers(&[0]);
        taken[0].usage = Usage { capacity: 2, own: 1, others: 1, users: 1, waiting: 2, turn: 2 };
        let error = fill(Some(1), &taken).expect_err("it does not fit");
        let who = "2 of 2 places are taken, 1 by your own programs and 1 by another user; of 2 users who wait you are number 2";
        assert_eq!(error, format!("1 processes were asked for, but 0 places are free: lab0 has 0 ({who})"));
        assert!(fill(Some(5000), &offers(&[9000])).is_err());
    }

    #[test]
    fn a_program_that_is_started_again_stays_where_its_checkpoints_are() {
        let again = offers_again(&[9, 2, 9, 1], &[(1, 2), (2, 3)]);
        assert_eq!(fill(Some(5), &again), Ok(vec![(1, 2), (2, 3)]));
        let lost = offers_again(&[1, 2, 9], &[(1, 2), (2, 3)]); // and one that had 2 more is lost
        assert_eq!(fill(Some(7), &lost), Ok(vec![(1, 2), (2, 4), (0, 1)]));
    }

    #[test]
    fn a_machine_takes_the_place_of_one_that_is_left() {
        let mut left = offers_again(&[2, 2, 2, 4], &[(0, 2), (1, 2), (2, 1)]);
        left[1].is_left = true;
        assert_eq!(fill(Some(5), &left), Ok(vec![(0, 2), (3, 2), (2, 1)]));
        left[3].free = 1;
        assert_eq!(fill(Some(5), &left), Ok(vec![(0, 2), (3, 1), (2, 2)]));
        left[3].free = 0;
        assert_eq!(fill(Some(5), &left), Ok(vec![(0, 2), (2, 2), (1, 1)]), "where there is no other");
    }

    #[test]
    fn a_machine_that_was_left_comes_last_also_later() {
        let mut again = offers_again(&[4, 4, 1], &[(1, 2)]);
        again[0].is_left = true;
        assert_eq!(fill(Some(4), &again), Ok(vec![(1, 3), (2, 1)]));
    }

    fn named(programs: &[(u32, &str)]) -> Vec<(u32, Option<String>)> {
        programs.iter().map(|(count, name)| (*count, Some((*name).to_owned()).filter(|it| !it.is_empty()))).collect()
    }

    #[test]
    fn programs_come_to_the_machine_that_they_name_and_others_elsewhere() {
        let some = offers(&[2, 2, 2]);
        assert_eq!(fill_named(&named(&[(2, "lab1")]), &some), Ok(vec![(1, 2)]));
        assert_eq!(fill_named(&named(&[(1, "lab1"), (1, "lab1"), (3, "")]), &some), Ok(vec![(1, 2), (0, 2), (2, 1)]));
        assert_eq!(fill_named(&named(&[(1, ""), (1, "lab2"), (1, "")]), &some), Ok(vec![(0, 1), (2, 1), (1, 1)]));
        assert_eq!(fill_named(&named(&[(1, ""), (4, "")]), &some), Ok(vec![(0, 2), (1, 2), (2, 1)]));
        assert_eq!(fill_named(&named(&[(0, "lab2"), (1, "lab0")]), &some), Ok(vec![(0, 1)]));
        let at = |port: u16| Offer { address: format!("10.0.0.1:{port}").parse().ok(), free: 2, ..Offer::default() };
        let twins = named(&[(1, "10.0.0.1:7401"), (3, "10.0.0.1")]);
        assert_eq!(fill_named(&twins, &[at(7400), at(7401)]), Ok(vec![(1, 2), (0, 2)]), "the second first, and once");
    }

    #[test]
    fn too_many_for_the_machine_that_they_name_are_refused() {
        let full = |text: &str| Err(Miss::Full(text.to_owned()));
        let some = offers(&[2, 2]);
        let text = "3 processes were asked for, but 2 places are free: lab1 has 2";
        assert_eq!(fill_named(&named(&[(3, "lab1")]), &some), full(text));
        let text = "1 processes were asked for, but 0 places are free";
        assert_eq!(fill_named(&named(&[(1, "lab0"), (1, "lab1"), (1, "")]), &some), full(text));
        let apart = named(&[(1, "lab0"), (1, "lab1"), (1, "lab0")]);
        let text = "processes on lab0 are to follow each other".to_owned();
        assert_eq!(fill_named(&apart, &some), Err(Miss::Never(text)));
    }

    #[test]
    fn a_machine_is_called_by_its_name_or_its_address() {
        let address = Some("10.0.0.1:7400".parse().expect("it is one"));
        let offer = Offer { name: "lab".into(), address, ..Offer::default() };
        assert!(["lab", "10.0.0.1", "10.0.0.1:7400"].iter().all(|word| offer.is_called(word)));
        assert!(!["lab2", "10.0.0.2", "10.0.0.1:7401", "", "1", "7400"].iter().any(|word| offer.is_called(word)));
    }

    #[test]
    fn too_few_places_to_leave_a_machine_are_told() {
        let free = [("lab1".to_owned(), 1), ("lab2".to_owned(), 0)];
        assert_eq!(enough(1, &free), Ok(()));
        let why = "it takes 2 places on other machines, and 1 are free: lab1 has 1, lab2 has 0";
        assert_eq!(enough(2, &free), Err(why.to_owned()));
        assert_eq!(enough(1, &[]), Err("it takes 1 places on other machines, and 0 are free".to_owned()));
    }

    #[test]
    fn programs_are_cut_where_machines_end() {
        let block =
            |processes, word: &str| Block { processes: Some(processes), command: vec![word.into()], folder: None };
        let parts = parts(&[2, 0, 3], &[block(1, "a"), block(4, "b")], &[], [7; 32], None);
        let words = |part: &Part| -> Vec<(u32, String)> {
            part.ranks().map(|(rank, it)| (rank, String::from_utf8_lossy(&it.command[0]).into_owned())).collect()
        };
        assert_eq!(words(&parts[0]), [(0, "a".into()), (1, "b".into())]);
        assert_eq!(words(&parts[1]), []);
        assert_eq!(words(&parts[2]), [(2, "b".into()), (3, "b".into()), (4, "b".into())]);
        assert_eq!((parts[2].programs[0].1.app, parts[2].size, parts[2].first), (1, 5, 2));
    }
}
