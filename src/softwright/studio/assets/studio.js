"use strict";
/* The studio's page: sends what is asked, looks at how it stands, shows pages of networks in sandboxed frames. */
const $ = id => document.getElementById(id);
function el(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) name.startsWith("on") ? made.addEventListener(name.slice(2), value) : name in made ? made[name] = value : made.setAttribute(name, value);
  made.append(...inside);
  return made;
}
const NUMBERS = ["tol", "low", "high", "penalty", "features"];
let jobs = [], chosen = "", other = "", dropped = null, shownKey = "", last = null;
async function ask(path, options) {
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => ({error: `no answer (${response.status})`}));
  if (!response.ok) throw new Error(answer.faults && answer.faults.length > 1 ? answer.faults.join("\n") : answer.error);
  return answer;
}
const post = (path, data) => ask(path, {method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify(data || {})});

ask("/forms").then(forms => {
  for (const [form, name, first] of [["approximate", "strategy", "auto"], ["in_context", "method", "ridge"], ["fit", "method", "ridge"]]) document.querySelector(`[data-for="${form}"] [name=${name}]`).replaceChildren(...forms[form][name].map(text => el("option", {selected: text === first}, text)));
});
let zoo = {};
function models() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean), groups = [];
  for (const [group, rows] of Object.entries(zoo)) {
    const fitting = rows.filter(([name, said]) => words.every(word => `${group} ${name} ${said}`.toLowerCase().includes(word)));
    if (fitting.length) groups.push(el("optgroup", {label: group}, ...fitting.map(([name, said]) => el("option", {value: name}, said && said !== name ? `${name}: ${said}` : name))));
  }
  $("models").replaceChildren(...groups);
  if ($("models").options.length) $("models").selectedIndex = 0;
}
ask("/zoo").then(rows => { zoo = rows; models(); });
$("find").addEventListener("input", models);
$("models").addEventListener("dblclick", () => $("form").requestSubmit());
const fields = () => [...document.querySelectorAll(".fields")].filter(part => part.dataset.for.split(" ").includes($("what").value));
function turn() {
  document.querySelectorAll(".fields").forEach(part => { part.hidden = !part.dataset.for.split(" ").includes($("what").value); });
  $("fault").textContent = "";
}
$("what").addEventListener("change", turn);
turn();
function took(file) { dropped = file; $("drop").textContent = file ? file.name : "or drop it here"; }
$("file").addEventListener("change", () => took($("file").files[0] || null));
for (const name of ["dragover", "drop", "dragleave"]) addEventListener(name, event => {
  event.preventDefault();
  $("drop").classList.toggle("over", name === "dragover");
  if (name !== "drop" || !event.dataTransfer.files.length) return;
  const file = event.dataTransfer.files[0];
  if (!["table", "memorize", "transpile", "fit", "open", "verify"].includes($("what").value)) { $("what").value = /\.(csv|npz|parquet)$/i.test(file.name) ? "table" : /\.jsonl$/i.test(file.name) ? "memorize" : /\.onnx$/i.test(file.name) ? "transpile" : "verify"; turn(); }
  took(file);
});
$("form").addEventListener("submit", async event => {
  event.preventDefault();
  $("fault").textContent = "";
  const data = {what: $("what").value};
  for (const part of fields()) for (const input of part.querySelectorAll("[name]")) {
    const value = (input.value || "").trim();
    if (NUMBERS.includes(input.name)) { if (value !== "") data[input.name] = Number(value); } else data[input.name] = value;
  }
  try {
    if (fields().some(part => part.contains($("file")))) {
      if (!dropped) throw new Error("choose a file first");
      const sent = await ask(`/uploads?name=${encodeURIComponent(dropped.name)}`, {method: "POST", headers: {"content-type": "application/octet-stream"}, body: dropped});
      data.file = sent.id;
    }
    const made = await post("/jobs", data);
    other = "";
    choose(made.id);
    await refresh();
  } catch (error) { $("fault").textContent = error.message; }
});
function choose(id) { chosen = id; shownKey = ""; list(); detail(); }
function list() {
  $("jobs").replaceChildren(...jobs.map(job => el("li", null, el("button", {type: "button", ariaPressed: String(job.id === chosen), onclick: () => choose(job.id)}, job.title,
    el("span", {className: `state ${job.state}`}, `${job.what}, ${job.state}${job.bound !== null && job.bound !== undefined ? job.bound === 0 ? ", proved exact" : `, proved \u2264 ${job.bound < 1e-3 ? job.bound.toExponential(2).replace(/\.?0+e/, "e") : Number(job.bound.toPrecision(3))}` : ""}${job.state === "running" && job.last ? `: ${job.last}` : ""}`)))));
}
async function refresh() {
  try {
    const answer = await ask("/jobs");
    jobs = answer.jobs;
    $("queue").textContent = answer.waiting ? `${answer.waiting} job(s) wait` : "";
    list();
    if (!chosen && jobs.length) choose(jobs[0].id);
    else if (chosen) await detail();
  } catch (error) { $("queue").textContent = error.message; }
}
function frame(id, title) { return el("iframe", {sandbox: "allow-scripts", src: `/jobs/${id}/page`, title}); }
async function detail() {
  const id = chosen;
  let job;
  try { job = await ask(`/jobs/${id}`); } catch (error) { if (id === chosen) { $("shown").textContent = "nothing chosen"; $("state").textContent = error.message; } return; }
  if (id !== chosen) return;
  last = job;
  const open = job.state === "queued" || job.state === "running";
  $("shown").textContent = job.title;
  const verdict = job.result.verdict ? `${job.result.verdict}` : "";
  $("state").textContent = verdict || `${job.state}${job.seconds ? `, ${job.seconds} s` : ""}${job.error && job.error !== job.state ? `: ${job.error}` : ""}${job.result.note ? `; ${job.result.note}` : ""}`;
  const text = (job.result.text ? [job.result.text] : job.messages.slice().reverse()).join("\n");
  if ($("log").textContent !== text) $("log").textContent = text;
  $("log").hidden = !text;
  grow(job.boxes);
  const key = [id, job.state, other, jobs.filter(one => one.kind && one.state === "done").length].join();
  if (key === shownKey) return;
  shownKey = key;
  const actions = [];
  if (open) actions.push(el("button", {type: "button", id: "stop", onclick: () => post(`/jobs/${id}/stop`).then(refresh)}, "stop"));
  else actions.push(el("button", {type: "button", onclick: () => post(`/jobs/${id}/delete`).then(() => { chosen = ""; refresh(); })}, "delete"));
  for (const name of job.files) actions.push(el("a", {className: "button", href: `/jobs/${id}/files/${name}`, download: ""}, name));
  const rest = jobs.filter(one => one.id !== id && one.state === "done" && one.kind);
  if (job.result.kind && rest.length) {
    const select = el("select", {id: "compare"}, el("option", {value: ""}, "nothing"), ...rest.map(one => el("option", {value: one.id, selected: one.id === other}, one.title)));
    select.addEventListener("change", () => { other = select.value; shownKey = ""; detail(); });
    actions.push(el("label", null, "compare with ", select));
  }
  $("actions").replaceChildren(...actions);
  const shown = job.result.kind ? [frame(id, `page of ${job.title}`)] : [];
  let second = null;
  if (job.result.kind && other && other !== id) {
    second = await ask(`/jobs/${other}`).catch(() => null);
    if (second && second.result.kind) shown.push(frame(other, `page of ${second.title}`)); else second = null;
  }
  facts(job, second);
  $("frames").className = shown.length > 1 ? "two" : "";
  $("frames").replaceChildren(...shown);
}
/* The boxes that a running proof has settled: first variable to the right, second one up. */
function grow(boxes) {
  const canvas = $("growth"), g = canvas.getContext("2d"), {width, height} = canvas, colours = getComputedStyle(document.documentElement);
  canvas.hidden = !boxes.length;
  canvas.ariaLabel = `${boxes.length} boxes of the proof are settled`;
  g.clearRect(0, 0, width, height);
  g.fillStyle = colours.getPropertyValue("--hot"); g.strokeStyle = colours.getPropertyValue("--net");
  for (const [left, right, below, above] of boxes) {
    const place = [left * width, (1 - above) * height, (right - left) * width, (above - below) * height];
    g.fillRect(...place); g.strokeRect(...place);
  }
}
/* Two results side by side; what differs is marked. */
function facts(job, second) {
  $("facts-box").hidden = !second;
  if (!second) return;
  const mine = new Map(job.result.rows), theirs = new Map(second.result.rows), names = [...new Set([...mine.keys(), ...theirs.keys()])];
  $("facts").replaceChildren(el("thead", null, el("tr", null, el("th", {scope: "col"}, ""), el("th", {scope: "col"}, job.title), el("th", {scope: "col"}, second.title))),
    el("tbody", null, ...names.map(name => el("tr", {className: mine.get(name) === theirs.get(name) ? "" : "differs"}, el("th", {scope: "row"}, name), el("td", null, mine.get(name) || ""), el("td", null, theirs.get(name) || "")))));
}
const busy = () => jobs.some(job => job.state === "queued" || job.state === "running");
(function tick() { setTimeout(async () => { if (busy()) await refresh(); tick(); }, 700); })();
refresh();
