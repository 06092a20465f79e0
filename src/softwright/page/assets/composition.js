/* A formula as a stack: the data token's stream, layer by layer, in the sums that have weight. */
const inputs = D.names.length, depth = D.layers.length, named = D.features.length;
const states = x => streams(D, x);
const exactly = D.features.map(f => f.tape ? formula(f.tape) : null);
/* Values of the features by their formulas, inputs first. */
function meant(x) {
  const values = x.slice();
  for (let c = 1 + inputs; c < named; c++) values.push(exactly[c] ? exactly[c](values)[0] : NaN);
  return values;
}
/* Which columns a column is made from, and the layer and heads that write it. */
const from = D.features.map(() => new Set()), layerOf = D.features.map((_, c) => c <= inputs ? 0 : -1), writers = D.features.map(() => []);
D.layers.forEach((layer, l) => layer.forEach((head, h) => {
  const read = new Set([head.query, head.key, head.value].filter(Boolean).flatMap(part => Array.from(part.rows)));
  for (const c of new Set(head.out.columns)) if (c < named) {
    layerOf[c] = l + 1;
    writers[c].push([l, h]);
    for (const r of read) if (r > 0 && r < named && r !== c) from[c].add(r);
  }
}));
const readBy = Array.from({length: D.outputs}, (_, o) => new Set(Array.from(D.read.rows).filter((r, p) => D.read.columns[p] === o && r > 0 && r < named)));
const OUTPUT = -1;
let chosen = OUTPUT, upTo = depth, last = null, lastOut = 0;
const model = {
  net(x) { const all = states(x); return Array.from(times(all[all.length - 1], D.read)); },
  show(x, o) { last = x; lastOut = o; update(); return ""; },
};
softwright.net = model.net;
softwright.states = x => states(x).map(s => Array.from(s));

/* The diagram: columns of boxes, inputs to the left. */
const W = 208, H = 42, GAP = 62, nodes = new Map(), edges = [];
{
  const columns = Array.from({length: depth + 2}, () => []);
  for (let c = 1; c < named; c++) if (layerOf[c] >= 0) columns[layerOf[c]].push(c);
  columns[depth + 1].push(OUTPUT);
  const tall = Math.max(...columns.map(c => c.length)), total = tall * (H + 12) + 30;
  const picture = svg("svg", {width: (depth + 2) * (W + GAP) - GAP + 4, height: total, role: "group", "aria-label": "features by layer"});
  const place = new Map();
  columns.forEach((own, l) => {
    const x = l * (W + GAP) + 2;
    const title = svg("text", {x, y: 14, class: "value"}, l === 0 ? "inputs" : l > depth ? "output" : `layer ${l}`);
    picture.append(title);
    own.forEach((c, i) => place.set(c, [x, 26 + (i + 0.5) * (total - 30) / own.length - H / 2]));
  });
  const short = text => text.length > 27 ? text.slice(0, 26) + "\u2026" : text;
  const link = (a, b) => {
    const [x0, y0] = place.get(a), [x1, y1] = place.get(b), path = svg("path", {d: `M${x0 + W} ${y0 + H / 2}C${x0 + W + GAP / 2} ${y0 + H / 2} ${x1 - GAP / 2} ${y1 + H / 2} ${x1} ${y1 + H / 2}`});
    edges.push({a, b, path});
    picture.append(path);
  };
  for (const [c] of place) for (const r of c === OUTPUT ? new Set(readBy.flatMap(s => [...s])) : from[c]) if (place.has(r)) link(r, c);
  for (const [c, [x, y]] of place) {
    const text = c === OUTPUT ? "network" : D.features[c].text, value = svg("text", {x: x + 8, y: y + 34, class: "value"});
    const group = svg("g", {tabindex: 0, role: "button"}, svg("title", {}, text), svg("rect", {x, y, width: W, height: H, rx: 7}), svg("text", {x: x + 8, y: y + 17}, short(text)), value);
    const choose = () => { chosen = c; update(); };
    group.addEventListener("click", choose);
    group.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
    nodes.set(c, {group, value, layer: c === OUTPUT ? depth + 1 : layerOf[c]});
    picture.append(group);
  }
  $("diagram").append(picture);
}
const setDepth = slider($("depth"), "after layer", 0, depth, depth, v => { upTo = v; update(); }, 1);
function ancestors(c) {
  const found = new Set(), open = [...(c === OUTPUT ? readBy[lastOut] : from[c])];
  while (open.length) { const r = open.pop(); if (!found.has(r)) { found.add(r); open.push(...from[r]); } }
  return found;
}
function update() {
  if (!last) return;
  const all = states(last), values = meant(last), final = all[depth], path = ancestors(chosen);
  path.add(chosen);
  const output = times(final, D.read)[lastOut];
  for (const [c, {group, value, layer}] of nodes) {
    const late = layer > upTo && !(c === OUTPUT && upTo === depth);
    value.textContent = late ? "not written yet" : fmt(c === OUTPUT ? output : values[c - 1], 7);
    group.setAttribute("class", `${path.has(c) ? "on" : ""} ${late ? "late" : ""}`);
    group.setAttribute("aria-pressed", c === chosen);
  }
  for (const {a, b, path: line} of edges) line.setAttribute("class", path.has(a) && path.has(b) ? "on" : "");
  const order = [...path].filter(c => c > 0).sort((a, b) => layerOf[a] - layerOf[b] || a - b);
  $("chosen-title").textContent = `followed: ${chosen === OUTPUT ? "the output" : D.features[chosen].text}`;
  fill($("chosen"), ["column", "layer", "by its formula", "in the stream", "tokens looked at"], [
    ...order.map(c => ({hot: c === chosen, cells: [D.features[c].text, layerOf[c] ? `${layerOf[c]}` : "input", fmt(values[c - 1], 9), layerOf[c] <= upTo ? fmt(all[upTo][c], 9) : "0",
      writers[c].length ? `${writers[c].reduce((n, [l, h]) => n + tokensOf(D.layers[l][h]), 0)} in ${writers[c].length} head(s)` : ""]})),
    ...(chosen === OUTPUT ? [{hot: true, cells: ["network", "read out", "", fmt(output, 9), ""]}] : []),
  ]);
  const l = clamp(upTo, 1, depth) - 1;
  $("heads-title").textContent = `heads of layer ${l + 1}: what each looks at here`;
  fill($("heads"), ["writes", "kind", "score", "strongest token", "weight", "adds to the stream"], D.layers[l].map(head => {
    const {query, weights, written} = runHead(head, all[l]), best = weights.indexOf(Math.max(...weights));
    const columns = [...new Set(head.out.columns)];
    return {cells: [columns.map(c => c < named ? D.features[c].name : `column ${c}`).join(", "), head.keys ? "table" : "gate", fmt(query[0], 6),
      head.keys ? `fixed token ${best + 1} of ${weights.length}` : best ? "null token" : "the data token", bar(weights[best]), columns.map(c => fmt(written[c], 6)).join(", ")]};
  }));
}
const tokensOf = head => head.keys ? head.keys.length / head.width : 2;
