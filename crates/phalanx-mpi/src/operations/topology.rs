//! Communicators with a topology, and how many processes go along each dimension of a grid (MPI 5.0, 8.5).

mod cartesian;
mod graph;

pub use cartesian::{cart_create, cart_sub};
pub use graph::{dist_graph_create, dist_graph_create_adjacent, graph_create};

use crate::error::{Class, Result, fail};
use crate::objects::comm::Comm;
use crate::objects::topology::Neighbours;
use std::cmp::Reverse;

/// Who sends to this process in a neighbour collective, and to whom it sends (MPI 5.0, 8.6).
pub fn neighbours(comm: &Comm) -> Result<Neighbours> {
    match comm.topology.get() {
        Some(topology) => Ok(topology.neighbours(comm.rank)),
        None => fail(Class::Topology, "comm has no topology"),
    }
}

/// Fails for an intercommunicator, which has no topology.
fn within_one_group(comm: &Comm) -> Result<()> {
    if comm.remote.is_some() { fail(Class::Comm, "comm is an intercommunicator") } else { Ok(()) }
}

/// Fills the dimensions that are 0 so that their product is `nodes`, as equal as can be, the greater first
/// (MPI_Dims_create).
pub fn balance(nodes: usize, dims: &mut [i32]) -> Result<()> {
    if let Some(wrong) = dims.iter().find(|dim| **dim < 0) {
        return fail(Class::Dims, format!("a dimension is {wrong}"));
    }
    let given =
        dims.iter().filter(|dim| **dim > 0).try_fold(1_usize, |product, dim| product.checked_mul(*dim as usize));
    let free = dims.iter().filter(|dim| **dim == 0).count();
    let fits = given.filter(|given| nodes > 0 && nodes % given == 0 && (free > 0 || nodes == *given));
    let Some(given) = fits else {
        return fail(Class::Dims, format!("{nodes} nodes cannot be divided into these dimensions"));
    };
    let mut parts = parts(nodes / given, free).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = parts.next().unwrap_or(1) as i32;
    }
    Ok(())
}

/// `count` factors of a number, the greatest first, as equal as can be: the greatest and the least differ by as little as
/// they can. Of those that differ as much the least is as great as can be, then the second least, and so on.
fn parts(number: usize, count: usize) -> Vec<usize> {
    let divisors = divisors(number);
    let mut search = Search { divisors: &divisors, chosen: Vec::new(), best: Vec::new() };
    search.add(number, count);
    search.best
}

/// For the best factors, by trying all that may be better than the best ones that were found.
struct Search<'a> {
    divisors: &'a [usize],
    chosen: Vec<usize>,
    best: Vec<usize>,
}

impl Search<'_> {
    /// Adds `count` factors whose product is `left`, none above those that were chosen.
    fn add(&mut self, left: usize, count: usize) {
        if left == 1 || count == 0 {
            let found: Vec<usize> = self.chosen.iter().copied().chain(std::iter::repeat_n(1, count)).collect();
            if left == 1 && (self.best.is_empty() || rank(&found) < rank(&self.best)) {
                self.best = found;
            }
            return;
        }
        let most = self.chosen.last().copied().unwrap_or(left);
        let divisors = self.divisors;
        for &factor in divisors {
            // The greatest of the factors that are left is no less than their mean.
            let is_enough = factor.checked_pow(count as u32).is_none_or(|power| power >= left);
            if factor > most || !is_enough || left % factor != 0 {
                continue;
            }
            let first = self.chosen.first().copied().unwrap_or(factor);
            // The least one is no greater than any, and than the mean of those that are left.
            let least = if count > 1 { root(left / factor, count - 1).min(factor) } else { factor };
            if self.best.is_empty() || first - least <= rank(&self.best).0 {
                self.chosen.push(factor);
                self.add(left / factor, count - 1);
                self.chosen.pop();
            }
        }
    }
}

/// Less is better.
fn rank(factors: &[usize]) -> (usize, Reverse<Vec<usize>>) {
    let (most, least) = (factors.first().copied().unwrap_or(1), factors.last().copied().unwrap_or(1));
    (most - least, Reverse(factors.iter().rev().copied().collect()))
}

/// The root, rounded up, so that no least factor is above it.
fn root(number: usize, degree: usize) -> usize {
    (number as f64).powf(1.0 / degree as f64).ceil() as usize
}

fn divisors(number: usize) -> Vec<usize> {
    let small = (1..).take_while(|divisor| divisor * divisor <= number).filter(|divisor| number % divisor == 0);
    let small: Vec<usize> = small.collect();
    let great = small.iter().rev().map(|divisor| number / divisor).filter(|divisor| divisor * divisor > number);
    small.iter().copied().chain(great).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced(nodes: usize, dims: &[i32]) -> Result<Vec<i32>> {
        let mut dims = dims.to_vec();
        balance(nodes, &mut dims).map(|()| dims)
    }

    #[test]
    fn dimensions_are_balanced_and_given_ones_stay() {
        // The examples of the standard, 8.5.2.
        assert_eq!(balanced(6, &[0, 0]), Ok(vec![3, 2]));
        assert_eq!(balanced(7, &[0, 0]), Ok(vec![7, 1]));
        assert_eq!(balanced(6, &[0, 3, 0]), Ok(vec![2, 3, 1]));
        assert_eq!(balanced(36, &[0, 0, 0]), Ok(vec![4, 3, 3]));
        assert_eq!(balanced(1, &[0, 0, 0]), Ok(vec![1, 1, 1]));
        assert_eq!(balanced(12, &[0, 0]), Ok(vec![4, 3]));
        // Not 13 x 12 x 6, nor 20 x 18 x 14.
        assert_eq!(balanced(936, &[0, 0, 0]), Ok(vec![13, 9, 8]));
        assert_eq!(balanced(5040, &[0, 0, 0]), Ok(vec![21, 16, 15]));
        assert_eq!(balanced(98_784, &[0; 5]), Ok(vec![14, 14, 9, 8, 7]));
        // Numbers of many factors, and of one.
        assert_eq!(balanced(735_134_400, &[0; 6]).map(|dims| dims.iter().product()), Ok(735_134_400));
        assert_eq!(balanced(1 << 30, &[0; 1000]).map(|dims| dims[29..31].to_vec()), Ok(vec![2, 1]));
        assert_eq!(balanced(1, &[]), Ok(vec![]));
    }

    #[test]
    fn products_are_right() {
        for nodes in 1..200_i32 {
            for count in 1..5 {
                let dims = balanced(nodes as usize, &vec![0; count]).expect("it can be divided");
                assert!(
                    dims.iter().product::<i32>() == nodes && dims.is_sorted_by(|one, next| one >= next),
                    "{dims:?}"
                );
            }
        }
        assert_eq!(balanced(i32::MAX as usize, &[0, 0]), Ok(vec![i32::MAX, 1]));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (nodes, dims) in
            [(7, &[0, 3, 0][..]), (6, &[-1, 0]), (0, &[0]), (6, &[2, 2]), (2, &[]), (6, &[i32::MAX; 4])]
        {
            assert_eq!(balanced(nodes, dims).expect_err("wrong").class, Class::Dims);
        }
    }
}
