//! The cluster of a test: an API server process of its own, a namespace of a real cluster, or for some tests a whole one.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::api::Api;
use super::process::{Program, boatswain, until};
use super::real::{self, Real, Which};
use super::untested;

/// Names the kubeconfig of a cluster to use instead of the tests' own.
const GIVEN: &str = "BOATSWAIN_TEST_KUBECONFIG";

/// The image of containers that run something on a real node.
const IMAGE: &str = "localhost/boatswain-test:1";

const SIMULATED: [&str; 2] = ["--node", "simulated"];

pub struct Cluster {
    pub api: Api,
    pub kubeconfig: PathBuf,
    /// Declared before its directory, so that it is dropped first.
    server: Server,
    pub directory: TempDir,
}

enum Server {
    Embedded {
        program: Option<Program>,
        /// What it was started with, for one after it.
        arguments: Vec<String>,
    },
    /// Of somebody's cluster, of which nothing but the kubeconfig is known.
    Given,
    Real(Which, Real),
}

fn is_given() -> bool {
    std::env::var_os(GIVEN).is_some()
}

impl Cluster {
    /// The namespace of a cluster where each pod starts at once.
    pub fn any() -> Self {
        if real::is_given() {
            return Self::real(Which::Shared);
        }
        let Some(kubeconfig) = std::env::var_os(GIVEN) else {
            return Self::with(&SIMULATED);
        };
        Self::in_namespace(PathBuf::from(kubeconfig), Server::Given)
    }

    /// The same, where nothing starts pods that have this setting besides.
    pub fn without_node() -> (Self, &'static str) {
        let elsewhere = "profiles.default.node_selector={ elsewhere = \"yes\" }";
        if is_given() || real::is_given() {
            return (Self::any(), elsewhere);
        }
        // Its simulated node starts whatever there is.
        (Self::with(&["--node", "none"]), elsewhere)
    }

    /// The same, with a log of what is written.
    pub fn logged() -> Option<Self> {
        Self::logged_with(&[])
    }

    /// The same; these are further arguments of the embedded cluster.
    pub fn logged_with(arguments: &[&str]) -> Option<Self> {
        if real::is_given() {
            return Some(Self::real(Which::Shared));
        }
        if !is_given() {
            return Some(Self::with(&[&SIMULATED, arguments].concat()));
        }
        untested::on_a_real_cluster("it reads the audit log, of which a kubeconfig says nothing");
        None
    }

    /// A whole cluster, whose API server can be stopped, killed and emptied.
    pub fn own() -> Option<Self> {
        Self::own_with(&[])
    }

    /// The same; these are further arguments of the embedded cluster.
    pub fn own_with(arguments: &[&str]) -> Option<Self> {
        if real::is_given() {
            return Some(Self::real(Which::Own));
        }
        if !is_given() {
            return Some(Self::with(&[&SIMULATED, arguments].concat()));
        }
        untested::on_a_real_cluster("it stops the API server, which others use");
        None
    }

    /// A cluster whose containers run what they say; see [`Cluster::sets`].
    pub fn with_nodes() -> Option<Self> {
        if real::is_given() {
            return Some(Self::real(Which::Nodes));
        }
        if !is_given() {
            return Some(Self::with(&["--node", "process"]));
        }
        untested::on_a_real_cluster("its nodes may have none of the tests' files");
        None
    }

    /// The same, of a real cluster, for what the embedded one does not do.
    pub fn real_nodes(reason: &str) -> Option<Self> {
        if is_given() || real::is_given() {
            return Self::with_nodes();
        }
        untested::on_the_embedded_cluster(reason);
        None
    }

    /// The embedded cluster with these arguments, for what a real one cannot do.
    pub fn embedded(arguments: &[&str], reason: &str) -> Option<Self> {
        if !is_given() && !real::is_given() {
            return Some(Self::with(arguments));
        }
        untested::on_a_real_cluster(reason);
        None
    }

    fn with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let mut cluster = Self {
            api: Api::new(&kubeconfig, "default"),
            kubeconfig,
            directory,
            server: Server::Embedded {
                program: None,
                arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            },
        };
        cluster.serve("127.0.0.1:0");
        cluster
    }

    fn real(which: Which) -> Self {
        let real = Real::enter(which);
        let kubeconfig = real.kubeconfig();
        if which == Which::Own {
            return Self {
                api: Api::new(&kubeconfig, "default"),
                kubeconfig,
                server: Server::Real(which, real),
                directory: tempfile::tempdir().unwrap(),
            };
        }
        let cluster = Self::in_namespace(kubeconfig, Server::Real(which, real));
        real::is_furnished(&cluster.api);
        cluster
    }

    fn in_namespace(kubeconfig: PathBuf, server: Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // The namespace's name is as unlikely to exist as the directory's.
        let id = directory
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .to_lowercase();
        let id = id.trim_start_matches('.');
        let api = Api::new(&kubeconfig, &format!("boatswain-test-{id}"));
        api.create_namespace();
        Self {
            api,
            kubeconfig,
            server,
            directory,
        }
    }

    fn serve(&mut self, listen: &str) {
        let token = self.directory.path().join("token");
        let log = self.file("api-server");
        let Server::Embedded { program, arguments } = &mut self.server else {
            unreachable!("only the embedded one is served by the test");
        };
        let mut command = boatswain();
        command
            .args(["dev-cluster", "--listen", listen])
            .args(arguments);
        command.arg("--token-file").arg(token);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
            .arg("--control")
            .arg(self.directory.path().join("control"));
        let server = program.insert(Program::start("API server", &mut command, &log));
        until("the API server says that it is ready", || {
            assert!(
                server.is_alive(),
                "the API server has exited: {}",
                server.stderr()
            );
            server.stdout().ends_with('\n').then_some(())
        });
    }

    /// The path of a file that does not exist yet.
    pub fn file(&self, name: &str) -> PathBuf {
        let names = (1..).map(|n| self.directory.path().join(format!("{name}-{n}.log")));
        names.into_iter().find(|path| !path.exists()).unwrap()
    }

    pub fn is_real(&self) -> bool {
        !matches!(self.server, Server::Embedded { .. })
    }

    /// The embedded API server.
    pub fn server(&self) -> Option<&Program> {
        match &self.server {
            Server::Embedded { program, .. } => program.as_ref(),
            _ => None,
        }
    }

    /// What the configuration of a driver needs, besides the cluster's kubeconfig and namespace, so that its executors run
    /// what they are told to: on a real node the programs and files of this machine at the same paths.
    pub fn sets(&self) -> Vec<String> {
        let Server::Real(Which::Nodes, _) = &self.server else {
            return Vec::new();
        };
        let volumes: Vec<String> = (self.folders().iter().enumerate())
            .map(|(n, folder)| {
                format!(
                    "{{name=\"host-{n}\", mount_path={folder:?}, host_path={folder:?}, read_only=true}}"
                )
            })
            .collect();
        let shared = self.shared();
        let shared = format!("{{name=\"shared\", mount_path={shared:?}, host_path={shared:?}}}");
        vec![
            format!("profiles.default.image={IMAGE}"),
            format!(
                "profiles.default.volumes=[{}, {shared}]",
                volumes.join(", ")
            ),
        ]
    }

    /// A folder in which executors may write, whoever they are.
    pub fn shared(&self) -> PathBuf {
        let folder = self.directory.path().join("shared");
        if !folder.exists() {
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
        folder
    }

    /// A container and a pod's volumes with the same image and files.
    pub fn container(&self) -> (Value, Vec<Value>) {
        let Server::Real(Which::Nodes, _) = &self.server else {
            return (json!({"image": "none"}), Vec::new());
        };
        let named = |(n, folder): (usize, &String)| (format!("host-{n}"), folder.clone());
        let folders: Vec<_> = self.folders().iter().enumerate().map(named).collect();
        let mounts: Vec<Value> = (folders.iter())
            .map(|(name, folder)| json!({"name": name, "mountPath": folder, "readOnly": true}))
            .collect();
        let volumes = (folders.iter())
            .map(|(name, folder)| json!({"name": name, "hostPath": {"path": folder}}));
        (
            json!({"image": IMAGE, "volumeMounts": mounts}),
            volumes.collect(),
        )
    }

    /// The folders of this machine that containers have too: programs, the binary, the sources.
    fn folders(&self) -> Vec<String> {
        let binaries = Path::new(env!("CARGO_BIN_EXE_boatswain")).parent().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        let all = [Path::new("/usr"), binaries, &sources.join("examples")];
        all.map(|folder| folder.display().to_string()).to_vec()
    }

    /// The API server's address and port.
    pub fn address(&self) -> String {
        if let Some(server) = self.server() {
            let url = server.stdout();
            return url.trim().strip_prefix("http://").unwrap().to_owned();
        }
        let kubeconfig = read(&self.kubeconfig);
        let url = kubeconfig["clusters"][0]["cluster"]["server"].as_str();
        url.unwrap().strip_prefix("https://").unwrap().to_owned()
    }

    /// The bearer token for the embedded cluster.
    pub fn token(&self) -> String {
        let token = fs::read_to_string(self.directory.path().join("token")).unwrap();
        token.trim().to_owned()
    }

    /// An address at which the API server speaks plain HTTP, as long as the program runs that comes with it.
    pub fn plain(&self) -> (String, Option<Program>) {
        if !self.is_real() {
            return (self.address(), None);
        }
        let (address, proxy) = real::plain(&self.kubeconfig, &self.file("kubectl-proxy"));
        (address, Some(proxy))
    }

    /// A kubeconfig of the same cluster at another URL.
    pub fn kubeconfig_at(&self, url: &str) -> PathBuf {
        let mut kubeconfig = read(&self.kubeconfig);
        kubeconfig["clusters"][0]["cluster"]["server"] = url.into();
        self.keep(&kubeconfig)
    }

    /// A kubeconfig of the same cluster for the bearer of this token.
    pub fn kubeconfig_of(&self, token: &str) -> PathBuf {
        let mut kubeconfig = read(&self.kubeconfig);
        kubeconfig["users"][0]["user"] = json!({"token": token});
        self.keep(&kubeconfig)
    }

    fn keep(&self, kubeconfig: &Value) -> PathBuf {
        let path = self.file("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Stops the API server's process without ending it: connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        match &self.server {
            Server::Real(_, real) => real.pause("apiserver"),
            _ => self.server().unwrap().signal(Signal::STOP),
        }
    }

    pub fn thaw(&self) {
        match &self.server {
            Server::Real(_, real) => real.go_on(),
            _ => self.server().unwrap().signal(Signal::CONT),
        }
    }

    /// On a real cluster lets no pod start until [`Cluster::let_pods_start`]. The embedded one has an argument for that.
    pub fn hold_pods(&self) {
        if let Server::Real(_, real) = &self.server {
            real.pause("kwok");
        }
    }

    pub fn let_pods_start(&self) {
        if let Server::Real(_, real) = &self.server {
            real.go_on();
        }
    }

    pub fn kill(&mut self) {
        match &mut self.server {
            Server::Real(_, real) => real.kill(),
            Server::Embedded { program, .. } => program.as_mut().unwrap().kill(),
            Server::Given => unreachable!("others use it"),
        }
    }

    /// Starts the API server, which was killed, at the same address: the embedded one empty, a real one with what it had.
    /// While a new real one makes its namespaces, a start of a driver fails for lack of its own.
    pub fn start(&mut self) {
        match &mut self.server {
            Server::Real(_, real) => real.start(),
            _ => self.empty(),
        }
    }

    /// Kills the API server and starts an empty one at the same address.
    pub fn empty(&mut self) {
        match &mut self.server {
            Server::Real(_, real) => real.empty(),
            // The embedded one has nothing to go on with.
            _ => {
                let address = self.address();
                self.kill();
                self.serve(&address);
            }
        }
    }

    /// Restarts the API server with what it has: a real one is killed, the embedded one closes all connections and takes
    /// none for two seconds.
    pub fn restart(&mut self) {
        if let Server::Real(_, real) = &mut self.server {
            real.kill();
            return real.start();
        }
        let mut command = boatswain();
        command.args(["dev-cluster", "ctl", "--control"]);
        command.arg(self.directory.path().join("control"));
        command.args(["restart", "2s"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let address = self.address();
        for (what, is_there) in [("is away", false), ("is there again", true)] {
            until(&format!("the API server {what}"), || {
                (TcpStream::connect(&address).is_ok() == is_there).then_some(())
            });
        }
    }

    /// The drivers' writes that the API server has logged since it started, or since the test did: `POST`, `PUT`, `PATCH`
    /// and `DELETE`, whatever the answer.
    pub fn writes(&self) -> Vec<Value> {
        if let Server::Real(_, real) = &self.server {
            return real.writes(&self.api.namespace);
        }
        let mut log = self.server().expect("a log").log().0;
        let of_driver = |line: &Value| {
            let user_agent = line["user_agent"].as_str().unwrap_or_default();
            user_agent.starts_with("boatswain/")
        };
        log.retain(|line| line["module"] == "apiserver.write" && of_driver(line));
        log
    }

    /// Number of objects that drivers have created since then.
    pub fn created(&self) -> usize {
        let made = |line: &&Value| line["verb"] == "POST" && line["code"] == 201;
        self.writes().iter().filter(made).count()
    }

    /// The paths of writes with this verb and part.
    pub fn written(&self, verb: &str, kind: &str) -> Vec<String> {
        let path = |line: &Value| {
            let path = line["path"].as_str().unwrap();
            let path = path.split('?').next().unwrap().to_owned();
            (line["verb"] == verb && path.contains(kind)).then_some(path)
        };
        self.writes().iter().filter_map(path).collect()
    }

    /// Something that stays the same as long as nothing is written but Leases, which are renewed all the time.
    pub fn state(&self) -> String {
        // A real cluster's own controllers write as well, and a log may be out of reach; the objects' versions show writes
        // too.
        match &self.server {
            Server::Embedded { program, .. } => {
                let log = program.as_ref().unwrap().log().0;
                let writes = log.iter().filter(|l| l["module"] == "apiserver.write");
                format!("{}", writes.filter(|line| !is_of_lease(line)).count())
            }
            Server::Given => format!("{:?}", self.api.versions()),
            Server::Real(..) => {
                let writes = self.writes();
                let writes = writes.iter().filter(|line| !is_of_lease(line)).count();
                format!("{writes} {:?}", self.api.versions())
            }
        }
    }
}

/// Whether a line of the API server's log is about a Lease, which is renewed all the time.
fn is_of_lease(line: &Value) -> bool {
    line["path"]
        .as_str()
        .is_some_and(|path| path.contains("/leases"))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Server::Given | Server::Real(Which::Shared | Which::Nodes, _) = &self.server {
            // A failure of the cleanup must not hide the test's own failure.
            let _ = self.api.delete_namespace();
        }
    }
}

/// A kubeconfig.
fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
