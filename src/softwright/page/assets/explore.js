/* A function of named variables on a box: curves, slices, the error against the bound, and one point that moves. */
{
  const d = D.names.length, sides = D.sides, few = d === 1;
  const exact = D.target && D.target.tape ? formula(D.target.tape) : model.target || null;
  const given = D.target && D.target.points ? D.target : null;
  softwright.target = exact;
  let here = D.start.slice(), out = 0, ax = 0, ay = few ? 0 : 1, grid = null, curve = null, along = null, atPoints = null;
  if (D.shown < d) $("choices").append(el("span", {className: "soft"}, `${D.shown} of ${d} inputs can be turned; the others rest`));
  const views = {function: new Plot($("function")), error: new Plot($("error")), along: new Plot($("along"))};
  const net = x => model.net(x)[out], target = x => exact ? exact(x)[out] : NaN;
  const at = (i, v) => { const x = here.slice(); x[i] = v; return x; };
  const mixed = (i, u) => sides[i][0] + (sides[i][1] - sides[i][0]) * u;

  /* Proof boxes [[low, high] per variable], those that the slice meets. */
  const boxes = (D.proof || []).flatMap(({variables, tree}) => {
    const leaves = [], stack = [sides.map(s => s.slice())];
    for (const node of tree) {
      const box = stack.pop();
      if (node === 255) { leaves.push({variables, box}); continue; }
      const i = variables[node], middle = 0.5 * (box[i][0] + box[i][1]), upper = box.map(s => s.slice()), lower = box.map(s => s.slice());
      lower[i][1] = upper[i][0] = middle;
      stack.push(upper, lower);
    }
    return leaves;
  });
  const met = () => boxes.filter(({box}) => box.every((s, i) => i === ax || (!few && i === ay) || (s[0] <= here[i] && here[i] <= s[1])));

  function sample() {
    if (few) {
      const levels = [160, 1200], next = k => {
        const n = levels[k], xs = [], ys = [], fs = [];
        gradually("curve", n + 1, i => {
          const x = [mixed(0, i / n)];
          xs.push(x[0]); ys.push(net(x)); fs.push(target(x));
        }, () => { curve = {xs, ys, fs}; soon(draw); if (k + 1 < levels.length) setTimeout(() => next(k + 1), 0); });
      };
      next(0);
      return;
    }
    const levels = [16, 40, 100], next = k => {
      const n = levels[k], ys = new Float64Array(n * n), es = new Float64Array(n * n), x = here.slice();
      gradually("grid", n * n, p => {
        x[ax] = mixed(ax, (p % n + 0.5) / n); x[ay] = mixed(ay, (Math.floor(p / n) + 0.5) / n);
        ys[p] = net(x); es[p] = Math.abs(ys[p] - target(x));
      }, () => {
        const [low, high] = limits(ys), seen = limits(es)[1];
        grid = {n, low, high, seen, ys: picture(ys, n, low, high), es: picture(es, n, 0, D.bound || seen)};
        soon(draw);
        if (k + 1 < levels.length) setTimeout(() => next(k + 1), 0);
      });
    };
    next(0);
  }
  function sampleAlong() {
    if (few) return;
    const n = 240, xs = [], ys = [], fs = [];
    gradually("along", n + 1, i => {
      const v = mixed(ax, i / n), x = at(ax, v);
      xs.push(v); ys.push(net(x)); fs.push(target(x));
    }, () => { along = {xs, ys, fs}; soon(drawAlong); });
  }
  function samplePoints() {
    if (!given) return;
    const n = given.points.length / d, errors = new Float64Array(n), x = new Array(d);
    gradually("points", n, p => {
      for (let i = 0; i < d; i++) x[i] = given.points[p * d + i];
      errors[p] = net(x) - given.values[p * D.outputs + out];
    }, () => { atPoints = errors; soon(draw); });
  }
  const pointsSeen = () => atPoints ? atPoints.reduce((a, e) => Math.max(a, Math.abs(e)), 0) : 0;

  function curves(plot, data, name) {
    data.span = data.span || widened(limits(few && given ? [...data.ys, ...given.values.filter((_, p) => p % D.outputs === out)] : [...data.ys, ...data.fs]));
    plot.still([data], [data.xs[0], data.xs[data.xs.length - 1]], data.span, () => {
      plot.ticks();
      plot.line(data.xs, data.ys, colour("net"), 3);
      if (exact) plot.line(data.xs, data.fs, colour("target"), 1.2, [4, 5]);
      if (few && given) for (let p = 0; p * d < given.points.length; p++) plot.dot(given.points[p], given.values[p * D.outputs + out], colour("target"), 2);
      plot.legend([["network", colour("net")], ...(exact || given ? [["target", colour("target")]] : [])]);
      plot.canvas.ariaLabel = `network along ${name}, from ${fmt(data.xs[0])} to ${fmt(data.xs[data.xs.length - 1])}`;
    });
    plot.cross(here[ax], net(here), false);
  }
  function drawCurve() {
    curves(views.function, curve, D.names[0]);
    const plot = views.error;
    curve.errors = curve.errors || curve.ys.map((y, i) => y - curve.fs[i]);
    const seen = exact ? limits(curve.errors.map(Math.abs))[1] : pointsSeen(), top = 1.15 * Math.max(D.bound || 0, seen) || 1;
    plot.still([curve, atPoints], sides[0], [-top, top], g => {
      met().forEach(({box}, k) => {
        g.fillStyle = k % 2 ? "rgba(128,140,150,.10)" : "rgba(128,140,150,.20)";
        const left = plot.X(box[0][0]), wide = plot.X(box[0][1]) - left;
        g.fillRect(left, plot.top, wide, plot.h - plot.bottom - plot.top);
      });
      plot.ticks();
      if (exact) plot.line(curve.xs, curve.errors, colour("net"), 1.5);
      if (atPoints) atPoints.forEach((e, p) => plot.dot(given.points[p], e, colour("net"), 2));
      if (D.bound) [-1, 1].forEach(s => plot.level(s * D.bound, colour("bad")));
      plot.legend([["error", colour("net")], ...(D.bound ? [["proved bound", colour("bad")]] : [])]);
      tellSeen(seen);
    });
    if (exact) plot.cross(here[0], net(here) - target(here), false);
  }
  function drawGrid() {
    let plot = views.function;
    plot.still([grid, ax, ay], sides[ax], sides[ay], () => {
      plot.image(grid.ys);
      plot.ticks();
      $("range").textContent = `the network, from ${fmt(grid.low, 3)} (dark) to ${fmt(grid.high, 3)} (bright); ${D.names[ax]} to the right, ${D.names[ay]} up`;
    });
    plot.cross(here[ax], here[ay], true);
    plot = views.error;
    plot.still([grid, ax, ay, atPoints], sides[ax], sides[ay], g => {
      if (exact) plot.image(grid.es);
      plot.ticks();
      g.strokeStyle = exact ? "rgba(255,255,255,.5)" : colour("line"); g.lineWidth = 0.8;
      for (const {box} of met()) {
        const [x0, x1, y0, y1] = [plot.X(box[ax][0]), plot.X(box[ax][1]), plot.Y(box[ay][0]), plot.Y(box[ay][1])];
        g.strokeRect(x0, y1, x1 - x0, y0 - y1);
      }
      const most = D.bound || pointsSeen() || 1;
      if (atPoints) atPoints.forEach((e, p) => plot.dot(given.points[p * d + ax], given.points[p * d + ay], rgb(Math.abs(e) / most), 2.5));
      tellSeen(exact ? grid.seen : pointsSeen());
    });
    plot.cross(here[ax], here[ay], true);
  }
  function tellSeen(seen) {
    const what = exact ? `largest error seen in this picture ${fmt(seen, 3)}` : given ? `largest error at the ${given.points.length / d} points ${given.how} ${fmt(seen, 3)}` : "what the network was made from is not in this page";
    const map = !few && exact ? "; dark is no error, bright is " + (D.bound ? "the bound" : "the largest seen") : "";
    $("seen").textContent = what + map + (D.bound ? `; proved: at most ${fmt(D.bound)}` : "") + (boxes.length ? `; ${boxes.length} boxes of the proof` : D.boxes ? `; ${D.boxes} boxes of the proof, too many to draw` : "");
  }
  function draw() {
    if (few ? curve : grid) few ? drawCurve() : drawGrid();
  }
  function drawAlong() { if (along) { $("along-name").textContent = D.names[ax]; curves(views.along, along, D.names[ax]); } }
  function point() {
    const all = model.net(here), wanted = exact ? exact(here) : null;
    const place = turned.map((name, i) => `${name} = ${fmt(here[i], 7)}`).join("   ");
    const label = D.outputs > 1 ? ` (output ${out + 1})` : "";
    const values = `network${label} ${fmt(all[out], 15)}` + (wanted ? `\ntarget  ${label && " ".repeat(label.length)}${fmt(wanted[out], 15)}\nerror   ${label && " ".repeat(label.length)}${fmt(all[out] - wanted[out], 3)}` : "");
    $("where").textContent = `${place}\n${values}`;
    const extra = model.show(here, out);
    setters.forEach((set, i) => set(here[i]));
    say(`${place}, network ${fmt(all[out], 6)}${wanted ? `, error ${fmt(all[out] - wanted[out], 2)}` : ""}. ${extra || ""}`);
  }
  function moved(next, slice) {
    here = next;
    soon(point); soon(draw);
    if (slice) sample();
    if (!few) soon(sampleAlong);
  }
  softwright.move = x => moved(x.slice(), !few);
  softwright.here = () => here.slice();
  const turned = D.names.slice(0, D.shown || d), setters = turned.map((name, i) => slider($("sliders"), name, ...sides[i], here[i], v => moved(at(i, v), !few && i !== ax && i !== ay)));
  if (d > 2) {
    const horizontal = choose($("choices"), "to the right", turned, v => turn(v, v === ay ? ax : ay)), vertical = choose($("choices"), "up", turned, v => turn(v === ax ? ay : ax, v));
    const turn = (x, y) => { ax = x; ay = y; horizontal.value = x; vertical.value = y; moved(here, true); };
    vertical.value = 1;
  }
  if (D.outputs > 1) choose($("choices"), "output", Array.from({length: D.outputs}, (_, i) => `${i + 1}`), v => { out = v; moved(here, true); samplePoints(); if (few) sample(); });
  for (const name of ["function", "error", "along"]) {
    const plot = views[name], follow = event => {
      if (!plot.x || (event.type === "pointermove" && event.pointerType === "touch" && !event.buttons)) return;
      const [x, y] = plot.back(event), next = at(ax, x);
      if (!few && name !== "along") next[ay] = y;
      moved(next, false);
    };
    plot.canvas.addEventListener("pointermove", follow);
    plot.canvas.addEventListener("pointerdown", follow);
  }
  drawn.push(draw, drawAlong, point);
  if (few) $("point-box").className = "wide"; else $("along-box").hidden = false;
  point();
  sample(); sampleAlong(); samplePoints();
}
