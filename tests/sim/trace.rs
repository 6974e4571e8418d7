//! What happened, line by line, in simulated time: the same for the same seed, to the byte.
//!
//! A run has one thread to itself, so its trace is the thread's; whoever takes part writes to it without being handed it.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::io;
use std::sync::Once;

use tokio::time::Instant;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, dynamic_filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
    static LOGGED: Cell<bool> = const { Cell::new(false) };
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Trace {
    began: Instant,
    /// None are kept where nobody will read them.
    lines: Option<String>,
}

/// Begins this thread's trace at this instant.
pub fn begin(is_kept: bool) {
    let trace = Trace {
        began: Instant::now(),
        lines: is_kept.then(String::new),
    };
    TRACE.with_borrow_mut(|current| *current = Some(trace));
    PANICS.with_borrow_mut(Vec::clear);
}

/// Ends this thread's trace.
pub fn end() -> String {
    TRACE
        .with_borrow_mut(|trace| trace.take().and_then(|trace| trace.lines))
        .unwrap_or_default()
}

/// Whether anybody will read it.
pub fn is_kept() -> bool {
    TRACE.with_borrow(|trace| trace.as_ref().is_some_and(|trace| trace.lines.is_some()))
}

/// Adds a line.
pub fn add(line: fmt::Arguments<'_>) {
    TRACE.with_borrow_mut(|trace| {
        let Some(trace) = trace else { return };
        if let Some(lines) = &mut trace.lines {
            let now = trace.began.elapsed().as_secs_f64();
            // Writing to a String never fails.
            let _ = writeln!(lines, "{now:>9.3} {line}");
        }
    });
}

/// Adds a line to this thread's trace.
macro_rules! say {
    ($($line:tt)*) => { $crate::trace::add(format_args!($($line)*)) };
}
pub(crate) use say;

/// What panicked on this thread since its trace began.
pub fn panics() -> Vec<String> {
    PANICS.with_borrow_mut(std::mem::take)
}

/// From now on panics of threads that have a trace are noted there: an actor that panics does so in a task, which
/// nobody else would hear of.
pub fn note_panics() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let traced = TRACE.with(|trace| trace.try_borrow().is_ok_and(|trace| trace.is_some()));
        if traced {
            say!("PANIC {panic}");
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
        } else {
            others(panic);
        }
    }));
}

/// Has the log of all that runs on this thread written into its trace, while `work` is at work.
pub fn with_log<T>(work: impl FnOnce() -> T) -> T {
    LOGGED.with(|logged| logged.set(true));
    let done = work();
    LOGGED.with(|logged| logged.set(false));
    done
}

/// The log of every thread goes through one subscriber, which looks at the thread whether it is wanted. One that comes and
/// goes with each run would change, for a moment, what other threads' runs log: `tracing` remembers for the whole
/// process which lines anybody wants.
pub fn log_by_thread() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let wanted =
            EnvFilter::new("warn,boatswain=debug,boatswain::server::sessions=warn,apiserver=warn");
        let here = dynamic_filter_fn(|_, _| LOGGED.with(Cell::get));
        let lines = tracing_subscriber::fmt::layer()
            .with_target(false)
            .without_time()
            .with_ansi(false)
            .with_writer(LogWriter)
            .with_filter(wanted.and(here));
        tracing_subscriber::registry().with(lines).init();
    });
}

#[derive(Clone, Copy)]
struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        say!("        | {}", text.trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self::Writer {
        *self
    }
}
