//! With whom a process exchanges blocks in a neighbour collective (MPI 5.0, 8.6).

/// From whom a process receives, and to whom it sends; None is nobody (MPI_PROC_NULL), whose block is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Neighbours {
    /// The ranks from which a block comes, in their order.
    pub sources: Vec<Option<usize>>,
    /// The ranks to which a block goes, in their order.
    pub destinations: Vec<Option<usize>>,
    /// Along each dimension the neighbour before, and the one after: what one sends back is received from ahead, also
    /// where both are the same process.
    pub is_cartesian: bool,
}
