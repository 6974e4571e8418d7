//! Reads what the executor's container uses from its cgroup, of version 1 or 2 (spec O-142).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::file;
use crate::protocol::Usage;

/// Where Linux lists this process's mounts.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A limit of version 1 from which there is none: it writes the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;

/// Reads the use of a container, again and again.
#[derive(Debug)]
pub(super) struct UsageReader {
    /// `None` outside a container: what a whole machine uses says nothing about an executor.
    files: Option<Files>,
    /// The CPU time that was used at the last reading, and when that was.
    last: Option<(Duration, Instant)>,
    peak_memory_bytes: u64,
    millicores: Readings,
}

/// How often a number was read, by the number. Numbers that differ by less than 7 % are one, so that the size is bounded.
#[derive(Debug, Default)]
struct Readings(BTreeMap<u64, u64>);

/// The files of a container's cgroup.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    memory: PathBuf,
    memory_limit: PathBuf,
    memory_stat: PathBuf,
    /// The key of the page cache that the kernel takes back first.
    inactive_file: &'static str,
    cpu: Cpu,
}

#[derive(Debug, PartialEq, Eq)]
enum Cpu {
    /// A file with a line of microseconds.
    Stat(PathBuf),
    /// A file of nanoseconds.
    Nanoseconds(PathBuf),
}

impl UsageReader {
    pub(super) fn of_this_container() -> Self {
        let mounts = text(Path::new(MOUNTS));
        Self::new(mounts.and_then(|mounts| Files::find(&mounts)))
    }

    fn new(files: Option<Files>) -> Self {
        Self {
            files,
            last: None,
            peak_memory_bytes: 0,
            millicores: Readings::default(),
        }
    }

    /// `None` if it cannot be read.
    pub(super) fn read(&mut self, now: Instant) -> Option<Usage> {
        let files = self.files.as_ref()?;
        let memory_bytes = files.memory_bytes()?;
        let used = files.cpu_time();
        let last = std::mem::replace(&mut self.last, used.map(|used| (used, now)));
        let millicores = used.zip(last).and_then(|(used, (before, since))| {
            let used = used.saturating_sub(before).as_millis() * 1_000;
            let over = now.duration_since(since).as_millis();
            u64::try_from(used.checked_div(over)?).ok()
        });
        self.peak_memory_bytes = self.peak_memory_bytes.max(memory_bytes);
        self.millicores.add(millicores);
        Some(Usage {
            memory_bytes,
            memory_limit_bytes: files.memory_limit_bytes(),
            cpu_cores: millicores.map(cores),
            peak_memory_bytes: Some(self.peak_memory_bytes),
            p99_cpu_cores: self.millicores.p99().map(cores),
        })
    }
}

fn cores(millicores: u64) -> f64 {
    f64::from(u32::try_from(millicores).unwrap_or(u32::MAX)) / 1_000.0
}

impl Readings {
    /// Adds a number, rounded up to five binary digits.
    fn add(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        let dropped = (u64::BITS - number.leading_zeros()).saturating_sub(5);
        let rounded = number | ((1 << dropped) - 1);
        *self.0.entry(rounded).or_default() += 1;
    }

    /// The lowest number that 99 % of the readings do not exceed.
    fn p99(&self) -> Option<u64> {
        let all: u64 = self.0.values().sum();
        let mut above = all - all / 100;
        let mut readings = self.0.iter();
        let p99 = readings.find(|(_, times)| {
            above = above.saturating_sub(**times);
            above == 0
        });
        p99.map(|(number, _)| *number)
    }
}

impl Files {
    /// The cgroup of the container that has these mounts.
    fn find(mounts: &str) -> Option<Self> {
        let mut memory = None;
        let mut cpu = None;
        for mount in mounts.lines().filter_map(Mount::of) {
            match mount.kind {
                // Only the root of the hierarchy has no such file, and only a machine has that one mounted.
                "cgroup2" if mount.path.join("memory.current").exists() => {
                    return Some(Self::of_version_2(mount.path));
                }
                "cgroup" if mount.root == "/" => {}
                "cgroup" if mount.has("memory") => memory = Some(mount.path),
                "cgroup" if mount.has("cpuacct") => cpu = Some(mount.path),
                _ => {}
            }
        }
        Some(Self::of_version_1(memory?, cpu?))
    }

    fn of_version_2(path: &Path) -> Self {
        Self {
            memory: path.join("memory.current"),
            memory_limit: path.join("memory.max"),
            memory_stat: path.join("memory.stat"),
            inactive_file: "inactive_file",
            cpu: Cpu::Stat(path.join("cpu.stat")),
        }
    }

    fn of_version_1(memory: &Path, cpu: &Path) -> Self {
        Self {
            memory: memory.join("memory.usage_in_bytes"),
            memory_limit: memory.join("memory.limit_in_bytes"),
            memory_stat: memory.join("memory.stat"),
            inactive_file: "total_inactive_file",
            cpu: Cpu::Nanoseconds(cpu.join("cpuacct.usage")),
        }
    }

    /// What the kubelet, too, calls a container's memory: without the page cache that the kernel takes back first.
    fn memory_bytes(&self) -> Option<u64> {
        let used = number(&self.memory)?;
        let inactive = line(&self.memory_stat, self.inactive_file).unwrap_or(0);
        Some(used.saturating_sub(inactive))
    }

    /// `None` without a limit.
    fn memory_limit_bytes(&self) -> Option<u64> {
        number(&self.memory_limit).filter(|limit| *limit < NO_LIMIT)
    }

    fn cpu_time(&self) -> Option<Duration> {
        match &self.cpu {
            Cpu::Stat(file) => line(file, "usage_usec").map(Duration::from_micros),
            Cpu::Nanoseconds(file) => number(file).map(Duration::from_nanos),
        }
    }
}

/// A line of Linux's list of mounts.
struct Mount<'a> {
    /// What of the file system is mounted.
    root: &'a str,
    path: &'a Path,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut system = system.split(' ');
        Some(Self {
            root: mount.next()?,
            path: Path::new(mount.next()?),
            kind: system.next()?,
            options: system.nth(1)?,
        })
    }

    fn has(&self, controller: &str) -> bool {
        self.options.split(',').any(|option| option == controller)
    }
}

fn text(file: &Path) -> Option<String> {
    String::from_utf8(file::read(file).ok()?).ok()
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

/// The number in the line that begins with this key.
fn line(file: &Path, key: &str) -> Option<u64> {
    let text = text(file)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(name, _)| *name == key)?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(directory: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            std::fs::create_dir_all(directory.join(name).parent().unwrap()).unwrap();
            std::fs::write(directory.join(name), content).unwrap();
        }
    }

    fn mount(root: &str, path: &Path, kind: &str, options: &str) -> String {
        let path = path.display();
        format!("36 35 0:30 {root} {path} ro,nosuid master:1 - {kind} cgroup ro,{options}\n")
    }

    // spec: O-142
    #[tokio::test(start_paused = true)]
    async fn a_container_of_version_2_says_its_memory_without_idle_cache_and_its_cores_since_the_last_time()
     {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        written(
            at,
            &[
                ("memory.current", "900\n"),
                ("memory.max", "4096\n"),
                (
                    "memory.stat",
                    "anon 500\ninactive_file 300\nactive_file 100\n",
                ),
                ("cpu.stat", "usage_usec 5000000\nuser_usec 1\n"),
            ],
        );
        let files = Files::find(&mount("/", at, "cgroup2", "nsdelegate"));
        let mut reader = UsageReader::new(files);
        let start = Instant::now();
        let first = Usage {
            memory_bytes: 600,
            memory_limit_bytes: Some(4096),
            cpu_cores: None,
            peak_memory_bytes: Some(600),
            p99_cpu_cores: None,
        };
        assert_eq!(reader.read(start), Some(first));
        written(
            at,
            &[
                ("memory.current", "700\n"),
                ("memory.max", "max\n"),
                ("cpu.stat", "usage_usec 20000000\n"),
            ],
        );
        let second = Usage {
            memory_bytes: 400,
            memory_limit_bytes: None,
            cpu_cores: Some(1.5),
            peak_memory_bytes: Some(600),
            p99_cpu_cores: Some(1.535),
        };
        let later = start + Duration::from_secs(10);
        assert_eq!(reader.read(later), Some(second));
    }

    // spec: O-142
    #[tokio::test(start_paused = true)]
    async fn a_container_of_version_1_says_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let (memory, cpu) = (
            directory.path().join("memory"),
            directory.path().join("cpu"),
        );
        written(
            directory.path(),
            &[
                ("memory/memory.usage_in_bytes", "900\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                (
                    "memory/memory.stat",
                    "inactive_file 1\ntotal_inactive_file 300\n",
                ),
                ("cpu/cpuacct.usage", "1000000000\n"),
            ],
        );
        let pod = "/kubepods/pod7/c1";
        let mounts =
            mount(pod, &memory, "cgroup", "memory") + &mount(pod, &cpu, "cgroup", "cpu,cpuacct");
        let mut reader = UsageReader::new(Files::find(&mounts));
        let start = Instant::now();
        reader.read(start).unwrap();
        written(directory.path(), &[("cpu/cpuacct.usage", "3500000000\n")]);
        let second = Usage {
            memory_bytes: 600,
            memory_limit_bytes: None,
            cpu_cores: Some(0.25),
            peak_memory_bytes: Some(600),
            p99_cpu_cores: Some(0.255),
        };
        let later = start + Duration::from_secs(10);
        assert_eq!(reader.read(later), Some(second));
    }

    // spec: O-142
    #[test]
    fn of_a_hundred_readings_the_highest_is_above_the_p99_and_of_fewer_it_is_the_p99() {
        let mut readings = Readings::default();
        assert_eq!(readings.p99(), None);
        readings.add(Some(4_000));
        assert_eq!(readings.p99(), Some(4_095));
        (0..98).for_each(|_| readings.add(Some(20)));
        assert_eq!(readings.p99(), Some(4_095));
        readings.add(Some(0));
        assert_eq!(readings.p99(), Some(20));
    }

    // spec: O-142
    #[test]
    fn outside_a_container_nothing_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let of_a_machine =
            mount("/", at, "cgroup", "memory") + &mount("/", at, "cgroup", "cpuacct");
        for mounts in [
            of_a_machine,
            mount("/", at, "cgroup2", "x"),
            "a\nb - c\n".to_owned(),
        ] {
            assert_eq!(Files::find(&mounts), None, "{mounts}");
        }
        assert_eq!(UsageReader::new(None).read(Instant::now()), None);
    }
}
