//! Messages about the fields of a request, limited in number and length: each contains a path that the client chose.

/// The most messages about one request; the limit of real servers.
const MAX_MESSAGES: usize = 100;

/// The longest message, in bytes.
const MAX_LENGTH: usize = 1024;

/// Adds a message, unless it is a repetition or there are too many. Of a long one, the beginning is kept.
pub fn add(messages: &mut Vec<String>, mut message: String) {
    if message.len() > MAX_LENGTH {
        message.truncate(message.floor_char_boundary(MAX_LENGTH));
        message.push('…');
    }
    if messages.len() < MAX_MESSAGES && !messages.contains(&message) {
        messages.push(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_limited_in_number_and_length_and_not_repeated() {
        let mut messages = Vec::new();
        for n in 0..1_000 {
            add(&mut messages, (n / 2).to_string());
        }
        assert_eq!(messages.len(), MAX_MESSAGES);
        assert_eq!(messages[..2], ["0", "1"]);
        let mut messages = Vec::new();
        add(&mut messages, "ä".repeat(MAX_LENGTH));
        assert_eq!(messages[0].chars().count(), MAX_LENGTH / 2 + 1);
    }
}
