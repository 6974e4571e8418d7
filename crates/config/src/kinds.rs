//! The kinds of values that keys take: how each is parsed, printed and described in error messages.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::document::Value;
use boatswain_model::quantity::Quantity;

/// How one kind of value is parsed and printed.
pub(super) trait Kind {
    type Out;
    /// The parsed value; `None` if it is not of this kind.
    fn read(&self, value: &Value) -> Option<Self::Out>;
    /// What is allowed, for an error message: `a number from 1 to 10`.
    fn allowed(&self) -> String;
    /// What JSON Schema can say of it.
    fn schema(&self) -> Json {
        json!({"type": "string", "description": self.allowed()})
    }
    /// The value as TOML.
    fn show(&self, value: &Self::Out) -> String;
    /// What exactly is wrong with a value that was refused, or advice.
    fn hint(&self, _refused: &Value) -> Option<String> {
        None
    }
    /// Whether the value only refers to where the actual value is, such as a Secret's key.
    fn is_reference(&self, _value: &Value) -> bool {
        false
    }
}

pub(super) struct Flag;

impl Kind for Flag {
    type Out = bool;
    fn read(&self, value: &Value) -> Option<bool> {
        match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
    fn schema(&self) -> Json {
        json!({"type": "boolean"})
    }
    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number within bounds.
pub(super) struct Whole<T>(pub RangeInclusive<T>);

impl<T: TryFrom<i128> + PartialOrd + Display + Serialize> Kind for Whole<T> {
    type Out = T;
    fn read(&self, value: &Value) -> Option<T> {
        match value {
            Value::Whole(number) => T::try_from(*number).ok().filter(|n| self.0.contains(n)),
            _ => None,
        }
    }
    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }
    fn schema(&self) -> Json {
        json!({"type": "integer", "minimum": self.0.start(), "maximum": self.0.end()})
    }
    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// Another kind, with more about what is allowed.
pub(super) struct Explained<K>(pub K, pub &'static str);

impl<K: Kind> Kind for Explained<K> {
    type Out = K::Out;
    fn read(&self, value: &Value) -> Option<K::Out> {
        self.0.read(value)
    }
    fn allowed(&self) -> String {
        format!("{}; {}", self.0.allowed(), self.1)
    }
    fn schema(&self) -> Json {
        self.0.schema()
    }
    fn show(&self, value: &K::Out) -> String {
        self.0.show(value)
    }
}

/// A number with up to three decimal places, in thousandths.
pub(super) struct Thousandths(pub RangeInclusive<u32>);

impl Kind for Thousandths {
    type Out = u32;
    fn read(&self, value: &Value) -> Option<u32> {
        let text = match value {
            Value::Whole(number) => number.to_string(),
            Value::Number(text) => text.clone(),
            _ => return None,
        };
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 {
            return None;
        }
        let number: u64 = format!("{whole}{part:0<3}").parse().ok()?;
        u32::try_from(number).ok().filter(|n| self.0.contains(n))
    }
    fn allowed(&self) -> String {
        let (least, most) = (self.show(self.0.start()), self.show(self.0.end()));
        format!("a number from {least} to {most}, with up to three decimal places")
    }
    fn schema(&self) -> Json {
        let bound = |thousandths: &u32| f64::from(*thousandths) / 1_000.0;
        json!({"type": "number", "minimum": bound(self.0.start()), "maximum": bound(self.0.end())})
    }
    fn show(&self, value: &u32) -> String {
        let text = format!("{}.{:03}", value / 1_000, value % 1_000);
        let short = text.trim_end_matches('0');
        match short.ends_with('.') {
            true => format!("{short}0"),
            false => short.to_owned(),
        }
    }
}

/// A duration such as `1h 30m` (spec C-1).
pub(super) struct Span {
    bounds: RangeInclusive<Duration>,
    /// Whether fractions of a second are refused, because Kubernetes counts in seconds.
    whole_seconds: bool,
}

/// A duration within bounds.
pub(super) fn span(bounds: RangeInclusive<Duration>) -> Span {
    Span {
        bounds,
        whole_seconds: false,
    }
}

/// A duration in whole seconds, within bounds.
pub(super) fn seconds(bounds: RangeInclusive<Duration>) -> Span {
    Span {
        bounds,
        whole_seconds: true,
    }
}

impl Kind for Span {
    type Out = Duration;
    fn read(&self, value: &Value) -> Option<Duration> {
        let span = humantime::parse_duration(value.text()?).ok()?;
        let fits = self.bounds.contains(&span);
        (fits && (!self.whole_seconds || span.subsec_nanos() == 0)).then_some(span)
    }
    fn allowed(&self) -> String {
        let whole = if self.whole_seconds {
            " in whole seconds"
        } else {
            ""
        };
        let least = humantime::format_duration(*self.bounds.start());
        let most = humantime::format_duration(*self.bounds.end());
        format!("a duration{whole} from {least} to {most}, such as \"30s\" or \"1h 30m\"")
    }
    fn show(&self, value: &Duration) -> String {
        format!("\"{}\"", humantime::format_duration(*value))
    }
    fn hint(&self, refused: &Value) -> Option<String> {
        matches!(refused, Value::Whole(_)).then(|| "give the unit, in quotes".to_owned())
    }
}

/// A text that satisfies a rule.
pub(super) struct Text {
    pub rule: fn(&str) -> bool,
    pub allowed: &'static str,
}

impl Text {
    /// Any text but the empty one.
    pub const SOME: Self = Self {
        rule: |text| !text.is_empty() && !text.contains('\0'),
        allowed: "a text in quotes, not empty",
    };
    pub const ANY: Self = Self {
        rule: |text| !text.contains('\0'),
        allowed: "a text in quotes",
    };
}

impl Kind for Text {
    type Out = String;
    fn read(&self, value: &Value) -> Option<String> {
        let text = value.text().filter(|text| (self.rule)(text))?;
        Some(text.to_owned())
    }
    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }
    fn show(&self, value: &String) -> String {
        quoted(value)
    }
}

/// A text as TOML.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A text that stands for another type.
pub(super) struct Parsed<T> {
    pub read: fn(&str) -> Option<T>,
    pub show: fn(&T) -> String,
    pub allowed: &'static str,
}

/// The path of a file or a directory.
pub(super) const PATH: Parsed<PathBuf> = Parsed {
    read: |path| (Text::SOME.rule)(path).then(|| path.into()),
    show: |path| path.display().to_string(),
    allowed: "a path in quotes",
};

/// An address with a port.
pub(super) const ADDRESS: Parsed<SocketAddr> = Parsed {
    read: |address| address.parse().ok(),
    show: SocketAddr::to_string,
    allowed: "an address of this machine with a port, such as \"0.0.0.0:7078\"",
};

impl<T> Kind for Parsed<T> {
    type Out = T;
    fn read(&self, value: &Value) -> Option<T> {
        (self.read)(value.text()?)
    }
    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }
    fn show(&self, value: &T) -> String {
        quoted(&(self.show)(value))
    }
}

/// A percentage such as `"20%"`.
pub(super) struct Percent(pub RangeInclusive<u32>);

impl Kind for Percent {
    type Out = u32;
    fn read(&self, value: &Value) -> Option<u32> {
        let digits = value.text()?.strip_suffix('%')?;
        let number = digits.parse().ok()?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        (plain && self.0.contains(&number)).then_some(number)
    }
    fn allowed(&self) -> String {
        let (least, most) = (self.0.start(), self.0.end());
        format!("a share from \"{least}%\" to \"{most}%\", in quotes")
    }
    fn show(&self, value: &u32) -> String {
        format!("\"{value}%\"")
    }
}

/// A Kubernetes quantity (spec C-1).
pub(super) struct Amount {
    /// In 10⁻⁹ units. An amount must be a positive multiple of this.
    step: u128,
    /// In 10⁻⁹ units.
    least: u128,
    allowed: &'static str,
    hint: &'static str,
}

impl Amount {
    /// Cores.
    pub const CPU: Self = Self {
        step: 1_000_000,
        least: 1_000_000,
        allowed: "cores as Kubernetes writes them, such as \"500m\" or \"2\", in steps of 1m",
        hint: "half a core is \"500m\"",
    };
    /// Bytes. At least a mebibyte: with less, the unit was probably forgotten.
    pub const MEMORY: Self = Self {
        step: 1_000_000_000,
        least: (1 << 20) * 1_000_000_000,
        allowed: "bytes as Kubernetes writes them, such as \"512Mi\" or \"2Gi\", at least 1Mi",
        hint: "mebibytes are \"Mi\", gibibytes \"Gi\"",
    };
    /// Bytes.
    pub const DISK: Self = Self {
        step: 1_000_000_000,
        least: 1_000_000_000,
        allowed: "bytes as Kubernetes writes them, such as \"10Gi\"",
        hint: "gibibytes are \"Gi\"",
    };
    /// Indivisible devices, at least one.
    pub const DEVICES: Self = Self {
        step: 1_000_000_000,
        least: 1_000_000_000,
        allowed: "a whole number, at least 1, or an amount as Kubernetes writes it",
        hint: "devices cannot be divided",
    };
    /// Bytes.
    pub const STORAGE: Self = Self {
        allowed: "bytes as Kubernetes writes them, such as \"512Mi\" or \"10Gi\", at least 1Mi",
        ..Self::MEMORY
    };
}

impl Kind for Amount {
    type Out = Quantity;
    fn read(&self, value: &Value) -> Option<Quantity> {
        let quantity: Quantity = match value {
            Value::Text(text) | Value::Number(text) => text.parse().ok()?,
            Value::Whole(number) => number.to_string().parse().ok()?,
            _ => return None,
        };
        let nanos = quantity.nanos();
        (nanos >= self.least && nanos.is_multiple_of(self.step)).then_some(quantity)
    }
    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }
    fn schema(&self) -> Json {
        json!({"type": ["string", "number"], "description": self.allowed})
    }
    fn show(&self, value: &Quantity) -> String {
        format!("\"{value}\"")
    }
    fn hint(&self, _refused: &Value) -> Option<String> {
        Some(self.hint.to_owned())
    }
}

/// One of a fixed set of words.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// Every word with its value.
    const ALL: &'static [(&'static str, Self)];
}

pub(super) fn word_of<C: Choice>(value: C) -> &'static str {
    let found = C::ALL.iter().find(|(_, choice)| *choice == value);
    found.map_or("", |(word, _)| word)
}

pub(super) struct OneOf<C>(std::marker::PhantomData<C>);

pub(super) fn one_of<C: Choice>() -> OneOf<C> {
    OneOf(std::marker::PhantomData)
}

impl<C: Choice> Kind for OneOf<C> {
    type Out = C;
    fn read(&self, value: &Value) -> Option<C> {
        let text = value.text()?;
        let found = C::ALL.iter().find(|(word, _)| *word == text)?;
        Some(found.1)
    }
    fn allowed(&self) -> String {
        let words: Vec<String> = C::ALL.iter().map(|(word, _)| format!("{word:?}")).collect();
        words.join(" or ")
    }
    fn schema(&self) -> Json {
        let words: Vec<&str> = C::ALL.iter().map(|(word, _)| *word).collect();
        json!({"enum": words})
    }
    fn show(&self, value: &C) -> String {
        format!("{:?}", word_of(*value))
    }
}
