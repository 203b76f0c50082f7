//! Which machine has which ranks.

use super::job::Block;
use phalanx_core::wire::machines::{Part, Program};

/// More ranks would not fit into one message of the launcher.
const MOST_REMOTE: u64 = 1500;

/// How many ranks each machine gets: machine after machine is filled, so that neighbours are together. `offers`: what each
/// is called, and how many places are free there. `asked`: how many ranks; none: as many as there are places.
pub fn fill(asked: Option<u64>, offers: &[(String, u32)]) -> Result<Vec<u32>, String> {
    let offered: u64 = offers.iter().map(|(_, free)| u64::from(*free)).sum();
    let asked = asked.unwrap_or(offered.min(MOST_REMOTE));
    if asked > MOST_REMOTE {
        return Err(format!("{asked} ranks are more than the {MOST_REMOTE} that a program on other machines can have"));
    }
    if asked > offered || asked == 0 {
        let offer = |(name, free): &(String, u32)| format!("{name} has {free}");
        let offers = offers.iter().map(offer).collect::<Vec<_>>().join(", ");
        return Err(format!("{asked} ranks were asked for, but {offered} places are free: {offers}"));
    }
    let mut left = asked as u32;
    let take = |(_, free): &(String, u32)| {
        let taken = left.min(*free);
        left -= taken;
        taken
    };
    Ok(offers.iter().map(take).collect())
}

/// The parts of a program on machines with so many ranks each; one without ranks has none.
pub fn parts(counts: &[u32], blocks: &[Block], environment: &[(Vec<u8>, Vec<u8>)], secret: [u8; 32]) -> Vec<Part> {
    let size = counts.iter().sum();
    let program = |(app, block): (u32, &Block)| {
        let program = Program { app, command: block.command.clone(), environment: environment.to_vec() };
        (block.processes.unwrap_or_default(), program)
    };
    let mut left: Vec<(u32, Program)> = (0..).zip(blocks).map(program).collect();
    let mut first = 0;
    let part = |count: &u32| {
        let part = Part { size, first, secret, programs: cut(&mut left, *count) };
        first += count;
        part
    };
    counts.iter().map(part).collect()
}

/// Takes the first so many ranks off what is left.
fn cut(left: &mut Vec<(u32, Program)>, mut count: u32) -> Vec<(u32, Program)> {
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

    fn offers(free: &[u32]) -> Vec<(String, u32)> {
        (0..).zip(free).map(|(number, free): (u32, _)| (format!("lab{number}"), *free)).collect()
    }

    #[test]
    fn machine_after_machine_is_filled() {
        assert_eq!(fill(Some(5), &offers(&[2, 0, 4, 4])), Ok(vec![2, 0, 3, 0]));
        assert_eq!(fill(None, &offers(&[2, 1])), Ok(vec![2, 1]));
    }

    #[test]
    fn too_many_ranks_are_refused_with_what_there_is() {
        let error = fill(Some(4), &offers(&[2, 1])).expect_err("they do not fit");
        assert_eq!(error, "4 ranks were asked for, but 3 places are free: lab0 has 2, lab1 has 1");
        assert!(fill(None, &offers(&[0])).is_err());
        assert!(fill(Some(5000), &offers(&[9000])).is_err());
    }

    #[test]
    fn programs_are_cut_where_machines_end() {
        let block = |processes, word: &str| Block { processes: Some(processes), command: vec![word.into()] };
        let parts = parts(&[2, 0, 3], &[block(1, "a"), block(4, "b")], &[], [7; 32]);
        let words = |part: &Part| -> Vec<(u32, String)> {
            part.ranks().map(|(rank, it)| (rank, String::from_utf8_lossy(&it.command[0]).into_owned())).collect()
        };
        assert_eq!(words(&parts[0]), [(0, "a".into()), (1, "b".into())]);
        assert_eq!(words(&parts[1]), []);
        assert_eq!(words(&parts[2]), [(2, "b".into()), (3, "b".into()), (4, "b".into())]);
        assert_eq!((parts[2].programs[0].1.app, parts[2].size, parts[2].first), (1, 5, 2));
    }
}
