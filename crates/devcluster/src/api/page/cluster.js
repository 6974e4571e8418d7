// The page of an embedded cluster (spec O-88). It asks the Kubernetes API with the token that its reader enters. Text from
// outside becomes textContent, never markup.

import {
	$, bad, clock, count, duration, enter, fill, leave, long, pieces, read, redraw as redrawAll, sentence, session,
	show as showAll, showVerdict, sleep, ask,
} from "./parts.js";

const MOST_ENDS = 500; // failures that are remembered
const MOST_WARNINGS = 100; // that are shown
const LATELY = 600e3; // for how many ms a failure is told
const APP = ["boatswain.dev/app-id", "spark-app-selector"];
const ROLE = ["boatswain.dev/role", "spark-role"];

// ---- what is known

const pods = new Map(); // by uid
const nodes = new Map();
const events = new Map();
const failures = new Map(); // by uid: {at, name, why}, also of pods that are gone
let problem; // why the cluster does not answer
let known = false; // whether all pods have been read once
let story; // the uid of the pod whose story is open

// ---- reading: a list, then a watch from its version

async function follow(path, objects, changed = () => {}) {
	const take = (object) => {
		objects.set(object.metadata.uid, object);
		changed(object);
	};
	for (let pause = 500; !session.signal.aborted; await sleep(pause)) {
		try {
			let version = await list(path, objects, take);
			for (pause = 500; ; ) version = await watch(path, version, objects, take);
		} catch (error) {
			failed(error);
		}
		pause = Math.min(pause * 2, 10e3);
	}
}

async function list(path, objects, take) {
	const there = new Set();
	for (let next = ""; ; ) {
		const { items, metadata } = await read(`${path}?limit=500&continue=${encodeURIComponent(next)}`);
		for (const object of items) {
			there.add(object.metadata.uid);
			take(object);
		}
		next = metadata.continue ?? "";
		if (next) continue;
		for (const uid of objects.keys()) if (!there.has(uid)) objects.delete(uid);
		if (objects === pods) known = true;
		redraw();
		return metadata.resourceVersion;
	}
}

async function watch(path, version, objects, take) {
	const query = `watch=true&allowWatchBookmarks=true&timeoutSeconds=240&resourceVersion=${version}`;
	for await (const lines of pieces(`${path}?${query}`, {}, "\n", 250e3)) {
		for (const { type, object } of lines.filter(Boolean).map((line) => JSON.parse(line))) {
			if (type === "ERROR") throw Object.assign(new Error(object.message), { code: object.code });
			version = object.metadata.resourceVersion;
			if (type === "DELETED") objects.delete(object.metadata.uid);
			else if (type !== "BOOKMARK") take(object);
		}
		redraw();
	}
	return version;
}

function failed(error) {
	if (!session.signal.aborted && error.code === 401) leave(sentence(error.message));
}

// Whether the cluster answers. What it answers is read by the others.
async function poll() {
	for (; !session.signal.aborted; await sleep(2e3)) {
		problem = await ask("api/v1/nodes?limit=1").then(() => undefined, (error) => error);
		if (problem) failed(problem);
		redraw();
	}
}

function noteFailure({ metadata, status }) {
	if (status.phase !== "Failed" || failures.has(metadata.uid)) return;
	const ended = containers({ status }).map((it) => it.state?.terminated?.finishedAt).find(Boolean);
	failures.set(metadata.uid, { at: ended ? Date.parse(ended) : Date.now(), name: metadata.name, why: failure({ status }) });
	if (failures.size > MOST_ENDS) failures.delete(failures.keys().next().value);
}

// ---- words

const containers = ({ status }) => [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
const condition = ({ status }, type) => (status.conditions ?? []).find((it) => it.type === type);
const label = ({ metadata: { labels = {} } }, keys) => keys.map((key) => labels[key]).find(Boolean);
const age = ({ metadata }) => duration((Date.now() - Date.parse(metadata.creationTimestamp)) / 1e3);

function failure({ status }) {
	if (status.reason) return status.reason;
	const ended = containers({ status }).map((it) => it.state?.terminated).find((it) => it?.exitCode);
	if (!ended) return "Failed";
	return ended.reason === "Error" ? `exit code ${ended.exitCode}` : ended.reason;
}

function stateOf(pod) {
	const { metadata, status } = pod;
	if (status.phase === "Failed") return failure(pod);
	if (metadata.deletionTimestamp) return "Terminating";
	if (status.phase !== "Pending") return status.phase;
	const waits = containers(pod).map((it) => it.state?.waiting?.reason).find(Boolean);
	return waits ?? (condition(pod, "PodScheduled")?.status === "False" ? "Unschedulable" : "Pending");
}

function why(pod) {
	const { status } = pod;
	if (status.message) return status.message;
	for (const { state } of containers(pod)) {
		const message = (state?.waiting ?? state?.terminated)?.message;
		if (message) return message;
	}
	return status.phase === "Pending" ? condition(pod, "PodScheduled")?.message ?? "" : "";
}

const isPending = (pod) => pod.status.phase === "Pending" && !pod.metadata.deletionTimestamp;

// Whether everything is well, and if not what stands in the way: [level, sentence, what to do].
function verdict() {
	if (problem?.code) return ["wrong", sentence(problem.message)];
	if (problem) return ["wrong", "The cluster does not answer.", "Does its process run, or was it told to pause?"];
	if (!known) return ["", "The cluster is asked …"];
	for (const node of nodes.values()) {
		const { name } = node.metadata;
		const ready = condition(node, "Ready");
		if (ready?.status !== "True") return ["wrong", sentence(`node ${name} is not ready`, ready?.message)];
		if (node.spec.unschedulable) return ["warn", `Node ${name} is cordoned: it takes no new pods.`, `kubectl uncordon ${name}`];
	}
	const all = [...pods.values()];
	const running = all.filter(({ status }) => status.phase === "Running").length;
	const some = `${running} of ${count(all.length, "pod")} run`;
	const waiting = all.filter(isPending);
	if (waiting.length) {
		const reason = waiting.map(why).find(Boolean);
		return ["warn", sentence(`${some}; ${waiting.length} ${waiting.length === 1 ? "is" : "are"} pending${reason ? `: ${reason}` : ""}`),
			!nodes.size && "This cluster has no node: a client has to set the pods’ status."];
	}
	const lately = [...failures.values()].filter(({ at }) => at > Date.now() - LATELY);
	if (lately.length) {
		const { name, why } = lately.reduce((a, b) => (a.at > b.at ? a : b));
		return ["warn", `${some}; ${lately.length} failed in the last 10 minutes, last ${name}: ${why}.`];
	}
	return ["well", all.length ? `${sentence(some)}` : "There are no pods."];
}

// ---- quantities of Kubernetes

const UNITS = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };

function amount(quantity = "0") {
	const [, number, unit] = /^([0-9.eE+]+)(\w*)$/.exec(quantity) ?? [, 0, ""];
	return Number(number) * (unit ? (UNITS[unit] ?? 0) : 1);
}

const requested = (pods, resource) => pods.flatMap(({ spec }) => spec.containers)
	.reduce((sum, { resources }) => sum + amount(resources?.requests?.[resource]), 0);
const cores = (n) => `${Math.round(n * 100) / 100}`;
const bytes = (n) => `${Math.round((n / 2 ** 30) * 10) / 10} GiB`;

// ---- tables

function showHead() {
	const said = verdict();
	showVerdict(said);
	document.title = `${said[0] === "well" ? "" : "! "}embedded cluster – boatswain`;
	$("link").textContent = problem ? "not connected" : known ? "live" : "";
	$("content").hidden = !known;
	return known;
}

function showApps() {
	const apps = Map.groupBy([...pods.values()].filter((pod) => label(pod, APP)), (pod) => `${pod.metadata.namespace} ${label(pod, APP)}`);
	fill($("apps"), [...apps.values()].map((all) => {
		const executors = all.filter((pod) => label(pod, ROLE) === "executor");
		const has = (phase) => executors.filter(({ status, metadata }) => status.phase === phase && !metadata.deletionTimestamp).length;
		const leaving = executors.filter(({ metadata }) => metadata.deletionTimestamp).length;
		const others = all.filter((pod) => !executors.includes(pod)).map(({ metadata }) => metadata.name);
		return [
			{ text: label(all[0], APP), go: () => narrow(label(all[0], APP)) }, all[0].metadata.namespace, has("Running"), has("Pending"),
			leaving, bad(has("Failed"), has("Failed")), long(others.slice(0, 5).join(", ")),
		];
	}));
	$("no-apps").hidden = apps.size > 0;
}

function showNodes() {
	const placed = Map.groupBy(pods.values(), ({ spec }) => spec.nodeName ?? "");
	fill($("nodes"), [...nodes.values()].map((node) => {
		const { metadata: { name }, spec, status } = node;
		const there = (placed.get(name) ?? []).filter(({ status }) => ["Pending", "Running"].includes(status.phase));
		const ready = condition(node, "Ready")?.status === "True";
		const taints = (spec.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
		const share = (resource, show) => `${show(requested(there, resource))} of ${show(amount(status.allocatable?.[resource]))}`;
		return [
			{ text: name, go: () => narrow(name) }, bad([ready ? "Ready" : "not ready", ...(spec.unschedulable ? ["cordoned"] : []), ...taints].join(", "), !ready),
			there.length, share("cpu", cores), share("memory", bytes), status.nodeInfo?.containerRuntimeVersion?.split(":")[0] ?? "",
		];
	}));
}

let most = 50; // rows of the table of pods

const narrow = (word) => {
	$("filter").value = word;
	show();
};

function showPods() {
	const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
	const found = [...pods.values()].filter((pod) => {
		const { metadata, spec } = pod;
		const text = [metadata.name, metadata.namespace, stateOf(pod), spec.nodeName, label(pod, APP)].join(" ").toLowerCase();
		return words.every((word) => text.includes(word));
	}).sort((a, b) => Date.parse(b.metadata.creationTimestamp) - Date.parse(a.metadata.creationTimestamp));
	fill($("pods"), found.slice(0, most).map((pod) => {
		const { metadata, spec, status } = pod;
		return [
			{ text: metadata.name, go: () => tell(metadata.uid) }, metadata.namespace, bad(stateOf(pod), status.phase === "Failed"),
			spec.nodeName ?? "", containers(pod).reduce((sum, it) => sum + it.restartCount, 0), age(pod), long(why(pod)),
		];
	}));
	$("shown").textContent = `${Math.min(most, found.length)} of ${found.length} shown`;
	$("more").hidden = found.length <= most;
}

const lastTime = (event) => Date.parse(event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp);
const times = (event) => event.series?.count ?? event.count ?? 1;

function showWarnings() {
	const warnings = [...events.values()].filter(({ type }) => type === "Warning").sort((a, b) => lastTime(b) - lastTime(a));
	fill($("warnings"), warnings.slice(0, MOST_WARNINGS).map((event) => [
		clock(lastTime(event)), `${event.involvedObject.kind} ${event.involvedObject.name}`, event.reason, times(event), long(event.message),
	]));
	$("no-warnings").hidden = warnings.length > 0;
}

// ---- one pod's story

async function tell(uid) {
	const pod = pods.get(uid);
	if (!pod) return;
	story = uid;
	const { metadata: { name, namespace }, status } = pod;
	$("story-title").textContent = `Pod ${name}`;
	$("story-now").textContent = sentence(`${stateOf(pod)}${pod.spec.nodeName ? ` on ${pod.spec.nodeName}` : ""}, ${age(pod)} old`, why(pod));
	const rows = (status.conditions ?? []).filter((it) => it.lastTransitionTime)
		.map((it) => [it.lastTransitionTime, `${it.type}: ${it.status}`, it.message ?? it.reason ?? ""]);
	for (const { name, state } of containers(pod)) {
		const { startedAt, finishedAt } = state?.terminated ?? state?.running ?? {};
		if (startedAt) rows.push([startedAt, `container ${name} started`, ""]);
		if (finishedAt) rows.push([finishedAt, `container ${name} ended`, `${state.terminated.reason}, exit code ${state.terminated.exitCode}`]);
	}
	for (const event of events.values()) {
		if (event.involvedObject.uid === uid) rows.push([lastTime(event), event.reason, event.message]);
	}
	const timed = rows.map(([at, ...rest]) => [new Date(at), ...rest]).sort(([a], [b]) => a - b);
	fill($("story-events"), timed.map(([at, what, details]) => [clock(at), what, long(details)]));
	$("story-missing").textContent = $("story-log").textContent = "";
	if (!$("story").open) $("story").showModal();
	const path = `api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/log?tailLines=50`;
	const log = await ask(path).then((answer) => answer.text(), (error) => error);
	if (story !== uid) return;
	if (log instanceof Error) $("story-missing").textContent = sentence(`no log: ${log.message}`);
	else $("story-log").textContent = log;
}

// ---- showing

const PARTS = [showHead, showApps, showNodes, showPods, showWarnings];
const show = () => showAll(PARTS);
const redraw = () => redrawAll(PARTS);

$("filter").oninput = show;
$("more").onclick = () => {
	most += 400;
	show();
};
$("story-close").onclick = () => $("story").close();
document.onvisibilitychange = () => session && redraw();

enter(() => {
	poll();
	follow("api/v1/pods", pods, noteFailure);
	follow("api/v1/nodes", nodes);
	follow("api/v1/events", events);
});
