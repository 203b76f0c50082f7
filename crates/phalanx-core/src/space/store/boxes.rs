//! An R*-tree over the numbers at some positions, for templates that ask for boxes (Grinda, paper 002).

use super::super::number::nearest;
use super::super::reader::Reader;
use super::super::template::Template;
use rstar::primitives::GeomWithData;
use rstar::{AABB, RTree};

/// Limit on the positions that one tree covers.
pub const MOST_SIDES: usize = 4;
/// Points beyond this distance are moved to it, so that volumes stay finite. Matches are compared exactly afterwards.
const FAR: f64 = 1e70;

type Point = [f64; MOST_SIDES];

#[derive(Debug)]
pub struct Boxes {
    positions: Vec<u16>,
    tree: RTree<GeomWithData<Point, u32>>,
}

impl Boxes {
    pub fn new(positions: Vec<u16>) -> Boxes {
        Boxes { positions, tree: RTree::new() }
    }

    /// Approximate bytes of memory for one tuple: its point, and its share of the nodes.
    pub const TUPLE_BYTES: u64 = 96;

    pub fn insert(&mut self, slot: u32, tuple: &[u8]) {
        self.tree.insert(GeomWithData::new(self.point(tuple), slot));
    }

    pub fn remove(&mut self, slot: u32, tuple: &[u8]) {
        self.tree.remove(&GeomWithData::new(self.point(tuple), slot));
    }

    fn point(&self, tuple: &[u8]) -> Point {
        let mut point = [0.0; MOST_SIDES];
        let mut reader = Reader::new(tuple);
        let fields = reader.varint().unwrap_or(0);
        for position in 0..fields {
            let Ok(field) = reader.field() else { break };
            for (dimension, of) in self.positions.iter().enumerate() {
                if u64::from(*of) == position {
                    point[dimension] = near(nearest(field).unwrap_or(0.0));
                }
            }
        }
        point
    }

    /// The slots that may match, in no order. `None`: the template has no bounds at these positions.
    pub fn search(&self, template: &Template) -> Option<impl Iterator<Item = u32>> {
        let (mut low, mut high, mut bounded) = ([-FAR; MOST_SIDES], [FAR; MOST_SIDES], false);
        for (dimension, position) in self.positions.iter().enumerate() {
            if let Some((from, to)) = template.bounds(usize::from(*position)) {
                bounded = true;
                low[dimension] = near(from - width(from));
                high[dimension] = near(to + width(to)).max(low[dimension]);
            }
        }
        let found = || self.tree.locate_in_envelope_intersecting(AABB::from_corners(low, high));
        bounded.then(|| found().map(|point| point.data))
    }
}

/// A bound on the rounding error of a number converted to a float.
fn width(value: f64) -> f64 {
    value.abs() * 4.0 * f64::EPSILON
}

/// The position of NaN does not matter, because no comparison holds with NaN.
fn near(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(-FAR, FAR) }
}
