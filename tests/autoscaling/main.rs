//! Tests the autoscaler against demand curves over a day, and checks that the pictures in docs/autoscaling.md are
//! current. `BOATSWAIN_WRITE_PLOTS=1 cargo test --test autoscaling` redraws them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod curves;
mod drawing;
mod play;

use std::path::Path;

use curves::CURVES;
use play::{Played, SLOTS, play};

// spec: B-40, B-41, B-42
#[test]
fn the_pictures_in_the_documentation_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/autoscaling");
    for curve in &CURVES {
        let drawn = drawing::draw(curve, &play(curve));
        let file = folder.join(format!("{}.svg", curve.name));
        if std::env::var_os("BOATSWAIN_WRITE_PLOTS").is_some() {
            std::fs::write(&file, &drawn).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == drawn,
            "{} is not what is drawn now: BOATSWAIN_WRITE_PLOTS=1 draws it anew",
            file.display()
        );
    }
}

fn played(name: &str) -> Vec<Played> {
    play(CURVES.iter().find(|curve| curve.name == name).unwrap())
}

// spec: B-40
#[test]
fn a_burst_is_met_within_the_time_of_doubling_and_starting() {
    let burst = played("burst");
    let begins = burst.iter().position(|now| now.demand > 0).unwrap();
    let met = burst
        .iter()
        .position(|now| now.running * SLOTS >= 200)
        .unwrap();
    // 50 executors take 6 doublings, one each second after the first, and the last executors start within 10 s.
    assert!(met - begins <= 1 + 6 + 10, "{} s", met - begins);
}

// spec: B-41
#[test]
fn after_the_work_only_the_minimum_of_executors_stays() {
    for name in ["burst", "ramp", "night"] {
        let last = played(name).pop().unwrap();
        assert_eq!((last.target, last.running, last.idle), (2, 2, 2), "{name}");
    }
}

// spec: B-41
#[test]
fn pauses_shorter_than_the_idle_timeout_hardly_change_the_target() {
    let teeth = played("sawtooth");
    let settled = &teeth[180..];
    let targets = settled.iter().map(|now| now.target);
    let (least, most) = (targets.clone().min().unwrap(), targets.max().unwrap());
    assert!(most - least <= most / 4, "{least} to {most}");
}

// spec: B-40, B-41, B-42
#[test]
fn targets_stay_between_the_minimum_and_the_highest_past_demand() {
    for curve in &CURVES {
        let mut most = 2;
        for now in play(curve) {
            most = most.max(now.wanted);
            assert!(
                now.target <= most && now.running <= most,
                "{} at {} s",
                curve.name,
                now.second
            );
            assert!(now.target >= 2, "{} at {} s", curve.name, now.second);
        }
    }
}
