//! Reads the arguments of spark-submit for its cluster mode (spec O-139).

mod files;
mod profiles;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::command::{self, Given, Means};
use super::properties::{properties, written};
use crate::Profile;

pub use files::LocalFile;
pub(super) use profiles::{DRIVER_PROFILE, EXECUTOR_PROFILE, as_the_drivers};

/// Where the Spark driver's pod has what the submission consists of.
pub const MOUNTED_AT: &str = "/boatswain";

/// A Spark application that is to run in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// `spark.app.name`
    pub name: String,
    /// `None`: that of the kubeconfig's context.
    pub namespace: Option<String>,
    /// `None`: the kubeconfig's current one.
    pub context: Option<String>,
    pub master: Master,
    /// Options without a key of Spark's, the program and its arguments.
    pub arguments: Vec<String>,
    /// Files of this machine that the pod needs.
    pub files: Vec<LocalFile>,
    /// The Spark driver's container and pod.
    pub driver: Profile,
    /// Whether the end of the application is waited for.
    pub waits: bool,
    /// What is given without an effect, and why.
    pub notes: Vec<String>,
    settings: BTreeMap<String, String>,
}

/// The Service of a boatswain's driver, as the master URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    pub service: String,
    pub namespace: String,
}

/// Reads a file of this machine.
pub type ReadFile<'r> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'r;

const MASTER: &str = "spark.master";
const NAME: &str = "spark.app.name";
const DEPLOY_MODE: &str = "spark.submit.deployMode";
const NAMESPACE: &str = "spark.kubernetes.namespace";
const CONTEXT: &str = "spark.kubernetes.context";
const WAITS: &str = "spark.kubernetes.submission.waitAppCompletion";
/// The settings that say where boatswain's token and its CA are.
const TOKEN_FILE: &str = "spark.boatswain.tokenFile";
const CA_FILE: &str = "spark.boatswain.caFile";
const SPARK_HOME: &str = "spark.boatswain.executor.sparkHome";

const EXPECTED: &str =
    "give boatswain's Service: spark+boatswain+https://NAME-driver.NAMESPACE.svc:PORT";

/// The options that have no effect in this mode, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("--kill", "`kubectl delete job NAME` ends an application"),
    ("--status", "`kubectl get job NAME` shows an application"),
    (
        "--supervise",
        "an application is not started again; let a workflow engine do it",
    ),
    (
        "--queue",
        "it is for YARN; Kueue's is scheduling.queue_name of boatswain's configuration",
    ),
    (
        "--total-executor-cores",
        "it is for Spark's own cluster; give --num-executors and --executor-cores",
    ),
    (
        "--remote",
        "Spark Connect's client is no application of a cluster; run it where it is",
    ),
    ("--version", "run spark-submit --version in the image"),
    (
        "--keytab",
        "mount a Secret with spark.kubernetes.driver.secrets.NAME=PATH, and give spark.kerberos.keytab by --conf",
    ),
    (
        "--principal",
        "give spark.kerberos.principal by --conf, beside spark.kerberos.keytab",
    ),
];

/// Programs that need a terminal.
const SHELLS: [&str; 3] = ["pyspark-shell", "spark-shell", "sparkr-shell"];

/// What has been read so far.
#[derive(Debug, Default)]
struct Reading {
    settings: BTreeMap<String, String>,
    arguments: Vec<String>,
    mistakes: Vec<String>,
    notes: Vec<String>,
}

impl Submission {
    /// Reads the arguments; `read` reads the files that they name.
    ///
    /// # Errors
    ///
    /// Each mistake, with its fix.
    pub fn read(words: &[String], read: &ReadFile<'_>) -> Result<Self, Vec<String>> {
        let mut reading = Reading::default();
        let (options, program) = command::split(words);
        reading.options(&options, read);
        let program = reading.program(program);
        let is_python = program.first().is_some_and(|path| path.ends_with(".py"));
        let master = reading.master();
        let waits = reading.flag(WAITS, true);
        if let Some(mode) = reading
            .settings
            .get(DEPLOY_MODE)
            .filter(|mode| *mode != "cluster")
        {
            let why = "this is the cluster mode; for another run Spark's own spark-submit";
            reading
                .mistakes
                .push(format!("--deploy-mode {mode}: {why}"));
        }
        let (mut arguments, mut files) = (program, Vec::new());
        reading.ship(&mut arguments, &mut files, read);
        let driver = reading.profiles(is_python);
        let name = reading.name(&arguments);
        reading.arguments.extend(arguments);
        let Reading {
            settings,
            arguments,
            mistakes,
            notes,
        } = reading;
        let (Some(master), Some(driver), true) = (master, driver, mistakes.is_empty()) else {
            return Err(mistakes);
        };
        Ok(Self {
            name,
            namespace: settings.get(NAMESPACE).cloned(),
            context: settings.get(CONTEXT).cloned(),
            master,
            arguments,
            files,
            driver,
            waits,
            notes,
            settings,
        })
    }

    /// Where the image has Spark.
    pub fn spark_home(&self) -> &str {
        self.settings
            .get(SPARK_HOME)
            .map_or("/opt/spark", String::as_str)
    }

    /// The properties file of a Spark driver that executors reach by this host name. `has_ca`: boatswain's CA is in its
    /// pod.
    pub fn properties(&self, host: &str, has_ca: bool) -> String {
        let mut settings = self.settings.clone();
        settings.insert(DEPLOY_MODE.to_owned(), "client".to_owned());
        settings.insert("spark.driver.host".to_owned(), host.to_owned());
        let of_pod = |file: &str| format!("{MOUNTED_AT}/{file}");
        let ca = has_ca.then(|| (CA_FILE, of_pod("ca.crt")));
        let defaults = [
            (NAME, self.name.clone()),
            ("spark.driver.bindAddress", "0.0.0.0".to_owned()),
            // As in Spark on Kubernetes, so that a NetworkPolicy can name them.
            ("spark.driver.port", "7078".to_owned()),
            ("spark.driver.blockManager.port", "7079".to_owned()),
            (TOKEN_FILE, of_pod("token")),
        ];
        for (key, default) in defaults.into_iter().chain(ca) {
            settings.entry(key.to_owned()).or_insert(default);
        }
        written(&settings)
    }
}

impl Reading {
    fn refuse(&mut self, what: impl std::fmt::Display, why: impl std::fmt::Display) {
        self.mistakes.push(format!("{what}: {why}"));
    }

    /// Options win over --conf, and that over the file.
    fn options(&mut self, options: &[Given<'_>], read: &ReadFile<'_>) {
        let mut of_options = Vec::new();
        let mut of_conf = Vec::new();
        for Given { name, means, value } in options {
            if let Some((_, why)) = REFUSED.iter().find(|(option, _)| option == name) {
                self.refuse(name, why);
                continue;
            }
            let (means, value) = match (means, value) {
                (None, _) => {
                    self.refuse(name, "spark-submit has no such option");
                    continue;
                }
                (Some(Means::Flag(_)), _) => {
                    // It is always given: the image's defaults are the only ones.
                    if *name != "--load-spark-defaults" {
                        self.arguments.push((*name).to_owned());
                    }
                    continue;
                }
                (Some(_), None) => {
                    self.refuse(name, "it has no value");
                    continue;
                }
                (Some(means), Some(value)) => (means, *value),
            };
            match means {
                Means::Key(key) => of_options.push(((*key).to_owned(), value.to_owned())),
                Means::Pair => match value.split_once('=') {
                    Some((key, value)) => {
                        of_conf.push((key.trim().to_owned(), value.trim().to_owned()));
                    }
                    None => self.refuse(format_args!("{name} {value}"), "it has no ="),
                },
                // The properties file; `convert` cannot follow it.
                Means::Refused(_) => match read(Path::new(value)) {
                    Ok(bytes) => {
                        let all = properties(&String::from_utf8_lossy(&bytes)).into_iter();
                        let all = all.map(|one| (one.key, one.value));
                        self.settings.extend(all);
                    }
                    Err(error) => self.refuse(format_args!("{name} {value}"), error),
                },
                Means::Unused(_) | Means::Flag(_) => {
                    self.arguments.push((*name).to_owned());
                    self.arguments.push(value.to_owned());
                }
            }
        }
        self.settings.extend(of_conf);
        self.settings.extend(of_options);
        let strange: Vec<String> = (self.settings.keys())
            .filter(|key| !key.starts_with("spark."))
            .cloned()
            .collect();
        for key in strange {
            self.settings.remove(&key);
            self.notes
                .push(format!("{key}: Spark's keys begin with spark."));
        }
    }

    fn program(&mut self, program: &[String]) -> Vec<String> {
        match program.first() {
            None => self.refuse(
                "the application",
                "there is none; give a jar or a Python file after the options",
            ),
            Some(shell) if SHELLS.contains(&shell.as_str()) => {
                self.refuse(shell, "a shell cannot run in the cluster mode");
            }
            Some(_) => return program.to_vec(),
        }
        Vec::new()
    }

    fn flag(&mut self, key: &str, default: bool) -> bool {
        match self.settings.get(key).map(|value| (value, value.parse())) {
            None => default,
            Some((_, Ok(flag))) => flag,
            Some((value, Err(_))) => {
                let why = format!("{value:?} is neither true nor false");
                self.refuse(key, why);
                default
            }
        }
    }

    fn master(&mut self) -> Option<Master> {
        let Some(url) = self.settings.get(MASTER).cloned() else {
            self.refuse("--master", EXPECTED);
            return None;
        };
        match master(&url) {
            Ok(master) => Some(master),
            Err(why) => {
                self.refuse(
                    format_args!("--master {url}"),
                    format_args!("{why}; {EXPECTED}"),
                );
                None
            }
        }
    }

    /// What Spark takes as the name: a class, or the file of the program.
    fn name(&self, arguments: &[String]) -> String {
        if let Some(name) = self.settings.get(NAME).filter(|name| !name.is_empty()) {
            return name.clone();
        }
        let class = self
            .arguments
            .iter()
            .skip_while(|word| *word != "--class")
            .nth(1);
        let program = arguments
            .first()
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        let name = class.map(String::as_str).or(program);
        name.unwrap_or("spark").to_owned()
    }
}

/// The Service that a master URL names.
fn master(url: &str) -> Result<Master, &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("it is no URL");
    };
    match scheme {
        "spark+boatswain+https" | "local-cluster+boatswain+https" => {}
        "spark+boatswain" | "local-cluster+boatswain" if rest != "local" => {
            return Err("the token would be sent unencrypted");
        }
        "spark+boatswain" | "local-cluster+boatswain" => {
            return Err("the embedded cluster is for the client mode of Spark's own spark-submit");
        }
        "k8s" => return Err("there Spark makes its executors itself"),
        _ => return Err("it is no boatswain's"),
    }
    let (host, port) = rest.split_once(':').unwrap_or((rest, ""));
    if port.parse::<u16>().is_err() {
        return Err("it has no port");
    }
    let labels: Vec<&str> = host.split('.').collect();
    match labels[..] {
        [service, namespace] | [service, namespace, "svc", ..]
            if labels.iter().all(|label| crate::is_dns_label(label, 63)) =>
        {
            Ok(Master {
                service: service.to_owned(),
                namespace: namespace.to_owned(),
            })
        }
        _ => Err("it names no Service and namespace"),
    }
}

#[cfg(test)]
mod tests;
