//! Messages about the fields of a request, limited in number and length: each contains a path that the client chose.

use std::fmt::{self, Display, Write as _};

/// The most messages about one request; the limit of real servers.
const MAX_MESSAGES: usize = 100;

/// The longest message, in bytes.
const MAX_LENGTH: usize = 1024;

/// Adds a message, unless it is a repetition or there are too many.
pub fn add(messages: &mut Vec<String>, message: impl Display) {
    if messages.len() >= MAX_MESSAGES {
        return;
    }
    let message = clipped(message, MAX_LENGTH);
    if !messages.contains(&message) {
        messages.push(message);
    }
}

/// The text of at most `limit` bytes; an ellipsis stands for the rest.
pub fn clipped(text: impl Display, limit: usize) -> String {
    let mut out = Clipped {
        text: String::new(),
        limit,
        is_full: false,
    };
    // The error says that the rest was left out.
    let _ = write!(out, "{text}");
    if out.is_full {
        out.text.push('…');
    }
    out.text
}

struct Clipped {
    text: String,
    limit: usize,
    is_full: bool,
}

impl fmt::Write for Clipped {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let left = self.limit - self.text.len();
        if more.len() <= left {
            self.text.push_str(more);
            return Ok(());
        }
        self.is_full = true;
        self.text.push_str(&more[..more.floor_char_boundary(left)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_clipped_between_characters() {
        assert_eq!(clipped("abc", 3), "abc");
        assert_eq!(clipped("abcd", 3), "abc…");
        assert_eq!(clipped("aäb", 2), "a…");
        assert_eq!(clipped(format_args!("{}{}", "ab", "cd"), 3), "abc…");
    }

    #[test]
    fn messages_are_limited_in_number_and_not_repeated() {
        let mut messages = Vec::new();
        for n in 0..1_000 {
            add(&mut messages, n / 2);
        }
        assert_eq!(messages.len(), MAX_MESSAGES);
        assert_eq!(messages[..2], ["0", "1"]);
    }
}
