//! The pictures of a report, as SVG (spec O-83): pure.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use super::figures::seconds;
use super::timeline::{Life, Phase, Timeline};

/// The width of each picture, in units of its coordinates.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 180.0;
/// The picture's columns: changes within one column are drawn as the last of them.
const COLUMNS: usize = 500;
/// The most lanes that are drawn.
pub const MOST_LANES: usize = 1_000;
/// The height of all lanes together, if there are many.
const LANES_HEIGHT: f64 = 700.0;
/// The times below shorter pictures have milliseconds.
const SHORT: SignedDuration = SignedDuration::from_secs(10);
/// The height of a lane, if there are few.
const LANE: f64 = 12.0;

/// The phases from the bottom of the picture to its top, with the names of their colours.
pub const LAYERS: [(Phase, &str); 6] = [
    (Phase::Registered, "registered"),
    (Phase::Running, "running"),
    (Phase::Pending, "pending"),
    (Phase::Requested, "requested"),
    (Phase::Uncertain, "uncertain"),
    (Phase::Leaving, "leaving"),
];

fn layer(phase: Phase) -> usize {
    let place = LAYERS.iter().position(|(of, _)| *of == phase);
    place.unwrap_or_default()
}

/// Which time is where in a picture.
struct Scale {
    begin: Timestamp,
    length: f64,
}

impl Scale {
    fn of(timeline: &Timeline) -> Self {
        Self {
            begin: timeline.begin,
            // Two events at the same time would have no length.
            length: seconds(timeline.begin, timeline.end).max(0.001),
        }
    }

    fn x(&self, time: Timestamp) -> f64 {
        seconds(self.begin, time) / self.length * WIDTH
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to COLUMNS"
    )]
    fn column(&self, time: Timestamp) -> usize {
        let columns = f64::from(u16::try_from(COLUMNS).unwrap_or(u16::MAX));
        (self.x(time) / WIDTH * columns) as usize
    }
}

/// The executors of a profile by phase over time, and its target as a line.
pub fn counts(timeline: &Timeline, profile: &str) -> String {
    let scale = Scale::of(timeline);
    let counts = columns(timeline, profile, &scale);
    let targets = timeline.targets.get(profile).map_or(&[][..], Vec::as_slice);
    let tops = counts.iter().map(|column| column.iter().sum::<u32>());
    let top = tops.chain(targets.iter().map(|(_, target)| *target)).max();
    let top = f64::from(top.unwrap_or(0).max(1));
    let y = |number: u32| HEIGHT - f64::from(number) / top * HEIGHT;
    let mut svg = format!(
        "<svg viewBox=\"-40 -12 1050 216\" role=\"img\" aria-label=\"executors over time\">\n\
         <text x=\"-6\" y=\"4\" text-anchor=\"end\">{top}</text><text x=\"-6\" y=\"{HEIGHT}\" text-anchor=\"end\">0</text>\n"
    );
    for (place, (_, name)) in LAYERS.iter().enumerate().rev() {
        // Everything up to this layer: those below are drawn over it.
        let up_to = |column: &[u32; 6]| column.iter().take(place + 1).sum::<u32>();
        let mut path = format!("M0 {HEIGHT}");
        let mut last = 0;
        for (column, counts) in counts.iter().enumerate() {
            let number = up_to(counts);
            if number != last {
                let _ = write!(path, "H{:.1}V{:.1}", at_column(column), y(number));
            }
            last = number;
        }
        if path.contains('H') {
            let _ = writeln!(
                svg,
                "<path class=\"{name}\" d=\"{path}H{WIDTH}V{HEIGHT}Z\"/>"
            );
        }
    }
    let mut line = String::new();
    for (time, target) in targets {
        let x = scale.x(*time);
        match line.is_empty() {
            true => write!(line, "M{x:.1} {:.1}", y(*target)),
            false => write!(line, "H{x:.1}V{:.1}", y(*target)),
        }
        .unwrap_or_default();
    }
    if !line.is_empty() {
        let _ = writeln!(svg, "<path class=\"target\" d=\"{line}H{WIDTH}\"/>");
    }
    svg.push_str(&axis(timeline, HEIGHT));
    svg.push_str("</svg>");
    svg
}

fn at_column(column: usize) -> f64 {
    let part = |number: usize| f64::from(u16::try_from(number).unwrap_or(u16::MAX));
    part(column) / part(COLUMNS) * WIDTH
}

/// How many executors of the profile are in each phase at the end of each column.
fn columns(timeline: &Timeline, profile: &str, scale: &Scale) -> Vec<[u32; 6]> {
    let mut changes = vec![[0_i32; 6]; COLUMNS + 1];
    for life in (timeline.lives.values()).filter(|life| life.profile == profile) {
        for (from, to, phase) in life.spans(timeline.end) {
            let still = life.end.is_none() && to == timeline.end;
            for (time, change) in [(Some(from), 1), ((!still).then_some(to), -1)] {
                let column = time.and_then(|time| changes.get_mut(scale.column(time)));
                if let Some(column) = column {
                    column[layer(phase)] += change;
                }
            }
        }
    }
    let mut now = [0_i32; 6];
    let columns = changes.iter().map(|change| {
        for (now, change) in now.iter_mut().zip(change) {
            *now += change;
        }
        now.map(|number| u32::try_from(number).unwrap_or_default())
    });
    columns.collect()
}

/// The times below a picture.
fn axis(timeline: &Timeline, y: f64) -> String {
    let length = timeline.end.duration_since(timeline.begin);
    let format = match length < SHORT {
        true => "%H:%M:%S%.3f",
        false => "%H:%M:%S",
    };
    let marks = (0..=4).map(|quarter| {
        let after = length.checked_mul(quarter).map(|length| length / 4);
        let time = after.and_then(|after| timeline.begin.checked_add(after).ok());
        let time = time.unwrap_or(timeline.end);
        let anchor = ["start", "middle", "middle", "middle", "end"]
            .get(usize::try_from(quarter).unwrap_or_default())
            .unwrap_or(&"middle");
        format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            f64::from(quarter) * WIDTH / 4.0,
            y + 18.0,
            time.strftime(format)
        )
    });
    marks.collect()
}

/// A lane for each executor, from its request to its end. A failure is a mark.
pub fn lanes(timeline: &Timeline) -> String {
    let scale = Scale::of(timeline);
    let number = timeline.lives.len().min(MOST_LANES);
    let of_all = f64::from(u16::try_from(number.max(1)).unwrap_or(u16::MAX));
    let lane = (LANES_HEIGHT / of_all).min(LANE);
    let height = lane * of_all;
    let mut svg = format!(
        "<svg viewBox=\"-40 0 1050 {:.1}\" role=\"img\" aria-label=\"the life of each executor\">\n",
        height + 24.0
    );
    let lives = timeline.lives.iter().take(MOST_LANES).zip(0_u16..);
    for ((executor, life), place) in lives {
        let top = f64::from(place) * lane;
        if lane >= LANE {
            let _ = write!(
                svg,
                "<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{executor}</text>",
                top + lane - 2.0
            );
        }
        svg.push_str(&spans(life, timeline.end, &scale, top, lane));
        svg.push('\n');
    }
    svg.push_str(&axis(timeline, height));
    svg.push_str("</svg>");
    svg
}

fn spans(life: &Life, now: Timestamp, scale: &Scale, top: f64, lane: f64) -> String {
    let height = lane * 0.8;
    let mut svg = String::new();
    for (from, to, phase) in life.spans(now) {
        let (x, width) = (scale.x(from), scale.x(to) - scale.x(from));
        if width > 0.0 {
            let name = LAYERS.get(layer(phase)).map_or("", |(_, name)| *name);
            let _ = write!(
                svg,
                "<rect class=\"{name}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            );
        }
    }
    if let Some(end) = life.end.as_ref().filter(|end| end.failure) {
        let size = height.max(3.0);
        let _ = write!(
            svg,
            "<rect class=\"failure\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{size:.1}\" height=\"{size:.1}\"/>",
            scale.x(end.time)
        );
    }
    svg
}
