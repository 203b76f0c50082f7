//! Blocks of all to one rank, and back.

use super::{Blocks, Call, Scratch, Span};

/// Bytes of a block up to which others pass it on.
const SHORT: usize = 2 << 10;
/// Ranks up to which the root has to do with everybody itself.
const FEW: usize = 4;

/// Every rank's `own` into its block at the root. All blocks are equally long.
pub async fn gather(call: &Call, own: Span, blocks: Option<&Blocks>, root: usize) {
    if own.length() <= SHORT && call.size() > FEW {
        gather_by_tree(call, own, blocks, root).await
    } else {
        gather_directly(call, own, blocks, root).await
    }
}

/// The same with blocks of any length.
pub async fn gather_directly(call: &Call, own: Span, blocks: Option<&Blocks>, root: usize) {
    match blocks {
        Some(blocks) => {
            own.copy_to(blocks.at(root));
            let others = (0..call.size()).filter(|from| *from != root);
            call.transfer([], others.map(|from| (from, blocks.at(from)))).await;
        }
        None => call.put(root, own).await,
    }
}

/// Each collects the blocks of ever more ranks behind it: a binomial tree.
pub(super) async fn gather_by_tree(call: &Call, own: Span, blocks: Option<&Blocks>, root: usize) {
    let (size, each) = (call.size(), own.length());
    let tree = Tree::new(call, root);
    let mut kept = Scratch::new(tree.below * each);
    let kept = kept.span();
    own.copy_to(kept.part(0, each));
    let mut distance = 1;
    while distance < tree.reach && tree.place + distance < size {
        let below = distance.min(size - tree.place - distance);
        call.get(tree.rank_of(tree.place + distance), kept.part(distance * each, below * each)).await;
        distance *= 2;
    }
    match blocks {
        Some(blocks) => (0..size).for_each(|place| {
            kept.part(place * each, each).copy_to(blocks.at(tree.rank_of(place)));
        }),
        None => call.put(tree.rank_of(tree.place - tree.reach), kept).await,
    }
}

/// The root's blocks to their ranks. All are equally long.
pub async fn scatter(call: &Call, blocks: Option<&Blocks>, own: Span, root: usize) {
    if own.length() <= SHORT && call.size() > FEW {
        scatter_by_tree(call, blocks, own, root).await
    } else {
        scatter_directly(call, blocks, own, root).await
    }
}

/// The same with blocks of any length.
pub async fn scatter_directly(call: &Call, blocks: Option<&Blocks>, own: Span, root: usize) {
    match blocks {
        Some(blocks) => {
            let others = (0..call.size()).filter(|to| *to != root);
            call.transfer(others.map(|to| (to, blocks.at(to))), []).await;
            blocks.at(root).copy_to(own);
        }
        None => call.get(root, own).await,
    }
}

pub(super) async fn scatter_by_tree(call: &Call, blocks: Option<&Blocks>, own: Span, root: usize) {
    let (size, each) = (call.size(), own.length());
    let tree = Tree::new(call, root);
    let mut kept = Scratch::new(tree.below * each);
    let kept = kept.span();
    match blocks {
        Some(blocks) => (0..size).for_each(|place| {
            blocks.at(tree.rank_of(place)).copy_to(kept.part(place * each, each));
        }),
        None => call.get(tree.rank_of(tree.place - tree.reach), kept).await,
    }
    let mut distance = tree.reach / 2;
    while distance > 0 {
        if tree.place + distance < size {
            let below = distance.min(size - tree.place - distance);
            call.put(tree.rank_of(tree.place + distance), kept.part(distance * each, below * each)).await;
        }
        distance /= 2;
    }
    kept.part(0, each).copy_to(own);
}

/// This rank's place in a binomial tree: that of the root is 0, and the ranks that follow are in order.
struct Tree {
    size: usize,
    root: usize,
    place: usize,
    /// How far its nearest predecessor is; for the root, beyond all.
    reach: usize,
    /// Itself and those whose blocks go through it.
    below: usize,
}

impl Tree {
    fn new(call: &Call, root: usize) -> Tree {
        let size = call.size();
        let place = (call.rank() + size - root) % size;
        let reach = if place == 0 { size.next_power_of_two() } else { place & place.wrapping_neg() };
        Tree { size, root, place, reach, below: reach.min(size - place) }
    }

    fn rank_of(&self, place: usize) -> usize {
        (place + self.root) % self.size
    }
}
