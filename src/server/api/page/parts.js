// What pages share that ask an API with their reader's token: this one (spec O-44), and that of crates/devcluster, which
// links to this file and to page.css.

export const $ = (id) => document.getElementById(id);
export const make = (tag) => document.createElement(tag);
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// ---- the token

const PATIENCE = 10e3; // ms that a request may take

let token = "";
export let session; // an AbortController: ends what runs for this token

// Of this tab only. Where it is switched off, the token lasts until the page is loaded again.
let storage = {};
try {
	storage = sessionStorage;
} catch {}

// Loads the page anew, so that nothing of what it showed stays in it.
export function leave(why) {
	session.abort();
	delete storage.token;
	storage.why = why;
	location.reload();
}

// Begins when there is a token.
export function enter(begin) {
	const enterWith = (given) => {
		token = given;
		session = new AbortController();
		$("enter").hidden = true;
		$("verdict").hidden = $("forget").hidden = false;
		begin();
	};
	$("forget").onclick = () => leave("");
	$("enter").onsubmit = (event) => {
		event.preventDefault();
		// A line of the file may have ` read` behind its token. What cannot be in a header is no token.
		[storage.token] = $("token").value.trim().split(/[^\x21-\x7e]/);
		$("token").value = "";
		enterWith(storage.token);
	};
	if (storage.token) return enterWith(storage.token);
	$("refusal").textContent = storage.why ?? "";
	$("enter").hidden = false;
	$("token").focus();
}

// ---- asking

// Paths are relative, so that the page works behind a path prefix.
export async function ask(path, options = {}) {
	const headers = { ...options.headers, Authorization: `Bearer ${token}` };
	const signal = AbortSignal.any([session.signal, options.signal ?? AbortSignal.timeout(PATIENCE)]);
	const answer = await fetch(path, { cache: "no-store", ...options, headers, signal });
	if (answer.ok) return answer;
	const { message = `the answer was ${answer.status}`, code: reason, hint } = await answer.json().catch(() => ({}));
	throw Object.assign(new Error(message), { code: answer.status, reason, hint });
}

export const read = async (path) => (await ask(path)).json();

// The pieces of an answer without an end, as they arrive, until nothing has arrived for so many ms.
export async function* pieces(path, headers, separator, patience) {
	const silence = new AbortController();
	let alarm;
	const wait = () => {
		clearTimeout(alarm);
		alarm = setTimeout(() => silence.abort(), patience);
	};
	try {
		wait();
		const answer = await ask(path, { headers, signal: silence.signal });
		const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
		for (let rest = ""; ; ) {
			const { value, done } = await reader.read();
			if (done) return;
			wait();
			const all = (rest + value).split(separator);
			rest = all.pop();
			yield all;
		}
	} finally {
		clearTimeout(alarm);
		silence.abort();
	}
}

// ---- words

export const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
export const sentence = (...parts) => parts.filter(Boolean)
	.map((part) => part[0].toUpperCase() + part.slice(1).replace(/([^.?!…])$/, "$1.")).join(" ");
// Made once: the first format of a browser takes longer than a whole update.
const timeOfDay = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
export const clock = (at) => (at >= 0 ? timeOfDay.format(at) : ""); // what is no time is not shown

export function duration(seconds) {
	for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
		if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
	}
	return `${Math.max(0, Math.round(seconds))} s`;
}

// Bytes, as Kubernetes counts them.
export function size(bytes) {
	for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"]]) {
		if (bytes >= unit) return `${Number((bytes / unit).toPrecision(3))} ${name}`;
	}
	return `${Math.round(bytes / 1024)} KiB`;
}

// Only a change of the sentence is spoken.
export function showVerdict([level, what, todo = ""]) {
	if ($("sentence").textContent !== what) $("sentence").textContent = what;
	$("todo").textContent = todo;
	$("verdict").className = level;
}

// ---- tables

// Changes only what differs, so that focus and selection stay. A cell is a text, or {text, go, tick, ticked, kind}: with
// a button or a checkbox, of a class.
export function fill(body, rows) {
	while (body.rows.length > rows.length) body.deleteRow(-1);
	rows.forEach((cells, y) => {
		const row = body.rows[y] ?? body.insertRow();
		cells.forEach((cell, x) => {
			const place = row.cells[x] ?? row.insertCell();
			const { text = "", go, tick, ticked, kind = "" } = typeof cell === "object" ? cell : { text: cell };
			const tag = tick ? "INPUT" : go ? "BUTTON" : undefined;
			if (place.firstElementChild?.tagName !== tag) place.replaceChildren(...(tag ? [make(tag)] : []));
			const holder = place.firstElementChild ?? place;
			holder.onclick = tick ?? go;
			if (tick) Object.assign(holder, { type: "checkbox", checked: ticked, ariaLabel: text });
			else if (holder.textContent !== `${text}`) holder.textContent = text;
			if (place.className !== kind) place.className = kind;
		});
	});
}

// Makes a table's headings sort it by these keys of its columns: once the largest first, then the smallest, then as it was.
// Returns what sorts the items of its rows.
export function sortable(body, keys, changed) {
	let [by, sign] = [];
	const heads = [...body.parentElement.tHead.rows[0].cells];
	const say = () => heads.forEach((head, column) => {
		head.ariaSort = column !== by ? null : sign > 0 ? "ascending" : "descending";
	});
	heads.forEach((head, column) => {
		if (!keys[column]) return;
		const button = make("button");
		button.append(...head.childNodes);
		head.append(button);
		button.onclick = () => {
			[by, sign] = by !== column ? [column, -1] : sign < 0 ? [column, 1] : [];
			say();
			changed();
		};
	});
	const compare = (a, b) => (typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0);
	return (items) => {
		if (by === undefined) return items;
		const known = items.map((item) => [keys[by](item), item]);
		// What has no value is last, whatever the order.
		const lacks = ([key]) => (key ?? "") === "" || Number.isNaN(key);
		return known.sort((a, b) => lacks(a) - lacks(b) || sign * compare(a[0], b[0])).map(([, item]) => item);
	};
}

export const long = (text) => ({ text, kind: "text" });
export const bad = (text, is) => ({ text, kind: is ? "bad" : "" });

// ---- showing

// Each part in a task of its own, so that the page answers its reader in between. One that returns false is the last.
export async function show(parts) {
	for (const part of parts) {
		if (session.signal.aborted || part() === false) return;
		await sleep(0);
	}
}

let due = false;

// At most twice a second, whatever arrives.
export function redraw(parts) {
	if (due || document.hidden) return;
	due = true;
	setTimeout(() => show(parts).finally(() => (due = false)), 500);
}
