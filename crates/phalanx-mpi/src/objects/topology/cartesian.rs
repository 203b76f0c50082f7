//! Processes on a grid (MPI 5.0, 8.5.1 and 8.5.5 to 8.5.7). Ranks are in row-major order.

use super::neighbours::Neighbours;
use crate::error::{Class, Result, fail};

/// A grid, known to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cartesian {
    /// Processes along each dimension.
    pub dims: Vec<i32>,
    /// Along which the last one's next is the first.
    pub periods: Vec<bool>,
}

impl Cartesian {
    /// For so many processes at most.
    pub fn new(dims: &[i32], periods: Vec<bool>, size: usize) -> Result<Cartesian> {
        if let Some(dim) = dims.iter().find(|dim| **dim < 1) {
            return fail(Class::Dims, format!("a dimension of dims is {dim}"));
        }
        let nodes = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim as usize));
        if nodes.is_none_or(|nodes| nodes > size) {
            return fail(Class::Dims, format!("dims {dims:?} have more places than the {size} processes of comm"));
        }
        Ok(Cartesian { dims: dims.to_vec(), periods })
    }

    /// The number of places on the grid.
    pub fn nodes(&self) -> usize {
        self.dims.iter().map(|dim| *dim as usize).product()
    }

    /// Where a rank is.
    pub fn coords(&self, rank: usize) -> Vec<i32> {
        let mut left = rank;
        let coordinate = |dim: &i32| {
            let at = left % *dim as usize;
            left /= *dim as usize;
            at as i32
        };
        let mut coords: Vec<i32> = self.dims.iter().rev().map(coordinate).collect();
        coords.reverse();
        coords
    }

    /// Who is there; None beyond the end of a dimension that has one.
    pub fn rank_at(&self, coords: &[i64]) -> Option<usize> {
        let places = self.dims.iter().zip(&self.periods).zip(coords);
        places.into_iter().try_fold(0, |rank, ((dim, periodic), at)| {
            let dim = i64::from(*dim);
            let at = if *periodic { at.rem_euclid(dim) } else { *at };
            (0..dim).contains(&at).then(|| rank * dim as usize + at as usize)
        })
    }

    /// Who is `displacement` before, and who after a rank, along a dimension.
    pub fn shift(&self, rank: usize, direction: usize, displacement: i32) -> (Option<usize>, Option<usize>) {
        let at = |displacement: i64| {
            let mut coords: Vec<i64> = self.coords(rank).into_iter().map(i64::from).collect();
            coords[direction] += displacement;
            self.rank_at(&coords)
        };
        (at(-i64::from(displacement)), at(i64::from(displacement)))
    }

    /// Along each dimension the one before and the one after.
    pub fn neighbours(&self, rank: usize) -> Neighbours {
        let pair = |direction| {
            let (before, after) = self.shift(rank, direction, 1);
            [before, after]
        };
        let all: Vec<_> = (0..self.dims.len()).flat_map(pair).collect();
        Neighbours { sources: all.clone(), destinations: all, is_cartesian: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_where_its_coordinates_say() {
        let grid = Cartesian::new(&[2, 3, 2], vec![false, true, false], 13).expect("a grid");
        for rank in 0..grid.nodes() {
            let coords: Vec<_> = grid.coords(rank).into_iter().map(i64::from).collect();
            assert_eq!(grid.rank_at(&coords), Some(rank));
        }
        assert_eq!((grid.coords(7), grid.nodes()), (vec![1, 0, 1], 12));
        assert_eq!(grid.rank_at(&[1, -4, 0]), grid.rank_at(&[1, 2, 0]));
        assert_eq!(grid.rank_at(&[2, 0, 0]), None);
    }

    #[test]
    fn neighbours_are_around_the_end_or_nobody() {
        let grid = Cartesian::new(&[2, 3], vec![false, true], 6).expect("a grid");
        assert_eq!(grid.shift(0, 0, 1), (None, Some(3)));
        assert_eq!(grid.shift(0, 1, 1), (Some(2), Some(1)));
        assert_eq!(grid.shift(0, 1, -2), (Some(2), Some(1)));
        assert_eq!(grid.neighbours(4).sources, [Some(1), None, Some(3), Some(5)]);
        let none = Cartesian::new(&[], vec![], 3).expect("a point");
        assert_eq!((none.nodes(), none.coords(0), none.rank_at(&[])), (1, vec![], Some(0)));
    }

    #[test]
    fn a_grid_has_places_and_not_too_many() {
        assert!(Cartesian::new(&[0], vec![false], 4).is_err());
        assert!(Cartesian::new(&[-1], vec![false], 4).is_err());
        assert!(Cartesian::new(&[5], vec![false], 4).is_err());
        assert!(Cartesian::new(&[i32::MAX; 4], vec![false; 4], 4).is_err());
    }
}
