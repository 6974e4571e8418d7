//! Writes log lines on a thread of its own, so that nothing waits for whoever reads them (spec O-130).

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

/// The message of the line which says how many lines were lost.
pub const LOST: &str =
    "log lines were lost: they came faster than they were read, or the disk is full";

/// How many events may wait: those of seconds of a start with thousands of executors at debug. That they take about 5 MB
/// is rare.
const MOST: usize = 16_384;

/// How long the last lines are tried before the process exits.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How often there is a try to put the last order into a full queue.
const LOOK_EVERY: Duration = Duration::from_millis(10);

thread_local! {
    /// The lines of this thread that were dropped, and are not reported to the writer yet.
    static DROPPED: Cell<u64> = const { Cell::new(0) };
}

/// What the thread has to do.
enum Order {
    Write(Vec<u8>),
    /// Say when all that came before is written.
    Tell(SyncSender<()>),
}

/// The queue of what is to be written. Copies share it.
#[derive(Clone)]
pub struct Logs(SyncSender<(u64, Order)>);

impl Logs {
    /// Starts to write to standard error. `told` makes the line which says how many were lost.
    ///
    /// # Errors
    /// The operating system gives no thread or no file descriptor.
    pub fn to_stderr(told: impl Fn(u64) -> String + Send + 'static) -> io::Result<Self> {
        // Not the standard library's: its lock would be held while a write hangs.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::to(stderr, MOST, told)
    }

    fn to(
        out: impl Write + Send + 'static,
        most: usize,
        told: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, taken) = sync_channel(most);
        let thread = thread::Builder::new().name("logs".to_owned());
        thread.spawn(move || write(&taken, out, told))?;
        Ok(Self(orders))
    }

    /// Waits until all is written, but not longer than a second.
    pub fn finish(&self) {
        let until = Instant::now() + LAST_LINES;
        let (done, written) = sync_channel(1);
        let mut order = (DROPPED.take(), Order::Tell(done));
        while let Err(full) = self.0.try_send(order) {
            match full {
                TrySendError::Full(back) if Instant::now() < until => order = back,
                // They are told once there is room again.
                TrySendError::Full((dropped, _)) => return DROPPED.set(dropped),
                TrySendError::Disconnected(_) => return,
            }
            thread::sleep(LOOK_EVERY);
        }
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Write for Logs {
    /// Never waits: what does not fit into the queue is dropped and counted.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let order = (DROPPED.take(), Order::Write(text.to_vec()));
        if let Err(TrySendError::Full((dropped, _))) = self.0.try_send(order) {
            DROPPED.set(dropped + lines(text));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Carries out orders until nobody gives any more.
fn write(orders: &Receiver<(u64, Order)>, mut out: impl Write, told: impl Fn(u64) -> String) {
    let mut lost = 0;
    for (dropped, order) in orders {
        lost += dropped;
        if lost > 0 && out.write_all(told(lost).as_bytes()).is_ok() {
            lost = 0;
        }
        match order {
            // A disk that is full may have room again later.
            Order::Write(text) if out.write_all(&text).is_err() => lost += lines(&text),
            Order::Write(_) => {}
            // Whoever asked may have given up.
            Order::Tell(done) => drop(done.try_send(())),
        }
    }
}

/// Lets a log file that has reached its limit (RLIMIT_FSIZE) be an error of a write, and not the end of the process. Has
/// to be called in a runtime.
///
/// # Errors
/// The signal cannot be handled.
pub fn ignore_file_size_limit() -> io::Result<()> {
    let number = rustix::process::Signal::XFSZ.as_raw();
    // That it is listened for is enough. It stays so when the listener is gone.
    signal(SignalKind::from_raw(number)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn told(lost: u64) -> String {
        format!("{lost} lost\n")
    }

    /// A reader that takes a line whenever it is asked to; full disks are its errors.
    struct Slow {
        may: Receiver<io::Result<()>>,
        read: mpsc::Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.may.recv().unwrap_or(Ok(()))?;
            let _ = self.read.send(String::from_utf8_lossy(text).into_owned());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow(most: usize) -> (Logs, mpsc::Sender<io::Result<()>>, Receiver<String>) {
        let ((let_go, may), (read, lines)) = (mpsc::channel(), mpsc::channel());
        (
            Logs::to(Slow { may, read }, most, told).unwrap(),
            let_go,
            lines,
        )
    }

    // spec: O-130
    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_and_hold_nobody_up() {
        let (mut logs, let_go, lines) = slow(2);
        for n in 0..100 {
            logs.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        let began = Instant::now();
        logs.finish();
        assert!(began.elapsed() >= LAST_LINES, "the last lines are tried");
        // From now on it is read.
        drop(let_go);
        logs.finish();
        logs.write_all(b"last\n").unwrap();
        logs.finish();
        let read: Vec<String> = lines.try_iter().collect();
        let written = read.iter().filter(|line| line.starts_with("line")).count();
        let lost: usize = (read.iter())
            .filter_map(|line| line.strip_suffix(" lost\n")?.parse::<usize>().ok())
            .sum();
        assert_eq!(written + lost, 100, "{read:?}");
        assert!(lost > 90, "{read:?}");
        assert_eq!(read.last().unwrap(), "last\n");
    }

    // spec: O-130
    #[test]
    fn lines_that_cannot_be_written_are_counted_until_there_is_room_again() {
        let (mut logs, let_go, lines) = slow(8);
        for result in [
            Err(io::Error::from(io::ErrorKind::StorageFull)),
            Ok(()),
            Ok(()),
        ] {
            let_go.send(result).unwrap();
        }
        logs.write_all(b"one\ntwo\n").unwrap();
        logs.write_all(b"three\n").unwrap();
        logs.finish();
        let read: Vec<String> = lines.try_iter().collect();
        assert_eq!(read, ["2 lost\n", "three\n"]);
    }
}
