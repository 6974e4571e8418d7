//! Tests why executors end where a real kubelet runs them, and what keeps them from starting.

use std::fs;

use serde_json::{Value, json};

use super::place::{IMAGE, Place, WORKER, config};
use super::process::{Program, until};
use super::registration::kill_container;

/// What a profile does, and what its first executor's end has to say: the reason, the exit code, whether it is a
/// failure, and words of why.
struct Case {
    name: &'static str,
    profile: &'static str,
    /// The pod's own part of a template, as JSON.
    template: &'static str,
    end: (&'static str, Option<i32>, bool),
    words: &'static str,
}

const fn case(
    name: &'static str,
    profile: &'static str,
    template: &'static str,
    end: (&'static str, Option<i32>, bool),
    words: &'static str,
) -> Case {
    Case {
        name,
        profile,
        template,
        end,
        words,
    }
}

const CASES: [Case; 11] = [
    case(
        "oom",
        r#"command = ["/bin/sh", "-c", "tail /dev/zero"]"#,
        "",
        ("OomKilled", Some(137), true),
        "killed for want of memory",
    ),
    case(
        "exit",
        r#"command = ["/bin/sh", "-c", "sleep 1; exit 53"]"#,
        "",
        ("Exited", Some(53), true),
        "ended with exit 53",
    ),
    case(
        "output",
        r#"command = ["/bin/sh", "-c", "echo it begins; echo no space left in /scratch; exit 4"]"#,
        "",
        ("Exited", Some(4), true),
        "ended with exit 4: no space left in /scratch",
    ),
    case(
        "message",
        r#"command = ["/bin/sh", "-c", "echo the disk is full >/dev/termination-log; exit 5"]"#,
        "",
        ("Exited", Some(5), true),
        "the disk is full",
    ),
    case(
        "no-command",
        r#"command = ["/no/such/program"]"#,
        "",
        ("StartFailed", Some(128), true),
        "StartError",
    ),
    case(
        "no-image",
        "image = \"localhost/none:1\"\npull_policy = \"Never\"",
        "",
        ("StartFailed", None, true),
        "ErrImageNeverPull",
    ),
    case(
        "bad-image",
        "image = \"Engine:1\"",
        "",
        ("StartFailed", None, true),
        "InvalidImageName",
    ),
    case(
        "no-volume",
        r#"volumes = [{ name = "v", mount_path = "/v", secret = "none" }]"#,
        "",
        ("PendingTimeout", None, false),
        "has not mounted its volumes",
    ),
    case(
        "init-fails",
        "",
        r#""initContainers": [{"name": "prepare", "image": "IMAGE", "command": ["sh", "-c", "exit 3"]}],"#,
        ("StartFailed", None, true),
        "init container prepare ended with exit 3",
    ),
    case(
        "init-hangs",
        "",
        r#""initContainers": [{"name": "prepare", "image": "IMAGE", "command": ["sleep", "1000"]}],"#,
        ("PendingTimeout", None, false),
        "prepare",
    ),
    case(
        "liveness",
        "",
        r#""containers": [{"name": "executor", "livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}}],"#,
        ("Exited", Some(0), false),
        "if a liveness or startup probe failed",
    ),
];

fn profile(place: &Place, case: &Case) -> String {
    let image = format!("image = \"{IMAGE}\"\n");
    let command = format!("command = [\"/bin/sh\", \"-c\", \"{WORKER}\"]\n");
    let mut text = format!(
        "[profiles.{}]\nexecutors = 1\ntermination_grace = \"2s\"\nmemory = \"16Mi\"\nmemory_limit = \"32Mi\"\n",
        case.name
    );
    for (key, default) in [("image = ", image), ("command = ", command)] {
        if !case.profile.contains(key) {
            text += &default;
        }
    }
    if !case.template.is_empty() {
        let file = place.file(&format!("{}.yaml", case.name));
        let own = case.template.replace("IMAGE", IMAGE);
        let containers = if own.contains("\"containers\"") {
            own.trim_end_matches(',').to_owned()
        } else {
            format!("{own} \"containers\": [{{\"name\": \"executor\"}}]")
        };
        fs::write(
            &file,
            format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"spec\": {{{containers}}}}}"),
        )
        .unwrap();
        text += &format!("template = \"{}\"\n", file.display());
    }
    text + case.profile + "\n"
}

const PATIENT: &str =
    "[allocation]\npending_timeout = \"50s\"\nstuck_after = \"8s\"\n[failures]\nmax = 100000\n";

fn start(place: &Place, cases: &[&Case]) -> Program {
    let profiles: String = cases.iter().map(|case| profile(place, case)).collect();
    place.drive_from_outside(&(config(0) + PATIENT + &profiles))
}

/// The first end of an executor of this profile.
fn first_end(driver: &Program, profile: &str) -> Value {
    until(&format!("an executor of {profile} ends"), || {
        let log = driver.log();
        let ends = log.lines("executor ended");
        ends.iter()
            .find(|line| line["profile"] == profile)
            .map(|line| (**line).clone())
    })
}

/// What a line of an end says otherwise than a case has it.
fn differs(case: &Case, end: &Value) -> Option<String> {
    let (reason, code, failure) = case.end;
    let is_same = end["reason"] == reason
        && end["failure"] == failure
        && end["exit_code"].as_i64() == code.map(i64::from)
        && end["why"]
            .as_str()
            .is_some_and(|why| why.contains(case.words));
    (!is_same).then(|| format!("{}: {:?} {:?}, but: {end}", case.name, case.end, case.words))
}

// spec: L-20, L-21, A-50, A-51, E-13
#[test]
fn the_ends_that_a_real_kubelet_reports_have_their_reasons() {
    let place = Place::new("ends");
    let cases: Vec<&Case> = CASES.iter().collect();
    let driver = start(&place, &cases);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| differs(case, &first_end(&driver, case.name)))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

// spec: A-100, L-2, E-12
#[test]
fn a_native_sidecar_that_cannot_start_ends_its_executor_and_one_that_runs_does_not_outlive_it() {
    let place = Place::new("sidecars");
    let broken = case(
        "broken",
        "",
        r#""initContainers": [{"name": "mesh", "image": "localhost/none:1", "imagePullPolicy": "Never", "restartPolicy": "Always"}],"#,
        ("StartFailed", None, true),
        "ErrImageNeverPull",
    );
    let good = case(
        "good",
        "",
        r#""initContainers": [{"name": "mesh", "image": "IMAGE", "command": ["sleep", "1000"], "restartPolicy": "Always"}],"#,
        ("Exited", Some(137), true),
        "SIGKILL",
    );
    let driver = start(&place, &[&broken, &good]);
    let running = until("the good one runs", || {
        let pods = place.executors();
        let good = |pod: &&Value| {
            pod["metadata"]["labels"]["boatswain.dev/profile"] == "good"
                && pod["status"]["phase"] == "Running"
        };
        pods.iter()
            .find(good)
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
    });
    kill_container(&place, &running);
    let end = first_end(&driver, "good");
    assert_eq!(differs(&good, &end), None);
    until("its pod is gone", || {
        place.pod(&running).is_none().then_some(())
    });
    assert_eq!(differs(&broken, &first_end(&driver, "broken")), None);
}

// spec: E-17
#[test]
fn a_container_that_its_rules_start_again_has_not_ended() {
    let place = Place::new("rules");
    let again = case(
        "again",
        r#"command = ["/bin/sh", "-c", "if [ -e /state/was ]; then sleep 1000; else touch /state/was; exit 42; fi"]
volumes = [{ name = "state", mount_path = "/state", empty_dir = true }]"#,
        r#""containers": [{"name": "executor", "restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}],"#,
        ("", None, false),
        "",
    );
    let driver = start(&place, &[&again]);
    until("its container has been started again", || {
        let pods = place.executors();
        let status = &pods.first()?["status"]["containerStatuses"][0];
        (status["restartCount"] == 1 && !status["state"]["running"].is_null()).then_some(())
    });
    let log = driver.log();
    assert_eq!(log.count("executor ended"), 0);
    assert_eq!(log.count("executor requested"), 1);
}

// spec: E-10, I-12
#[test]
fn a_pod_that_is_resized_while_it_runs_goes_on_as_the_same_executor() {
    let place = Place::new("resize");
    let driver = place.drive_from_outside(&config(1));
    place.run(1);
    let before = place.pod("t-exec-1").unwrap();
    let resize =
        r#"{"spec":{"containers":[{"name":"executor","resources":{"requests":{"cpu":"20m"}}}]}}"#;
    place.told(&[
        "patch",
        "pod",
        "t-exec-1",
        "--subresource=resize",
        "-p",
        resize,
    ]);
    until("it is resized", || {
        let pod = place.pod("t-exec-1")?;
        let status = &pod["status"]["containerStatuses"][0];
        (status["resources"]["requests"]["cpu"] == "20m").then_some(())
    });
    let after = place.pod("t-exec-1").unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(
        after["status"]["containerStatuses"][0]["restartCount"],
        json!(0)
    );
    let log = driver.log();
    assert_eq!(
        (log.count("executor ended"), log.count("executor requested")),
        (0, 1)
    );
}
