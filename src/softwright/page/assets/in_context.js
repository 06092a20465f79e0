/* A stack over segments of tokens: X_rows <- X_rows R + sum_h softmax(X_rows Wq_h (X_keys Wk_h)^T) X_keys Wv_h Wo_h. */
const W = D.width, d = D.features;
function joined(stream, names) {
  const parts = names.map(name => stream[name]), count = parts.reduce((n, p) => n + p.count, 0), v = new Float64Array(count * W);
  let at = 0;
  for (const part of parts) { v.set(part.v, at); at += part.v.length; }
  return {count, v};
}
function applyLayer(layer, stream, watch) {
  const rows = joined(stream, layer.rows), keys = joined(stream, layer.keys);
  const next = layer.R ? map(rows, W, layer.R).v : rows.v.slice();
  layer.heads.forEach((head, h) => {
    const q = map(rows, W, head.Wq), k = map(keys, W, head.Wk), v = map(keys, W, head.Wv), scores = new Float64Array(keys.count), mixed = new Float64Array(rows.count * v.wide);
    for (let t = 0; t < rows.count; t++) {
      for (let j = 0; j < keys.count; j++) {
        let s = 0;
        for (let c = 0; c < q.wide; c++) s = rnd(s + rnd(q.v[t * q.wide + c] * k.v[j * k.wide + c]));
        scores[j] = s;
      }
      softmax(scores);
      if (watch) watch(h, t, scores);
      for (let j = 0; j < keys.count; j++) { const w = scores[j]; if (w) for (let c = 0; c < v.wide; c++) mixed[t * v.wide + c] = rnd(mixed[t * v.wide + c] + rnd(w * v.v[j * v.wide + c])); }
    }
    const written = map({count: rows.count, v: mixed}, v.wide, head.Wo).v;
    for (let p = 0; p < next.length; p++) if (written[p]) next[p] = rnd(next[p] + written[p]);
  });
  const changed = {...stream};
  let at = 0;
  for (const name of layer.rows) { const size = stream[name].v.length; changed[name] = {count: stream[name].count, v: next.slice(at, at + size)}; at += size; }
  return changed;
}
/* The tokens of a prompt: rows (x, y, log weight 0) and queries, each by one linear map, and the fixed ones. */
function embed(x, y, queries) {
  const inputs = {data: x.map((row, i) => [...row, y[i], 0]), query: queries.map(row => [...row, 0, 0])}, stream = {};
  for (const segment of D.segments) {
    const base = dense(segment.base);
    if (!segment.embed) { stream[segment.name] = {count: segment.tokens, v: base}; continue; }
    const given = inputs[segment.source], flat = {count: given.length, v: Float64Array.from(given.flat(), rnd)}, made = map(flat, d + 2, segment.embed).v;
    for (let t = 0; t < given.length; t++) for (let c = 0; c < W; c++) made[t * W + c] = rnd(made[t * W + c] + base[c]);
    stream[segment.name] = {count: given.length, v: made};
  }
  return stream;
}
const layerAt = position => D.layers[D.program[position]], depth = D.program.length;
function read(stream) {
  const {count, v} = stream.query;
  return Array.from({length: count}, (_, t) => { let y = 0; for (let c = 0; c < W; c++) y = rnd(y + rnd(v[t * W + c] * D.read[c])); return y; });
}
/* Predictions after a layer, as the last layers read them. */
function readAfter(stream, position) {
  if (position < depth) for (let p = depth - D.tail; p < depth; p++) stream = applyLayer(layerAt(p), stream);
  return read(stream);
}
softwright.predict = (x, y, queries) => {
  let stream = embed(x, y, queries);
  for (let p = 0; p < depth; p++) stream = applyLayer(layerAt(p), stream);
  return read(stream);
};

let x = D.x.map(row => row.slice()), y = D.y.slice(), feature = 0, picked = 0, after = depth, fits = new Map(), streams = [], range;
const plot = new Plot($("prompt")), trace = new Plot($("trace"), 66);
const snap = v => { if (!D.allowed.fractions) v = Math.round(v); if (!D.allowed.negative) v = Math.max(0, v); if (!D.allowed.above) v = Math.min(1, v); return v; };
const first = D.head, last = depth - D.tail;
const kept = [];  // the layers after which the fit is read
for (let p = first; p < last; p += Math.max(1, Math.ceil((last - first) / 60))) kept.push(p);
kept.push(depth);
function spans() {
  const xs = x.map(row => row[feature]);
  range = {x: widened(limits(xs), 0.12), y: widened(limits([...y, ...(D.allowed.above ? [] : [0, 1])]), 0.2)};
}
function queries() {
  const mean = Array.from({length: d}, (_, j) => x.reduce((t, row) => t + row[j], 0) / x.length);
  return Array.from({length: D.queries}, (_, i) => { const q = mean.slice(); q[feature] = range.x[0] + (range.x[1] - range.x[0]) * i / (D.queries - 1); return q; });
}
/* The whole program in slices; the fit is read on the way. */
function solve() {
  const asked = queries();
  let stream = embed(x, y, asked), found = new Map(), states = new Map();
  $("state").textContent = "the layers run\u2026";
  gradually("solve", depth + 1, p => {
    if (p === depth || kept.includes(p)) { states.set(p, stream); found.set(p, readAfter(stream, p)); }
    if (p < depth) { if (p === shownLayer()) states.set("shown", stream); stream = applyLayer(layerAt(p), stream); }
  }, () => { fits = found; streams = states; tell(); soon(draw); soon(drawTrace); heads(); });
}
const shownLayer = () => Math.min(after, depth - 1);
const nearest = () => kept.reduce((a, b) => Math.abs(b - after) < Math.abs(a - after) ? b : a);
function tell() {
  const final = fits.get(depth);
  const moved = v => Math.max(...v.map((u, i) => Math.abs(u - final[i])));
  $("state").textContent = `after layer ${nearest()} of ${depth}: predictions within ${fmt(moved(fits.get(nearest())), 3)} of the last ones` + (first > 0 ? `; the first ${first} layers centre and scale` : "");
  say($("state").textContent);
}
function draw() {
  plot.begin(range.x, range.y);
  const xs = queries().map(q => q[feature]);
  if (fits.size) {
    plot.line(xs, fits.get(depth), colour("target"), 1.3, [4, 5]);
    plot.line(xs, fits.get(nearest()), colour("net"), 3);
  }
  x.forEach((row, i) => plot.dot(row[feature], y[i], i === picked ? colour("bad") : SERIES[1], i === picked ? 7 : 5));
  plot.legend([["fit after the layer", colour("net")], ["after all", colour("target")], ["data of the prompt", SERIES[1]]]);
}
function drawTrace() {
  if (!fits.size) return;
  const final = fits.get(depth), gaps = kept.map(p => Math.log10(Math.max(1e-17, ...fits.get(p).map((u, i) => Math.abs(u - final[i])))));
  const g = trace.begin([first, depth], widened(limits(gaps.slice(0, -1))), false);
  g.strokeStyle = colour("line"); g.strokeRect(trace.left, trace.top, trace.w - trace.left - trace.right, trace.h - trace.bottom - trace.top);
  g.fillStyle = colour("soft"); g.textAlign = "right";
  for (let q = 0; q <= 4; q++) { const v = trace.y[0] + (trace.y[1] - trace.y[0]) * q / 4; g.fillText(fmt(10 ** v, 2), trace.left - 5, clamp(trace.Y(v) + 4, 16, trace.h)); }
  g.textAlign = "left"; g.fillText(`layer ${first}`, trace.left, trace.h - 8); g.textAlign = "right"; g.fillText(`${depth}`, trace.w - trace.right, trace.h - 8); g.textAlign = "left";
  trace.line(kept.slice(0, -1), gaps.slice(0, -1), colour("net"), 2);
  kept.slice(0, -1).forEach((p, i) => trace.dot(p, gaps[i], p === nearest() ? colour("bad") : colour("net"), p === nearest() ? 6 : 2.5));
}
/* What the middle query, or the first row that the layer changes, reads in every head. */
function heads() {
  const p = shownLayer(), layer = layerAt(p), stream = streams.get("shown") || streams.get(kept.filter(k => k <= p).pop());
  $("heads-title").textContent = `heads of layer ${p + 1}${layer.label ? ` (${layer.label})` : ""}`;
  if (!stream || (streams.get("shown") === undefined && !kept.includes(p))) { fill($("heads"), ["head"], []); return; }
  const names = layer.keys.flatMap(name => Array.from({length: stream[name].count}, (_, i) => `${name} ${i + 1}`)), asking = layer.rows.includes("query") ? layer.rows.slice(0, layer.rows.indexOf("query")).reduce((n, name) => n + stream[name].count, Math.floor(D.queries / 2)) : 0;
  const rows = [];
  applyLayer(layer, stream, (h, t, scores) => {
    if (t !== asking) return;
    const order = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a]).slice(0, 3);
    rows.push({cells: [`${h + 1}`, ...order.map(j => `${names[j]}  ${percent(scores[j])}`), ...Array(3 - order.length).fill("")]});
  });
  fill($("heads"), ["head", layer.rows.includes("query") ? "the middle query reads" : `the first token of ${layer.rows[0]} reads`, "then", "then"], rows);
}
const later = () => { spansKept(); solve(); soon(draw); };
const spansKept = () => { if (!range) spans(); };
function place(i, vx, vy) { x[i][feature] = vx; y[i] = snap(vy); fields(); later(); }
let dragging = false;
plot.canvas.addEventListener("pointerdown", event => {
  const box = plot.canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  const far = x.map((row, i) => Math.hypot(plot.X(row[feature]) - px, plot.Y(y[i]) - py)), best = far.indexOf(Math.min(...far));
  if (far[best] > 30) return;
  picked = best; dragging = true; plot.canvas.setPointerCapture(event.pointerId);
  pointChoice.value = best; fields(); soon(draw);
});
plot.canvas.addEventListener("pointermove", event => { if (dragging) place(picked, ...plot.back(event)); });
for (const name of ["pointerup", "pointercancel"]) plot.canvas.addEventListener(name, () => { dragging = false; });
const showLayer = slider($("layer"), "after layer", first, depth, depth, v => { after = v; if (fits.size) { tell(); soon(draw); soon(drawTrace); solve(); } }, 1);
const pointChoice = choose($("edit"), "point", x.map((_, i) => `${i + 1}`), v => { picked = v; fields(); soon(draw); });
const fieldX = el("input", {type: "number", step: "any", ariaLabel: "x of the point"}), fieldY = el("input", {type: "number", step: "any", ariaLabel: "y of the point"});
$("edit").append(el("label", null, "x", fieldX), el("label", null, "y", fieldY), el("button", {type: "button", onclick: () => { x = D.x.map(row => row.slice()); y = D.y.slice(); spans(); fields(); later(); }}, "as it was"));
function fields() { if (document.activeElement !== fieldX) fieldX.value = fmt(x[picked][feature], 6); if (document.activeElement !== fieldY) fieldY.value = fmt(y[picked], 6); }
for (const field of [fieldX, fieldY]) field.addEventListener("change", () => { const vx = Number(fieldX.value), vy = Number(fieldY.value); if (Number.isFinite(vx) && Number.isFinite(vy)) { x[picked][feature] = vx; y[picked] = snap(vy); spans(); later(); } });
if (d > 1) choose($("choices"), "to the right", Array.from({length: d}, (_, j) => `feature ${j + 1}`), v => { feature = v; spans(); fields(); later(); });
softwright.prompt = () => ({x, y});
softwright.fit = () => fits.size ? {queries: queries(), predictions: fits.get(depth)} : null;
softwright.trace = () => kept.map(p => fits.get(p));
softwright.kept = kept;
drawn.push(draw, drawTrace);
spans(); fields(); draw(); solve();
