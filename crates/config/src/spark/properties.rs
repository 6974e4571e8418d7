//! Parses spark-defaults.conf like Spark does, as a Java properties file, and writes such files.

use std::fmt::Write as _;

/// Writes a properties file that [`properties`] and Spark read as these pairs. Blanks around a value are lost, as in every
/// such file. It has only ASCII characters.
pub(super) fn written<'p>(pairs: impl IntoIterator<Item = (&'p String, &'p String)>) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        escape(key, |c| matches!(c, '=' | ':' | '#' | '!' | ' '), &mut out);
        out.push('=');
        escape(value, |_| false, &mut out);
        out.push('\n');
    }
    out
}

fn escape(text: &str, also: impl Fn(char) -> bool, out: &mut String) {
    for c in text.chars() {
        if c == '\\' || also(c) {
            out.push('\\');
            out.push(c);
        } else if c.is_ascii_graphic() || c == ' ' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing into a `String` cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// A logical line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    pub line: usize,
    pub key: String,
    pub value: String,
}

/// All properties in the order of the file. If a key occurs twice, the later one wins. Trailing
/// whitespace of values is removed, as in Spark.
pub(super) fn properties(text: &str) -> Vec<Property> {
    logical_lines(text)
        .into_iter()
        .filter_map(|(line, text)| {
            let (key, value) = split(&text);
            let key = unescaped(key);
            let value = unescaped(value).trim().to_owned();
            (!key.is_empty() || !value.is_empty()).then_some(Property { line, key, value })
        })
        .collect()
}

/// The lines that are neither empty nor comments, each with the number of its first line. An odd
/// number of backslashes at the end continues on the next line, whose leading whitespace is
/// ignored.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let breaks = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");
    for (n, line) in breaks(text).split('\n').enumerate() {
        let line = line.trim_start_matches(is_blank);
        if !open && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        let continues = backslashes % 2 == 1;
        let said = if continues {
            &line[..line.len() - 1]
        } else {
            line
        };
        match out.last_mut() {
            Some((_, last)) if open => last.push_str(said),
            _ => out.push((n + 1, said.to_owned())),
        }
        open = continues;
    }
    out
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// The key ends at the first whitespace, `=` or `:` that is not escaped. Between the key and its
/// value there may be whitespace and one separator.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|(_, c)| {
            let ends = !escaped && (is_blank(*c) || matches!(c, '=' | ':'));
            escaped = !escaped && *c == '\\';
            ends
        })
        .map_or(line.len(), |(at, _)| at);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(is_blank))
}

/// `\t`, `\n`, `\r`, `\f` and `\u` with four hex digits mean what they mean in Java. Any other
/// escaped character stands for itself.
fn unescaped(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    let mut buffer = [0; 2];
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let hex: String = chars.clone().take(4).collect();
                    match u16::from_str_radix(&hex, 16) {
                        Ok(unit) if hex.len() == 4 => {
                            units.push(unit);
                            chars.nth(3);
                            continue;
                        }
                        // Java refuses the whole file here; keeping the letter loses less.
                        _ => 'u',
                    }
                }
                Some(other) => other,
                None => continue,
            },
            c => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut buffer));
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let all = properties(text).into_iter();
        all.map(|property| (property.key, property.value)).collect()
    }

    // spec: C-7
    #[test]
    fn a_key_ends_at_a_blank_an_equals_sign_or_a_colon() {
        let text = "a 1\nb=2\nc:3\nd = 4\ne\t:\t5 \nf=g=h\ni\n  j   k l\n\\=m\\ n=o";
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", "4"),
            ("e", "5"),
            ("f", "g=h"),
            ("i", ""),
            ("j", "k l"),
            ("=m n", "o"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs(text), expected);
    }

    // spec: C-7
    #[test]
    fn comments_and_empty_lines_say_nothing_and_backslashes_continue_a_line() {
        let text = "# a 1\n! b 2\n\n   # c 3\r\nd x\\\n   y\\\r\n# z\ne 1\\\\\nf 2\\";
        let all = properties(text);
        let seen: Vec<(usize, &str, &str)> = all
            .iter()
            .map(|p| (p.line, p.key.as_str(), p.value.as_str()))
            .collect();
        assert_eq!(seen, [(5, "d", "xy# z"), (8, "e", "1\\"), (9, "f", "2")]);
    }

    // spec: C-7
    #[test]
    fn escapes_are_java_s() {
        let text = "a \\u00e4\\u20AC\\ud83d\\ude00\\q\\t.\nb \\u12";
        let expected = [("a", "ä€😀q\t."), ("b", "u12")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs(text), expected);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[\\\\a=: \n\r#u0-9é]*") {
            let _ = properties(&text);
        }

        // spec: O-139
        #[test]
        fn what_is_written_is_read_as_the_same(
            key in r"[\\a=: #!é\t]+",
            value in r"|[a\\😀]|[a=:#!\\😀][\\a=: \n\r\t#!é😀]*[a\\😀]",
        ) {
            let text = written([(&key, &value)]);
            assert_eq!(pairs(&text), [(key, value)], "{text}");
        }
    }
}
