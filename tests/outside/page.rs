//! Tests the page in a browser, against a running driver.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::asking::{self, Asked};
use super::browser::Browser;
use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};

/// Markup that would run a script, if it became markup anywhere.
pub const HOSTILE: &str = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>";

fn asked(cluster: &Cluster, executors: usize) -> Asked {
    asked_with(cluster, executors, &[])
}

/// A driver with a token for each right.
pub fn asked_with(cluster: &Cluster, executors: usize, sets: &[&str]) -> Asked {
    let tokens = cluster.directory.path().join("api-token");
    std::fs::write(&tokens, "all-rights\nonly-looks read\n").unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    Asked::of(cluster, |api| {
        Driver::start(cluster, executors, &[api, sets].concat())
    })
}

pub fn enter(browser: &Browser, token: &str) {
    browser.script(&format!(
        "document.getElementById('token').value = {token:?}; document.getElementById('enter').requestSubmit()"
    ));
}

/// No script of another's ran, nothing was asked elsewhere, and no address has a token.
fn is_safe(browser: &Browser, server: &str) {
    let requests = browser.requests();
    assert!(
        requests.iter().any(|url| url.contains("/v1/status")),
        "{requests:?}"
    );
    for url in requests {
        assert!(url.starts_with(server) || url == "data:,", "{url}");
        assert!(
            !url.contains("all-rights") && !url.contains("only-looks"),
            "{url}"
        );
    }
    let markup = "return window.hit ?? document.querySelectorAll('img, body script').length";
    assert_eq!(browser.script(markup), 0);
    assert_eq!(browser.console(), Vec::<String>::new());
}

/// What the element with this id shows, of all its lines.
fn rows(browser: &Browser, id: &str) -> String {
    browser.text(&format!("#{id}"))
}

// spec: O-105, O-110
#[test]
fn the_page_asks_for_a_token_and_then_shows_the_executors_and_why_one_ended() {
    let cluster = Cluster::any();
    let Some(browser) = Browser::start(cluster.directory.path()) else {
        return;
    };
    let mut asked = asked(&cluster, 3);
    cluster.settles(3);

    browser.open(&asked.server);
    browser.until_text("#enter label", "Token");
    assert!(
        !browser.shows("#content, #verdict, dialog"),
        "{}",
        browser.text("body")
    );
    browser.picture("no-token");
    let without = browser.requests();
    let data = |url: &String| url.contains("/v1/") || url.contains("metrics");
    assert!(
        without.len() >= 3 && !without.iter().any(data),
        "{without:?}"
    );

    enter(&browser, "guessed");
    browser.until_text("#refusal", "The token is missing or unknown.");
    let said = browser.console();
    assert!(
        said.iter().all(|line| line.contains("401")),
        "of refused requests only: {said:?}"
    );

    enter(&browser, "only-looks");
    browser.until_text("#sentence", "All 3 executors run.");
    browser.until_text("#link", "live");
    assert!(rows(&browser, "profiles").contains("nothing to do"));
    browser.picture("well");

    cluster.api.kill_for_memory("t-exec-2");
    browser.until_text("#losses", "OomKilled");
    browser.until_text("#sentence", "All 3 executors run, but 1 failed");
    assert!(browser.text("#todo").contains("memory_limit"));
    browser.picture("oom-killed");

    let status = json!({"phase": "Failed", "reason": "Evicted", "message": HOSTILE});
    cluster.api.set_pod_status("t-exec-3", &status);
    let end = asked.driver.end_of(3);
    assert!(end["why"].as_str().unwrap().contains(HOSTILE), "{end}");
    browser.until_text("#losses", HOSTILE);
    browser.until_text("#executors", HOSTILE);

    browser.script("[...document.querySelectorAll('#losses button')].find((it) => it.innerText === '3').click()");
    browser.until_text("#story-title", "Executor 3");
    browser.until_text("#story-events", HOSTILE);
    assert!(
        !browser.shows("#kill, #decommission, #actions"),
        "the token may only read"
    );
    browser.picture("story");
    browser.click("#story-close");
    browser.script(
        "const it = document.getElementById('filter'); it.value = 'oomkilled'; it.oninput()",
    );
    until("only what matches the filter is drawn", || {
        let found = browser.script("return document.querySelectorAll('#executors tr').length");
        (found == 1).then_some(())
    });
    assert!(rows(&browser, "executors").contains("OomKilled"));

    is_safe(&browser, &asked.server);
    browser.click("#forget");
    until("the page is empty again", || {
        browser.shows("#enter").then_some(())
    });
    assert!(!browser.shows("#content, #verdict"));
    assert_eq!(
        browser.script("return sessionStorage.getItem('token')"),
        json!(null)
    );
    assert!(
        !browser
            .script("return document.body.textContent")
            .to_string()
            .contains("OomKilled")
    );
}

// spec: O-110
#[test]
fn the_page_says_what_is_waited_for_and_follows_the_executors_as_they_start() {
    let (cluster, elsewhere) = Cluster::without_node();
    let Some(browser) = Browser::start(cluster.directory.path()) else {
        return;
    };
    let asked = asked_with(&cluster, 2, &[elsewhere]);
    until("both pods are there", || {
        (cluster.api.pods().len() == 2).then_some(())
    });
    browser.open(&asked.server);
    enter(&browser, "only-looks");
    browser.until_text("#sentence", "0 of 2 executors run; 2 wait: ");
    browser.picture("bring-up");
    for pod in cluster.api.pods() {
        cluster
            .api
            .set_pod_status(&pod.name, &json!({"phase": "Running"}));
    }
    browser.until_text("#sentence", "All 2 executors run.");
    is_safe(&browser, &asked.server);
}

// spec: O-105
#[test]
fn the_page_acts_with_a_token_that_may_do_everything_after_a_question() {
    let cluster = Cluster::any();
    let Some(browser) = Browser::start(cluster.directory.path()) else {
        return;
    };
    let mut asked = asked(&cluster, 2);
    cluster.settles(2);
    browser.open(&asked.server);
    enter(&browser, "all-rights");
    browser.until_text("#sentence", "All 2 executors run.");
    let target = || asked.json(&["status"])["profiles"]["default"]["target"].clone();

    browser.click("#profiles button");
    browser.script("document.querySelector('#ask-fields input').value = 3");
    browser.picture("question");
    browser.click("#ask-no");
    assert_eq!(target(), 2, "it was only asked");
    browser.click("#profiles button");
    browser.script("document.querySelector('#ask-fields input').value = 4000000000");
    browser.click("#ask-yes");
    until("the refusal is shown", || {
        (!browser.text("#ask-answer").is_empty()).then_some(())
    });
    let said = browser.console();
    assert!(said.iter().all(|line| line.contains("422")), "{said:?}");
    browser.script("document.querySelector('#ask-fields input').value = 3");
    browser.click("#ask-yes");
    browser.until_text("#sentence", "All 3 executors run.");

    two_are_killed_and_replaced(&browser);
    assert_eq!(target(), 3);

    browser.click("#executors button");
    until("its story is shown", || {
        browser.shows("#kill").then_some(())
    });
    browser.click("#kill");
    browser.click("#ask-yes");
    browser.until_text("#story-now", "Killed");
    browser.click("#story-close");
    until("the target has fallen", || (target() == 2).then_some(()));

    browser.click("#executors button");
    browser.click("#story-close");
    browser.click("#hold");
    browser.script(&format!(
        "document.querySelector('#ask-fields [name=by]').value = {HOSTILE:?}"
    ));
    browser.click("#ask-yes");
    browser.until_text(
        "#sentence",
        &format!("The application is held by {HOSTILE}"),
    );
    browser.picture("held");
    browser.click("#resume");
    browser.click("#ask-yes");
    browser.until_text("#sentence", "All 2 executors run.");
    is_safe(&browser, &asked.server);

    browser.click("#end");
    browser.click("#ask-yes");
    until("the driver ends", || asked.driver.exit());
    // Which of both depends on whether the last event arrived before the end.
    until("the page says so", || {
        let said = browser.text("#sentence");
        [
            "The driver has ended, with exit code 0.",
            "The driver does not answer.",
        ]
        .contains(&said.as_str())
        .then_some(())
    });
    until("it can be asked for nothing", || {
        (!browser.shows("#actions")).then_some(())
    });
    browser.picture("no-driver");
}

/// Kills two of three executors in one command.
fn two_are_killed_and_replaced(browser: &Browser) {
    browser.until_text("#shown", "3 of 3 shown");
    browser.click("#tick-all");
    browser.until_text("#ticked", "3 executors ticked");
    browser.click("#executors input");
    browser.until_text("#ticked", "2 executors ticked");
    browser.click("#kill-ticked");
    browser.click("#ask-fields [name=replace]");
    browser.picture("several");
    browser.click("#ask-yes");
    until("both are replaced", || {
        rows(browser, "losses").contains("Killed\t2").then_some(())
    });
    browser.until_text("#sentence", "All 3 executors run.");
    assert!(
        !browser.shows("#ticked"),
        "those that have ended are not ticked"
    );
}

// spec: O-143
#[test]
fn a_view_of_the_page_has_an_address_and_its_tables_are_sorted_by_their_headings() {
    let cluster = Cluster::any();
    let Some(browser) = Browser::start(cluster.directory.path()) else {
        return;
    };
    let asked = asked(&cluster, 3);
    cluster.settles(3);
    browser.open(&format!("{}/#filter=exec&executor=2", asked.server));
    enter(&browser, "only-looks");
    browser.until_text("#story-title", "Executor 2");
    let namespace = &cluster.api.namespace;
    browser.until_text(
        "#story-commands",
        &format!("kubectl --namespace {namespace} logs t-exec-2"),
    );
    let about = format!("namespace {namespace}, API server ");
    browser.until_text("#about", &about);
    browser.click("#story-close");
    browser.until_text("#shown", "3 of 3 shown");

    let place = || browser.script("return location.hash");
    until("its address is that of the table", || {
        (place() == "#filter=exec").then_some(())
    });
    let first = || browser.text("#executors tr button");
    let sort =
        "document.getElementById('executors').closest('table').querySelector('th button').click()";
    assert_eq!(first(), "3", "the newest");
    browser.script(sort);
    browser.script(sort);
    until("the smallest id is first", || {
        (first() == "1").then_some(())
    });
    browser.script(sort);
    until("it is as it was", || (first() == "3").then_some(()));

    browser.script("location.hash = '#executor=1'");
    browser.until_text("#story-title", "Executor 1");
    assert_eq!(
        browser.script("return document.getElementById('filter').value"),
        ""
    );
    is_safe(&browser, &asked.server);
}

// spec: O-88
#[test]
fn the_page_of_the_embedded_cluster_shows_its_applications_nodes_and_pods_and_why_one_failed() {
    let reason = "it tests the embedded cluster's own page";
    let Some(cluster) = Cluster::embedded(&["--node", "simulated"], reason) else {
        return;
    };
    let Some(browser) = Browser::start(cluster.directory.path()) else {
        return;
    };
    let _driver = Driver::start(&cluster, 3, &[]);
    cluster.settles(3);
    let server = format!("http://{}", cluster.address());

    browser.open(&server);
    browser.until_text("#enter label", "Token of this cluster");
    enter(&browser, "guessed");
    browser.until_text("#refusal", "Unauthorized");
    let said = browser.console();
    assert!(
        said.iter().all(|line| line.contains("401")),
        "of refused requests only: {said:?}"
    );
    let token = std::fs::read_to_string(cluster.directory.path().join("token")).unwrap();
    enter(&browser, token.trim());
    browser.until_text("#sentence", "3 of 3 pods run.");
    browser.until_text("#apps", "\tdefault\t3");
    browser.until_text("#nodes", "Ready");
    browser.picture("cluster");

    let warning = asking::event("default", "hostile", "Warning", "any", HOSTILE);
    cluster.api.create("events", &warning);
    browser.until_text("#warnings", HOSTILE);

    let status = json!({"phase": "Failed", "reason": "Evicted", "message": HOSTILE});
    cluster.api.set_pod_status("t-exec-2", &status);
    browser.until_text(
        "#sentence",
        "1 failed in the last 10 minutes, last t-exec-2: Evicted.",
    );
    browser.until_text("#pods", "t-exec-4");
    browser.script("[...document.querySelectorAll('#pods button')].find((it) => it.innerText === 't-exec-4').click()");
    browser.until_text("#story-now", "Running");
    browser.picture("cluster-story");
    browser.click("#story-close");

    for url in browser.requests() {
        assert!(url.starts_with(&server) || url == "data:,", "{url}");
        assert!(!url.contains(token.trim()), "{url}");
    }
    assert_eq!(browser.script("return window.hit"), json!(null));
    browser.click("#forget");
    until("the page is empty again", || {
        browser.shows("#enter").then_some(())
    });
}

// spec: O-105, O-50
#[test]
fn the_page_is_opened_by_an_address_without_a_token() {
    let cluster = Cluster::any();
    let asked = asked(&cluster, 0);
    let opened = cluster.directory.path().join("opened");
    let opener = cluster.directory.path().join("xdg-open");
    std::fs::write(
        &opener,
        format!("#!/bin/sh\necho \"$*\" > {}\n", opened.display()),
    )
    .unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o700)).unwrap();
    let open = |path: &Path| {
        let mut command = boatswain();
        command.args(["status", "--open", "--server", &asked.server]);
        command.arg("--token-file").arg(&asked.tokens);
        command.env("PATH", path).output().unwrap()
    };
    let address = format!("{}/\n", asked.server);
    until("the driver has taken over, and the page is opened", || {
        let output = open(cluster.directory.path());
        output
            .status
            .success()
            .then(|| assert_eq!(output.stdout, address.as_bytes()))
    });
    until("the opener was called", || {
        let got = std::fs::read_to_string(&opened)
            .ok()
            .filter(|got| !got.is_empty())?;
        assert_eq!(got, address);
        Some(())
    });
    let without = open(Path::new("/nowhere"));
    let said = String::from_utf8(without.stderr).unwrap();
    assert_eq!(without.status.code(), Some(1));
    assert!(said.contains("open the address in a browser"), "{said}");
    assert_eq!(without.stdout, address.as_bytes());
}
