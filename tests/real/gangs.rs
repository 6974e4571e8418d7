//! Tests gangs on the real scheduler: two drivers of five executors each, with room for six. Tests called `switched_on_…`
//! need a cluster with Kubernetes' own gang scheduling, which `tests/real/run gangs` starts.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::place::{Place, config};
use super::process::{Program, boatswain, until};

/// Far longer than several tries of a gang, each of which waits for `TIMEOUT`.
const PATIENCE: Duration = Duration::from_secs(240);

const TIMEOUT: &str = "10s";

/// The resource of which each executor needs one. It is the test's own, so that tests run side by side.
struct Seats(String);

impl Seats {
    fn of(place: &Place) -> Self {
        Self(format!("test.boatswain.dev/{}", place.name()))
    }

    /// A node has so many from now on.
    fn give(&self, place: &Place, node: &str, count: u32) {
        let seats = json!({&self.0: count.to_string()});
        let status = json!({"status": {"capacity": seats, "allocatable": seats}});
        place.told(&[
            "patch",
            "node",
            node,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status.to_string(),
        ]);
    }
}

/// An application of five executors, which are of no use with less.
fn gang_of_five(gang: &str, seats: &Seats) -> String {
    config(5)
        .replace(
            "executors = 5\n",
            &format!(
                "executors = 5\nmin_executors = 5\nresources = {{ \"{}\" = 1 }}\n",
                seats.0
            ),
        )
        .replace(
            "[poll]",
            &format!("[scheduling]\ngang = \"{gang}\"\ngang_timeout = \"{TIMEOUT}\"\n[poll]"),
        )
}

/// How many executors exist, are bound to a node, and run.
fn numbers(place: &Place) -> [usize; 3] {
    let pods = place.executors();
    let count = |is: &dyn Fn(&Value) -> bool| pods.iter().filter(|pod| is(pod)).count();
    [
        pods.len(),
        count(&|pod| pod["spec"]["nodeName"].is_string()),
        count(&|pod| pod["status"]["phase"] == "Running"),
    ]
}

/// Shows what changes, until the look finds something.
fn watch<T>(
    what: &str,
    places: [&Place; 2],
    mut look: impl FnMut([[usize; 3]; 2]) -> Option<T>,
) -> T {
    let (began, mut last) = (Instant::now(), None);
    loop {
        let now = places.map(numbers);
        if last.replace(now) != Some(now) {
            let seconds = began.elapsed().as_secs_f32();
            println!(
                "{seconds:6.1} s: exist, bound, run: {:?}, {:?}",
                now[0], now[1]
            );
        }
        if let Some(found) = look(now) {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(Duration::from_millis(100));
    }
}

/// Ends an application in order.
fn end(mut driver: Program) {
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(0));
}

fn pod_group(place: &Place) -> Option<Value> {
    place.get("apis/scheduling.k8s.io/v1alpha2", "podgroups", "t-default")
}

/// Why the scheduler has or has not bound the gang.
fn verdict(place: &Place) -> Value {
    let group = pod_group(place).unwrap_or_default();
    let conditions = group["status"]["conditions"].as_array();
    let scheduled = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "PodGroupScheduled");
    scheduled.map_or(json!(null), |one| one["reason"].clone())
}

// spec: A-82, B-63, O-51
#[test]
fn switched_on_one_gang_runs_whole_and_the_other_waits_whole_until_that_ends() {
    let [a, b] = ["gang-a", "gang-b"].map(Place::new);
    let seats = Seats::of(&a);
    seats.give(&a, "node-1", 3);
    seats.give(&a, "node-2", 3);
    let config = gang_of_five("kubernetes", &seats);
    let first = a.drive_from_outside(&config);
    // Both are never bound in part, whatever else becomes of them.
    let whole = |[_, bound, _]: [usize; 3]| assert!([0, 5].contains(&bound), "{bound} are bound");
    watch("the first gang runs", [&a, &b], |[a, _]| {
        (a[2] == 5).then_some(())
    });
    // With the printed rights and no others.
    let second = b.drive(&config, &[]);
    watch("the second gang waits", [&a, &b], |[_, b]| {
        (b[0] == 5).then_some(())
    });
    until("the scheduler has tried", || {
        (verdict(&b) == "Unschedulable").then_some(())
    });
    println!("{}", b.told(&["get", "podgroups.scheduling.k8s.io", "-A"]));
    println!("{}", b.told(&["get", "pods", "-o", "wide"]));
    assert_eq!(verdict(&a), "Scheduled");
    let policy = json!({"gang": {"minCount": 5}});
    assert_eq!(pod_group(&b).unwrap()["spec"]["schedulingPolicy"], policy);
    let missed = |log: &super::process::Log| {
        let of_a_gang = |line: &&Value| line["message"].as_str().unwrap().contains("too few");
        log.at("warn").iter().filter(|line| of_a_gang(line)).count()
    };
    watch(
        "the second was given up, and tries again",
        [&a, &b],
        |[first, other]| {
            let _ = [first, other].map(whole);
            assert_eq!((first[2], other[1]), (5, 0));
            (missed(&second.log()) >= 2 && other[0] == 5).then_some(())
        },
    );
    end(first);
    watch("the second gang runs", [&a, &b], |[_, b]| {
        (b[2] == 5).then_some(())
    });
    until("the first PodGroup is gone", || {
        pod_group(&a).is_none().then_some(())
    });
    b.told(&["delete", "job", "boatswain"]);
    b.nothing_is_left();
    until("the second PodGroup is gone", || {
        pod_group(&b).is_none().then_some(())
    });
}

// spec
#[test]
fn switched_on_a_gang_whose_executors_all_failed_is_tried_by_a_probe_and_then_runs() {
    let place = Place::new("gang-probe");
    let config = config(3)
        .replace("executors = 3\n", "executors = 3\nmin_executors = 3\n")
        .replace("args = [\"", "args = [\"[ $BOATSWAIN_EXECUTOR_ID -gt 8 ] || exit 1; ")
        .replace(
            "[poll]",
            "[scheduling]\ngang = \"kubernetes\"\ngang_timeout = \"5m\"\n[failures]\nmax = 100\nstable_after = \"3s\"\n[poll]",
        );
    let driver = place.drive_from_outside(&config);
    until("three run that do not fail", || {
        let pods = place.executors();
        let stays = |pod: &&Value| {
            let id = pod["metadata"]["labels"]["boatswain.dev/executor-id"].as_str();
            let id: u32 = id.unwrap().parse().unwrap();
            id > 8 && pod["status"]["phase"] == "Running"
        };
        (pods.iter().filter(stays).count() == 3).then_some(())
    });
    let log = driver.log();
    let failed = log.lines("executor ended").len();
    println!("{failed} executors failed before the gang ran");
    assert!(failed >= 8);
    end(driver);
}

// spec: A-82
#[test]
fn switched_on_a_gang_of_another_size_gets_another_pod_group_when_no_pod_names_the_first() {
    let place = Place::new("gang-size");
    let of = |least: usize| {
        config(3)
            .replace(
                "executors = 3\n",
                &format!("executors = 3\nmin_executors = {least}\n"),
            )
            .replace("[poll]", "[scheduling]\ngang = \"kubernetes\"\n[poll]")
    };
    let mut driver = place.drive_from_outside(&of(3));
    place.run(3);
    let first = pod_group(&place).unwrap();
    driver.kill();
    let driver = place.drive_from_outside(&of(2));
    until("the PodGroup is being deleted", || {
        let group = pod_group(&place)?;
        (!group["metadata"]["deletionTimestamp"].is_null()).then_some(())
    });
    assert_eq!(place.run(3), ["t-exec-1", "t-exec-2", "t-exec-3"]);
    place.told(&[
        "delete",
        "pods",
        "-l",
        "boatswain.dev/role=executor",
        "--wait=false",
    ]);
    until("there is another PodGroup", || {
        let group = pod_group(&place)?;
        let count = &group["spec"]["schedulingPolicy"]["gang"]["minCount"];
        (group["metadata"]["uid"] != first["metadata"]["uid"] && *count == 2).then_some(())
    });
    place.run(3);
    end(driver);
}

// spec: B-63
#[test]
fn two_gangs_of_which_a_part_runs_do_not_wait_for_each_other_for_ever() {
    let [a, b] = ["gang-a", "gang-b"].map(Place::new);
    let seats = Seats::of(&a);
    seats.give(&a, "node-1", 3);
    let config = gang_of_five("on", &seats);
    let first = a.drive_from_outside(&config);
    watch("a part of the first gang runs", [&a, &b], |[a, _]| {
        (a[2] == 3).then_some(())
    });
    // While the first driver stands still, the second gets what comes.
    first.signal(Signal::STOP);
    for pod in a.executors() {
        if !pod["spec"]["nodeName"].is_string() {
            a.told(&["delete", "pod", pod["metadata"]["name"].as_str().unwrap()]);
        }
    }
    let second = b.drive_from_outside(&config);
    until("the second gang is there", || {
        (b.executors().len() == 5).then_some(())
    });
    seats.give(&a, "node-2", 3);
    watch("a part of the second gang runs", [&a, &b], |[_, b]| {
        (b[2] == 3).then_some(())
    });
    first.signal(Signal::CONT);
    let first_is_complete = watch("one gang is complete", [&a, &b], |[a, b]| {
        assert!(a[1] + b[1] <= 6);
        (a[2] == 5 || b[2] == 5).then_some(a[2] == 5)
    });
    let ((ends, _), (other, place)) = match first_is_complete {
        true => ((first, &a), (second, &b)),
        false => ((second, &b), (first, &a)),
    };
    end(ends);
    watch("the other gang is complete", [&a, &b], |_| {
        (numbers(place)[2] == 5).then_some(())
    });
    end(other);
}

// spec: A-104, C-8
#[test]
fn a_driver_that_needs_pod_groups_ends_where_none_are_served_and_says_what_to_do() {
    let place = Place::new("gang-off");
    let seats = Seats::of(&place);
    let mut driver = place.drive_from_outside(&gang_of_five("kubernetes", &seats));
    assert_eq!(driver.exit(), Some(78));
    let log = driver.log();
    let error = log.at("error")[0]["message"].as_str().unwrap().to_owned();
    println!("{error}");
    let mut check = boatswain();
    check
        .args(["check", "--cluster", "--config"])
        .arg(place.file("outside.toml"));
    check.args(["--set", &format!("cluster.namespace={}", place.name())]);
    let check = check.env("KUBECONFIG", &place.kubeconfig).output().unwrap();
    assert_eq!(check.status.code(), Some(78), "{check:?}");
    let said = String::from_utf8(check.stderr).unwrap();
    println!("boatswain check --cluster: {said}");
    for words in [
        "GenericWorkload=true,GangScheduling=true",
        "v1alpha2=true",
        "\"volcano\"",
    ] {
        assert!(
            error.contains(words) && said.contains(words),
            "{words}: {error}; {said}"
        );
    }
    assert!(place.api.config_map("t-app").is_none() && place.executors().is_empty());
}
