/// The required result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It is read with unchanged data.
    Same,
    /// It is refused.
    Reject,
    /// Damage covered by checksums: anything except `ok`. If the damage is inside one chunk, the message names that
    /// chunk.
    NotOk(Option<usize>),
    /// Any result except a failure of the process.
    Any,
}
