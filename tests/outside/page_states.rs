//! Tests that the page says in one sentence what happens to an application, in a browser.

use super::asking::{self, Asked};
use super::browser::Browser;
use super::cluster::Cluster;
use super::page;
use super::process::until;

const MANY: usize = 200;

/// A page of a driver that has these settings.
fn opened(cluster: &Cluster, executors: usize, sets: &[&str]) -> Option<(Browser, Asked)> {
    let browser = Browser::start(cluster.directory.path())?;
    let asked = page::asked_with(cluster, executors, sets);
    // Until then the browser notes each answer that says to wait.
    until("it is ready", || {
        asked.ask(&["status"]).status.success().then_some(())
    });
    browser.open(&asked.server);
    page::enter(&browser, "only-looks");
    Some((browser, asked))
}

// spec: O-110
#[test]
fn the_page_tells_a_bring_up_a_storm_of_kills_a_quota_and_a_frozen_api_server_in_a_sentence() {
    // Of 200 pods that start in 5 s each, some are seen on their way.
    let Some(cluster) = Cluster::own_with(&["--start-delay", "5s"]) else {
        return;
    };
    cluster.hold_pods();
    // All of the same age that live speak against a crash loop.
    let settings = ["failures.stable_after=5s", "api.evidence=true"];
    let Some((browser, asked)) = opened(&cluster, MANY, &settings) else {
        return;
    };
    browser.until_text("#sentence", "0 of 200 executors run; ");
    browser.until_text("#profiles", "\t200\t");
    browser.picture("bring-up-of-200");
    cluster.let_pods_start();
    browser.until_text("#sentence", "All 200 executors run.");

    for id in 1..=40 {
        cluster.api.kill_for_memory(&format!("t-exec-{id}"));
    }
    browser.until_text("#losses", "OomKilled\t40\t40");
    browser.until_text("#sentence", "executors run");
    browser.picture("storm");
    browser.until_text(
        "#sentence",
        "All 200 executors run, but 40 failed in the last 10 minutes",
    );
    assert!(browser.text("#todo").contains("memory_limit"));

    let pods = cluster.api.pods();
    let pod = pods.iter().find(|pod| pod.name == "t-exec-100").unwrap();
    let warning = asking::event("default", "hostile", "Warning", &pod.uid, page::HOSTILE);
    cluster.api.create("events", &warning);
    browser.script("const it = document.getElementById('filter'); it.value = '100'; it.oninput()");
    browser.until_text("#shown", "1 of 1 shown");
    browser.click("#executors button");
    browser.until_text("#story-events", page::HOSTILE);
    browser.click("#story-close");
    let markup = "return window.hit ?? document.querySelectorAll('img, body script').length";
    assert_eq!(browser.script(markup), 0);

    cluster.api.create_quota("small", 200);
    asked.json(&["scale", "default=240"]);
    browser.until_text(
        "#sentence",
        "200 of 240 executors run; no more are requested of default: ",
    );
    assert!(browser.text("#sentence").contains("small"));
    assert!(
        browser
            .text("#todo")
            .contains("Raise the namespace’s quota")
    );
    browser.until_text("#profiles", "refused so far, the last at ");
    assert!(!browser.text("#losses").contains("NotCreated"));
    browser.picture("quota");

    cluster.freeze();
    browser.until_text("#sentence", "No executor is given up for its silence: ");
    browser.picture("frozen");
    cluster.thaw();
    browser.until_text("#sentence", "200 of 240 executors run; ");
    assert_eq!(browser.console(), Vec::<String>::new());
}

// spec: O-110, B-32
#[test]
fn the_page_shows_a_roll_as_ends_that_are_no_failures() {
    let cluster = Cluster::any();
    let Some((browser, _asked)) = opened(&cluster, 8, &["roll.interval=1s"]) else {
        return;
    };
    browser.until_text("#losses", "Decommissioned\t3\t0");
    browser.until_text("#losses", "roll");
    browser.until_text("#sentence", "executors run");
    browser.picture("roll");
    assert_eq!(browser.console(), Vec::<String>::new());
}
