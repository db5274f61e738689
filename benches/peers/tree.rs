//! The tree of the fork-join shapes: that of the Fibonacci numbers, so that branches are uneven.

use crate::support::work::Work;

#[derive(Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) depth: u32,
    pub(crate) leaf: Work,
}

/// What to do at a node.
pub(crate) enum Node {
    /// This has been worked off.
    Leaf(u64),
    /// Fork the first, do the second here.
    Fork(Tree, Tree),
}

impl Tree {
    pub(crate) fn visit(self) -> Node {
        match self.depth {
            0 | 1 => {
                std::hint::black_box(self.leaf.run(u64::from(self.depth)));
                Node::Leaf(1)
            }
            depth => {
                Node::Fork(Self { depth: depth - 1, ..self }, Self { depth: depth - 2, ..self })
            }
        }
    }

    pub(crate) fn leaves(self) -> u64 {
        (0..self.depth).fold((1, 1), |(now, next), _| (next, now + next)).0
    }
}
