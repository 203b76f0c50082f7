// Shows what the dashboard is told by server-sent events. Names and causes come from other machines: they become text, never markup.

const parts = {}; // The last value of each part.
const rates = []; // The total rate at each reading, of the last minutes.
const MOST_RATES = 300, MOST_ROWS = 200, MOST_NODES = 40;
const SVG = "http://www.w3.org/2000/svg";
const LEVELS = {
  private: "private: encrypted", safe: "safe: tagged against changes", authenticated: "authenticated: then plain", clear: "clear: no protection",
};
const get = (id) => document.getElementById(id);
const element = (name, classes = "", text = "") => {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  return made;
};
const drawn = (name, attributes) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };

// ---- Numbers as people read them

const known = (value) => value !== null && value !== undefined;
const count = (value) => (known(value) ? value.toLocaleString("en") : "");
const round = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toLocaleString("en"));
const perSecond = (value) => (known(value) ? `${round(value)}/s` : "");
const bytes = (value) => {
  if (!known(value)) return "";
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]) if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  return `${Math.round(value)} B`;
};
const seconds = (value) => {
  if (!known(value)) return "";
  if (value < 1e-3) return `${round(value * 1e6)} µs`;
  if (value < 1) return `${round(value * 1e3)} ms`;
  if (value < 120) return `${round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${Number((value / 3600).toPrecision(3))} h`;
};
const percent = (value) => (known(value) ? `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %` : "");
const clock = (value) => new Date(value * 1000).toLocaleTimeString("en-GB");
const moment = (value) => new Date(value * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// ---- Tables: rows are found again by their keys, and only what has changed is written

class Table {
  constructor(section, name, columns, key, nothing) {
    Object.assign(this, { columns, key, nothing, rows: new Map(), words: "", whole: false, data: [] });
    this.section = get(section);
    this.find = element("div", "find");
    const label = element("label", "", "find "), input = element("input");
    input.type = "search";
    input.setAttribute("aria-label", `find in ${name}`);
    input.addEventListener("input", () => { this.words = input.value.toLowerCase(); this.draw(); });
    label.append(input);
    this.more = element("button");
    this.more.type = "button";
    this.more.addEventListener("click", () => { this.whole = !this.whole; this.draw(); });
    this.find.append(label, this.more);
    const scroll = element("div", "scroll"), table = element("table"), head = element("thead"), row = element("tr");
    Object.assign(scroll, { tabIndex: 0, role: "region" });
    scroll.setAttribute("aria-label", name);
    for (const column of columns) {
      const cell = element("th", column.number ? "number" : "", column.head);
      cell.scope = "col";
      row.append(cell);
    }
    head.append(row);
    this.body = element("tbody");
    table.append(element("caption", "", name), head, this.body);
    scroll.append(table);
    this.scroll = scroll;
    this.empty = element("p", "quiet", nothing);
    this.section.append(this.find, this.empty, scroll);
  }

  show(data) {
    this.data = data;
    this.section.hidden = false;
    this.draw();
  }

  draw() {
    const found = this.words ? this.data.filter((row) => JSON.stringify(Object.values(row)).toLowerCase().includes(this.words)) : this.data;
    const shown = this.whole ? found : found.slice(0, MOST_ROWS);
    this.empty.hidden = this.data.length > 0;
    this.scroll.hidden = this.data.length === 0;
    this.find.hidden = this.data.length <= 8;
    this.more.hidden = found.length <= MOST_ROWS;
    write(this.more, this.whole ? `show ${MOST_ROWS}` : `show all ${found.length}`);
    const old = this.rows;
    this.rows = new Map();
    let place = this.body.firstChild;
    for (const value of shown) {
      const key = String(this.key(value));
      let row = old.get(key);
      if (!row) row = this.made();
      old.delete(key);
      this.rows.set(key, row);
      this.fill(row, value);
      if (row === place) place = place.nextSibling;
      else this.body.insertBefore(row, place);
    }
    for (const row of old.values()) row.remove();
  }

  made() {
    const row = element("tr");
    this.columns.forEach((column, number) => {
      const cell = element(number ? "td" : "th", column.number ? "number" : column.lines ? "lines" : "");
      if (!number) cell.scope = "row";
      row.append(cell);
    });
    return row;
  }

  fill(row, value) {
    this.columns.forEach((column, number) => {
      const cell = row.children[number];
      if (column.into) return column.into(cell, value);
      write(cell, String(column.text(value) ?? ""));
      const colour = column.colour ? column.colour(value) : "";
      const classes = [column.number ? "number" : column.lines ? "lines" : "", colour].join(" ").trim();
      if (cell.className !== classes) cell.className = classes;
    });
  }
}

const text = (head, of, more = {}) => ({ head, text: of, ...more });
const number = (head, of, more = {}) => ({ head, text: of, number: true, ...more });
const level = text("level", (it) => it.level ?? "its own", { colour: (it) => it.level ?? "quiet" });
const bar = (cell, value, label) => {
  let progress = cell.querySelector("progress");
  if (!progress) {
    progress = element("progress", "bar");
    cell.append(element("span"), progress);
  }
  write(cell.firstChild, label);
  progress.hidden = !known(value);
  if (known(value)) progress.value = value;
  progress.setAttribute("aria-label", label);
};
const shares = (it) => it.shares.map((one) => `${one.interpreter}: ${percent(one.share)}`).join("\n");

const TABLES = {
  program: {
    programs: ["Programs, the newest first", [
      text("program", (it) => it.name || `run ${it.run}`),
      text("state", (it) => (it.open ? "runs" : "ended"), { colour: (it) => (it.open ? "good" : "quiet") }),
      { head: "done", into: (cell, it) => bar(cell, it.size ? it.settled / it.size : null, it.size ? `${count(it.settled)} of ${count(it.size)}` : count(it.settled)) },
      number("rate", (it) => perSecond(it.rate)), number("time left", (it) => seconds(it.left)),
      number("a task takes", (it) => seconds(it.task)), number("grain", (it) => (known(it.grain) ? `${round(it.grain)} ×` : "")),
      number("fired together", (it) => count(it.batch)), number("raised", (it) => count(it.raised || null)),
      text("share of each interpreter", shares, { lines: true }),
    ], (it) => it.run, "Nothing was computed yet."],
    interpreters: ["Interpreters", [
      text("interpreter", (it) => it.name), text("machine", (it) => it.machine),
      text("state", (it) => (it.cause ? `${it.state}: ${it.cause}` : it.state), { colour: (it) => (it.state === "working" ? "good" : it.state === "lost" ? "bad" : "quiet") }),
      level, number("tasks", (it) => count(it.tasks)), number("rate", (it) => perSecond(it.rate)), number("computes", (it) => percent(it.busy)),
      number("window", (it) => count(it.window)), number("tasks in flight", (it) => count(it.flight)), number("round trip", (it) => seconds(it.round_trip)),
      number("process", (it) => String(it.pid)),
    ], (it) => it.name, "No interpreter has come yet."],
    links: ["Links", [
      text("from", (it) => it.from), text("to", (it) => it.to), level, text("why", (it) => it.why + (it.weaker ? " (weaker than by default)" : "")),
      number("links", (it) => count(it.count)), number("bytes", (it) => bytes(it.bytes)), number("rate", (it) => `${bytes(it.rate)}/s`),
      number("cryptography", (it) => seconds(it.protection)),
    ], (it) => `${it.to} ${it.level}`, "There is no link yet."],
    copies: ["Copies", [
      text("copy", (it) => it.name), number("streams", (it) => count(it.streams)),
      { head: "done", into: (cell, it) => bar(cell, it.total ? it.bytes / it.total : null, it.total ? `${bytes(it.bytes)} of ${bytes(it.total)}` : bytes(it.bytes)) },
      number("rate", (it) => (known(it.rate) ? `${bytes(it.rate)}/s` : "")),
    ], (it) => it.name, "No copy is shown: give manager.dashboard.copied(name) as progress to px.copy."],
    logs: ["Log of phalanx", [text("time", (it) => clock(it.at)), text("level", (it) => it.level), text("text", (it) => it.text)], (it) => `${it.at} ${it.text}`, "Nothing was logged."],
    bill: ["Price of protection", [text("level", (it) => it.level, { colour: (it) => it.level }), number("bytes", (it) => bytes(it.bytes)), number("cryptography at both ends", (it) => seconds(it.protection))], (it) => it.level, "Nothing was sent yet."],
  },
  grid: {
    programs: ["What users run", [
      text("user", (it) => it.user), text("runs", (it) => it.what), number("how many", (it) => count(it.count)), number("machines", (it) => count(it.machines)),
      number("rate", (it) => (it.rate ? `${bytes(it.rate)}/s` : "")),
    ], (it) => `${it.user} ${it.what}`, "Nobody runs anything."],
    members: ["Members", [
      text("name", (it) => it.name), text("role", (it) => it.role),
      text("state", state, { colour: (it) => (it.role === "user" || it.role === "owner" ? "quiet" : !it.here ? "bad" : it.closed ? "quiet" : "good") }),
      text("since", (it) => moment(it.since)), { head: "in use", into: (cell, it) => bar(cell, it.places ? it.used / it.places : null, known(it.places) ? `${it.used} of ${it.places}` : "") },
      text("runs", (it) => (it.running ?? []).join("\n"), { lines: true }), text("lost", (it) => (it.lost ? `${it.lost}: ${it.last_loss}` : ""), { colour: (it) => (it.lost ? "bad" : "") }),
      text("machine", (it) => it.machine), text("address", (it) => it.address),
    ], (it) => `${it.role} ${it.name}`, "The grid has no members."],
    links: ["Links", [
      text("from", (it) => it.from), text("to", (it) => it.to), text("for", (it) => it.what), level, text("way", (it) => (it.relayed ? "relayed by the hub" : "direct")),
      number("links", (it) => count(it.count)), number("rate", (it) => (it.rate ? `${bytes(it.rate)}/s` : "")),
    ], (it) => [it.from, it.to, it.what, it.level, it.relayed].join(" "), "No executor tells of a link."],
    copies: ["Copies", [
      text("user", (it) => it.from), text("at", (it) => it.to), level, number("streams", (it) => count(it.count)), number("rate", (it) => `${bytes(it.rate)}/s`),
    ], (it) => [it.from, it.to, it.level, it.relayed].join(" "), "Nobody copies."],
    jobs: ["Jobs", [
      number("job", (it) => String(it.id)), text("state", (it) => it.state + (it.why ? `: ${it.why}` : ""), { colour: (it) => (it.state.endsWith("ERROR") ? "bad" : it.state === "RUNNING" ? "good" : "") }),
      { head: "complete", into: (cell, it) => bar(cell, it.counts.complete / (it.last - it.first + 1), `${it.counts.complete} of ${it.last - it.first + 1}`) },
      number("running", (it) => count(it.counts.running || null)), number("waiting", (it) => count(it.counts.queued || null)), text("user", (it) => it.user),
      text("submitted", (it) => moment(it.submitted / 1000)), text("command", (it) => it.name || it.command), { head: "log", into: logButton },
    ], (it) => it.id, "There are no jobs."],
    history: ["Hours", [text("who", (it) => it.who), text("has", (it) => it.what), number("hours", (it) => round(it.hours))], (it) => `${it.what} ${it.who}`, "No hours are known yet."],
  },
};
const BOTH = {
  spaces: ["Spaces", [
    text("space", (it) => it.name), text("state", (it) => it.failure ?? "answers", { colour: (it) => (it.failure ? "bad" : "good") }), number("tuples", (it) => count(it.tuples)), number("memory", (it) => bytes(it.bytes)),
    number("wait to take", (it) => count(it.takers)), number("wait to read", (it) => count(it.readers)), number("watches", (it) => count(it.watches)), number("transactions", (it) => count(it.transactions)),
    number("out", (it) => perSecond(it.rates?.outs)), number("taken", (it) => perSecond(it.rates?.takes)), number("read", (it) => perSecond(it.rates?.reads)),
    text("indexes", (it) => (it.partitions ?? []).map((one) => `${one.signature}: ${count(one.tuples)} tuples, ${one.indexes.map((i) => `(${i.join(", ")})`).join(" ") || "no index"}`).join("\n"), { lines: true }),
  ], (it) => it.name, ""],
  events: ["Losses and recoveries, the latest first", [
    text("time", (it) => clock(it.at)), text("what", (it) => (WHAT[it.what] ?? it.what) + (it.times > 1 ? ` (${it.times} times)` : ""), { colour: (it) => tone(it.what) }), text("of", (it) => it.interpreter), text("text", (it) => it.text),
  ], (it) => it.number, "Nothing was lost."],
};
const WHAT = {
  lost: "lost", recruited: "is here", released: "released", recruit_failed: "none found", wanted: "wanted now", asked_back: "asked back", doubled: "fired twice", met: "contract met", unmet: "contract not met",
  expelled: "expelled", job: "job",
};
function tone(what) { return ["lost", "recruit_failed", "unmet", "expelled"].includes(what) ? "bad" : ["recruited", "met"].includes(what) ? "good" : "quiet"; }
function state(it) {
  if (it.role === "user" || it.role === "owner") return "";
  if (!it.here) return "away";
  return it.closed ? `closed: ${it.closed}` : it.leads ? "leads" : "here";
}

// ---- What is no table

const FIGURES = {
  program: [
    ["tasks delivered", (it) => count(it.tasks)], ["rate", (it) => perSecond(it.rate)], ["interpreters", (it) => `${it.here} of ${it.wanted}`], ["lost", (it) => count(it.lost)], ["replaced", (it) => count(it.replaced)],
    ["fired again", (it) => count(it.refired)], ["contract", (it) => (it.contract ? `${it.contract.met ? "met" : "not met"}: ${round(it.contract.reached)} of ${round(it.contract.asked)}` : "")],
  ],
  grid: [
    ["executors here", (it) => `${it.here} of ${it.executors}`], ["closed by owners", (it) => count(it.closed)], ["places in use", (it) => `${it.used} of ${it.places}`], ["lost", (it) => count(it.lost)],
    ["jobs' processes running", (it) => count(it.running)], ["… waiting", (it) => count(it.waiting)],
    ["links relayed by the hub", () => count(parts.relayed?.links)], ["relayed so far", () => bytes(parts.relayed?.bytes)],
  ],
};
function showFigures(totals) {
  const list = get("figures");
  const shown = FIGURES[parts.about.kind].map(([head, of]) => [head, of(totals)]).filter(([, value]) => value !== "");
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(([head, value], i) => {
    if (!list.children[i]) {
      const box = element("div");
      box.append(element("dt"), element("dd"));
      list.append(box);
    }
    write(list.children[i].firstChild, head);
    write(list.children[i].lastChild, value);
  });
}
function showRate(rate) {
  rates.push(rate);
  if (rates.length > MOST_RATES) rates.shift();
  const most = Math.max(...rates, 1e-9), figure = get("rate");
  figure.hidden = rates.length < 2;
  const points = rates.map((value, i) => `${(600 * i) / Math.max(rates.length - 1, 1)},${76 - (72 * value) / most}`);
  figure.querySelector("polyline").setAttribute("points", points.join(" "));
  write(figure.querySelector("title"), `Tasks a second since this page was opened: now ${round(rate)}, at most ${round(most)}`);
  write(figure.querySelector("figcaption"), `tasks a second since this page was opened, at most ${round(most)}`);
}
function showCost(bill) {
  get("bill").hidden = false;
  write(get("cost"), `Cryptography took at most ${seconds(bill.cost)} of ${seconds(bill.wall)}: ${percent(bill.share)}.`);
  tables.bill.show(bill.lines);
}

// The map: on the left those that open links, on the right machines, as many as can be read.
function showMap(links) {
  const map = get("map"), busy = [...links].sort((a, b) => (b.rate ?? 0) - (a.rate ?? 0));
  const right = [...new Set(busy.map((it) => it.to))].slice(0, MOST_NODES), chosen = busy.filter((it) => right.includes(it.to));
  const left = [...new Set(chosen.map((it) => it.from))].slice(0, MOST_NODES);
  const height = Math.max(120, 34 * Math.max(left.length, right.length) + 40), place = (all, name) => ((all.indexOf(name) + 0.5) * height) / all.length;
  map.setAttribute("viewBox", `0 0 800 ${height}`);
  const made = [];
  const pairs = new Map(); // several links of the same two: side by side
  for (const it of chosen.filter((one) => left.includes(one.from))) {
    const pair = `${it.from}\n${it.to}`, before = pairs.get(pair) ?? 0;
    pairs.set(pair, before + 1);
    const [y1, y2] = [place(left, it.from), place(right, it.to)], bend = before * 14;
    const width = 1.5 + Math.min(8, Math.log10(1 + (it.rate ?? 0) / 1e4) * 1.6);
    const edge = drawn("path", { d: `M 210 ${y1} C 380 ${y1 + bend} 420 ${y2 + bend} 590 ${y2}`, class: `edge ${it.level in LEVELS ? it.level : ""}`, "stroke-width": width });
    const title = drawn("title", {});
    title.textContent = `${it.from} to ${it.to}: ${it.level ?? "its own level"}, ${bytes(it.rate)}/s${it.relayed ? ", relayed" : ""}`;
    edge.append(title);
    made.push(edge);
  }
  const node = (x, y, name, anchor) => {
    const label = drawn("text", { x: anchor === "end" ? x - 12 : x + 12, y: y + 4, "text-anchor": anchor });
    label.textContent = name.length > 26 ? `${name.slice(0, 25)}…` : name;
    made.push(drawn("circle", { cx: x, cy: y, r: 6, class: "node" }), label);
  };
  left.forEach((name) => node(210, place(left, name), name, "end"));
  right.forEach((name) => node(590, place(right, name), name, "start"));
  while (map.children.length > 1) map.lastChild.remove();
  map.append(...made);
  const left_out = new Set(links.map((it) => it.to)).size - right.length;
  write(get("left-out"), left_out > 0 ? `The map has the ${MOST_NODES} machines with the highest rates; ${left_out} more are in the table.` : "");
  document.querySelector(".map").hidden = !links.length;
}
function showLegend() {
  for (const [name, words] of Object.entries(LEVELS)) {
    const item = element("li"), line = drawn("svg", { viewBox: "0 0 48 8", "aria-hidden": "true" });
    line.append(drawn("path", { d: "M 0 4 H 48", class: `edge ${name}`, "stroke-width": 3 }));
    item.append(line, element("span", "", words));
    get("legend").append(item);
  }
}
function showLine(events) {
  const line = get("line"), first = events.length ? events[0].at : 0, last = Math.max(parts.at ?? 0, first + 1);
  const made = [drawn("line", { x1: 0, y1: 30, x2: 800, y2: 30, class: "axis" })];
  for (const it of events) {
    const x = 4 + (792 * (it.at - first)) / (last - first), colour = tone(it.what);
    made.push(drawn("line", { x1: x, x2: x, y1: colour === "bad" ? 30 : 12, y2: colour === "bad" ? 54 : 30, class: `mark ${{ bad: "lost", good: "recovered" }[colour] ?? ""}` }));
  }
  while (line.children.length > 1) line.lastChild.remove();
  line.append(...made);
  document.querySelector(".line").hidden = !events.length;
  write(get("span"), events.length ? `from ${clock(first)} to ${clock(last)}; losses below the line, recoveries above it` : "");
}

// ---- Logs of jobs

let logOf = null;
function logButton(cell, it) {
  if (cell.firstChild) return;
  const button = element("button", "", "log");
  button.type = "button";
  button.setAttribute("aria-label", `log of job ${it.id}`);
  button.addEventListener("click", () => {
    logOf = it.id;
    get("log-index").value = it.first;
    get("log").hidden = false;
    write(get("log-head"), `Log of job ${it.id}`);
    get("log-head").focus();
    showLog();
  });
  cell.append(button);
}
async function showLog() {
  const index = get("log-index").value.trim(), stream = get("log-stream").value;
  if (logOf === null || !/^[0-9]{1,15}$/.test(index)) return write(get("log-state"), "An index is a number.");
  let start = 0, told = {}, all = "";
  for (let pieces = 0; pieces < 16; pieces++) { // a megabyte: phalanx logs has the rest
    const answer = await fetch(`log?job=${logOf}&index=${index}&stream=${stream}&start=${start}`);
    if (!answer.ok) return write(get("log-state"), await answer.text());
    told = await answer.json();
    if (told.failure) return write(get("log-state"), told.failure);
    all += told.text;
    if (told.next === start) break;
    start = told.next;
  }
  write(get("log-text"), all);
  write(get("log-state"), all ? `${told.state}` : `no lines: ${told.state}`);
}

// ---- From the stream to the page

const tables = {};
function begin(kind) {
  for (const [section, words] of Object.entries({ ...TABLES[kind], ...BOTH })) {
    const [name, columns, key, nothing] = words;
    tables[section] = new Table(section, name, columns, key, nothing);
  }
  showLegend();
}
function showNavigation() {
  const shown = [...document.querySelectorAll("main > section")].filter((it) => !it.hidden && it.id !== "log");
  const list = get("parts");
  if (list.dataset.of === shown.map((it) => it.id).join()) return;
  list.dataset.of = shown.map((it) => it.id).join();
  list.replaceChildren(...shown.map((it) => {
    const link = element("a", "", it.querySelector("h2").textContent);
    link.href = `#${it.id}`;
    return link;
  }));
}
const SPECIAL = {
  totals: showFigures, bill: showCost,
  links: (links) => { showMap(links); tables.links.show(links); },
  events: (events) => tables.events.show([...events].reverse()),
  spaces: (spaces) => { if (spaces.length || tables.spaces.data.length) tables.spaces.show(spaces); },
  logs: (lines) => tables.logs.show([...lines].reverse()),
};
function take(changed) {
  Object.assign(parts, changed);
  if (!parts.about) return tell(parts.failure ?? "waiting for figures", "bad");
  if (!Object.keys(tables).length) begin(parts.about.kind);
  const name = parts.about.kind === "grid" ? `${parts.about.hub ? "grid" : "executors"} ${parts.about.title}` : `${parts.about.title} (process ${parts.about.pid})`;
  write(get("title"), name);
  document.title = `${name} – phalanx`;
  for (const [part, value] of Object.entries(changed)) {
    if (SPECIAL[part]) SPECIAL[part](value);
    else if (tables[part]) tables[part].show(value);
  }
  if (known(parts.totals?.rate)) showRate(parts.totals.rate); // at each reading, also of an equal rate
  if (parts.events) showLine(parts.events);
  showNavigation();
  write(get("as-of"), `as of ${clock(parts.at)}`);
  const missing = (parts.missing ?? []).join("; ");
  tell(parts.failure ?? (missing ? `some parts are missing: ${missing}` : "live"), parts.failure || missing ? "bad" : "good");
}
function tell(words, colour) {
  write(get("state"), words); // a screen reader says this line when it changes, and no other one
  get("state").className = colour;
}

get("log-of").addEventListener("submit", (event) => { event.preventDefault(); showLog(); });
get("log-close").addEventListener("click", () => { get("log").hidden = true; logOf = null; });
const stream = new EventSource("events");
stream.addEventListener("message", (event) => take(JSON.parse(event.data)));
stream.addEventListener("end", () => { stream.close(); tell("The dashboard has ended. These are the last figures.", "bad"); });
stream.addEventListener("error", () => tell(stream.readyState === EventSource.CLOSED ? "Not connected: the dashboard has ended, or too many pages are open. Reload this page." : "The connection is lost; trying again …", "bad"));
