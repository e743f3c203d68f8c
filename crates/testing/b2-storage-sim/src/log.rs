use crate::image::Image;
use crate::op::Op;

/// The record of a file system since it was [restarted](crate::SimFs::restart).
#[derive(Clone, Debug)]
pub struct Log {
    ops: Vec<Op>,
    /// The contents before the first call and after each call.
    images: Vec<Image>,
}

/// A state in which a crash can leave a disk.
#[derive(Clone, Debug)]
pub struct CrashState {
    /// The contents of the disk.
    pub image: Image,
    /// Number of calls that had ended.
    pub at: usize,
    /// The last mark before the crash; 0 if there is none.
    pub mark: u64,
    /// The cause of the state.
    pub how: String,
}

impl Log {
    pub(crate) fn new(start: &Image, ops: &[Op]) -> Self {
        let mut images = vec![start.clone()];
        for op in ops {
            let mut image = images[images.len() - 1].clone();
            image.apply(op);
            images.push(image);
        }
        Self { ops: ops.to_vec(), images }
    }

    /// Returns the calls.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the contents that the process saw after the first `at` calls.
    pub fn image(&self, at: usize) -> &Image {
        &self.images[at]
    }

    /// Returns the log of a system that, after a failed sync, has permanently dropped all unsynced
    /// data of that file, so that later syncs do not bring them back. Returns `None` if no sync has
    /// failed.
    ///
    /// Only its statements about power losses are meaningful, since the process continues to see
    /// what it wrote.
    pub fn given_up(&self) -> Option<Self> {
        let mut lost = vec![false; self.ops.len()];
        let mut any = false;
        for (i, op) in self.ops.iter().enumerate() {
            let Op::SyncFailed { node: failed } = op else { continue };
            any = true;
            let before = self.ops[..i].iter().enumerate().rev();
            for (k, op) in before.take_while(|(_, op)| **op != (Op::Sync { node: *failed })) {
                lost[k] |= op.contents() == Some(*failed);
            }
        }
        let kept = self.ops.iter().zip(lost).filter(|(_, lost)| !lost).map(|(op, _)| op.clone());
        any.then(|| Self::new(&self.images[0], &kept.collect::<Vec<_>>()))
    }

    /// Returns the number of bytes written to all files.
    pub fn bytes_written(&self) -> u64 {
        self.ops.iter().map(|op| if let Op::Write { data, .. } = op { data.len() as u64 } else { 0 }).sum()
    }

    /// Returns the number of syncs of files and directories.
    pub fn syncs(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, Op::Sync { .. } | Op::SyncDirectory { .. })).count()
    }

    /// Describes the calls, one per line.
    pub fn describe(&self) -> String {
        self.ops.iter().enumerate().map(|(i, op)| format!("{i:4} {}\n", op.describe())).collect()
    }

    pub(crate) fn mark(&self, at: usize) -> u64 {
        let marks = self.ops[..at].iter().rev();
        marks.filter_map(|op| if let Op::Mark(mark) = op { Some(*mark) } else { None }).next().unwrap_or(0)
    }

    pub(crate) fn state(&self, at: usize, image: Image, how: String) -> CrashState {
        CrashState { image, at, mark: self.mark(at), how }
    }
}
