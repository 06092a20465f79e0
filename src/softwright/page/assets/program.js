/* A program over sequences: tokens by place and field, layers of heads over a bank and the tokens, outputs at each token. */
const W = D.width, depth = D.program.length, [shortest, most] = D.length;
const bank = {count: D.bank.shape[0], v: dense(D.bank)}, base = dense(D.base), places = dense(D.places);
const embedding = D.fields.map(field => dense(field.rows));
function embed(given) {
  const count = given[0].length, v = new Float64Array(count * W);
  for (let t = 0; t < count; t++) {
    for (let c = 0; c < W; c++) v[t * W + c] = rnd(base[c] + places[t * W + c]);
    D.fields.forEach((field, k) => {
      const x = rnd(given[k][t]), row = field.kind === "real" ? 0 : x - field.low;
      for (let c = 0; c < W; c++) { const r = embedding[k][row * W + c]; if (r) v[t * W + c] = rnd(v[t * W + c] + (field.kind === "real" ? rnd(x * r) : r)); }
    });
  }
  return {count, v};
}
/* One layer; `watch` is given the weights of every head at every token. */
function applyLayer(place, data, watch) {
  const keys = {count: bank.count + data.count, v: new Float64Array((bank.count + data.count) * W)}, next = data.v.slice();
  keys.v.set(bank.v); keys.v.set(data.v, bank.v.length);
  D.layers[D.program[place]].forEach((head, h) => {
    const q = map(data, W, head.Wq), k = map(keys, W, head.Wk), v = map(keys, W, head.Wv), scores = new Float64Array(keys.count), mixed = new Float64Array(data.count * v.wide);
    for (let t = 0; t < data.count; t++) {
      const seen = D.causal[place][h] ? bank.count + t + 1 : keys.count;
      for (let j = 0; j < seen; j++) {
        let s = 0;
        for (let c = 0; c < q.wide; c++) s = rnd(s + rnd(q.v[t * q.wide + c] * k.v[j * k.wide + c]));
        scores[j] = s;
      }
      softmax(scores, seen);
      for (let j = seen; j < keys.count; j++) scores[j] = 0;
      for (let j = 0; j < seen; j++) { const w = scores[j]; if (w) for (let c = 0; c < v.wide; c++) mixed[t * v.wide + c] = rnd(mixed[t * v.wide + c] + rnd(w * v.v[j * v.wide + c])); }
      if (watch) watch(h, t, scores);
    }
    const written = map({count: data.count, v: mixed}, v.wide, head.Wo).v;
    if (watch) watch(h, -1, written);
    for (let p = 0; p < next.length; p++) if (written[p]) next[p] = rnd(next[p] + written[p]);
  });
  return {count: data.count, v: next};
}
/* Everything on the way: streams after each layer, and each head's weights and what it writes. */
function run(given) {
  const states = [embed(given)], heads = [];
  for (let p = 0; p < depth; p++) {
    const own = D.layers[D.program[p]].map(() => ({weights: [], written: null}));
    states.push(applyLayer(p, states[p], (h, t, held) => { if (t < 0) own[h].written = held; else own[h].weights.push(held.slice()); }));
    heads.push(own);
  }
  const out = map(states[depth], W, D.read);
  return {states, heads, outputs: Array.from({length: out.count}, (_, t) => Array.from(out.v.slice(t * out.wide, (t + 1) * out.wide)))};
}
softwright.run = given => run(D.fields.map(field => given[field.name])).outputs;
softwright.weights = (given, layer, head) => run(D.fields.map(field => given[field.name])).heads[layer][head].weights.map(row => Array.from(row));

/* Values as people write them. */
const word = (field, x) => field.kind === "symbol" ? D.symbols[x] : field.kind === "truth" ? (x ? "true" : "false") : fmt(x, 6);
const single = field => field.kind === "symbol" && field.codes.every(code => D.symbols[code].length === 1);
const written = (field, xs) => xs.map(x => word(field, x)).join(single(field) ? "" : " ");
const shownOutput = (kind, v) => kind === "symbol" ? D.symbols[clamp(Math.round(v), 0, D.symbols.length - 1)] : kind === "truth" ? (v > 0.5 ? "true" : "false") : kind === "integer" ? String(Math.round(v)) : fmt(v, 7);
function readField(field, text) {
  const parts = single(field) ? Array.from(text).filter(c => c.trim() || D.symbols.includes(c)) : text.split(/[\s,]+/).filter(Boolean);
  return parts.map(part => {
    if (field.kind === "symbol") { const code = D.symbols.indexOf(part); if (!field.codes.includes(code)) throw new Error(`${field.name}: ${part} is no symbol; there are ${field.codes.map(c => D.symbols[c]).join(" ")}`); return code; }
    const low = part.toLowerCase(), x = field.kind === "truth" && (low === "true" || low === "false") ? Number(low === "true") : Number(part);
    if (!Number.isFinite(x) || x < field.low || x > field.high || (field.kind !== "real" && !Number.isInteger(x))) throw new Error(`${field.name}: ${part} is no ${field.kind === "real" ? "" : "whole "}number from ${fmt(field.low)} to ${fmt(field.high)}`);
    return x;
  });
}
let given = D.fields.map(field => D.start[field.name].slice()), result = null, layer = 0, head = 0, asking = 0, held = -1, numeric = Math.max(0, D.fields.findIndex(f => f.kind === "real" || f.kind === "integer"));
const boxes = D.fields.map((field, k) => {
  const box = el("input", {className: "mono", size: 60, autocomplete: "off", spellcheck: false, ariaLabel: `values of ${field.name}`});
  $("typed").append(el("div", {className: "choices"}, el("label", null, el("span", {className: "mono"}, field.name), box)));
  box.addEventListener("input", () => {
    try {
      const read = readField(field, box.value), old = given[k].length;
      if (read.length < shortest || read.length > most) throw new Error(`${read.length} token(s); this page takes ${shortest} to ${most}`);
      given = given.map((xs, other) => other === k ? read : Array.from({length: read.length}, (_, t) => xs[Math.min(t, old - 1)]));
      $("fault").textContent = "";
      show(k);
    } catch (error) { $("fault").textContent = error.message; }
  });
  return box;
});
$("how").textContent = D.fields.map(field => `${field.name}: ${field.kind === "symbol" ? `symbols ${field.codes.slice(0, 30).map(c => D.symbols[c]).join(" ")}` : field.kind === "truth" ? "true or false" : `${field.kind === "real" ? "" : "whole "}numbers from ${fmt(field.low)} to ${fmt(field.high)}`}`).join("; ") + `; ${shortest} to ${most} tokens${D.longest > most ? ` here, ${D.longest} in Python` : ""}`;
const order = change => { given = given.map(xs => change(xs.slice())); show(-1); };
function moveToken(from, to) {
  if (to < 0 || to >= given[0].length || from === to) return;
  order(xs => { xs.splice(to, 0, ...xs.splice(from, 1)); return xs; });
  asking = to;
}
function drop(t) { if (given[0].length > shortest) order(xs => { xs.splice(t, 1); return xs; }); }
$("edit").append(
  el("button", {type: "button", onclick: () => { if (given[0].length < most) order(xs => [...xs, xs[xs.length - 1]]); }}, "one more token"),
  el("button", {type: "button", onclick: () => drop(given[0].length - 1)}, "one token less"),
  el("button", {type: "button", onclick: () => order(xs => xs.reverse())}, "backwards"),
  el("button", {type: "button", onclick: () => { given = D.fields.map(field => D.start[field.name].slice()); show(-1); }}, "as it was"));
function tokenRow() {
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.token : undefined;
  $("row").replaceChildren(...given[0].map((_, t) => {
    const name = D.fields.map((field, k) => word(field, given[k][t])).join(", ");
    const button = el("button", {type: "button", ariaPressed: String(t === asking), title: `token ${t}: shift and arrows move it, Delete takes it away`, onclick: () => { asking = t; show(-1); }}, name, el("small", null, result.outputs[t].map((v, o) => shownOutput(D.outputs[o], v)).join(", ")));
    button.dataset.token = t;
    button.addEventListener("pointerdown", () => { held = t; });
    button.addEventListener("keydown", event => {
      const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      if (event.key === "Delete") { drop(t); focusToken(Math.min(t, given[0].length - 1)); }
      if (!step) return;
      event.preventDefault();
      if (event.shiftKey) moveToken(t, t + step);
      focusToken(clamp(t + step, 0, given[0].length - 1));
    });
    return el("li", null, button);
  }));
  if (focused !== undefined) focusToken(Math.min(+focused, given[0].length - 1));
}
const focusToken = t => { const button = $("row").children[t]; if (button) button.firstChild.focus(); };
addEventListener("pointermove", event => {
  if (held < 0) return;
  const over = document.elementFromPoint(event.clientX, event.clientY), button = over && over.closest("[data-token]");
  if (button && +button.dataset.token !== held) { const to = +button.dataset.token; moveToken(held, to); held = to; }
});
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { held = -1; });

/* Values of numbers as bars that can be pulled. */
const numbersOf = D.fields.map((field, k) => [field, k]).filter(([field]) => field.kind === "real" || field.kind === "integer");
const bars = new Plot($("drag"));
$("drag-box").hidden = !numbersOf.length;
if (numbersOf.length > 1) choose($("which"), "values of", numbersOf.map(([field]) => field.name), i => { numeric = numbersOf[i][1]; soon(drawBars); });
function drawBars() {
  if (!numbersOf.length) return;
  const field = D.fields[numeric], xs = given[numeric];
  const g = bars.begin([-0.5, xs.length - 0.5], widened([field.low, field.high], 0.04));
  const zero = bars.Y(clamp(0, ...bars.y)), wide = Math.max(2, 0.6 * (bars.X(1) - bars.X(0)));
  xs.forEach((x, t) => { g.fillStyle = t === asking ? colour("bad") : colour("net"); g.fillRect(bars.X(t) - wide / 2, Math.min(zero, bars.Y(x)), wide, Math.max(2, Math.abs(bars.Y(x) - zero))); });
}
let pulling = -1;
function pull(event) {
  const field = D.fields[numeric], x = clamp(bars.back(event)[1], field.low, field.high);
  given[numeric] = given[numeric].map((old, t) => t === pulling ? (field.kind === "real" ? clamp(Number(x.toPrecision(4)), field.low, field.high) : Math.round(x)) : old);
  show(-1);
}
bars.canvas.addEventListener("pointerdown", event => { pulling = clamp(Math.round(bars.back(event)[0]), 0, given[0].length - 1); asking = pulling; bars.canvas.setPointerCapture(event.pointerId); pull(event); });
bars.canvas.addEventListener("pointermove", event => { if (pulling >= 0) pull(event); });
for (const name of ["pointerup", "pointercancel"]) bars.canvas.addEventListener(name, () => { pulling = -1; });

/* A pattern: tokens that ask down, the bank as one column and the tokens across. */
function paint(canvas, weights, marked) {
  const n = weights.length, ratio = window.devicePixelRatio || 1, w = canvas.clientWidth || 120, h = canvas.clientHeight || 96, g = canvas.getContext("2d");
  canvas.width = w * ratio; canvas.height = h * ratio;
  g.scale(ratio, ratio);
  const across = w / (n + 1.5), down = h / n;
  weights.forEach((row, t) => {
    let fixed = 0, top = 0;
    for (let j = 0; j < bank.count; j++) fixed += row[j];
    for (let j = bank.count; j < row.length; j++) top = Math.max(top, row[j]);
    const cell = (x, share) => { g.globalAlpha = clamp(share, 0, 1); g.fillStyle = colour("net"); g.fillRect(x, t * down, across, Math.max(0.5, down - 0.5)); };
    cell(0, fixed);
    for (let j = 0; j < n; j++) if (row[bank.count + j]) cell((j + 1.5) * across, row[bank.count + j] / (top || 1) * (top > 1e-30 ? Math.max(0.25, top / (top + fixed)) : 0));
    g.globalAlpha = 1;
    if (t === marked) { g.strokeStyle = colour("bad"); g.lineWidth = 1.5; g.strokeRect(0.75, t * down + 0.75, w - 1.5, down - 1.5); }
  });
}
let pictures = [];
function listHeads() {
  const count = depth ? D.layers[D.program[layer]].length : 0;
  head = Math.min(head, Math.max(0, count - 1));
  pictures = Array.from({length: Math.min(count, 64)}, () => el("canvas", {ariaHidden: "true"}));
  $("patterns").replaceChildren(...pictures.map((canvas, h) => el("button", {type: "button", ariaPressed: String(h === head), onclick: () => { head = h; listHeads(); looked(); }}, canvas, `${h + 1}${D.causal[layer][h] ? ", causal" : ""}: ${D.says[layer][h].split(":")[0] || "head"}`)));
  $("layer-title").textContent = depth ? `heads of layer ${layer + 1} of ${depth}: ${count}` : "no heads: the embedding is the answer";
  soon(drawPatterns);
}
function drawPatterns() {
  if (!depth) return;
  pictures.forEach((canvas, h) => paint(canvas, result.heads[layer][h].weights, -1));
  paint($("pattern"), result.heads[layer][head].weights, asking);
}
const nameOf = j => j < bank.count ? `bank ${j}` : `token ${j - bank.count}: ${D.fields.map((field, k) => word(field, given[k][j - bank.count])).join(", ")}`;
function looked() {
  if (!depth) return;
  const one = result.heads[layer][head], weights = one.weights[asking], own = Array.from(weights.keys()).filter(j => weights[j] > 0).sort((a, b) => weights[b] - weights[a]).slice(0, 12);
  $("head-title").textContent = `layer ${layer + 1}, head ${head + 1}`;
  $("head-says").textContent = `${D.says[layer][head]}${D.says[layer][head] ? ". " : ""}Down: the token that asks. Across: first the bank of fixed tokens, then the tokens, each row as strong as its strongest.`;
  $("writes-title").textContent = `what token ${asking} looks at, and what the head writes there`;
  fill($("looks"), ["looks at", "weight"], own.map(j => ({cells: [nameOf(j), weights[j] < 1e-4 ? fmt(weights[j], 3) : bar(weights[j])]})));
  const before = result.states[layer].v, after = result.states[layer + 1].v, rows = [];
  const columns = [...new Set(D.layers[D.program[layer]][head].Wo.columns)].sort((a, b) => a - b);
  for (const c of columns) { const p = asking * W + c; rows.push({cells: [D.columns[c], fmt(before[p], 6), fmt(one.written[p], 6), fmt(after[p], 6)]}); }
  fill($("writes"), ["column", "before", "this head adds", "after the layer"], rows);
  const changed = new Set(D.layers[D.program[layer]].flatMap(part => [...part.Wo.columns]));
  $("stream-title").textContent = `the stream after layer ${layer + 1}`;
  const shownTokens = Math.min(given[0].length, 24);
  fill($("stream"), ["column", ...Array.from({length: shownTokens}, (_, t) => `token ${t}`)], Array.from({length: W}, (_, c) => c).filter(c => changed.has(c) || given[0].some((_, t) => after[t * W + c])).map(c => ({hot: changed.has(c), cells: [D.columns[c], ...Array.from({length: shownTokens}, (_, t) => fmt(after[t * W + c], 5))]})));
  soon(drawPatterns);
}
let askSlider = null;
function show(typing) {
  asking = clamp(asking, 0, given[0].length - 1);
  boxes.forEach((box, k) => { if (k !== typing) box.value = written(D.fields[k], given[k]); });
  if (typing < 0) $("fault").textContent = "";
  result = run(given);
  const columns = D.outputs.map((kind, o) => result.outputs.map(row => shownOutput(kind, row[o])));
  const text = columns.map((column, o) => `${columns.length > 1 ? `output ${o + 1}: ` : ""}${column.join(column.every(c => c.length === 1) ? "" : " ")}`).join("\n");
  $("result").textContent = text;
  say(`result ${text}`);
  tokenRow();
  $("asking").replaceChildren();
  askSlider = slider($("asking"), "token that asks", 0, Math.max(0, given[0].length - 1), asking, v => { asking = Math.round(v); tokenRow(); looked(); soon(drawBars); }, 1);
  soon(drawBars);
  looked();
}
softwright.given = () => Object.fromEntries(D.fields.map((field, k) => [field.name, given[k]]));
softwright.result = () => result.outputs;
if (depth > 1) slider($("layer"), "layer", 1, depth, 1, v => { layer = Math.round(v) - 1; listHeads(); looked(); }, 1);
drawn.push(drawBars, drawPatterns);
result = run(given);
listHeads();
show(-1);
