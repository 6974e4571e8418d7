//! A report as one HTML file that loads nothing (spec O-83): pure.

use std::fmt::Write as _;

use super::chart::{self, LAYERS, MOST_LANES};
use super::figures::{Figures, Spread, seconds};
use super::sizes::{Size, Sizes};
use super::timeline::Timeline;
use crate::model::quantity::cpu_text;
use crate::model::text::controls_display;

/// The most incidents that are listed.
const MOST_INCIDENTS: usize = 500;

const STYLE: &str = include_str!("style.css");

/// The page. All text from outside is escaped, and the page allows no script.
pub fn page(timeline: &Timeline) -> String {
    let profiles = timeline.profiles();
    let figures: Vec<(&str, Figures)> = (profiles.iter())
        .map(|profile| (*profile, timeline.figures(profile)))
        .collect();
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}: report</title>\n<style>\n{STYLE}</style>\n",
        escaped(timeline.app.as_deref().unwrap_or("boatswain"))
    );
    let of = |app: &String| format!("{}, ", escaped(app));
    let _ = writeln!(
        html,
        "<h1>{}{} to {}</h1>\n<p>{}</p>\n{}",
        timeline.app.as_ref().map(of).unwrap_or_default(),
        timeline.begin.strftime("%Y-%m-%d %H:%M:%S"),
        timeline.end.strftime("%H:%M:%S UTC"),
        summary(timeline, &figures),
        legend()
    );
    for (profile, figures) in &figures {
        let _ = writeln!(
            html,
            "<h2>Profile {}</h2>\n{}\n{}",
            escaped(profile),
            picture(&chart::counts(timeline, profile)),
            numbers(figures)
        );
        html.push_str(&ends(figures));
        html.push_str(&places(figures));
    }
    let lanes = picture(&chart::lanes(timeline));
    let _ = writeln!(html, "<h2>Executors</h2>\n{lanes}");
    let more = timeline.lives.len().saturating_sub(MOST_LANES);
    if more > 0 {
        let _ = writeln!(html, "<p>{more} later executors are not drawn.</p>");
    }
    html.push_str(&incidents(timeline));
    html
}

fn picture(svg: &str) -> String {
    format!("<div class=\"picture\">{svg}</div>")
}

fn summary(timeline: &Timeline, figures: &[(&str, Figures)]) -> String {
    let sum = |of: fn(&Figures) -> usize| figures.iter().map(|(_, one)| of(one)).sum::<usize>();
    let pods: f64 = figures.iter().map(|(_, one)| one.seconds.of_pods()).sum();
    let wasted: f64 = figures.iter().map(|(_, one)| one.seconds.wasted()).sum();
    format!(
        "In {}, {} executors were requested{}; {} ran and {} ended, {} of them by failures. Their pods existed for {} \
         altogether; for {} of that they did no work{}.",
        duration(seconds(timeline.begin, timeline.end)),
        sum(|one| one.requested),
        earlier(sum(|one| one.earlier)),
        sum(|one| one.ran),
        sum(|one| one.ended),
        sum(|one| one.failures),
        duration(pods),
        duration(wasted),
        share(wasted, pods)
    )
}

fn earlier(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => ", 1 was there before".to_owned(),
        number => format!(", {number} were there before"),
    }
}

fn share(part: f64, all: f64) -> String {
    match all > 0.0 {
        true => format!(" ({:.1} %)", part / all * 100.0),
        false => String::new(),
    }
}

fn legend() -> String {
    let names = LAYERS.map(|(_, name)| name);
    let entries = names.iter().chain(&["failure"]).map(|name| {
        format!("<svg class=\"sample\" viewBox=\"0 0 10 10\"><rect class=\"{name}\" width=\"10\" height=\"10\"/></svg> {name}")
    });
    let entries: Vec<String> = entries.collect();
    format!(
        "<p class=\"quiet\">{} <span class=\"line\">—</span> target</p>",
        entries.join(" ")
    )
}

fn numbers(figures: &Figures) -> String {
    let mut rows: Vec<(&str, String)> = vec![(
        "executors",
        format!(
            "{} requested{}; {} ran, {} ended, {} of them by failures",
            figures.requested,
            earlier(figures.earlier),
            figures.ran,
            figures.ended,
            figures.failures
        ),
    )];
    if let Some(bring_up) = &figures.bring_up {
        let (executors, time) = (bring_up.executors, duration(bring_up.seconds));
        rows.push((
            "bring-up",
            format!("the target of {executors} was reached {time} after the first request"),
        ));
    }
    if let Some(short) = &figures.shortfalls {
        rows.push((
            "below the target again",
            match short.number {
                0 => "never".to_owned(),
                1 => format!("once, for {}", duration(short.seconds)),
                number => format!(
                    "{number} times, for {} in total and {} at most; {} of executors were missed",
                    duration(short.seconds),
                    duration(short.longest),
                    duration(short.executor_seconds)
                ),
            },
        ));
    }
    let waits = [
        ("from request to running", &figures.to_running),
        ("from request to registered", &figures.to_registered),
    ];
    for (name, spread) in waits {
        rows.extend(spread.as_ref().map(|spread| (name, spread_text(spread))));
    }
    let times = &figures.seconds;
    let phases = [
        ("working", times.working),
        ("pending", times.pending),
        ("running, not registered", times.unregistered),
        ("uncertain or disconnected", times.uncertain),
        ("leaving", times.leaving),
    ];
    let phases = phases.iter().filter(|(_, time)| *time > 0.0);
    let phases: Vec<String> = phases
        .map(|(name, time)| {
            format!(
                "{name} {}{}",
                duration(*time),
                share(*time, times.of_pods())
            )
        })
        .collect();
    rows.push(("what the pods did", phases.join(", ")));
    if let Some(sizes) = &figures.sizes {
        rows.push(("memory", memory(sizes)));
        rows.extend(sizes.cpu_millicores.as_ref().map(|size| ("CPU", cpu(size))));
    }
    let rows = rows
        .iter()
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{value}</td></tr>\n"));
    format!("<table>\n{}</table>\n", rows.collect::<String>())
}

fn memory(sizes: &Sizes) -> String {
    let size = &sizes.memory_mebibytes;
    let requested = size.requested.map(|requested| format!("{requested}Mi"));
    format!(
        "99 % of {} executors needed {}Mi or less{}",
        sizes.executors,
        size.p99,
        surplus(requested, size, "GiB h", 1_024.0)
    )
}

fn cpu(size: &Size) -> String {
    let requested = size.requested.map(cpu_text);
    format!(
        "99 % of them used {} or less in 99 % of their time{}",
        cpu_text(size.p99),
        surplus(requested, size, "core hours", 1_000.0)
    )
}

/// `parts`: how many units of a request are one of these.
fn surplus(requested: Option<String>, size: &Size, hours: &str, parts: f64) -> String {
    let requested = requested.map(|requested| format!("; {requested} are requested"));
    let saved = size.saved_hours.filter(|saved| *saved > 0.0);
    let saved = saved.map(|saved| format!(", {:.1} {hours} more than that", saved / parts));
    requested.unwrap_or_default() + &saved.unwrap_or_default()
}

fn spread_text(spread: &Spread) -> String {
    format!(
        "median {}, p99 {}, longest {}",
        duration(spread.median),
        duration(spread.p99),
        duration(spread.most)
    )
}

fn ends(figures: &Figures) -> String {
    if figures.ends.is_empty() {
        return String::new();
    }
    let mut ends: Vec<_> = figures.ends.iter().collect();
    ends.sort_by_key(|(_, ends)| std::cmp::Reverse((ends.failures, ends.number)));
    let rows = ends.iter().map(|(reason, ends)| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escaped(reason),
            ends.number,
            ends.failures,
            escaped(&ends.why)
        )
    });
    format!(
        "<table>\n<tr><th>ended by</th><th>executors</th><th>failures</th><th>the last one</th></tr>\n{}</table>\n",
        rows.collect::<String>()
    )
}

fn places(figures: &Figures) -> String {
    if figures.places.is_empty() {
        return String::new();
    }
    let rows = figures.places.iter().map(|(name, place)| {
        let mut ends: Vec<_> = place.ends.iter().collect();
        ends.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        let ends: Vec<String> = (ends.iter())
            .map(|(reason, number)| format!("{number} {}", escaped(reason)))
            .collect();
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escaped(name),
            place.executors,
            duration(place.seconds),
            ends.join(", ")
        )
    });
    format!(
        "<table>\n<tr><th>where</th><th>executors</th><th>their pods existed for</th><th>ended by</th></tr>\n{}</table>\n",
        rows.collect::<String>()
    )
}

fn incidents(timeline: &Timeline) -> String {
    let rows = timeline.incidents.iter().take(MOST_INCIDENTS);
    let rows = rows.map(|incident| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            incident.time.strftime("%H:%M:%S%.3f"),
            escaped(&incident.event),
            escaped(&incident.what)
        )
    });
    let rows: String = rows.collect();
    let more = timeline.incidents.len().saturating_sub(MOST_INCIDENTS);
    let more = match more {
        0 => String::new(),
        more => format!("<p>{more} later ones are not listed.</p>\n"),
    };
    format!("<h2>The application</h2>\n<table>\n{rows}</table>\n{more}")
}

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1_000.0);
    }
    if seconds < 100.0 {
        return format!("{seconds:.1} s");
    }
    let whole = std::time::Duration::from_secs_f64(seconds.round());
    humantime::format_duration(whole).to_string()
}

/// Text that cannot become markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other if controls_display(other) => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
