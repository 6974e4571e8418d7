//! Scripts with a spark-submit command, or with a command that hands EMR's JSON over.

use super::source::{Source, of_json};

const KIND: &str = "a spark-submit command";

/// The options of spark-submit with a value, and the keys that they stand for.
#[rustfmt::skip]
const OPTIONS: &[(&str, Means)] = &[
    ("--master", Means::Key("spark.master")),
    ("--deploy-mode", Means::Key("spark.submit.deployMode")),
    ("--name", Means::Key("spark.app.name")),
    ("--num-executors", Means::Key("spark.executor.instances")),
    ("--executor-memory", Means::Key("spark.executor.memory")),
    ("--executor-cores", Means::Key("spark.executor.cores")),
    ("--total-executor-cores", Means::Key("spark.cores.max")),
    ("--driver-memory", Means::Key("spark.driver.memory")),
    ("--driver-cores", Means::Key("spark.driver.cores")),
    ("--driver-java-options", Means::Key("spark.driver.extraJavaOptions")),
    ("--driver-class-path", Means::Key("spark.driver.extraClassPath")),
    ("--driver-library-path", Means::Key("spark.driver.extraLibraryPath")),
    ("--jars", Means::Key("spark.jars")),
    ("--packages", Means::Key("spark.jars.packages")),
    ("--exclude-packages", Means::Key("spark.jars.excludes")),
    ("--repositories", Means::Key("spark.jars.repositories")),
    ("--py-files", Means::Key("spark.submit.pyFiles")),
    ("--files", Means::Key("spark.files")),
    ("--archives", Means::Key("spark.archives")),
    ("--queue", Means::Key("spark.yarn.queue")),
    ("--principal", Means::Key("spark.kerberos.principal")),
    ("--keytab", Means::Key("spark.kerberos.keytab")),
    ("--conf", Means::Pair),
    ("-c", Means::Pair),
    ("--properties-file", Means::Refused("its settings are in that file; convert it too")),
    ("--load-spark-defaults", Means::Flag("convert spark-defaults.conf too")),
    ("--class", Means::Unused("it names the program, which Spark starts as before")),
    ("--proxy-user", Means::Unused("it is about the program, which Spark starts as before")),
    ("--remote", Means::Unused("Spark Connect's server has the executors")),
    ("--kill", Means::Unused("it is about another application")),
    ("--status", Means::Unused("it is about another application")),
    ("--version", Means::Flag("it submits nothing")),
    ("--supervise", Means::Flag("the Deployment or Job that boatswain is in starts it again")),
    ("--verbose", Means::Flag("it changes nothing")),
    ("-v", Means::Flag("it changes nothing")),
];

#[derive(Debug, Clone, Copy)]
pub(super) enum Means {
    /// The value of this key.
    Key(&'static str),
    /// A key and its value.
    Pair,
    /// An option with a value that is of no use.
    Unused(&'static str),
    /// An option with a value that cannot be followed.
    Refused(&'static str),
    /// An option without a value.
    Flag(&'static str),
}

/// The settings of the first command in the text. `None`: there is none.
pub(super) fn read(text: &str) -> Option<Source> {
    let mut source = None;
    for words in commands(text) {
        let Some(one) = of_command(&words) else {
            continue;
        };
        match &mut source {
            None => source = Some(one),
            Some(first) => first.refuse(
                "a further command",
                "only the first of the file is converted; give each a file of its own",
            ),
        }
    }
    source
}

fn of_command(words: &[String]) -> Option<Source> {
    if let Some(at) = words.iter().position(|word| submits(word)) {
        let mut source = Source::of(KIND);
        options(&words[at + 1..], &mut source);
        return Some(source);
    }
    if words.first()?.starts_with("--") {
        let mut source = Source::of(KIND);
        options(words, &mut source);
        return Some(source);
    }
    let documents = words.iter().filter_map(|word| {
        let (_, document) = word
            .split_once('=')
            .filter(|_| word.starts_with("--"))
            .unwrap_or(("", word));
        let document: serde_json::Value = serde_json::from_str(document).ok()?;
        (document.is_object() || document.is_array()).then_some(document)
    });
    let documents: Vec<_> = documents.collect();
    // The value of a property may be JSON as well.
    let source = (!documents.is_empty()).then(|| of_json(documents.into()))?;
    (!source.is_empty()).then_some(source)
}

/// Whether this word is the program that submits an application.
pub(super) fn submits(word: &str) -> bool {
    let program = word.rsplit('/').next().unwrap_or_default();
    ["spark-submit", "spark-shell", "spark-sql", "pyspark"].contains(&program)
}

/// An option as it is given.
pub(super) struct Given<'w> {
    pub name: &'w str,
    /// `None`: spark-submit has no such option.
    pub means: Option<Means>,
    /// `None`: it has none, or lacks it.
    pub value: Option<&'w str>,
}

/// Splits the arguments of spark-submit into the options, and the program with its arguments.
pub(super) fn split(words: &[String]) -> (Vec<Given<'_>>, &[String]) {
    let mut options = Vec::new();
    let mut rest = words;
    while let [word, after @ ..] = rest {
        if !word.starts_with('-') {
            break;
        }
        rest = after;
        let (name, inline) = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let means = OPTIONS.iter().find(|(option, _)| *option == name);
        let means = means.map(|(_, means)| *means);
        let value = match means {
            None | Some(Means::Flag(_)) => inline,
            Some(_) => inline.or_else(|| {
                let (value, after) = rest.split_first()?;
                rest = after;
                Some(value)
            }),
        };
        options.push(Given { name, means, value });
    }
    (options, rest)
}

/// Reads the options of spark-submit, up to the program.
pub(super) fn options(words: &[String], into: &mut Source) {
    let (given, program) = split(words);
    // Options win over what --conf says.
    let mut of_options = Vec::new();
    for Given { name, means, value } in given {
        let (means, value) = match (means, value) {
            (None, _) => {
                into.refuse(name, "spark-submit has no such option");
                continue;
            }
            (Some(Means::Flag(why)), _) => {
                into.leave(name, why);
                continue;
            }
            (Some(_), None) => {
                into.refuse(name, "it has no value");
                continue;
            }
            (Some(means), Some(value)) => (means, value),
        };
        match means {
            Means::Key(key) => of_options.push((key.to_owned(), value.to_owned())),
            Means::Pair => match value.split_once('=') {
                Some((key, value)) => into.set(key.trim(), value.trim()),
                None => into.refuse(&format!("{name} {value}"), "it has no ="),
            },
            Means::Refused(why) => into.refuse(&format!("{name} {value}"), why),
            Means::Unused(why) | Means::Flag(why) => into.leave(&format!("{name} {value}"), why),
        }
    }
    if !program.is_empty() {
        into.leave(
            &program.join(" "),
            "the program and its arguments, which Spark starts as before",
        );
    }
    into.pairs.extend(of_options);
}

/// The words of one command, as a shell splits them.
pub(super) fn words(text: &str) -> Vec<String> {
    commands(text).into_iter().flatten().collect()
}

/// The commands of a script, each as its words. A reference to a variable, in whatever notation, is
/// written `${NAME}`.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\r\n", "\n");
    let mut splitter = Splitter::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (splitter.quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => splitter.quote = None,
            (Some('\''), c) => splitter.push(c),
            (_, '\\') => match chars.next() {
                Some('\n') | None => {}
                Some(next) if splitter.quote.is_none() || "\"\\$`".contains(next) => {
                    splitter.push(next)
                }
                Some(next) => {
                    splitter.push('\\');
                    splitter.push(next);
                }
            },
            (_, '$') => splitter.reference(&mut chars),
            (Some(_), c) => splitter.push(c),
            (None, '\'' | '"') => {
                splitter.quote = Some(c);
                splitter.word.get_or_insert_default();
            }
            (None, '#') if splitter.word.is_none() => {
                while chars.next_if(|c| *c != '\n').is_some() {}
            }
            (None, '\n' | ';' | '|' | '&') => splitter.end_command(),
            (None, c) if c.is_whitespace() => splitter.end_word(),
            (None, c) => splitter.push(c),
        }
    }
    splitter.end_command();
    splitter.commands
}

#[derive(Default)]
struct Splitter {
    commands: Vec<Vec<String>>,
    command: Vec<String>,
    word: Option<String>,
    quote: Option<char>,
}

impl Splitter {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        self.command.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }

    /// Takes `$NAME`, `${…}` or `$(…)`.
    fn reference(&mut self, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
        let word = self.word.get_or_insert_default();
        let close = match chars.peek() {
            Some('{') => '}',
            Some('(') => ')',
            Some(c) if c.is_ascii_alphanumeric() || *c == '_' => {
                word.push_str("${");
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                word.push('}');
                return;
            }
            _ => return word.push('$'),
        };
        chars.next();
        word.push_str("${");
        for c in chars.by_ref().take_while(|c| *c != close) {
            word.push(c);
        }
        word.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C-7
    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let text = "a 'b c'\\''d' \"e $F ${g:-h} \\\"i\\\"\" \\\n j=$(k l) # m\nn;o '' \"p\\q\"";
        let expected: [&[&str]; 3] = [
            &["a", "b c'd", "e ${F} ${g:-h} \"i\"", "j=${k l}"],
            &["n"],
            &["o", "", "p\\q"],
        ];
        assert_eq!(commands(text), expected);
    }

    // spec: C-7
    #[test]
    fn an_option_wins_over_conf_and_what_is_not_used_is_named() {
        let text = "exec /opt/spark/bin/spark-submit --executor-memory=2g --conf spark.executor.memory=1g \
                    -c 'spark.executorEnv.A=b c' --verbose --odd --properties-file x.conf local:///a.py 1 2\n\
                    spark-submit b.py";
        let source = read(text).unwrap();
        let pairs = [
            ("spark.executor.memory", "1g"),
            ("spark.executorEnv.A", "b c"),
            ("spark.executor.memory", "2g"),
        ];
        assert_eq!(
            source.pairs,
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert_eq!(source.refused.len(), 3, "{:?}", source.refused);
        assert!(
            source.useless[1].starts_with("local:///a.py 1 2: "),
            "{:?}",
            source.useless
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(spark-submit |--conf |\\PC|[\n'\"\\\\$(){}#;=])*") {
            let _ = read(&text);
        }
    }
}
