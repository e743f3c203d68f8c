//! Threads provided by the program: `blosc2_set_threads_callback`.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use b2_core::{Control, Executor, Pool};

use crate::ffi::{callbacks, guard, locked};

/// `blosc_threads_callback`: calls a function for each of `numjobs` jobs, which are `jobdata_elsize` bytes apart.
pub type Callback =
    unsafe extern "C" fn(*mut c_void, unsafe extern "C" fn(*mut c_void), c_int, usize, *mut c_void);

#[derive(Clone, Copy)]
struct ProgramThreads {
    callback: Callback,
    data: *mut c_void,
}

// SAFETY: the program guarantees that its function may be called from any thread that calls the library.
unsafe impl Send for ProgramThreads {}
// SAFETY: as above.
unsafe impl Sync for ProgramThreads {}

/// The number of threads of the process's settings.
static NTHREADS: AtomicI16 = AtomicI16::new(1);

/// Returns the number of threads.
pub(crate) fn nthreads() -> i16 {
    NTHREADS.load(Ordering::Relaxed)
}

/// Sets the number of threads. With more than one, the pool is kept until it is one again, as after `blosc2_destroy`.
pub(crate) fn set_nthreads(nthreads: i16) {
    NTHREADS.store(nthreads, Ordering::Relaxed);
    let pool = pool(nthreads);
    let before = std::mem::replace(&mut *locked(&CACHED_POOL), pool);
    drop(before);
}

/// The worker threads of all contexts. They end when the last owner drops the pool.
static POOL: Mutex<Weak<Pool>> = Mutex::new(Weak::new());
static CACHED_POOL: Mutex<Option<Arc<Pool>>> = Mutex::new(None);

/// Returns the pool for more than one thread. Its owners keep its threads alive.
pub(crate) fn pool(nthreads: i16) -> Option<Arc<Pool>> {
    if nthreads <= 1 {
        return None;
    }
    let mut shared = locked(&POOL);
    Some(shared.upgrade().unwrap_or_else(|| {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = Arc::new(Pool::new(all));
        *shared = Arc::downgrade(&pool);
        pool
    }))
}

static THREADS: RwLock<Option<ProgramThreads>> = RwLock::new(None);

/// Sets or removes the program's function.
pub(crate) fn set(callback: Option<Callback>, data: *mut c_void) {
    *THREADS.write().unwrap_or_else(PoisonError::into_inner) =
        callback.map(|callback| ProgramThreads { callback, data });
    callbacks::notify_contexts();
}

/// Uses the program's threads for calls with this control, or else those of the given pool.
pub(crate) fn with(control: Control) -> Control {
    match *THREADS.read().unwrap_or_else(PoisonError::into_inner) {
        Some(threads) => control.executor(Arc::new(threads)),
        None => match locked(&POOL).upgrade() {
            Some(pool) => control.pool(Pool::clone(&pool)),
            None => control,
        },
    }
}

#[derive(Clone, Copy)]
struct PoolJob<'a>(&'a (dyn Fn() + Sync));

unsafe extern "C" fn run(job: *mut c_void) {
    guard(|| {
        // SAFETY: the program passes one of the jobs from `ProgramThreads::run`, during that call.
        (unsafe { &*job.cast::<PoolJob<'_>>() }.0)();
        Ok(())
    });
}

impl Executor for ProgramThreads {
    fn run(&self, jobs: usize, job: &(dyn Fn() + Sync)) {
        let mut list = vec![PoolJob(job); jobs];
        let n = c_int::try_from(jobs).unwrap_or(c_int::MAX);
        // SAFETY: the program set this function for this purpose; the jobs live until it returns.
        unsafe { (self.callback)(self.data, run, n, size_of::<PoolJob<'_>>(), list.as_mut_ptr().cast()) };
        // Do the work that the program left undone.
        job();
    }
}
