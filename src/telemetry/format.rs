//! Formats log lines, as JSON or for terminals.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::time::Instant;

use boatswain_agent::logs::LOST;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::LogFormat;
use super::fold::Folds;
use crate::model::text::controls_display;

/// Texts from outside are cut to this many characters.
const LONGEST_TEXT: usize = 1000;

thread_local! {
    /// Per thread, so that no state is shared. The actors run on one thread.
    static FOLDS: RefCell<Folds> = RefCell::default();
}

/// The fields of an event or a span, in the order of recording.
#[derive(Default)]
struct Fields {
    message: String,
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    fn push(&mut self, field: &Field, value: Value) {
        self.rest.push((field.name(), value));
    }

    fn text(&mut self, field: &Field, mut text: String) {
        if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
            text.truncate(end);
            text.push('…');
        }
        if field.name() == "message" {
            self.message = text;
        } else {
            self.push(field, Value::String(text));
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            // Formatting into a String cannot fail.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        self.text(field, text);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.into());
    }
}

/// Stores a span's fields as a JSON object, whatever the log format.
pub(super) struct SpanFields;

impl<'w> FormatFields<'w> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visited = Fields::default();
        fields.record(&mut visited);
        writer.write_str(&Value::Object(owned(visited.rest)).to_string())
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        let mut all = parsed(&current.fields);
        let mut visited = Fields::default();
        fields.record(&mut visited);
        all.extend(owned(visited.rest));
        current.fields = Value::Object(all).to_string();
        Ok(())
    }
}

fn owned(fields: Vec<(&'static str, Value)>) -> serde_json::Map<String, Value> {
    let named = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    named.collect()
}

fn parsed(object: &str) -> serde_json::Map<String, Value> {
    serde_json::from_str(object).unwrap_or_default()
}

pub(super) struct Lines {
    format: LogFormat,
    /// Whether the terminal may show a progress line that has to be erased first.
    erases: bool,
}

impl Lines {
    pub fn new(format: LogFormat, erases: bool) -> Self {
        Self { format, erases }
    }

    /// The line without its time and without the number of repeats.
    fn body(&self, line: &Line, colours: bool) -> String {
        match self.format {
            LogFormat::Json => line.json(),
            LogFormat::Pretty => line.pretty(colours),
        }
    }

    fn write(&self, writer: &mut Writer<'_>, body: &str, repeated: Option<u64>) -> fmt::Result {
        let now = jiff::Timestamp::now();
        if self.erases {
            writer.write_str(super::ERASE_LINE)?;
        }
        match (self.format, repeated) {
            (LogFormat::Json, None) => writeln!(writer, "{{\"time\":\"{now:.3}\",{body}}}"),
            (LogFormat::Json, Some(n)) => {
                writeln!(writer, "{{\"time\":\"{now:.3}\",{body},\"repeated\":{n}}}")
            }
            (LogFormat::Pretty, repeated) => {
                let (dim, plain) = if writer.has_ansi_escapes() {
                    (DIM, PLAIN)
                } else {
                    ("", "")
                };
                write!(writer, "{dim}{now:.3}{plain} {body}")?;
                match repeated {
                    None => writeln!(writer),
                    Some(n) => writeln!(writer, " repeated={n}"),
                }
            }
        }
    }
}

/// The line which says how many were lost.
pub(super) fn lost(lines: &Lines, count: u64) -> String {
    let fields = Fields {
        message: LOST.to_owned(),
        rest: vec![("count", count.into())],
    };
    let line = Line {
        level: Level::WARN,
        module: module_path!(),
        fields,
        spans: Vec::new(),
    };
    let mut text = String::new();
    // Formatting into a String cannot fail.
    let _ = lines.write(&mut Writer::new(&mut text), &lines.body(&line, false), None);
    text
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = Line {
            level: *event.metadata().level(),
            module: event.metadata().target(),
            fields,
            spans: Vec::new(),
        };
        if let Some(scope) = ctx.event_scope() {
            for span in scope.from_root() {
                let extensions = span.extensions();
                let formatted = extensions.get::<FormattedFields<N>>();
                let fields = formatted.map(|f| parsed(&f.fields)).unwrap_or_default();
                line.spans.push((span.name(), fields));
            }
        }
        let body = self.body(&line, writer.has_ansi_escapes());
        // Already borrowed only if formatting itself panics. Then the panic's line is not deduplicated.
        let (over, admitted) = FOLDS.with(|folds| match folds.try_borrow_mut() {
            Ok(mut folds) => {
                let now = Instant::now();
                let over = folds.over(now);
                (over, folds.admit(&body, now))
            }
            Err(_) => (Vec::new(), true),
        });
        for (body, repeated) in over {
            self.write(&mut writer, &body, Some(repeated))?;
        }
        if admitted {
            self.write(&mut writer, &body, None)?;
        }
        Ok(())
    }
}

/// A line before it is written.
struct Line {
    level: Level,
    module: &'static str,
    fields: Fields,
    spans: Vec<(&'static str, serde_json::Map<String, Value>)>,
}

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

impl Line {
    /// The members of the JSON object, without braces and time.
    fn json(&self) -> String {
        let level = self.level.as_str().to_lowercase();
        let message = Value::from(self.fields.message.as_str());
        let mut out = format!("\"level\":\"{level}\",\"message\":{message}");
        for (name, value) in &self.fields.rest {
            let _ = write!(out, ",{}:{value}", Value::from(*name));
        }
        if !self.spans.is_empty() {
            let spans = self.spans.iter().map(|(name, fields)| {
                let mut fields = fields.clone();
                fields.insert("span".to_owned(), Value::from(*name));
                Value::Object(fields)
            });
            let _ = write!(out, ",\"spans\":{}", Value::Array(spans.collect()));
        }
        let _ = write!(out, ",\"module\":{}", Value::from(self.module));
        out
    }

    fn pretty(&self, colours: bool) -> String {
        let (dim, plain) = if colours { (DIM, PLAIN) } else { ("", "") };
        let colour = match self.level {
            _ if !colours => "",
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            Level::DEBUG => "\x1b[34m",
            Level::TRACE => "\x1b[35m",
        };
        let mut out = format!("{colour}{:<5}{plain} ", self.level.as_str());
        // Control characters are escaped, so that texts from outside cannot break the line.
        for c in self.fields.message.chars() {
            if controls_display(c) {
                let _ = write!(out, "{}", c.escape_default());
            } else {
                out.push(c);
            }
        }
        for (name, value) in &self.fields.rest {
            let _ = write!(out, " {dim}{name}={plain}{}", bare(value));
        }
        for (name, fields) in &self.spans {
            let _ = write!(out, " {dim}{name}{{{plain}");
            for (n, (name, value)) in fields.iter().enumerate() {
                let gap = if n == 0 { "" } else { " " };
                let _ = write!(out, "{gap}{dim}{name}={plain}{}", bare(value));
            }
            let _ = write!(out, "{dim}}}{plain}");
        }
        out
    }
}

/// The value without quotes if it is a single plain word.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) if text.chars().any(|c| controls_display(c) && !c.is_ascii()) => {
            format!("{text:?}")
        }
        other => other.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let plain =
        |c: char| !c.is_whitespace() && !controls_display(c) && !matches!(c, '"' | '=' | '\\');
    !text.is_empty() && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::telemetry::testing::logged;

    // spec: O-40
    #[test]
    fn json_has_one_object_a_line_with_the_fields_as_they_are() {
        let log = logged(LogFormat::Json, || {
            tracing::info!(executor = 7, pod = "a-exec-7", reason = %"Exited\n", "executor ended");
        });
        assert_eq!(log.lines().count(), 1, "{log}");
        let line: Value = serde_json::from_str(&log).unwrap();
        assert_eq!(line["level"], "info");
        assert_eq!(line["message"], "executor ended");
        assert_eq!(line["executor"], 7);
        assert_eq!(line["pod"], "a-exec-7");
        assert_eq!(line["reason"], "Exited\n");
        let time = line["time"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }

    // spec: O-40
    #[test]
    fn a_line_for_people_has_the_same_fields_and_stays_one_line() {
        let log = logged(LogFormat::Pretty, || {
            tracing::warn!(
                executor = 7,
                reason = "two words",
                node = "n\n1",
                "odd\nnews"
            );
        });
        assert_eq!(log.lines().count(), 1, "{log}");
        let after_time = log.split_once(' ').unwrap().1;
        let expected = r#"WARN  odd\nnews executor=7 reason="two words" node="n\n1""#;
        assert_eq!(after_time.trim_end(), expected);
    }

    // spec: O-40
    #[test]
    fn an_event_in_a_round_says_so() {
        let log = |format| {
            logged(format, || {
                let round =
                    tracing::debug_span!("round", changes = 3, requested = tracing::field::Empty);
                round.record("requested", 2);
                round.in_scope(|| tracing::debug!("decided"));
            })
        };
        let pretty = log(LogFormat::Pretty);
        assert!(
            pretty.ends_with("DEBUG decided round{changes=3 requested=2}\n"),
            "{pretty}"
        );
        let json: Value = serde_json::from_str(&log(LogFormat::Json)).unwrap();
        let spans = serde_json::json!([{"span": "round", "changes": 3, "requested": 2}]);
        assert_eq!(json["spans"], spans);
    }

    // spec: O-40
    #[test]
    fn repeats_are_not_written_again() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let log = logged(format, || {
                for _ in 0..100 {
                    tracing::warn!(profile = "default", "the cluster refuses more");
                }
                tracing::warn!(profile = "other", "the cluster refuses more");
            });
            assert_eq!(log.lines().count(), 2, "{log}");
        }
    }

    #[test]
    fn a_text_from_outside_is_cut() {
        let log = logged(LogFormat::Pretty, || {
            tracing::info!(label = "x".repeat(1_000_000), "a unrecognised");
        });
        assert!(log.len() < 2 * LONGEST_TEXT, "{}", log.len());
    }

    #[test]
    fn an_error_is_told_with_its_causes() {
        let log = logged(LogFormat::Pretty, || {
            let error = io::Error::other("Cause");
            let error = crate::telemetry::TelemetryError::Level(error.to_string());
            tracing::error!(error = &error as &dyn std::error::Error, "failed");
        });
        assert!(log.contains(r#"error="not a log level: Cause""#), "{log}");
    }
}
