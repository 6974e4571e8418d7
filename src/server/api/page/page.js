// The page of a driver (spec O-44). It asks the driver's API with the token that its reader enters; all that it shows
// follows from the answers. Text from outside becomes textContent or text on a canvas, never markup.

import {
	$, ask, bad, clock, count, duration, enter, fill, leave, long, make, pieces, read, redraw as redrawAll, sentence,
	session, show as showAll, showVerdict, size, sleep, sortable,
} from "./parts.js";

const HOUR = 3600e3;
// In the order in which they are stacked.
const STATES = ["registered", "running", "disabled", "pending", "requested", "uncertain", "leaving"];
const MOST_LANES = 1000; // more are grouped by hundreds of ids
const MOST_ENDS = 3000; // that are remembered
const ROW = 18; // a lane's height

const REASONS = {
	Exited: "Look at its output.",
	OomKilled: "Raise the profile’s memory_limit, or have the program use less.",
	ProbeFailed: "Look at its output before the end, or give the probe more time.",
	StartFailed: "Fix image, command, volume or pull secret, as the reason says.",
	Mislabelled: "Find out what changes labels, and exclude these pods.",
	Evicted: "Set memory to what it really uses; check the node’s disk.",
	NodeLost: "Check its node.",
	HeartbeatTimeout: "Check its log and its node; if it is slow, raise backend.heartbeat_timeout.",
	Disconnected: "Check the network between it and the driver.",
	Unreachable: "Check the network between executors and driver.",
	RegistrationTimeout: "Does its command run under the agent, and can it reach backend.url?",
	PendingTimeout: "Make room, or fix what the reason names.",
	Stuck: "Check its node and the pod’s finalizers.",
};
const CAUSES = {
	"crash-loop": "Look at the last ends below, and at an executor’s output.",
	"gang-missed": "Make room for the whole gang.",
	"quota-exceeded": "Raise the namespace’s quota, or lower the target.",
	"template-refused": "Fix the profile as the reason says.",
	"right-missing": "Grant the right; boatswain manifests prints the Role.",
	"credentials-refused": "Renew the driver’s credentials; it reads them again by itself.",
	"namespace-unusable": "Create the namespace.",
	"requests-fail": "See the reason; it is tried again.",
	queued: "Raise its quota.",
};

// ---- what is known

let status; // the last answer of v1/status
let problem; // why there is no newer one
let past; // the last answer of v1/history/counts
let full; // whether the token may do everything
let skew = 0; // the driver's clock less this machine's, in ms
let lastEvent = ""; // where the event stream continues
let live = false; // whether it is open
let ending; // the application's exit code
let figures; // the last two readings of the metrics
const executors = new Map(); // by id: {profile, steps: [[time, state]], seenFrom, info, end}

const now = () => Date.now() + skew;

// What no event says is asked for again and again, unless nobody looks at the tab.
async function poll() {
	for (let n = 0; !session.signal.aborted; await sleep(2e3)) {
		if (document.hidden && status) continue;
		const due = [readStatus];
		if (n % 5 === 0) due.push(readPast, readFigures);
		if (n % (executors.size > 2000 && live ? 15 : 5) === 0) due.push(readExecutors);
		for (const what of due) await what().catch(failed);
		redraw();
		n += 1;
	}
}

function failed(error) {
	if (session.signal.aborted) return;
	// What else went wrong is asked for again, and the status says whether the driver answers.
	if (error.code === 401 || (error.code === 403 && !status)) leave(sentence(error.message, error.hint));
}

// ---- reading

async function readStatus() {
	try {
		const told = await read("v1/status");
		full ??= (await read("v1/token")).right === "full";
		skew = Date.parse(told.time) - Date.now();
		[status, problem] = [told];
	} catch (error) {
		problem = error;
		throw error;
	}
}

async function readPast() {
	past = await read("v1/history/counts");
}

const stateOf = ({ state, session }) =>
	state !== "running" || !session ? state : session.state === "disabled" ? "disabled" : "registered";

async function readExecutors() {
	const there = (await read("v1/executors")).executors;
	await sleep(0); // parsing many is a task of its own
	take(there);
	if (!live) drop(there);
}

// A list may be older than events that have arrived, so it adds no steps while they arrive.
function take(there) {
	const at = now();
	for (const info of there) {
		const executor = known(info);
		if (executor.end) continue;
		if (!executor.steps.length) {
			executor.steps.push([at - info.age_seconds * 1e3, stateOf(info)]);
			executor.seenFrom = at;
		} else if (!live) step(executor, at, stateOf(info));
		executor.info = info;
	}
}

function drop(there) {
	const living = new Set(there.map((info) => info.executor));
	for (const [id, { end }] of executors) if (!end && !living.has(id)) executors.delete(id);
}

function known({ executor: id, profile }) {
	if (!executors.has(id)) executors.set(id, { id, steps: [], seenFrom: 0, info: {} });
	return Object.assign(executors.get(id), { profile });
}

function step({ steps }, at, state) {
	const last = steps.at(-1);
	if (last && (last[1] === state || at < last[0])) return;
	steps.push([at, state]);
	if (steps.length > 50) steps.splice(1, 1);
}

function takeEvent(event) {
	const name = event.event;
	if (name === "living") {
		event.ended.forEach(takeEvent);
		take(event.executors);
		drop(event.executors);
	}
	if (name === "ending" || name === "began") ending = event.exit_code;
	if (!event.executor) return;
	const executor = known(event);
	const at = Date.parse(event.time);
	// Its whole life follows.
	if (name === "requested") Object.assign(executor, { steps: [], seenFrom: 0, end: undefined });
	if (executor.end) return;
	for (const key of ["node", "pod", "why"]) if (event[key]) executor.info[key] = event[key];
	if (name === "not-created") {
		refused(event, at);
		executors.delete(executor.id);
	} else if (name === "ended") {
		executor.end = { at, reason: event.reason, failure: !!event.failure, why: event.why };
	} else {
		let state = { enabled: "registered", exiting: "leaving", adopted: event.state, promoted: "running" }[name] ?? name;
		// After an uncertain moment its session is what it was.
		if (state === "running" && executor.steps.some((step) => step[1] === "registered")) state = "registered";
		step(executor, at, state);
	}
	if ($("story").open && story === executor.id) tell(story);
}

const refusals = new Map(); // by profile: requests without a pod, and the last of them

function refused({ executor: id, profile, why }, at) {
	const before = refusals.get(profile);
	// A reader of kept ends may get one twice.
	if (id > (before?.id ?? 0)) refusals.set(profile, { id, at, why, requests: (before?.requests ?? 0) + 1 });
}

// Follows the events: from the driver's start if it still has them all, else from what lives now.
async function follow() {
	for (let pause = 500; !session.signal.aborted; await sleep(pause)) {
		if (!status) continue;
		try {
			lastEvent ||= `${status.incarnation}-0`;
			// The driver writes something every 15 s.
			for await (const messages of pieces("v1/events", { "Last-Event-ID": lastEvent }, "\n\n", 45e3)) {
				[live, pause] = [true, 500];
				messages.forEach(takeMessage);
				redraw();
			}
		} catch (error) {
			failed(error);
		}
		live = false;
		pause = Math.min(pause * 2, 10e3);
	}
}

function takeMessage(message) {
	for (const line of message.split("\n")) {
		if (line.startsWith("id:")) lastEvent = line.slice(3).trim();
		if (line.startsWith("data:")) takeEvent(JSON.parse(line.slice(5)));
	}
}

// The metrics say how the driver sees the API server.
async function readFigures() {
	const text = await (await ask("metrics")).text();
	const is = new Map();
	for (const [, key, value] of text.matchAll(/^boatswain_(\S+) (\S+)$/gm)) is.set(key, Number(value));
	figures = { was: figures?.is, is };
}

function forget() {
	const ended = [...executors.values()].filter(({ end }) => end).sort((a, b) => b.end.at - a.end.at);
	const old = now() - HOUR;
	ended.forEach(({ id, end }, place) => (place >= MOST_ENDS || end.at < old) && executors.delete(id));
}

// ---- words

const some = (ids) => ids.slice(0, 20).join(", ") + (ids.length > 20 ? ` and ${ids.length - 20} more` : "");
const listed = (map) => [...map].map((pair) => pair.join(" ")).join(", ");

const coming = (p) => p.running + p.pending + p.requested + p.unanswered + p.uncertain;

// Whether everything is well, and if not what stands in the way: [level, sentence, what to do].
function verdict() {
	if (ending !== undefined) return ["warn", `The ${problem ? "driver has ended" : "application ends"}, with exit code ${ending}.`];
	if (problem?.reason === "not-adopted") return ["warn", "The driver is taking over.", "It reads the cluster’s state."];
	if (problem?.code) return ["wrong", sentence(problem.message), sentence(problem.hint)];
	if (problem) return ["wrong", "The driver does not answer.", "Does it run, and is it reachable (kubectl port-forward)?"];
	if (!status) return ["", "The driver is asked …"];
	const { degraded, held } = status;
	if (degraded) {
		return ["wrong", `No executor is given up for its silence: ${degraded.why}.`,
			"The driver suspects itself. Check the network between driver, API server and executors, and its log."];
	}
	if (held) {
		const by = held.by ? `by ${held.by}` : "because it was silent for too long";
		return ["warn", `The application is held ${by}: all executors terminate.`, "Resume restores the targets."];
	}
	const [write] = status.refused_writes ?? [];
	if (write) {
		const { verb, resource, why, for_seconds: seconds } = write;
		return ["wrong", sentence(`The API server has refused to ${verb} ${resource} for ${duration(seconds)}: ${why}`),
			"Grant the right, or mend the policy that refuses."];
	}
	const profiles = Object.entries(status.profiles);
	const failed = profiles.find(([, p]) => p.failed);
	if (failed) {
		return ["wrong", sentence(`Profile ${failed[0]} has failed and has no executors: ${failed[1].failed}`),
			`When the cause is mended, boatswain reset ${failed[0]} lets it begin anew.`];
	}
	const sum = (key) => profiles.reduce((total, [, p]) => total + p[key], 0);
	const [target, running] = [sum("target"), sum("running")];
	const some = `${running} of ${count(target, "executor")} run`;
	const all = running === 1 ? "The executor runs" : `All ${running} executors run`;
	const paused = profiles.find(([, p]) => p.paused);
	if (paused) {
		const { why, cause } = paused[1].paused;
		return ["wrong", sentence(`${some}; no more are requested of ${paused[0]}: ${why}`), CAUSES[cause]];
	}
	if (running < target) {
		const waits = new Map();
		for (const { why, executors } of profiles.flatMap(([, p]) => p.waiting_for)) waits.set(why, (waits.get(why) ?? 0) + executors);
		const [wait] = [...waits].sort(([, a], [, b]) => b - a);
		return ["warn", sentence(`${some}; ${wait ? `${wait[1]} wait: ${wait[0]}` : "the others are on their way"}`),
			wait && "If it lasts: make room, or look at a pending one."];
	}
	const failures = [...executors.values()].filter(({ end }) => end?.failure && end.at > now() - 600e3);
	if (failures.length) {
		const { id, end } = failures.reduce((a, b) => (a.end.at > b.end.at ? a : b));
		return ["warn", `${all}, but ${failures.length} failed in the last 10 minutes, last executor ${id}: ${end.reason}.`,
			REASONS[end.reason] ?? sentence(end.why)];
	}
	return ["well", running ? `${all}.` : "No executor is wanted."];
}

// What the driver does next about a profile, and why not yet.
function next(name, p) {
	const missing = p.target - coming(p);
	const parts = [];
	const say = (part) => parts.push(part);
	if (p.failed) say(`has failed: ${p.failed}`);
	if (p.grown_memory) say(`memory grown to ${p.grown_memory}`);
	if (p.removing) say("is being removed");
	if (p.paused) {
		const { why, again_in_seconds: wait } = p.paused;
		say(`${missing} missing: ${why}; tries one ${wait >= 1 ? `in ${duration(wait)}` : "now"}`);
	} else if (missing > 0) say(`requests ${missing}`);
	if (missing < 0) say(`lets ${-missing} go`);
	if (p.requested) say(`waits for ${count(p.requested, "answer")} of the API server`);
	const open = p.unanswered + p.uncertain;
	if (open) say(`looks up ${open}`);
	for (const it of p.waiting_for.slice(0, 3)) say(`${it.executors} wait: ${it.why}`);
	if (p.leaving) say(`waits for ${p.leaving} to terminate`);
	const it = Object.values(status.pools ?? {}).flatMap((one) => one.profiles).find((it) => it.profile === name);
	if (it?.preferred > it?.target) say(`${it.preferred - it.target} moved`);
	const last = refusals.get(name);
	if (last?.at > now() - HOUR) say(`${count(last.requests, "request")} refused so far, the last at ${clock(last.at)}`);
	return parts.join("; ") || "nothing to do";
}

// ---- tables

// Whether commands can be sent.
const may = () => full && !problem;

const link = (id) => ({ text: id, go: () => tell(id) });

// A key of what stands behind a name.
const rowOf = (key) => ([, row]) => key(row);
const sortProfiles = sortable($("profiles"), [
	([name]) => name, rowOf((p) => p.target), rowOf((p) => p.running), null, rowOf((p) => p.registered), rowOf((p) => p.pending),
	rowOf((p) => p.requested + p.unanswered), rowOf((p) => p.uncertain), rowOf((p) => p.leaving),
], () => show());

function showProfiles() {
	fill($("profiles"), sortProfiles(Object.entries(status.profiles)).map(([name, p]) => [
		name, may() ? { text: `${p.target} …`, go: () => scale(name, p.target) } : p.target,
		bad(p.running, p.running < p.target), long(next(name, p)), p.registered, p.pending, p.requested + p.unanswered,
		p.uncertain, p.leaving, long(contents(p.container)),
	]));
}

// An image, and what is requested of each resource, with its limit.
function contents({ image, requests = {}, limits = {} } = {}) {
	const shown = (quantity) => (/^\d{5,}$/.test(quantity) ? size(quantity) : quantity);
	const resources = [...new Set([...Object.keys(requests), ...Object.keys(limits)])].map((name) => {
		const [request, limit] = [requests[name], limits[name]];
		return `${name} ${shown(request ?? limit)}${limit && limit !== request && request ? `, at most ${shown(limit)}` : ""}`;
	});
	return [image, ...resources].filter(Boolean).join("; ");
}

const sortLosses = sortable($("losses"), [
	([reason]) => reason, rowOf((row) => row.ends), rowOf((row) => row.failures), rowOf((row) => row.last.end.at),
], () => show());
const sortNodes = sortable($("nodes"), [
	([name]) => name, rowOf((row) => row.there), rowOf((row) => row.failures), rowOf((row) => row.ends - row.failures),
], () => show());

function showEnds() {
	const [reasons, nodes] = [new Map(), new Map()];
	const of = (map, key) => {
		if (!map.has(key)) map.set(key, { there: 0, failures: 0, ends: 0, reasons: new Map(), rank: 0 });
		return map.get(key);
	};
	for (const executor of executors.values()) {
		const { end, info } = executor;
		const node = info.node && of(nodes, info.node);
		if (!end && node) node.there += 1;
		for (const row of end ? [of(reasons, end.reason), node] : []) {
			if (!row) continue;
			row.ends += 1;
			row.failures += end.failure;
			row.reasons.set(end.reason, (row.reasons.get(end.reason) ?? 0) + 1);
			// The last failure, if there is any, matters more than the last end.
			const rank = end.failure * 1e15 + end.at;
			if (rank >= row.rank) Object.assign(row, { rank, last: executor });
		}
	}
	const worst = (map) => [...map].sort(([, a], [, b]) => b.failures - a.failures || b.ends - a.ends).slice(0, 200);
	fill($("losses"), sortLosses(worst(reasons)).map(([reason, { ends, failures, last }]) => [
		reason, ends, bad(failures, failures), clock(last.end.at), link(last.id), long(last.end.why), long(REASONS[reason]),
	]));
	$("no-losses").hidden = reasons.size > 0;
	fill($("nodes"), sortNodes(worst(nodes)).map(([name, { there, failures, ends, reasons, last }]) => [
		name, there, bad(failures, failures), ends - failures, long(listed(reasons)), last?.end.failure ? link(last.id) : "",
	]));
}

let most = 50; // rows of the table of executors
let shown = []; // the executors in them
const ticked = new Set(); // the ids of those that the next command is for

const sinceFirst = ({ steps, end }) => (steps.length ? (end?.at ?? now()) - steps[0][0] : undefined);
const sessionOf = ({ end, info }) => (end ? undefined : info.session);
const sortExecutors = sortable($("executors"), [
	null, ({ id }) => id, ({ profile }) => profile, (executor) => stateText(executor), ({ info }) => info.node, sinceFirst,
	(executor) => sessionOf(executor)?.heard_seconds_ago, (executor) => sessionOf(executor)?.busy_slots,
	(executor) => sessionOf(executor)?.usage?.memory_bytes, (executor) => sessionOf(executor)?.usage?.cpu_cores,
], () => show());

// The living first, then failures, then other ends.
const rank = ({ end }) => (end ? (end.failure ? 1 : 2) : 0);

function showExecutors() {
	const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
	const found = [...executors.values()].filter((executor) => {
		if (!words.length) return true;
		const { id, profile, info, end } = executor;
		const text = [id, profile, stateText(executor), info.node, info.pod, end?.failure && "failure"].join(" ").toLowerCase();
		return words.every((word) => text.includes(word));
	}).sort((a, b) => rank(a) - rank(b) || b.id - a.id);
	shown = sortExecutors(found).slice(0, most);
	for (const id of ticked) if (!executors.has(id) || executors.get(id).end) ticked.delete(id);
	fill($("executors"), shown.map((executor) => {
		const { id, profile, steps, info, end } = executor;
		const session = sessionOf(executor);
		const { memory_bytes: memory, memory_limit_bytes: limit, cpu_cores: cores } = session?.usage ?? {};
		return [
			may() && !end ? { text: `Executor ${id}`, tick: ({ target }) => tick([id], target.checked), ticked: ticked.has(id) } : "",
			link(id), profile, bad(stateText(executor), end?.failure), info.node,
			steps.length ? duration(sinceFirst(executor) / 1e3) : "",
			session ? `${duration(session.heard_seconds_ago)} ago` : "",
			session && session.busy_slots !== null ? `${session.busy_slots} of ${session.slots}` : "",
			bad(memory === undefined ? "" : `${size(memory)}${limit ? ` of ${size(limit)}` : ""}`, memory > 0.9 * limit),
			cores === undefined ? "" : cores.toFixed(2),
			long(end ? end.why : steps.at(-1)?.[1] === "pending" ? info.why : ""),
		];
	}));
	$("shown").textContent = `${Math.min(most, found.length)} of ${found.length} shown, with those that ended in the last hour`;
	$("more").hidden = found.length <= most;
	showTicked();
}

function tick(ids, on) {
	for (const id of ids) on ? ticked.add(id) : ticked.delete(id);
	showTicked();
}

// The ids of the executors that are shown and live.
const tickable = () => shown.filter(({ end }) => !end).map(({ id }) => id);

function showTicked() {
	const ids = tickable();
	$("tick-all").hidden = !may();
	$("tick-all").checked = ids.length > 0 && ids.every((id) => ticked.has(id));
	$("ticked").hidden = !may() || ticked.size === 0;
	$("ticked-count").textContent = `${count(ticked.size, "executor")} ticked:`;
}

const stateText = ({ steps, end }) => end?.reason ?? steps.at(-1)?.[1] ?? "";

function showDriver() {
	if (!figures) return;
	const { was, is } = figures;
	// By what the pattern captures: the sum, less what it was at the last reading.
	const rise = (pattern, was) => {
		const sums = new Map();
		for (const [key, value] of is) {
			const [, part] = pattern.exec(key) ?? [];
			const more = value - (was?.get(key) ?? 0);
			if (part && more) sums.set(part, (sums.get(part) ?? 0) + more);
		}
		return sums;
	};
	const outcomes = rise(/^api_calls_total.*outcome="(.*?)"/, was);
	const times = rise(/^api_call_seconds_(count|sum)/, was);
	const ago = (key) => `${duration(is.get(key) ?? 0)} ago`;
	const missed = is.get("watch_drifts_total");
	fill($("driver"), [
		[`Calls to the API server ${was ? "in the last 10 s" : "since the start"}`, bad(listed(outcomes) || "none", [...outcomes.keys()].some((outcome) => outcome !== "ok"))],
		["Time of a call, on average", times.size ? `${Math.round((times.get("sum") / times.get("count")) * 1e3)} ms` : ""],
		["Last sign of life of the watch", ago("watch_bookmark_age_seconds")],
		["Last complete list", ago("full_list_age_seconds")],
		["Changes that the watch missed", bad(missed, missed)],
		["Sessions", listed(rise(/^sessions{.*"(.*?)"/)) || "none"],
		["Start of the driver", `number ${status.incarnation}; the application may ${status.ready ? "" : "not "}begin`],
	].map(([what, value]) => [long(what), value]));
}

// ---- one executor's story

let story;

// A view has an address: the executor that is told of, the filter and the time.
const place = () => new URLSearchParams(location.hash.slice(1));

function remember(name, value) {
	const there = place();
	value ? there.set(name, value) : there.delete(name);
	history.replaceState(null, "", `#${there}`);
}

function goToPlace() {
	const there = place();
	$("filter").value = there.get("filter") ?? "";
	$("span").value = there.get("span") ?? "";
	const id = Number(there.get("executor"));
	if (Number.isSafeInteger(id) && id > 0) tell(id);
	else $("story").close();
	redraw();
}

async function tell(id) {
	story = id;
	remember("executor", id);
	$("story-title").textContent = `Executor ${id}`;
	if (!$("story").open) {
		for (const part of ["now", "missing", "log", "commands"]) $(`story-${part}`).textContent = "";
		fill($("story-events"), []);
		$("story").showModal();
	}
	const told = await read(`v1/executors/${id}`).catch((error) => ({ error }));
	if (story !== id) return;
	if (told.error) return void ($("story-missing").textContent = sentence(told.error.message, told.error.hint));
	const { now: it, events, evidence, left_out_after_the_first: left } = told;
	const end = events.findLast((event) => event.event === "ended");
	$("story-now").textContent = it
		? sentence(`${stateOf(it)}${it.node ? ` on ${it.node}` : ""}, known for ${duration(it.age_seconds)}`,
			it.session && `heard from ${duration(it.session.heard_seconds_ago)} ago`, it.why)
		: sentence(end ? `${end.reason}: ${end.why}` : "it has ended", REASONS[end?.reason]);
	$("kill").hidden = $("decommission").hidden = !may() || !it;
	offer(it?.pod ?? executors.get(id)?.info.pod, it ? LIVING : GONE);
	const rows = events.map(({ id, time, event, executor, profile, ...more }) => [
		Date.parse(time), event,
		Object.entries(more).filter(([, value]) => value).map((pair) => pair.join(": ")).join("; "),
	]);
	for (const { time, reason, message, count } of evidence?.warnings ?? []) {
		rows.push([Date.parse(time), `warning: ${reason}`, `${message} (${count}×)`]);
	}
	rows.sort(([a], [b]) => a - b);
	fill($("story-events"), rows.map(([at, event, details]) => [clock(at), event, long(details)]));
	$("story-missing").textContent = sentence(left && `${count(left, "event")} after the first are forgotten`,
		...(evidence ? evidence.missing : ["with api.evidence = true the pod’s warnings and log stand here"]));
	$("story-log").textContent = evidence?.log.join("\n") ?? "";
}

const LIVING = ["logs", "describe pod"];
const GONE = ["get events --field-selector involvedObject.name="]; // they outlive the pod by an hour

// What to enter in a terminal, for more about a pod.
function offer(pod, verbs) {
	const { namespace, api_server: server = "" } = status?.driver ?? {};
	// Nothing that a shell would carry out. The cluster of one process has no address.
	const isName = (name) => name && /^[a-z0-9][-.a-z0-9]*$/.test(name);
	if (!isName(pod) || !isName(namespace) || !server.includes(":/")) return void $("story-commands").replaceChildren();
	const lines = verbs.map((verb) => {
		const [line, text, copy] = ["p", "code", "button"].map(make);
		text.textContent = `kubectl --namespace ${namespace} ${verb}${verb.endsWith("=") ? "" : " "}${pod}`;
		copy.textContent = "Copy";
		copy.onclick = () => navigator.clipboard?.writeText(text.textContent).then(() => (copy.textContent = "Copied"), () => {
			getSelection().selectAllChildren(text);
		});
		// Only pages from this machine or over TLS may write there.
		copy.hidden = !navigator.clipboard;
		line.append(text, " ", copy);
		return line;
	});
	$("story-commands").replaceChildren(...lines);
}

// ---- actions: each is asked back, and says what it does

let act; // what the open question does, with the values of its fields

function askBack(title, text, fields, does) {
	$("ask-title").textContent = title;
	$("ask-text").textContent = text;
	$("ask-answer").textContent = "";
	$("ask-fields").replaceChildren(...fields.map(([name, words, type, value]) => {
		const line = make("label");
		line.append(Object.assign(make("input"), { name, type, value, min: 0 }), ` ${words}`);
		return line;
	}));
	act = does;
	$("ask").showModal();
}

const send = (method, path, body) => ask(path, { method, body: JSON.stringify(body) }).then((answer) => answer.json());
const BY = ["by", "who asks, for the log", "text", "page"];

const scale = (name, target) => askBack(`Scale ${name}`, `Its target is ${target}.`, [["executors", "executors", "number", target]],
	({ executors }) => send("PUT", `v1/targets/${encodeURIComponent(name)}`, { executors: Number(executors) }));

function command(path, ids, text, fields) {
	const title = `${path[0].toUpperCase()}${path.slice(1)} executor${ids.length === 1 ? "" : "s"} ${some(ids)}`;
	askBack(title, text, [...fields, BY], async ({ by, ...how }) => {
		const { busy, unknown } = await send("POST", `v1/executors/${path}`, { executors: ids, by, ...how });
		const spared = busy.length && `busy and therefore spared: ${some(busy)}; force, or decommission`;
		const ended = unknown.length && `ended already: ${some(unknown)}`;
		if (spared || ended) throw new Error(sentence(spared, ended));
	});
}

const kill = (ids) => command("kill", ids, "They exit at once. Without replacements the target falls.",
	[["replace", "with replacements", "checkbox"], ["force", "even those that are busy", "checkbox"]]);
const decommission = (ids) => command("decommission", ids, "They finish their work and exit. Without replacements the target falls.",
	[["replace", "with replacements", "checkbox"]]);
$("kill").onclick = () => kill([story]);
$("decommission").onclick = () => decommission([story]);
$("kill-ticked").onclick = () => kill([...ticked]);
$("decommission-ticked").onclick = () => decommission([...ticked]);
$("tick-all").onclick = ({ target }) => {
	tick(tickable(), target.checked);
	showExecutors();
};
$("hold").onclick = () => askBack("Hold", "All executors finish and terminate; the targets are remembered.", [BY],
	(body) => send("POST", "v1/application/hold", body));
$("resume").onclick = () => askBack("Resume", "The targets from before the hold are restored.", [],
	() => send("POST", "v1/application/resume", {}));
$("end").onclick = () => askBack("End", "All executors are deleted, and the driver exits. Nothing brings the application back.",
	[["exit_code", "exit code", "number", 0]], ({ exit_code }) => send("POST", "v1/application/end", { exit_code: Number(exit_code) }));
$("ask-no").onclick = () => $("ask").close();
$("ask-form").onsubmit = async (event) => {
	event.preventDefault();
	const values = {};
	for (const { name, type, value, checked } of $("ask-fields").querySelectorAll("input")) values[name] = type === "checkbox" ? checked : value;
	$("ask-yes").disabled = true;
	await act(values).then(() => $("ask").close(), (error) => ($("ask-answer").textContent = sentence(error.message, error.hint)));
	$("ask-yes").disabled = false;
};

// ---- pictures

const colours = {};

function readColours() {
	const style = getComputedStyle(document.documentElement);
	for (const name of [...STATES, "failure", "text", "quiet"]) colours[name] = style.getPropertyValue(`--${name}`);
}

// A cleared canvas with units of CSS pixels.
function prepare(canvas, width, height) {
	const [w, h] = [width, height].map((length) => Math.round(length * devicePixelRatio));
	if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
	Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
	const pen = canvas.getContext("2d");
	pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
	pen.clearRect(0, 0, width, height);
	pen.font = "12px system-ui, sans-serif";
	pen.textBaseline = "middle";
	return pen;
}

function write(pen, align, colour, text, x, y, width) {
	pen.textAlign = align;
	pen.fillStyle = colour;
	pen.fillText(text, x, y, width);
}

// The time that is shown, and where a moment lies in a picture.
function axis(width) {
	const until = now();
	const first = Math.min(until - 60e3, Date.parse(past?.times[0] ?? status.time));
	const from = Math.max(until - HOUR, $("span").value ? until - $("span").value * 1e3 : first);
	const [left, right] = [78, width - 118];
	return { from, until, left, right, x: (at) => left + Math.max(0, (at - from) / (until - from)) * (right - left) };
}

// The driver's history, and what it says now.
function line(name) {
	const known = past?.profiles[name];
	const points = known ? past.times.map((time, i) => {
		const point = { at: Date.parse(time) };
		for (const key in known) point[key] = known[key][i];
		return point;
	}) : [];
	return [...points, { ...status.profiles[name], at: Date.parse(status.time) }];
}

function drawChart(canvas, name, { from, until, left, right, x }) {
	const pen = prepare(canvas, right + 118, 110);
	const [top, bottom] = [10, 92];
	const points = line(name);
	const shown = points.filter((_, i) => (points[i + 1]?.at ?? until) >= from);
	const highest = Math.max(1, ...shown.map((p) => Math.max(p.target, coming(p) + p.leaving)));
	const y = (n) => bottom - (n / highest) * (bottom - top);
	shown.forEach((p, i) => {
		// While the driver's process was stopped nobody counted.
		const end = Math.min(shown[i + 1]?.at ?? until, p.at + 60e3);
		const [start, width] = [x(p.at), x(end) - x(p.at) + 0.5];
		const registered = Math.min(p.registered, p.running);
		const parts = { ...p, registered, running: p.running - registered, requested: p.requested + p.unanswered };
		let height = 0;
		for (const state of STATES) {
			pen.fillStyle = colours[state];
			const part = parts[state] ?? 0;
			pen.fillRect(start, y((height += part)), width, bottom - y(part));
		}
		pen.fillStyle = colours.text;
		pen.fillRect(start, y(p.target) - 1, width, 2);
	});
	const { running, target } = status.profiles[name];
	write(pen, "right", colours.text, name, left - 6, 51, left - 8);
	write(pen, "right", colours.quiet, highest, left - 6, top + 4);
	write(pen, "left", colours.quiet, `${duration((until - from) / 1e3)} ago`, left, bottom + 11);
	write(pen, "left", colours.text, `${running} of ${target} run`, right + 8, 51, 106);
	canvas.ariaLabel = `${name}: ${running} of ${target} run; the table of profiles has the numbers`;
}

function drawCharts() {
	const charts = $("charts");
	const width = $("lanes").clientWidth; // one axis for both, with a scroll bar or without
	const names = Object.keys(status.profiles);
	while (charts.children.length > names.length) charts.lastChild.remove();
	names.forEach((name, i) => {
		const canvas = charts.children[i] ?? charts.appendChild(make("canvas"));
		canvas.role = "img";
		drawChart(canvas, name, axis(width));
	});
}

let lanes = []; // the rows: each one executor, or a group {number, members}
const open = new Set(); // the numbers of the groups that are open

function layLanes() {
	const { from } = axis(0);
	lanes = [...executors.values()].filter(({ end }) => !end || end.at >= from).sort((a, b) => b.id - a.id);
	const grouped = lanes.length > MOST_LANES;
	$("lanes-note").textContent = grouped
		? `${lanes.length} executors, grouped by hundreds of ids. Select a group to open it.`
		: "A lane is an executor, the newest above. Select one for its story. Pale: before this page looked.";
	if (grouped) {
		const groups = Map.groupBy(lanes, ({ id }) => Math.floor(id / 100));
		lanes = [...groups].flatMap(([number, members]) => [{ number, members }, ...(open.has(number) ? members : [])]);
	}
	$("height").style.height = `${lanes.length * ROW}px`;
}

// Draws the rows that are in sight only.
function drawLanes() {
	const { clientWidth: width, clientHeight, scrollTop } = $("lanes");
	const at = axis(width);
	const height = Math.max(ROW, Math.min(clientHeight, lanes.length * ROW));
	const pen = prepare($("canvas"), width, height);
	const first = Math.floor(scrollTop / ROW);
	lanes.slice(first, first + height / ROW + 2).forEach((lane, i) => {
		const top = (first + i) * ROW - scrollTop;
		const members = lane.members ?? [lane];
		// A group is its members' lanes. Where they are many more than it has pixels, only some of them are drawn.
		const every = Math.ceil(members.length / (2 * (ROW - 6)));
		const bars = members.filter((_, j) => j % every === 0);
		const high = (ROW - 6) / bars.length;
		bars.forEach((executor, j) => drawBar(pen, at, executor, top + 3 + j * high, high));
		const ends = members.filter(({ end }) => end);
		ends.forEach(({ end }) => drawEnd(pen, at.x(end.at), top + ROW / 2, end.failure));
		const failures = ends.filter(({ end }) => end.failure).length;
		const [name, text] = lane.members
			? [`${open.has(lane.number) ? "▾" : "▸"} ${lane.number}00–${lane.number}99`,
				`${members.length - ends.length} live${failures ? `, ${failures} failed` : ""}`]
			: [lane.id, stateText(lane)];
		write(pen, "right", colours.quiet, name, at.left - 6, top + ROW / 2, at.left - 8);
		write(pen, "left", failures ? colours.failure : colours.quiet, text, at.right + 8, top + ROW / 2, 106);
	});
}

function drawBar(pen, { from, until, x }, { steps, seenFrom, end }, top, high) {
	const last = end?.at ?? until;
	steps.forEach(([began, state], i) => {
		const over = steps[i + 1]?.[0] ?? last;
		if (over < from) return;
		pen.fillStyle = colours[state] ?? colours.uncertain;
		const part = (start, stop) => stop >= start && pen.fillRect(x(start), top, Math.max(1, x(stop) - x(start)), high);
		pen.globalAlpha = 0.45;
		part(began, Math.min(seenFrom, over));
		pen.globalAlpha = 1;
		part(Math.max(began, seenFrom), over);
	});
}

// A cross is a failure, a stroke any other end.
function drawEnd(pen, x, y, failure) {
	pen.strokeStyle = failure ? colours.failure : colours.text;
	pen.lineWidth = 2;
	pen.beginPath();
	for (const turn of failure ? [-4, 4] : [0]) {
		pen.moveTo(x - turn, y - 5);
		pen.lineTo(x + turn, y + 5);
	}
	pen.stroke();
}

function choose(event) {
	const lane = lanes[Math.floor((event.offsetY + $("lanes").scrollTop) / ROW)];
	if (!lane?.members) return lane && tell(lane.id);
	if (!open.delete(lane.number)) open.add(lane.number);
	layLanes();
	drawLanes();
}

// ---- showing

function showHead() {
	const said = verdict();
	showVerdict(said);
	$("link").textContent = problem ? "not connected" : live ? "live" : "asked every few seconds";
	if (!status) return false;
	document.title = `${said[0] === "well" ? "" : "! "}${status.app} – boatswain`;
	$("app").textContent = status.app;
	const { version, namespace, api_server: server, up_seconds: up } = status.driver;
	$("about").textContent = `boatswain ${version}, up for ${duration(up)}; namespace ${namespace}, API server ${server}`;
	$("content").hidden = false;
	$("content").className = problem ? "stale" : "";
	$("actions").hidden = !may();
	$("hold").hidden = !!status.held;
	$("resume").hidden = !status.held;
	forget();
}

const PARTS = [showHead, showProfiles, showEnds, showExecutors, showDriver, drawCharts, layLanes, drawLanes];
const show = () => showAll(PARTS);
const redraw = () => redrawAll(PARTS);

$("filter").oninput = $("span").onchange = () => {
	for (const name of ["filter", "span"]) remember(name, $(name).value);
	show();
};
$("more").onclick = () => {
	most += 400;
	show();
};
$("lanes").onscroll = () => requestAnimationFrame(drawLanes);
$("canvas").onclick = choose;
$("story-close").onclick = () => $("story").close();
$("story").onclose = () => remember("executor");
window.onhashchange = () => session && goToPlace();
matchMedia("(prefers-color-scheme: dark)").onchange = readColours;
document.onvisibilitychange = window.onresize = () => session && redraw();
setInterval(() => status && redraw(), 1e3);

for (const state of [...STATES, "failure"]) {
	const item = $("legend").appendChild(make("span"));
	item.appendChild(make("i")).style.background = `var(--${state})`;
	item.append(state);
}
readColours();

enter(() => {
	readStatus().catch(failed).then(goToPlace);
	poll();
	follow();
});
