//! The trace of a run: a line for each event with its simulated time, byte-identical for the same seed.
//!
//! A run has a thread to itself, so the trace is thread-local, and every participant can write to it.

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
    /// `None` if the trace is not kept.
    lines: Option<String>,
}

/// Begins this thread's trace at the current instant.
pub fn begin(is_kept: bool) {
    let trace = Trace {
        began: Instant::now(),
        lines: is_kept.then(String::new),
    };
    TRACE.with_borrow_mut(|current| *current = Some(trace));
    PANICS.with_borrow_mut(Vec::clear);
}

/// Ends this thread's trace and returns it.
pub fn end() -> String {
    TRACE
        .with_borrow_mut(|trace| trace.take().and_then(|trace| trace.lines))
        .unwrap_or_default()
}

pub fn is_kept() -> bool {
    TRACE.with_borrow(|trace| trace.as_ref().is_some_and(|trace| trace.lines.is_some()))
}

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
macro_rules! trace_line {
    ($($line:tt)*) => { $crate::trace::add(format_args!($($line)*)) };
}
pub(crate) use trace_line;

/// The panics on this thread since its trace began.
pub fn panics() -> Vec<String> {
    PANICS.with_borrow_mut(std::mem::take)
}

/// Writes the panics of a thread with a trace to that trace. Without this, a panic of an actor would be unnoticed,
/// because it happens in a task.
pub fn capture_panics() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let traced = TRACE.with(|trace| trace.try_borrow().is_ok_and(|trace| trace.is_some()));
        if traced {
            trace_line!("PANIC {panic}");
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
        } else {
            others(panic);
        }
    }));
}

/// Writes the log of this thread to its trace during `work`.
pub fn with_log<T>(work: impl FnOnce() -> T) -> T {
    LOGGED.with(|logged| logged.set(true));
    let done = work();
    LOGGED.with(|logged| logged.set(false));
    done
}

/// Installs one subscriber for all threads, which checks whether the current thread wants the log. A subscriber for
/// each run would briefly change what other runs log, because `tracing` caches the enabled callsites for the whole
/// process.
pub fn install_log() {
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
        trace_line!("        | {}", text.trim_end());
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
