//! A tokenizer for Rust that finds words and punctuation, without comments and literals.

/// Words, `::`, and all other characters one by one.
pub fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            let word = word(rest);
            match raw_text(word, &rest[word.len()..]) {
                Some(length) => length,
                None => {
                    found.push(word.to_owned());
                    word.len()
                }
            }
        } else if let Some(length) = skipped(rest) {
            length
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The length of a raw string literal that begins with this word, such as `r#"…"#`.
fn raw_text(word: &str, rest: &str) -> Option<usize> {
    let marks = rest.len() - rest.trim_start_matches('#').len();
    if !["r", "br", "cr"].contains(&word) || !rest[marks..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(marks));
    let body = &rest[marks + 1..];
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(word.len() + marks + 1 + length)
}

/// The length of the comment, literal or lifetime that begins here.
fn skipped(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(comment(text));
    }
    if let Some(text) = text.strip_prefix('"') {
        return Some(1 + literal(text, '"'));
    }
    let after = text.strip_prefix('\'')?;
    let is_lifetime = !after.starts_with('\\') && after.chars().nth(1) != Some('\'');
    match is_lifetime {
        true => Some(1),
        false => Some(1 + literal(after, '\'')),
    }
}

/// The length of a comment, including nested ones.
fn comment(text: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of a literal, including the character that ends it.
fn literal(text: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == end => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Removes the items after `#[cfg(test)]` or `#[cfg(any(test, …))]`.
pub fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "#" && tokens.get(at + 1).is_some_and(|t| t == "[") {
            let end = closed(&tokens, at + 1);
            let attribute = &tokens[at + 2..end];
            let is = |word: &str| attribute.iter().any(|token| token == word);
            if is("cfg") && is("test") && !is("not") {
                at = item_end(&tokens, end);
                continue;
            }
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// The position after the bracket that closes the one here.
fn closed(tokens: &[String], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The position after the item that begins here, including further attributes.
fn item_end(tokens: &[String], start: usize) -> usize {
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            ";" => return at + 1,
            "{" => return closed(tokens, at),
            "(" | "[" => at = closed(tokens, at),
            _ => at += 1,
        }
    }
    at
}
