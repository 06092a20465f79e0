/* The page of one layer of heads: the weights at a point, the strongest tokens, and all tokens by name. */
const d = D.names.length, m = D.outputs, {heads, unit, attend, net} = layerOfHeads(D);
function valueOf(head, j, o, t) {
  let v = head.values[j * m + o];
  if (head.slopes) for (let i = 0; i < d; i++) v += head.slopes[(j * m + o) * d + i] * t[i];
  return v;
}
const model = {
  net,
  show(x, o) {
    const t = unit(x), all = [];
    heads.forEach((head, h) => {
      const w = attend(head, t);
      for (let j = 0; j < head.count; j++) all.push({h, j, w: w[j]});
    });
    drawWeights(all);
    const top = strongestOf(all, 12);
    fill($("strongest"), ["token", "weight", "value here", "gives"], top.map(({h, j, w}) => {
      const v = valueOf(heads[h], j, o, t);
      return {cells: [nameOf(h, j), bar(w), fmt(v, 5), fmt(w * v, 5)], hot: w > 0.2};
    }));
    const best = top[0];
    return best ? `strongest token: ${nameOf(best.h, best.j)}, weight ${percent(best.w)}` : "";
  },
};
/* The largest few, without sorting all. */
function strongestOf(all, few) {
  const top = [];
  for (const one of all) {
    if (top.length === few && one.w <= top[few - 1].w) continue;
    let at = top.length;
    while (at && top[at - 1].w < one.w) at--;
    top.splice(at, 0, one);
    if (top.length > few) top.pop();
  }
  return top;
}
const nameOf = (h, j) => (heads.length > 1 ? `head ${h + 1}, ` : "") + (heads[h].names ? heads[h].names[j] : `token ${j + 1}`);
function drawWeights(all) {
  const plot = new Plot($("weights"), 4, 4, 4, 4), only = heads[0];
  plot.begin([0, 1], [0, 1], false);
  const {g, w, h} = plot;
  if (heads.length === 1 && only.sizes.length === 2 && only.sizes.every(n => n > 1)) {
    const [n0, n1] = only.sizes, most = all.reduce((a, r) => Math.max(a, r.w), 0), values = new Float64Array(n0 * n1);
    for (const {j, w: v} of all) values[j % n1 * n0 + Math.floor(j / n1)] = v;
    g.imageSmoothingEnabled = false;
    g.drawImage(picture(values, n0, 0, most, n1), 4, 4, w - 8, h - 8);
    return;
  }
  const bw = (w - 8) / all.length;
  all.forEach(({h: head, w: v}, q) => {
    g.fillStyle = SERIES[head % SERIES.length];
    g.fillRect(4 + q * bw, h - 4 - v * (h - 12), Math.max(0.7, bw - 1), v * (h - 12) + 1);
  });
}
setTimeout(() => {  // after the first picture
  const most = 400, rows = [];
  let total = 0;
  heads.forEach((head, h) => {
    total += head.count;
    for (let j = 0; j < head.count && rows.length < most; j++) {
      const key = Array.from(head.keys.slice(j * d, j * d + d), v => fmt(v));
      rows.push({cells: [nameOf(h, j), key.join(", "), fmt(head.biases[j]), Array.from(head.values.slice(j * m, j * m + m), v => fmt(v)).join(", ")]});
    }
  });
  fill($("tokens"), ["token", `key (${D.names.join(", ")}, unit frame)`, "bias", "value"], rows);
  if (total > rows.length) $("left").textContent = `and ${total - rows.length} more, not listed`;
}, 60);
softwright.net = model.net;
