/* One layer of softmax heads on a box: t = (x - center) scale, then sum over heads of sum_j w_j(t) (v_j + G_j t). */
function layerOfHeads({names, outputs: m, center, scale, heads: given}) {
  const d = names.length, heads = given.map(h => ({...h, count: h.biases.length, scores: new Float64Array(h.biases.length)}));
  const unit = x => x.map((v, i) => rnd(rnd(atEnds(v) - center[i]) * scale[i]));
  function attend({keys, biases, scores, count}, t) {
    for (let j = 0, p = 0; j < count; j++) {
      let s = 0;
      for (let i = 0; i < d; i++, p++) s = rnd(s + rnd(keys[p] * t[i]));
      scores[j] = rnd(s + biases[j]);
    }
    return softmax(scores);
  }
  function run(head, t, total) {
    const w = attend(head, t), {values, slopes, count} = head;
    for (let o = 0; o < m; o++) {
      let y = 0;
      for (let j = 0; j < count; j++) y = rnd(y + rnd(w[j] * values[j * m + o]));
      if (slopes) for (let i = 0; i < d; i++) {
        let g = 0;
        for (let j = 0; j < count; j++) g = rnd(g + rnd(w[j] * slopes[(j * m + o) * d + i]));
        y = rnd(y + rnd(g * t[i]));
      }
      total[o] = rnd(total[o] + y);
    }
  }
  function net(x) {
    const t = unit(x), total = new Array(m).fill(0);
    for (const head of heads) run(head, t, total);
    return total.map(atEnds);
  }
  return {heads, unit, attend, net};
}
