//! Formats the driver's answers as human-readable text.

use serde_json::Value;

use crate::model::text::controls_display;

/// A field of text; empty if it is missing.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// A number; empty if it is missing.
fn number(value: &Value, field: &str) -> String {
    value[field]
        .as_i64()
        .map_or_else(String::new, |n| n.to_string())
}

/// The items of a list; none if it is missing.
fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// Text from elsewhere must not control the terminal.
fn plain(text: &str) -> String {
    text.replace(controls_display, " ")
}

/// Formats a table with two spaces between columns.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let titles = header.iter().map(|title| (*title).to_owned()).collect();
    let plain = |row: &Vec<String>| row.iter().map(|cell| plain(cell)).collect();
    let rows: Vec<Vec<String>> = std::iter::once(titles)
        .chain(rows.iter().map(plain))
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One field of each item of a list, each on a line.
pub fn names(answer: &Value, of: &str, name: &str) -> String {
    let names = list(answer, of).map(|item| match text(item, name) {
        "" => number(item, name),
        text => plain(text),
    });
    names.collect::<Vec<_>>().join("\n")
}

/// `/v1/status`
pub fn status(answer: &Value) -> String {
    let mut out = format!(
        "application {}, incarnation {}\n",
        plain(text(answer, "app")),
        number(answer, "incarnation")
    );
    let driver = &answer["driver"];
    if driver.is_object() {
        let (version, namespace) = (
            plain(text(driver, "version")),
            plain(text(driver, "namespace")),
        );
        let (up, server) = (age(driver, "up_seconds"), plain(text(driver, "api_server")));
        out.push_str(&format!(
            "boatswain {version}, up for {up}; namespace {namespace}, API server {server}\n"
        ));
    }
    if answer["adopted"] != true {
        out.push_str("the driver is still reading the cluster's state");
        return out;
    }
    if let Some(why) = answer["degraded"]["why"].as_str() {
        let seconds = number(&answer["degraded"], "for_seconds");
        let why = plain(why);
        out.push_str(&format!(
            "degraded for {seconds} s: {why}; silent executors are not given up meanwhile\n"
        ));
    }
    for write in answer["refused_writes"].as_array().into_iter().flatten() {
        let (verb, resource) = (plain(text(write, "verb")), plain(text(write, "resource")));
        let (seconds, why) = (number(write, "for_seconds"), plain(text(write, "why")));
        out.push_str(&format!(
            "the API server has refused to {verb} {resource} for {seconds} s: {why}\n"
        ));
    }
    if answer["ready"] == false {
        out.push_str("not ready: too few executors are running or registered\n");
    }
    if !answer["held"].is_null() {
        out.push_str(&format!("{}\n\n", held(answer)));
    }
    let profiles = answer["profiles"].as_object();
    let counts = [
        ("TARGET", "target"),
        ("RUNNING", "running"),
        ("REGISTERED", "registered"),
        ("PENDING", "pending"),
        ("REQUESTED", "requested"),
        ("UNANSWERED", "unanswered"),
        ("UNCERTAIN", "uncertain"),
        ("LEAVING", "leaving"),
    ];
    let row = |(name, view): (&String, &Value)| {
        let numbers = counts.iter().map(|(_, field)| number(view, field));
        std::iter::once(name.clone()).chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> = profiles.into_iter().flatten().map(row).collect();
    let titles = counts.iter().map(|(title, _)| *title);
    let header: Vec<&str> = std::iter::once("PROFILE").chain(titles).collect();
    out.push_str(&table(&header, &rows));
    for (name, view) in profiles.into_iter().flatten() {
        for remark in remarks(view) {
            out.push_str(&format!("\n{name}: {remark}"));
        }
    }
    for (name, view) in answer["pools"].as_object().into_iter().flatten() {
        out.push_str(&format!("\n{}", pool(name, view)));
    }
    out.push_str(&losses(answer));
    out
}

/// What is unusual about a profile.
fn remarks(view: &Value) -> Vec<String> {
    let mut remarks = Vec::new();
    if view["removing"] == true {
        remarks.push("is being removed".to_owned());
    }
    if let Some(why) = view["failed"].as_str() {
        remarks.push(format!("has failed: {}", plain(why)));
    }
    if let Some(limit) = view["grown_memory"].as_str() {
        remarks.push(format!("memory grown to {} after OomKilled", plain(limit)));
    }
    if view["paused"].is_object() {
        remarks.push(paused(&view["paused"]));
    }
    let waiting = list(view, "waiting_for").map(|wait| {
        let (executors, why) = (number(wait, "executors"), plain(text(wait, "why")));
        format!("{executors} waiting: {why}")
    });
    remarks.extend(waiting);
    remarks
}

/// The applications of a namespace, or of all.
pub fn applications(answer: &Value, with_namespace: bool, is_wide: bool) -> String {
    let field = |name: &'static str| move |one: &Value| text(one, name).to_owned();
    let mut columns: Columns = vec![
        ("NAME", Box::new(field("name"))),
        ("ID", Box::new(field("id"))),
        ("EXECUTORS", Box::new(|one| number(one, "executors"))),
        ("AGE", Box::new(|one| age(one, "age_seconds"))),
        ("DRIVER", Box::new(field("driver"))),
        ("STATE", Box::new(field("state"))),
    ];
    if with_namespace {
        columns.insert(0, ("NAMESPACE", Box::new(field("namespace"))));
    }
    if is_wide {
        columns.push(("SINCE", Box::new(field("since"))));
    }
    rows(answer, "applications", &columns)
}

/// Titles of columns, and what an item has there.
type Columns = Vec<(&'static str, Box<dyn Fn(&Value) -> String>)>;

/// A table with a row for each item of a list.
fn rows(answer: &Value, of: &str, columns: &Columns) -> String {
    let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
    let rows: Vec<Vec<String>> = list(answer, of).map(row).collect();
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    match rows.is_empty() {
        true => format!("no {of}"),
        false => table(&titles, &rows),
    }
}

/// As kubectl shows ages: one unit. Empty if it is missing.
fn age(item: &Value, field: &str) -> String {
    let Some(seconds) = item[field].as_u64() else {
        return String::new();
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// An application that may be run again.
pub fn reopened(answer: &Value) -> String {
    let (app, code) = (plain(text(answer, "app")), number(answer, "exit_code"));
    let why = match text(answer, "why") {
        "" => String::new(),
        why => format!(": {}", plain(why)),
    };
    format!(
        "application {app} had ended with code {code}{why}\nits next driver goes on, and nothing of that counts"
    )
}

/// The executors that ended last; nothing where none has.
fn losses(status: &Value) -> String {
    let rows: Vec<Vec<String>> = list(status, "losses")
        .map(|loss| {
            vec![
                text(loss, "time").chars().take(19).collect(),
                number(loss, "executor"),
                text(loss, "profile").to_owned(),
                text(loss, "reason").to_owned(),
                text(loss, "why").to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["TIME", "EXECUTOR", "PROFILE", "REASON", "WHY"];
    format!("\n\nended last:\n{}", table(&columns, &rows))
}

/// What is requested of each profile of a pool.
fn pool(name: &str, view: &Value) -> String {
    let profile = |one: &Value| {
        let of = |field| one[field].as_u64().unwrap_or(0);
        let (target, preferred) = (of("target"), of("preferred"));
        let usual = match target == preferred {
            true => String::new(),
            false => format!(" (usually {preferred})"),
        };
        let next = match (of("trying"), one["again_in_seconds"].as_u64()) {
            (0, None) => String::new(),
            (0, Some(seconds)) => format!(", more are tried in {seconds} s"),
            (trying, _) => format!(", {trying} more are being tried"),
        };
        format!("{target}{usual} of {}{next}", text(one, "profile"))
    };
    let profiles: Vec<String> = list(view, "profiles").map(profile).collect();
    format!(
        "pool {name}: {} wanted: {}",
        number(view, "target"),
        profiles.join("; ")
    )
}

/// Why requests for a profile are paused.
fn paused(paused: &Value) -> String {
    let (cause, why) = (text(paused, "cause"), plain(text(paused, "why")));
    let seconds = number(paused, "for_seconds");
    let again = match number(paused, "again_in_seconds").as_str() {
        // Only the queue decides when that ends.
        "" if cause == "queued" => String::new(),
        "" => ", one is being tried".to_owned(),
        seconds => format!(", next attempt in {seconds} s"),
    };
    format!("{cause} for {seconds} s{again}: {why}")
}

/// The state of an executor's session, and its busy slots.
fn session(session: &Value) -> String {
    let state = text(session, "state");
    match (session["busy_slots"].as_u64(), session["slots"].as_u64()) {
        (Some(busy), Some(slots)) => format!("{state}, {busy} of {slots} busy"),
        _ => state.to_owned(),
    }
}

/// `/v1/executors`
pub fn executors(answer: &Value, is_wide: bool) -> String {
    let field = |name: &'static str| move |one: &Value| text(one, name).to_owned();
    let mut columns: Columns = vec![
        ("EXECUTOR", Box::new(|one| number(one, "executor"))),
        ("PROFILE", Box::new(field("profile"))),
        ("STATE", Box::new(field("state"))),
        ("AGE", Box::new(|one| age(one, "age_seconds"))),
        ("SESSION", Box::new(|one| session(&one["session"]))),
        ("POD", Box::new(field("pod"))),
        ("NODE", Box::new(node)),
        ("WAITS FOR", Box::new(field("why"))),
    ];
    if is_wide {
        let heard = |one: &Value| age(&one["session"], "heard_seconds_ago");
        columns.push(("ZONE", Box::new(field("zone"))));
        columns.push(("CAPACITY", Box::new(field("capacity_type"))));
        let usage = |one: &Value| one["session"]["usage"].clone();
        columns.push((
            "MEMORY",
            Box::new(move |one| memory(&usage(one), "memory_bytes")),
        ));
        columns.push(("CPU", Box::new(move |one| cpu(&usage(one), "cpu_cores"))));
        columns.push(("IP", Box::new(field("ip"))));
        columns.push(("HEARD", Box::new(heard)));
        columns.push(("INCARNATION", Box::new(|one| number(one, "incarnation"))));
    }
    rows(answer, "executors", &columns)
}

fn node(one: &Value) -> String {
    let name = text(one, "node");
    match (one["node_leaves"].is_string(), &one["node_ready"]) {
        (true, _) => format!("{name}, leaves"),
        (false, Value::Bool(false)) => format!("{name}, not ready"),
        (false, _) => name.to_owned(),
    }
}

/// In MiB, such as `700 of 1024Mi`.
fn memory(usage: &Value, used: &str) -> String {
    let mebibytes = |field: &str| usage[field].as_u64().map(|bytes| bytes >> 20);
    match (mebibytes(used), mebibytes("memory_limit_bytes")) {
        (Some(used), Some(limit)) => format!("{used} of {limit}Mi"),
        (Some(used), None) => format!("{used}Mi"),
        (None, _) => String::new(),
    }
}

/// In cores.
fn cpu(usage: &Value, used: &str) -> String {
    let cores = usage[used].as_f64();
    cores.map_or_else(String::new, |cores| format!("{cores:.2}"))
}

/// The most that an executor used, such as `700 of 1024Mi, 0.50 cores`.
fn most_used(usage: &Value) -> String {
    let used = [
        memory(usage, "peak_memory_bytes"),
        cpu(usage, "p99_cpu_cores"),
    ];
    match used {
        [memory, cores] if cores.is_empty() => memory,
        [memory, cores] => format!("{memory}, {cores} cores"),
    }
}

/// `/v1/executors/ID`
pub fn history(answer: &Value) -> String {
    let state = match answer["now"].as_object() {
        Some(_) => format!("is {}", text(&answer["now"], "state")),
        None => "has ended".to_owned(),
    };
    let mut out = format!("executor {} {state}", number(answer, "executor"));
    if let Some(why) = answer["now"]["node_leaves"].as_str() {
        let (node, why) = (plain(text(&answer["now"], "node")), plain(why));
        out.push_str(&format!("\n  its node {node} leaves the cluster: {why}"));
    }
    if answer["now"]["node_ready"] == false {
        let node = plain(text(&answer["now"], "node"));
        out.push_str(&format!("\n  its node {node} is not ready"));
    }
    let left_out = answer["left_out_after_the_first"].as_u64().unwrap_or(0);
    for (at, event) in list(answer, "events").enumerate() {
        if at == 1 && left_out > 0 {
            out.push_str(&format!("\n  … {left_out} events no longer kept"));
        }
        out.push_str(&format!("\n  {}", line(event, false)));
    }
    if answer["evidence"].is_object() {
        out.push_str(&evidence(&answer["evidence"]));
    }
    out
}

/// What the cluster knows of the executor's pod.
fn evidence(evidence: &Value) -> String {
    let mut out = format!("\n\npod {}:", plain(text(evidence, "pod")));
    for warning in list(evidence, "warnings") {
        let (time, reason) = (text(warning, "time"), text(warning, "reason"));
        let message = text(warning, "message");
        let times = match warning["count"].as_u64() {
            Some(count) if count > 1 => format!(" ({count} times)"),
            _ => String::new(),
        };
        let shown = format!("{time}  warning  {reason}{times}: {message}");
        out.push_str(&format!("\n  {}", plain(&shown)));
    }
    let lines: Vec<&str> = list(evidence, "log").filter_map(Value::as_str).collect();
    if !lines.is_empty() {
        out.push_str(match evidence["log_of_previous_run"] == true {
            true => "\n  the end of the previous run's log:",
            false => "\n  the end of its log:",
        });
    }
    for line in lines {
        out.push_str(&format!("\n    {}", plain(line)));
    }
    for missing in list(evidence, "missing").filter_map(Value::as_str) {
        out.push_str(&format!("\n  not shown: {}", plain(missing)));
    }
    out
}

/// `/v1/targets`
pub fn targets(answer: &Value) -> String {
    let rows: Vec<Vec<String>> = (answer["targets"].as_object().into_iter().flatten())
        .map(|(profile, target)| vec![profile.clone(), target.to_string()])
        .collect();
    table(&["PROFILE", "TARGET"], &rows)
}

/// The answer to kill and decommission.
pub fn command_outcome(answer: &Value) -> String {
    let places = [
        ("leaving", "LEAVING"),
        ("already_leaving", "LEFT ALREADY"),
        ("busy", "SPARED, BUSY"),
        ("unknown", "UNKNOWN"),
    ];
    let row = |(field, name): (&str, &str)| {
        let ids: Vec<String> = list(answer, field).map(Value::to_string).collect();
        (!ids.is_empty()).then(|| vec![name.to_owned(), ids.join(", ")])
    };
    let rows: Vec<Vec<String>> = places.into_iter().filter_map(row).collect();
    format!(
        "{}\n\n{}",
        table(&["", "EXECUTORS"], &rows),
        targets(answer)
    )
}

/// The answer to hold.
pub fn held(answer: &Value) -> String {
    let held = &answer["held"];
    let by = match text(held, "by") {
        "" => "because the application was silent".to_owned(),
        by => format!("by {}", plain(by)),
    };
    format!("held {by}; `boatswain resume` restores:\n{}", targets(held))
}

/// The answer to stop.
pub fn ending(answer: &Value) -> String {
    format!(
        "the driver is ending with exit code {}",
        number(answer, "exit_code")
    )
}

/// One event of the stream.
pub fn event(event: &Value) -> String {
    if event["event"] != "living" {
        return line(event, true);
    }
    let gap = match event["gap"] == true {
        true => "events since the last one are no longer kept; ",
        false => "",
    };
    format!("{gap}live executors:\n{}", executors(event, false))
}

/// An event in one line: time, executor, event, details.
fn line(event: &Value, names_executor: bool) -> String {
    let mut parts = vec![text(event, "time").to_owned()];
    if names_executor && !event["executor"].is_null() {
        parts.push(format!(
            "executor {} ({})",
            number(event, "executor"),
            text(event, "profile")
        ));
    }
    parts.push(text(event, "event").to_owned());
    const SAID: [&str; 5] = ["id", "time", "event", "executor", "profile"];
    for (field, value) in event.as_object().into_iter().flatten() {
        let of_executor = !event["executor"].is_null();
        if SAID.contains(&field.as_str()) && (field != "profile" || of_executor) {
            continue;
        }
        let shown = match (field.as_str(), value.as_str()) {
            ("usage", _) if value["peak_memory_bytes"].is_u64() => most_used(value),
            (_, Some(text)) => text.to_owned(),
            (_, None) => value.to_string(),
        };
        parts.push(format!("{field}={shown}"));
    }
    plain(&parts.join("  "))
}

#[cfg(test)]
mod tests;
