// The status page of a node. It asks status/data every two seconds and draws the answer. Everything from the server
// becomes text nodes and attributes, never markup.
"use strict";

const every = 2000;
const columns = [
  { id: "name", label: "Topic" },
  { id: "lag", label: "Lag", about: "messages above the frontier" },
  { id: "age", label: "Oldest", about: "age of the oldest message that is not settled" },
  { id: "leases", label: "Leased" },
  { id: "ahead", label: "Acked ahead" },
  { id: "parked", label: "Waiting consumers" },
  { id: "in", label: "In /s" },
  { id: "out", label: "Acked /s" },
  { id: "", label: "3 minutes" },
  { id: "bytes", label: "Size" },
];
const partColumns = ["Partition", "Oldest", "Frontier", "High watermark", "", "Lag", "Age", "Leased", "Acked ahead", "Segments", "Size"];

const ask = { q: "", sort: "name", page: 1, topic: "" };
let paused = false;
let timer = 0;
let asking = null;

const at = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") e.className = value;
    else if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
}

function draw(tag, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

const whole = new Intl.NumberFormat("en");
const number = (n) => whole.format(Math.round(n));

function rate(n) {
  return n >= 100 || n === 0 ? number(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

function size(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

function span(s) {
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 10 && s % 1) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " d";
}

// spark draws one or two runs of samples in a box of 90 by 30, on one scale.
function spark(label, ...runs) {
  const top = Math.max(...runs.flat(), 1e-9);
  const svg = draw("svg", { class: "spark", viewBox: "0 0 90 30", preserveAspectRatio: "none", role: "img", "aria-label": label });
  runs.forEach((run, k) => {
    if (run.length < 2) return;
    const x = (i) => (90 - (run.length - 1 - i) * (90 / 89)).toFixed(2);
    const y = (v) => (28 - (v / top) * 24).toFixed(2);
    const line = run.map((v, i) => (i ? "L" : "M") + x(i) + " " + y(v)).join("");
    if (k === 0) svg.append(draw("path", { class: "area", d: line + "L90 30L" + x(0) + " 30Z" }));
    svg.append(draw("path", { class: k ? "run second" : "run", d: line }));
  });
  return svg;
}

function card(title, value, unit, note, runs, state = "") {
  const label = title + " over the last three minutes";
  return make("article", { class: "card " + state },
    make("h3", {}, title),
    make("p", { class: "value" }, value, " ", make("small", {}, unit)),
    make("p", { class: "note" }, note),
    spark(label, ...runs));
}

const last = (run) => (run.length ? run[run.length - 1] : 0);

function showNode(s) {
  const n = s.node;
  at("node-section").hidden = !n;
  if (!n) {
    at("about").textContent = "The topics that you may read.";
    return;
  }
  at("node").textContent = n.name;
  at("about").textContent = [n.version, "up " + span(n.uptime_s), n.metastore && "metastore " + n.metastore].filter(Boolean).join(" · ");
  const r = n.rates;
  const free = n.disk_total ? n.disk_available / n.disk_total : 1;
  const late = n.unpersisted_disk_s > 3 * n.durability_interval_s + 1;
  at("cards").replaceChildren(
    card("Accepted", rate(last(r.accepted)), "messages/s", number(last(r.batch)) + " per sync of the ingress log", [r.accepted]),
    card("Delivered and acked", rate(last(r.delivered)), "messages/s", rate(last(r.acked)) + " acked/s, the green line", [r.delivered, r.acked]),
    card("Lag", number(s.totals.lag), "messages", number(s.totals.leases) + " leased · " + number(s.totals.parked) + " consumers wait", [r.lag]),
    card("Ingress backlog", number(n.backlog), "messages", n.wal_failed ? "the ingress log has failed" : "accepted, not yet in their partition", [r.backlog], n.wal_failed ? "bad" : ""),
    card("Sync of the ingress log", last(r.sync_ms).toFixed(2), "ms", "average of the last two seconds", [r.sync_ms]),
    card("Acks not on the disk", span(n.unpersisted_disk_s), "old", "due every " + span(n.durability_interval_s) + " · page cache " + span(n.unpersisted_cache_s), [r.late_s], late ? "warn" : ""),
    card("Stored", rate(last(r.stored)), "messages/s", number(n.open_logs) + " of " + number(s.totals.partitions) + " partition logs open", [r.stored]),
    disk(n, free));
}

// disk is the card of the disk: a bar instead of a run.
function disk(n, free) {
  const used = Math.min(Math.max(1 - free, 0), 1);
  const svg = draw("svg", { viewBox: "0 0 100 44", preserveAspectRatio: "none", role: "img", "aria-label": Math.round(used * 100) + " percent of the disk are in use" },
    draw("rect", { class: "done", x: "5", y: "16", width: "90", height: "10", opacity: "0.35" }),
    draw("rect", { class: free < 0.05 ? "lost" : "todo", x: "5", y: "16", width: (90 * used).toFixed(2), height: "10" }));
  return make("article", { class: "card " + (free < 0.05 ? "bad" : "") },
    make("h3", {}, "Disk space"),
    make("p", { class: "value" }, n.disk_total ? size(n.disk_available) : "unknown", " ", make("small", {}, "free")),
    make("p", { class: "note" }, size(n.data_bytes || 0) + " of data" + (n.disk_total ? " · disk of " + size(n.disk_total) : "")),
    svg);
}

function showTroubles(s) {
  const troubles = s.node ? s.node.troubles : [];
  const texts = troubles.map((t) => t.text).join("\n");
  if (at("troubles").dataset.texts === texts) return; // said already: do not repeat it to a screen reader
  at("troubles").dataset.texts = texts;
  at("troubles").replaceChildren(...troubles.map((t) => make("p", { class: "trouble" + (t.severe ? " severe" : "") }, t.text)));
}

function figure(n, text = number(n), late = false) {
  return make("td", { class: late ? "late" : n === 0 ? "zero" : "" }, text);
}

function row(t) {
  const name = make("th", { scope: "row" }, make("button", { type: "button", class: "name", title: t.name, "aria-expanded": String(t.name === ask.topic), onclick: () => choose(t.name) }, t.name));
  if (t.missed) name.append(make("span", { class: "tag" }, number(t.missed) + " lost to retention"));
  if (t.unknown === t.partitions) name.append(make("span", { class: "tag quiet" }, "not looked up yet"));
  return make("tr", { class: t.name === ask.topic ? "chosen" : "" },
    name, figure(t.lag), figure(t.age_s, t.age_s ? span(t.age_s) : "–", t.age_s > 300), figure(t.leases), figure(t.ahead), figure(t.parked),
    figure(t.in, rate(t.in)), figure(t.out, rate(t.out)),
    make("td", {}, spark("messages in and acked over the last three minutes", t.in_run, t.out_run)), figure(t.bytes, size(t.bytes)));
}

// replaceRows draws rows anew and leaves the focus on the button that had it.
function replaceRows(body, rows) {
  const focused = document.activeElement;
  const name = body.contains(focused) ? focused.title : "";
  body.replaceChildren(...rows);
  if (name) [...body.querySelectorAll("button.name")].find((b) => b.title === name)?.focus();
}

function showTopics(s) {
  const t = s.topics;
  const sum = s.totals;
  at("summary").textContent = ask.q
    ? number(t.found) + " of " + number(sum.topics) + " topics match"
    : number(sum.topics) + (sum.topics === 1 ? " topic, " : " topics, ") + number(sum.partitions) + " partitions, " + size(sum.bytes);
  ask.page = t.page;
  at("page").textContent = "Page " + number(t.page) + " of " + number(t.pages);
  at("prev").disabled = t.page <= 1;
  at("next").disabled = t.page >= t.pages;
  const none = sum.topics === 0 ? "There are no topics yet." : "No topic has that in its name.";
  replaceRows(at("rows"), t.items.length ? t.items.map(row) : [make("tr", {}, make("td", { class: "empty", colspan: String(columns.length) }, none))]);
  for (const th of at("head").children) {
    if (!th.dataset.id) continue;
    const by = ask.sort.replace("-", "") === th.dataset.id;
    th.setAttribute("aria-sort", by ? (ask.sort.startsWith("-") ? "descending" : "ascending") : "none");
  }
}

// extent draws a partition from its first offset, or from its frontier if that is lower, to its high watermark.
function extent(p) {
  const from = Math.min(p.oldest, p.frontier + 1);
  const all = Math.max(p.high_watermark - from, 1);
  const done = Math.max(p.frontier + 1 - from, 0);
  const parts = [["done", done], ["lost", p.missed], ["ahead", p.ahead], ["leased", p.leases], ["todo", Math.max(p.lag - p.missed - p.ahead - p.leases, 0)]];
  const svg = draw("svg", { class: "extent", viewBox: "0 0 220 14", role: "img",
    "aria-label": number(done) + " settled, " + number(p.ahead) + " acked ahead, " + number(p.leases) + " leased, " + number(p.lag) + " lag" });
  let x = 0;
  for (const [kind, n] of parts) {
    if (n <= 0) continue;
    const width = Math.max((n / all) * 220, 2);
    svg.append(draw("rect", { class: kind, x: Math.min(x, 218).toFixed(1), y: "1", width: width.toFixed(1), height: "12", rx: "2" }));
    x += width;
  }
  return svg;
}

function part(p) {
  const name = make("th", { scope: "row" }, "p" + p.partition, make("span", { class: "tag quiet" }, p.open ? "open" : "closed"));
  if (!p.known) {
    return make("tr", {}, name, make("td", { class: "empty", colspan: String(partColumns.length - 1) }, "nobody has looked at it since the start"));
  }
  return make("tr", {}, name, figure(p.oldest), figure(p.frontier < 0 ? 0 : p.frontier, p.frontier < 0 ? "none" : number(p.frontier)), figure(p.high_watermark),
    make("td", {}, extent(p)), figure(p.lag), figure(p.age_s, p.lag && p.age_s ? span(p.age_s) : "–", p.age_s > 300),
    figure(p.leases), figure(p.ahead), figure(p.segments), figure(p.bytes, size(p.bytes)));
}

function showDetail(s) {
  const t = s.topic;
  at("detail").hidden = !t;
  if (!t) return;
  at("h-detail").textContent = t.name;
  at("detail-about").textContent = ["incarnation " + t.id, t.retention_ms ? "kept for " + span(t.retention_ms / 1000) : "kept for ever",
    "lease " + span(t.visibility_timeout_ms / 1000), "in flight ≤ " + number(t.max_in_flight_per_partition),
    "ahead ≤ " + number(t.max_acked_ahead_per_partition)].join(" · ");
  at("parts").replaceChildren(...t.parts.map(part));
}

function say(state, text) {
  at("live").className = "live " + state;
  if (at("live-text").textContent !== text) at("live-text").textContent = text;
}

async function update() {
  clearTimeout(timer);
  asking?.abort();
  const mine = (asking = new AbortController());
  try {
    const answer = await fetch("status/data?" + new URLSearchParams({ ...ask, size: 50 }), { signal: mine.signal, headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.status === 401 || answer.status === 403 ? "not allowed" : "answer " + answer.status);
    const s = await answer.json();
    if (mine !== asking) return;
    showNode(s);
    showTroubles(s);
    showTopics(s);
    showDetail(s);
    say(paused ? "paused" : "", paused ? "paused" : "live");
  } catch (err) {
    if (mine !== asking) return; // another question is on its way
    say("stale", err.name === "TypeError" ? "no connection" : err.message);
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(update, every);
}

function choose(topic) {
  ask.topic = ask.topic === topic ? "" : topic;
  remember();
  update().then(() => ask.topic && at("detail").scrollIntoView({ block: "nearest" }));
}

function sortBy(id) {
  const first = id === "name" ? id : "-" + id; // figures: the largest first
  const other = id === "name" ? "-" + id : id;
  ask.sort = ask.sort === first ? other : first;
  ask.page = 1;
  remember();
  update();
}

// remember keeps what is shown in the address, so that it can be sent to somebody.
function remember() {
  const shown = Object.entries(ask).filter(([k, v]) => v && !(k === "page" && v === 1) && !(k === "sort" && v === "name"));
  history.replaceState(null, "", shown.length ? "#" + new URLSearchParams(shown) : location.pathname);
}

function recall() {
  const from = new URLSearchParams(location.hash.slice(1));
  ask.q = from.get("q") ?? "";
  ask.topic = from.get("topic") ?? "";
  ask.page = Math.max(parseInt(from.get("page") ?? "1", 10) || 1, 1);
  const sort = from.get("sort") ?? "name";
  ask.sort = columns.some((c) => c.id && c.id === sort.replace("-", "")) ? sort : "name";
  at("q").value = ask.q;
}

function start() {
  for (const c of columns) {
    at("head").append(c.id
      ? make("th", { scope: "col", "data-id": c.id, "aria-sort": "none" }, make("button", { type: "button", title: c.about ?? "", onclick: () => sortBy(c.id) }, c.label))
      : make("th", { scope: "col", class: "plain" }, c.label));
  }
  for (const label of partColumns) at("part-head").append(make("th", { scope: "col", class: "plain" }, label));
  const theme = localStorage.getItem("narad-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  at("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("narad-theme", dark ? "light" : "dark");
  });
  at("pause").addEventListener("click", () => {
    paused = !paused;
    at("pause").textContent = paused ? "Resume" : "Pause";
    at("pause").setAttribute("aria-pressed", String(paused));
    if (paused) say("paused", "paused");
    else update();
  });
  let typed = 0;
  at("q").addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => {
      ask.q = at("q").value.trim();
      ask.page = 1;
      remember();
      update();
    }, 150);
  });
  for (const [id, by] of [["prev", -1], ["next", 1]]) {
    at(id).addEventListener("click", () => {
      ask.page += by;
      remember();
      update();
    });
  }
  at("close").addEventListener("click", () => {
    const topic = ask.topic;
    choose(topic);
    [...document.querySelectorAll("button.name")].find((b) => b.title === topic)?.focus();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : paused || update()));
  window.addEventListener("hashchange", () => { recall(); update(); });
  recall();
  update();
}

start();
