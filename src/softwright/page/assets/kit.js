"use strict";
/* What all pages share: the data, numbers as text, softmax in the network's own arithmetic, and drawing. */
const $ = id => document.getElementById(id);
const ARRAYS = {"@f8": Float64Array, "@f4": Float32Array, "@i4": Int32Array, "@u1": Uint8Array};
const D = JSON.parse($("data").textContent, (_, value) => {
  if (value && typeof value === "object") for (const kind in ARRAYS) if (typeof value[kind] === "string") {
    const text = atob(value[kind]), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new ARRAYS[kind](bytes.buffer);
  }
  return value;
});
/* What is `wide` computes in float64 on float32 numbers: it rounds what comes in and what goes out, and nothing between. */
const atEnds = D.float32 ? Math.fround : v => v, rnd = D.float32 && !D.wide ? Math.fround : v => v;

/* Elements from plain text only: nothing that a file says is ever read as markup. */
function el(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...inside);
  return made;
}
function svg(tag, attributes, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}
function fmt(v, digits = 4) {
  if (v === null || v === undefined) return "";
  v = Number(v);
  if (!Number.isFinite(v)) return String(v);
  const size = Math.abs(v);
  if (size && (size < 1e-3 || size >= 1e6)) return v.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(v.toPrecision(digits)));
}
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));

/* Softmax of scores in place, shifted by the largest. */
function softmax(scores, count = scores.length) {
  let most = -Infinity, total = 0;
  for (let j = 0; j < count; j++) if (scores[j] > most) most = scores[j];
  for (let j = 0; j < count; j++) total = rnd(total + (scores[j] = rnd(Math.exp(rnd(scores[j] - most)))));
  for (let j = 0; j < count; j++) scores[j] = rnd(scores[j] / total);
  return scores;
}

/* What is read aloud: one sentence, once the hand rests. */
let sayLater = 0;
function say(text) {
  clearTimeout(sayLater);
  sayLater = setTimeout(() => { $("said").textContent = text; }, 700);
}

/* Work in slices that leave the page free to answer; a newer job of the same name ends an older one. */
const jobs = {};
function gradually(name, count, step, done) {
  const number = jobs[name] = (jobs[name] || 0) + 1;
  let i = 0;
  const slice = () => {
    if (jobs[name] !== number) return;
    const end = performance.now() + 8;
    while (i < count && performance.now() < end) step(i++);
    i < count ? setTimeout(slice, 0) : done();
  };
  setTimeout(slice, 0);
}
let pending = 0;
const tasks = new Set();
function soon(task) {
  tasks.add(task);
  if (!pending) pending = requestAnimationFrame(() => {
    pending = 0;
    const now = [...tasks];
    tasks.clear();
    now.forEach(run => run());
  });
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const MAP = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
function shade(u) {
  u = clamp(Number.isFinite(u) ? u : 0, 0, 0.99999) * 9;
  const i = Math.floor(u), f = u - i;
  return MAP[i].map((v, k) => Math.round(v + f * (MAP[i + 1][k] - v)));
}
const rgb = (u, alpha = 1) => `rgba(${shade(u)},${alpha})`;
const SERIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9"];
function limits(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
  return low <= high ? [low, high] : [0, 1];
}
function widened([low, high], share = 0.06) {
  const room = share * (high - low) || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/* A canvas with two axes. */
class Plot {
  constructor(canvas, left = 58, bottom = 24, top = 10, right = 12) {
    Object.assign(this, {canvas, left, bottom, top, right});
  }
  begin(x, y, ticks = true) {
    const ratio = window.devicePixelRatio || 1, c = this.canvas;
    this.w = c.clientWidth; this.h = c.clientHeight; this.x = x; this.y = y;
    c.width = Math.max(1, Math.round(this.w * ratio)); c.height = Math.max(1, Math.round(this.h * ratio));
    const g = this.g = c.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    if (ticks) this.ticks();
    return g;
  }
  X(v) { return this.left + (v - this.x[0]) / (this.x[1] - this.x[0]) * (this.w - this.left - this.right); }
  Y(v) { return this.h - this.bottom - (v - this.y[0]) / (this.y[1] - this.y[0]) * (this.h - this.bottom - this.top); }
  back(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = this.x[0] + (event.clientX - box.left - this.left) / (box.width - this.left - this.right) * (this.x[1] - this.x[0]);
    const y = this.y[0] + (box.bottom - this.bottom - event.clientY) / (box.height - this.bottom - this.top) * (this.y[1] - this.y[0]);
    return [clamp(x, ...this.x), clamp(y, ...this.y)];
  }
  ticks() {
    const {g, w, h} = this, bottom = h - this.bottom;
    g.strokeStyle = colour("line"); g.fillStyle = colour("soft"); g.lineWidth = 1;
    g.strokeRect(this.left, this.top, w - this.left - this.right, bottom - this.top);
    const text = (v, span) => Math.abs(v) < 1e-12 * span ? "0" : fmt(v, 3);
    for (let q = 0; q <= 4; q++) {
      const vx = this.x[0] + (this.x[1] - this.x[0]) * q / 4, vy = this.y[0] + (this.y[1] - this.y[0]) * q / 4;
      g.textAlign = q === 4 ? "right" : q ? "center" : "left";
      g.fillText(text(vx, this.x[1] - this.x[0]), this.X(vx), h - 8);
      g.textAlign = "right";
      g.fillText(text(vy, this.y[1] - this.y[0]), this.left - 5, clamp(this.Y(vy) + 4, this.top + 8, bottom));
    }
    g.textAlign = "left";
  }
  line(xs, ys, style, width = 2, dash = []) {
    const g = this.g;
    g.save(); g.beginPath(); g.rect(this.left, this.top, this.w - this.left - this.right, this.h - this.bottom - this.top); g.clip();
    g.strokeStyle = style; g.lineWidth = width; g.setLineDash(dash); g.beginPath();
    let drawing = false;
    for (let i = 0; i < xs.length; i++) {
      if (!Number.isFinite(ys[i])) { drawing = false; continue; }
      drawing ? g.lineTo(this.X(xs[i]), this.Y(ys[i])) : g.moveTo(this.X(xs[i]), this.Y(ys[i]));
      drawing = true;
    }
    g.stroke(); g.restore();
  }
  level(v, style, dash = [6, 4]) { this.line(this.x, [v, v], style, 1.3, dash); }
  dot(x, y, style, radius = 4) {
    const g = this.g;
    g.fillStyle = style; g.beginPath(); g.arc(this.X(x), this.Y(y), radius, 0, 7); g.fill();
  }
  cross(x, y, horizontal) {
    const g = this.g;
    g.strokeStyle = colour("bad"); g.lineWidth = 1; g.beginPath();
    g.moveTo(this.X(x), this.top); g.lineTo(this.X(x), this.h - this.bottom);
    if (horizontal) { g.moveTo(this.left, this.Y(y)); g.lineTo(this.w - this.right, this.Y(y)); }
    g.stroke();
    this.dot(x, y, colour("bad"));
  }
  image(picture) {
    this.g.imageSmoothingEnabled = true;
    this.g.drawImage(picture, this.left, this.top, this.w - this.left - this.right, this.h - this.bottom - this.top);
  }
  /* What stands still is drawn once: `still` puts it back if nothing that it depends on has changed. */
  still(parts, x, y, draw) {
    const ratio = window.devicePixelRatio || 1, key = [this.canvas.clientWidth, this.canvas.clientHeight, ratio, colour("ink"), ...x, ...y, ...parts];
    const same = this.key && this.key.length === key.length && key.every((part, i) => part === this.key[i]);
    if (same) {
      const g = this.g;
      g.setTransform(1, 0, 0, 1, 0, 0); g.drawImage(this.copy, 0, 0); g.setTransform(ratio, 0, 0, ratio, 0, 0);
      return;
    }
    this.begin(x, y, false);
    draw(this.g);
    this.copy = this.copy || el("canvas");
    this.copy.width = this.canvas.width; this.copy.height = this.canvas.height;
    this.copy.getContext("2d").drawImage(this.canvas, 0, 0);
    this.key = key;
  }
  legend(entries) {
    let x = this.left + 6;
    for (const [text, style] of entries) {
      this.g.fillStyle = style; this.g.fillRect(x, this.top + 6, 12, 3);
      this.g.fillStyle = colour("soft"); this.g.fillText(text, x + 16, this.top + 11);
      x += 28 + this.g.measureText(text).width;
    }
  }
}
/* m rows of n values as a picture to be stretched, the first row at the bottom. */
function picture(values, n, low, high, m = n) {
  const canvas = el("canvas", {width: n, height: m}), g = canvas.getContext("2d"), image = g.createImageData(n, m);
  for (let j = 0; j < m; j++) for (let i = 0; i < n; i++) {
    const s = shade((values[j * n + i] - low) / (high - low || 1)), p = ((m - 1 - j) * n + i) * 4;
    image.data[p] = s[0]; image.data[p + 1] = s[1]; image.data[p + 2] = s[2]; image.data[p + 3] = 255;
  }
  g.putImageData(image, 0, 0);
  return canvas;
}

/* A named number: a slider for the hand, a field for exact values. */
function slider(where, name, low, high, value, changed, step = "any") {
  const range = el("input", {type: "range", min: low, max: high, step, value, ariaLabel: name});
  const field = el("input", {type: "number", min: low, max: high, step, ariaLabel: name + ", exactly"});
  const show = v => { range.value = v; if (document.activeElement !== field) field.value = fmt(v, 7); };
  range.addEventListener("input", () => { show(+range.value); changed(+range.value); });
  field.addEventListener("change", () => {
    const v = field.value.trim() === "" ? NaN : Number(field.value);
    if (Number.isFinite(v)) changed(clamp(v, low, high));
    show(Number.isFinite(v) ? clamp(v, low, high) : +range.value);
  });
  where.append(el("div", {className: "slider"}, el("span", {className: "mono"}, name), range, field));
  show(value);
  return show;
}
function choose(where, name, options, changed) {
  const select = el("select", {ariaLabel: name}, ...options.map((text, i) => el("option", {value: i}, text)));
  select.addEventListener("change", () => changed(+select.value));
  where.append(el("label", null, name, select));
  return select;
}
/* A table whose first row are the heads of its columns. */
function fill(table, heads, rows) {
  table.replaceChildren(
    el("thead", null, el("tr", null, ...heads.map(text => el("th", {scope: "col"}, text)))),
    el("tbody", null, ...rows.map(({cells, hot}) => el("tr", {className: hot ? "hot" : ""}, ...cells.map(c => el("td", null, c))))));
}
const percent = w => `${(100 * w).toFixed(w < 0.1 ? 2 : 1)} %`;
const meter = w => el("span", null, Object.assign(el("span", {className: "bar", ariaHidden: "true"}), {}), " " + percent(w));
function bar(w) {
  const made = meter(w);
  made.firstChild.style.width = `${Math.max(1, 60 * w)}px`;
  return made;
}
/* What is drawn again when the window or the colours change. */
const drawn = [];
function redraw() { drawn.forEach(soon); }
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.softwright = {data: D};
