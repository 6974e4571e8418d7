//! Explains exit codes (spec L-21).

/// A short explanation of an exit code; `None` if the code has no known meaning.
pub fn meaning(code: i32) -> Option<String> {
    let known = match code {
        0 => "ended by itself, without an error",
        1 => "an error that the program did not name",
        2 => "wrong usage, or an error of the shell",
        42 => "unclear, used by engines of their own accord",
        50 => "an uncaught error",
        51 => "an error while an uncaught error was handled",
        52 => "out of memory inside the runtime",
        53 => "the local disk could not be used",
        126 => "the command could not be executed",
        127 => "the command was not found",
        255 => "an error outside the range of exit codes, or its node lost its container",
        _ => return signal_name(code.checked_sub(128)?),
    };
    Some(known.to_owned())
}

/// The signal's name; the exit code 128 + n stands for signal n.
fn signal_name(signal: i32) -> Option<String> {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        16..=23 | 26..=30 | 32..=64 => return Some(format!("signal {signal}")),
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: L-21
    #[test]
    fn exit_codes_are_explained_and_signals_named() {
        let cases = [
            (0, Some("ended by itself, without an error")),
            (1, Some("an error that the program did not name")),
            (2, Some("wrong usage, or an error of the shell")),
            (42, Some("unclear, used by engines of their own accord")),
            (50, Some("an uncaught error")),
            (51, Some("an error while an uncaught error was handled")),
            (52, Some("out of memory inside the runtime")),
            (53, Some("the local disk could not be used")),
            (126, Some("the command could not be executed")),
            (127, Some("the command was not found")),
            (
                255,
                Some("an error outside the range of exit codes, or its node lost its container"),
            ),
            (151, Some("signal 23")),
            (162, Some("signal 34")),
            (192, Some("signal 64")),
            (77, None),
            (128, None),
            (193, None),
            (-1, None),
            (i32::MIN, None),
        ];
        for (code, expected) in cases {
            assert_eq!(meaning(code).as_deref(), expected, "{code}");
        }
        let signals = [
            (1, "HUP"),
            (2, "INT"),
            (3, "QUIT"),
            (4, "ILL"),
            (5, "TRAP"),
            (6, "ABRT"),
            (7, "BUS"),
            (8, "FPE"),
            (9, "KILL"),
            (10, "USR1"),
            (11, "SEGV"),
            (12, "USR2"),
            (13, "PIPE"),
            (14, "ALRM"),
            (15, "TERM"),
            (24, "XCPU"),
            (25, "XFSZ"),
            (31, "SYS"),
        ];
        for (signal, name) in signals {
            assert_eq!(meaning(128 + signal), Some(format!("SIG{name}")));
        }
    }
}
