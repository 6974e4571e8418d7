//! The kinds of values that keys take: what each accepts, and how it says so.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::document::Value;
use crate::model::quantity::Quantity;

/// How one kind of value is read and shown.
pub(super) trait Kind {
    type Out;
    /// The value, if this is one.
    fn read(&self, value: &Value) -> Option<Self::Out>;
    /// What is allowed, for a message: `a number from 1 to 10`.
    fn allowed(&self) -> String;
    /// A value as TOML.
    fn show(&self, value: &Self::Out) -> String;
    /// A word more about a value that was refused.
    fn hint(&self, _refused: &Value) -> Option<&'static str> {
        None
    }
    /// What in particular is wrong with a value that was refused.
    fn why(&self, _refused: &Value) -> Option<String> {
        None
    }
    /// Whether a value only says where another one is.
    fn is_reference(&self, _value: &Value) -> bool {
        false
    }
}

/// `true` or `false`.
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
    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number.
pub(super) struct Whole(pub RangeInclusive<u64>);

impl Kind for Whole {
    type Out = u64;
    fn read(&self, value: &Value) -> Option<u64> {
        match value {
            Value::Whole(number) => u64::try_from(*number).ok().filter(|n| self.0.contains(n)),
            _ => None,
        }
    }
    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }
    fn show(&self, value: &u64) -> String {
        value.to_string()
    }
}

/// A whole number that counts something here and now, and so fits a `u32`.
pub(super) struct Count(pub RangeInclusive<u32>);

impl Kind for Count {
    type Out = u32;
    fn read(&self, value: &Value) -> Option<u32> {
        match value {
            Value::Whole(number) => u32::try_from(*number).ok().filter(|n| self.0.contains(n)),
            _ => None,
        }
    }
    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }
    fn show(&self, value: &u32) -> String {
        value.to_string()
    }
}

/// A whole number, which may be below zero.
pub(super) struct Integer(pub RangeInclusive<i32>);

impl Kind for Integer {
    type Out = i32;
    fn read(&self, value: &Value) -> Option<i32> {
        match value {
            Value::Whole(number) => i32::try_from(*number).ok().filter(|n| self.0.contains(n)),
            _ => None,
        }
    }
    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }
    fn show(&self, value: &i32) -> String {
        value.to_string()
    }
}

/// A number with up to three places behind the point, in thousandths.
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
        format!("a number from {least} to {most}, with up to three places behind the point")
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

/// A duration as people write it: `1h 30m` (spec C-1).
pub(super) struct Span {
    least: Duration,
    most: Duration,
    /// Kubernetes counts these in seconds.
    whole_seconds: bool,
}

/// A duration within bounds.
pub(super) fn span(bounds: RangeInclusive<Duration>) -> Span {
    let (least, most) = bounds.into_inner();
    Span {
        least,
        most,
        whole_seconds: false,
    }
}

/// A duration in whole seconds, within bounds.
pub(super) fn seconds(bounds: RangeInclusive<Duration>) -> Span {
    Span {
        whole_seconds: true,
        ..span(bounds)
    }
}

impl Kind for Span {
    type Out = Duration;
    fn read(&self, value: &Value) -> Option<Duration> {
        let Value::Text(text) = value else {
            return None;
        };
        let span = humantime::parse_duration(text).ok()?;
        let fits = self.least <= span && span <= self.most;
        (fits && (!self.whole_seconds || span.subsec_nanos() == 0)).then_some(span)
    }
    fn allowed(&self) -> String {
        let whole = if self.whole_seconds {
            " in whole seconds"
        } else {
            ""
        };
        let least = humantime::format_duration(self.least);
        let most = humantime::format_duration(self.most);
        format!("a duration{whole} from {least} to {most}, as \"30s\" or \"1h 30m\"")
    }
    fn show(&self, value: &Duration) -> String {
        format!("\"{}\"", humantime::format_duration(*value))
    }
    fn hint(&self, refused: &Value) -> Option<&'static str> {
        matches!(refused, Value::Whole(_)).then_some("give the unit, in quotes")
    }
}

/// A text, with a rule of its own.
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
    /// Any text.
    pub const ANY: Self = Self {
        rule: |text| !text.contains('\0'),
        allowed: "a text in quotes",
    };
}

impl Kind for Text {
    type Out = String;
    fn read(&self, value: &Value) -> Option<String> {
        match value {
            Value::Text(text) if (self.rule)(text) => Some(text.clone()),
            _ => None,
        }
    }
    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }
    fn show(&self, value: &String) -> String {
        toml::Value::String(value.clone()).to_string()
    }
}

/// A file or a directory.
pub(super) struct Path;

impl Kind for Path {
    type Out = PathBuf;
    fn read(&self, value: &Value) -> Option<PathBuf> {
        Text::SOME.read(value).map(PathBuf::from)
    }
    fn allowed(&self) -> String {
        "a path in quotes".to_owned()
    }
    fn show(&self, value: &PathBuf) -> String {
        toml::Value::String(value.display().to_string()).to_string()
    }
}

/// An address of this machine that no other can reach.
pub(super) struct Loopback;

impl Kind for Loopback {
    type Out = SocketAddr;
    fn read(&self, value: &Value) -> Option<SocketAddr> {
        let address: SocketAddr = Text::SOME.read(value)?.parse().ok()?;
        address.ip().is_loopback().then_some(address)
    }
    fn allowed(&self) -> String {
        "an address that only this machine can reach, as \"127.0.0.1:7117\"".to_owned()
    }
    fn show(&self, value: &SocketAddr) -> String {
        format!("\"{value}\"")
    }
}

/// An address of this machine.
pub(super) struct Address;

impl Kind for Address {
    type Out = SocketAddr;
    fn read(&self, value: &Value) -> Option<SocketAddr> {
        Text::SOME.read(value)?.parse().ok()
    }
    fn allowed(&self) -> String {
        "an address of this machine with a port, as \"0.0.0.0:7078\"".to_owned()
    }
    fn show(&self, value: &SocketAddr) -> String {
        format!("\"{value}\"")
    }
}

/// So many in a hundred, as `"20%"`.
pub(super) struct Percent(pub RangeInclusive<u32>);

impl Kind for Percent {
    type Out = u32;
    fn read(&self, value: &Value) -> Option<u32> {
        let Value::Text(text) = value else {
            return None;
        };
        let digits = text.strip_suffix('%')?;
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

/// An amount as Kubernetes writes it (spec C-1).
pub(super) struct Amount {
    /// In 10⁻⁹ units; an amount has to be a multiple of it, and not nothing.
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
        allowed: "cores as Kubernetes writes them, as \"500m\" or \"2\", in steps of 1m",
        hint: "half a core is \"500m\"",
    };
    /// Bytes. Less than a mebibyte holds no program: it is a unit that was forgotten.
    pub const MEMORY: Self = Self {
        step: 1_000_000_000,
        least: (1 << 20) * 1_000_000_000,
        allowed: "bytes as Kubernetes writes them, as \"512Mi\" or \"2Gi\", at least 1Mi",
        hint: "mebibytes are \"Mi\", gibibytes \"Gi\"",
    };
    /// Bytes of a disk.
    pub const DISK: Self = Self {
        step: 1_000_000_000,
        least: 1_000_000_000,
        allowed: "bytes as Kubernetes writes them, as \"10Gi\"",
        hint: "gibibytes are \"Gi\"",
    };
    /// Things that cannot be divided, at least one.
    pub const DEVICES: Self = Self {
        step: 1_000_000_000,
        least: 1_000_000_000,
        allowed: "a whole number, at least 1, or an amount as Kubernetes writes it",
        hint: "devices cannot be shared in parts",
    };
}

impl Amount {
    /// Bytes on a volume.
    pub const STORAGE: Self = Self {
        allowed: "bytes as Kubernetes writes them, as \"512Mi\" or \"10Gi\", at least 1Mi",
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
    fn show(&self, value: &Quantity) -> String {
        format!("\"{value}\"")
    }
    fn hint(&self, _refused: &Value) -> Option<&'static str> {
        Some(self.hint)
    }
}

/// One of a few words.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// Every word, with what it stands for.
    const ALL: &'static [(&'static str, Self)];

    /// A word more about one that is refused.
    fn hint(_refused: &str) -> Option<&'static str> {
        None
    }
}

/// The word that stands for a value.
pub(super) fn word_of<C: Choice>(value: C) -> &'static str {
    let found = C::ALL.iter().find(|(_, choice)| *choice == value);
    found.map_or("", |(word, _)| word)
}

/// Reads a [`Choice`].
pub(super) struct OneOf<C>(std::marker::PhantomData<C>);

/// One of the words of a [`Choice`].
pub(super) fn one_of<C: Choice>() -> OneOf<C> {
    OneOf(std::marker::PhantomData)
}

impl<C: Choice> Kind for OneOf<C> {
    type Out = C;
    fn read(&self, value: &Value) -> Option<C> {
        let Value::Text(text) = value else {
            return None;
        };
        let found = C::ALL.iter().find(|(word, _)| word == text)?;
        Some(found.1)
    }
    fn allowed(&self) -> String {
        let words: Vec<String> = C::ALL.iter().map(|(word, _)| format!("{word:?}")).collect();
        words.join(" or ")
    }
    fn show(&self, value: &C) -> String {
        format!("{:?}", word_of(*value))
    }
    fn hint(&self, refused: &Value) -> Option<&'static str> {
        match refused {
            Value::Text(text) => C::hint(text),
            _ => None,
        }
    }
}
