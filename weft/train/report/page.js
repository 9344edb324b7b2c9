"use strict";
// The page of a report. All text comes from runs and is untrusted: it is only ever set as
// textContent or as a canvas's text, and pictures only as data: addresses of PNG files.
(() => {
  const byId = (id) => document.getElementById(id);
  const make = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const number = (value) => (value === "inf" ? Infinity : value === "-inf" ? -Infinity : typeof value === "number" ? value : NaN);
  const shown = (value) => {
    if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
    const size = Math.abs(value);
    return size >= 1e5 || size < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
  };
  const duration = (run) => (run.started && run.ended ? Math.max(0, run.ended - run.started) : NaN);
  const clock = (seconds) => {
    if (!Number.isFinite(seconds)) return "";
    if (seconds < 60) return seconds.toFixed(1) + " s";
    const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min ${Math.floor(seconds % 60)} s`;
  };
  const own = (holder, key) => (Object.hasOwn(holder, key) ? holder[key] : undefined);

  let data = JSON.parse(byId("data").textContent);
  const live = document.documentElement.dataset.live === "yes";
  const view = { filter: "", smooth: 0, logY: false, logX: false, metric: 0, mode: "min", sort: "name", down: false,
    rows: 50, hidden: new Set(), compare: new Set(), open: null, wide: new Set(), onlyDiffering: true, hover: null };

  const colour = (index) => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    const hues = [221, 14, 152, 280, 38, 190, 335, 96, 250, 60];
    const turn = Math.floor(index / hues.length), hue = (hues[index % hues.length] + turn * 23) % 360;
    return `hsl(${hue} ${dark ? 78 : 68}% ${(dark ? 66 : 44) + [0, 14, -12][turn % 3]}%)`;
  };

  // Filters: words of the name, state:failed, rate>0.01, act=relu.
  const valueOf = (run, key) => {
    if (key === "name") return run.name;
    if (key === "state") return run.state;
    if (key === "duration") return duration(run);
    const config = own(run.config, key);
    if (config !== undefined) return config;
    const index = data.metrics.indexOf(key);
    return index < 0 ? undefined : own(run.last, index);
  };
  const matches = (run) => view.filter.split(/\s+/).filter(Boolean).every((word) => {
    const parts = /^(.+?)(>=|<=|!=|>|<|=|:)(.*)$/.exec(word);
    if (!parts) return run.name.toLowerCase().includes(word.toLowerCase()) || run.state === word;
    const [, key, sign, text] = parts, value = valueOf(run, key);
    if (value === undefined) return sign === "!=";
    const left = typeof value === "number" ? value : Number(value), right = Number(text);
    if (sign === ">") return left > right;
    if (sign === "<") return left < right;
    if (sign === ">=") return left >= right;
    if (sign === "<=") return left <= right;
    const same = String(value).toLowerCase() === text.toLowerCase() || (text !== "" && left === right);
    if (sign === ":") return String(value).toLowerCase().includes(text.toLowerCase());
    return sign === "=" ? same : !same;
  });
  const wanted = () => data.runs.filter(matches);
  const visible = () => wanted().filter((run) => !view.hidden.has(run.name));
  const settings = (runs) => {
    const values = new Map();
    for (const run of runs) for (const key of Object.keys(run.config)) {
      if (!values.has(key)) values.set(key, new Map());
    }
    for (const [key, seen] of values) for (const run of runs) seen.set(JSON.stringify(own(run.config, key)), true);
    return [...values].map(([key, seen]) => ({ key, differs: seen.size > 1 }));
  };
  const bestOf = (runs) => {
    let found = null, value = NaN;
    for (const run of runs) {
      const here = number(own(view.mode === "min" ? run.least : run.most, view.metric));
      if (!Number.isNaN(here) && (found === null || (view.mode === "min" ? here < value : here > value))) [found, value] = [run, here];
    }
    return [found, value];
  };

  // Curves.
  const smoothed = (values) => {
    if (!view.smooth) return values;
    let mean = 0, weight = 0;
    return values.map((raw) => {
      const value = number(raw);
      if (!Number.isFinite(value)) return NaN;
      mean = view.smooth * mean + (1 - view.smooth) * value;
      weight = view.smooth * weight + (1 - view.smooth);
      return mean / weight;
    });
  };
  const ticks = (low, high, log, most) => {
    if (log) {
      const made = [], first = Math.floor(low), last = Math.ceil(high), every = Math.max(1, Math.ceil((last - first) / most));
      for (let power = first; power <= last; power += every) if (power >= low - 1e-9 && power <= high + 1e-9) made.push(power);
      if (made.length >= 3) return made;
      const finer = [];
      for (let power = first - 1; power <= last; power++) for (const factor of [1, 2, 5]) {
        const at = power + Math.log10(factor);
        if (at >= low && at <= high) finer.push(at);
      }
      if (finer.length >= 2) return finer;
    }
    const raw = (high - low) / most || 1, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * size).find((one) => one >= raw) || size;
    const made = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9 && made.length < 30; at += step) made.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    return made;
  };
  const label = (value, log) => {
    const real = log ? 10 ** value : value, size = Math.abs(real);
    if (real === 0) return "0";
    if (size >= 1e4 || size < 1e-3) return real.toExponential(Number.isInteger(Math.log10(size)) ? 0 : 1).replace("e+", "e");
    return String(Number(real.toPrecision(4)));
  };

  class Chart {
    constructor(index) {
      this.index = index;
      this.element = make("section", "card chart");
      const head = make("h3");
      this.name = make("span");
      const wide = make("button", "", "⤢");
      wide.title = "Wide or narrow";
      wide.setAttribute("aria-label", "Make this chart wide or narrow");
      wide.addEventListener("click", () => {
        const name = data.metrics[this.index];
        if (!view.wide.delete(name)) view.wide.add(name);
        this.draw();
      });
      head.append(this.name, wide);
      const plot = make("div", "plot");
      this.base = make("canvas");
      this.over = make("canvas");
      this.base.setAttribute("role", "img");
      this.tip = make("div", "tip");
      this.tip.hidden = true;
      plot.append(this.base, this.over, this.tip);
      this.element.append(head, plot);
      this.over.addEventListener("pointermove", (event) => this.point(event));
      this.over.addEventListener("pointerleave", () => this.leave());
      new ResizeObserver(() => this.draw()).observe(plot);
    }
    size(canvas) {
      const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const pen = canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      return [pen, width, height];
    }
    prepare() {
      const x = (step) => (view.logX ? (step > 0 ? Math.log10(step) : NaN) : step);
      const y = (value) => (view.logY ? (value > 0 ? Math.log10(value) : NaN) : value);
      this.curves = [];
      let box = [Infinity, -Infinity, Infinity, -Infinity];
      for (const run of this.runs) {
        const curve = own(run.curves, this.index);
        if (!curve) continue;
        const values = smoothed(curve[1]), xs = curve[0].map(x), ys = values.map((value) => y(number(value)));
        for (let i = 0; i < xs.length; i++) if (Number.isFinite(xs[i]) && Number.isFinite(ys[i])) {
          box = [Math.min(box[0], xs[i]), Math.max(box[1], xs[i]), Math.min(box[2], ys[i]), Math.max(box[3], ys[i])];
        }
        this.curves.push({ run, xs, ys, steps: curve[0], values: curve[1] });
      }
      if (!(box[0] <= box[1])) box = [0, 1, 0, 1];
      if (box[0] === box[1]) { box[0] -= 0.5; box[1] += 0.5; }
      const room = (box[3] - box[2]) * 0.05 || Math.abs(box[2]) * 0.05 || 0.5;
      this.box = [box[0], box[1], box[2] - room, box[3] + room];
    }
    draw(runs) {
      this.runs = runs || this.runs || [];
      const name = data.metrics[this.index];
      this.name.textContent = name;
      this.base.setAttribute("aria-label", `Curves of ${name}`);
      this.element.classList.toggle("wide", view.wide.has(name));
      const [pen, width, height] = this.size(this.base);
      this.size(this.over);
      if (!width || !height) return;
      this.prepare();
      const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--soft"), grid = style.getPropertyValue("--grid");
      const [left, right, top, bottom] = [52, width - 10, 6, height - 24];
      this.area = [left, right, top, bottom];
      const [x0, x1, y0, y1] = this.box;
      this.toX = (value) => left + ((value - x0) / (x1 - x0)) * (right - left);
      this.toY = (value) => bottom - ((value - y0) / (y1 - y0)) * (bottom - top);
      pen.clearRect(0, 0, width, height);
      pen.font = "11.5px system-ui, sans-serif";
      pen.lineWidth = 1;
      pen.strokeStyle = grid;
      pen.fillStyle = ink;
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      for (const at of ticks(y0, y1, view.logY, 7)) {
        const place = Math.round(this.toY(at)) + 0.5;
        pen.beginPath(); pen.moveTo(left, place); pen.lineTo(right, place); pen.stroke();
        pen.fillText(label(at, view.logY), left - 7, place);
      }
      pen.textBaseline = "top";
      for (const at of ticks(x0, x1, view.logX, Math.max(3, Math.floor(width / 80)))) {
        const place = this.toX(at);
        pen.textAlign = place > right - 16 ? "right" : "center";
        pen.fillText(label(at, view.logX), place, bottom + 8);
      }
      pen.save();
      pen.beginPath(); pen.rect(left, top - 3, right - left + 3, bottom - top + 6); pen.clip();
      pen.lineJoin = "round";
      const many = this.curves.length;
      pen.globalAlpha = many > 200 ? 0.25 : many > 40 ? 0.5 : 0.95;
      pen.lineWidth = many > 40 ? 1 : 1.6;
      for (const curve of this.curves) this.line(pen, curve);
      pen.restore();
      if (!many) {
        pen.textAlign = "center";
        pen.fillText("no run has this metric", (left + right) / 2, (top + bottom) / 2);
      }
    }
    line(pen, curve) {
      pen.strokeStyle = pen.fillStyle = colour(curve.run.index);
      pen.beginPath();
      let down = false, points = 0, last = null;
      for (let i = 0; i < curve.xs.length; i++) {
        if (!Number.isFinite(curve.xs[i]) || !Number.isFinite(curve.ys[i])) { down = false; continue; }
        const place = [this.toX(curve.xs[i]), this.toY(curve.ys[i])];
        if (down) pen.lineTo(...place); else pen.moveTo(...place);
        down = true; points++; last = place;
      }
      pen.stroke();
      if (points === 1) { pen.beginPath(); pen.arc(...last, 2.6, 0, 7); pen.fill(); }
    }
    point(event) {
      if (!this.curves || !this.curves.length || !this.toX) return;
      const frame = this.over.getBoundingClientRect(), px = event.clientX - frame.left, py = event.clientY - frame.top;
      let best = null, near = Infinity;
      for (const curve of this.curves) {
        const { xs, ys } = curve;
        let low = 0, high = xs.length - 1;
        while (low < high) { const middle = (low + high) >> 1; if (this.toX(xs[middle]) < px) low = middle + 1; else high = middle; }
        for (const i of [low - 1, low]) {
          if (i < 0 || !Number.isFinite(ys[i]) || !Number.isFinite(xs[i])) continue;
          const far = Math.hypot((this.toX(xs[i]) - px) * 0.6, this.toY(ys[i]) - py);
          if (far < near) [near, best] = [far, { curve, i }];
        }
      }
      if (!best) return this.leave();
      const { curve, i } = best, [pen, width, height] = this.size(this.over);
      pen.clearRect(0, 0, width, height);
      pen.lineWidth = 2.6;
      this.line(pen, curve);
      const x = this.toX(curve.xs[i]), y = this.toY(curve.ys[i]);
      pen.beginPath(); pen.arc(x, y, 4, 0, 7); pen.fill();
      this.tip.hidden = false;
      this.tip.textContent = `${curve.run.name} · step ${shown(curve.steps[i])} · ${shown(curve.values[i])}`;
      this.tip.style.left = Math.max(0, Math.min(x + 12, width - this.tip.offsetWidth - 4)) + "px";
      this.tip.style.top = Math.max(0, y - this.tip.offsetHeight - 12) + "px";
    }
    leave() {
      this.size(this.over);
      this.tip.hidden = true;
    }
  }

  const charts = [];
  const drawCharts = () => {
    const holder = byId("charts"), runs = visible();
    while (charts.length < data.metrics.length) {
      charts.push(new Chart(charts.length));
      holder.append(charts[charts.length - 1].element);
    }
    charts.forEach((chart, index) => {
      chart.element.hidden = index >= data.metrics.length;
      if (index < data.metrics.length) chart.draw(runs);
    });
    byId("curves").hidden = !data.metrics.length;
    byId("curve-count").textContent = `${runs.length} ${runs.length === 1 ? "run" : "runs"}`;
  };

  // The best run.
  const drawBest = () => {
    const [run, value] = bestOf(wanted()), holder = byId("best");
    byId("best-part").hidden = !data.metrics.length;
    holder.replaceChildren();
    if (!run) return holder.append(make("span", "soft", "No run has a number for this metric."));
    const text = make("div");
    const title = make("div", "soft", `${view.mode === "min" ? "Lowest" : "Highest"} ${data.metrics[view.metric]} at any step`);
    text.append(title, make("div", "figure", shown(value)));
    const name = make("div"), dot = make("span", "dot"), button = make("button", "", run.name);
    dot.style.background = colour(run.index);
    button.addEventListener("click", () => { open(run.name); });
    name.append(dot, button);
    const chips = make("div", "chips");
    const keys = settings(data.runs), differing = keys.filter((one) => one.differs);
    for (const { key } of (differing.length ? differing : keys).slice(0, 12)) {
      const setting = own(run.config, key);
      if (setting === undefined) continue;
      const chip = make("span", "chip", key);
      chip.append(make("b", "", shown(setting)));
      chips.append(chip);
    }
    holder.append(text, name, chips);
  };

  // The table.
  const columns = () => {
    const keys = settings(data.runs).filter((one) => one.differs || data.runs.length === 1).slice(0, 14).map((one) => one.key);
    const made = [
      { id: "name", title: "run", value: (run) => run.name },
      { id: "state", title: "state", value: (run) => run.state },
      { id: "duration", title: "time", numeric: true, value: duration, text: (run) => clock(duration(run)) },
    ];
    data.metrics.slice(0, 12).forEach((name, index) => made.push({ id: "m" + index, title: name, numeric: true, value: (run) => number(own(run.last, index)), text: (run) => shown(own(run.last, index)) }));
    const numeric = (key) => data.runs.every((run) => ["number", "undefined"].includes(typeof own(run.config, key)));
    for (const key of keys) made.push({ id: "c" + key, title: key, numeric: numeric(key), value: (run) => own(run.config, key), text: (run) => shown(own(run.config, key)) });
    if (data.runs.every((run) => !run.state)) made.splice(1, 1);
    return made;
  };
  const order = (column) => (a, b) => {
    const left = column.value(a), right = column.value(b);
    const missing = (value) => value === undefined || value === null || value === "" || Number.isNaN(value);
    if (missing(left) || missing(right)) return missing(left) - missing(right);
    const sign = view.down ? -1 : 1;
    if (typeof left === "number" && typeof right === "number") return sign * (left - right);
    return sign * String(left).localeCompare(String(right), undefined, { numeric: true });
  };
  const drawTable = () => {
    const shownColumns = columns(), column = shownColumns.find((one) => one.id === view.sort) || shownColumns[0];
    const all = wanted().sort(order(column)), [best] = bestOf(all);
    byId("run-count").textContent = all.length === data.runs.length ? `${all.length}` : `${all.length} of ${data.runs.length}`;
    const head = make("tr");
    const everything = make("th");
    const tick = make("input");
    tick.type = "checkbox";
    tick.checked = all.some((run) => !view.hidden.has(run.name));
    tick.title = "Show or hide all curves";
    tick.setAttribute("aria-label", tick.title);
    tick.addEventListener("change", () => {
      for (const run of all) if (tick.checked) view.hidden.delete(run.name); else view.hidden.add(run.name);
      drawTable(); drawCharts();
    });
    everything.append(tick);
    head.append(everything);
    for (const one of shownColumns) {
      const cell = make("th", one.numeric ? "number" : "");
      const mark = one.id === column.id ? (view.down ? " ↓" : " ↑") : "";
      const button = make("button", "", one.title + mark);
      cell.setAttribute("aria-sort", mark ? (view.down ? "descending" : "ascending") : "none");
      button.addEventListener("click", () => { view.down = view.sort === one.id ? !view.down : false; view.sort = one.id; drawTable(); });
      cell.append(button);
      head.append(cell);
    }
    head.append(make("th", "", "compare"));
    byId("head").replaceChildren(head);
    byId("rows").replaceChildren(...all.slice(0, view.rows).map((run) => row(run, shownColumns, best)));
    byId("more").hidden = all.length <= view.rows;
    byId("more").textContent = `Show all ${all.length}`;
    byId("no-runs").hidden = all.length > 0;
    drawDetail();
  };
  const row = (run, shownColumns, best) => {
    const made = make("tr", view.open === run.name ? "open" : ""), first = make("td"), tick = make("input");
    tick.type = "checkbox";
    tick.checked = !view.hidden.has(run.name);
    tick.setAttribute("aria-label", `Show curves of ${run.name}`);
    tick.addEventListener("change", () => { if (tick.checked) view.hidden.delete(run.name); else view.hidden.add(run.name); drawCharts(); });
    first.append(tick);
    made.append(first);
    for (const one of shownColumns) {
      const cell = make("td", one.numeric ? "number" : "");
      if (one.id === "name") {
        const dot = make("span", "dot"), name = make("button", "name", run.name);
        dot.style.background = colour(run.index);
        name.addEventListener("click", () => { open(view.open === run.name ? null : run.name); });
        cell.append(dot, name);
        if (run === best) { const star = make("span", "star", "★"); star.title = "best"; cell.append(star); }
      } else if (one.id === "state") {
        if (run.state) cell.append(make("span", "state " + run.state, run.state));
      } else {
        const text = one.text(run);
        cell.textContent = text;
        if (text.length > 30) cell.title = text;
      }
      made.append(cell);
    }
    const last = make("td"), compare = make("input");
    compare.type = "checkbox";
    compare.checked = view.compare.has(run.name);
    compare.setAttribute("aria-label", `Compare ${run.name}`);
    compare.addEventListener("change", () => { if (compare.checked) view.compare.add(run.name); else view.compare.delete(run.name); drawCompare(); });
    last.append(compare);
    made.append(last);
    return made;
  };
  const open = (name) => {
    view.open = name;
    drawTable();
    if (name !== null) byId("detail").scrollIntoView({ block: "nearest" });
  };
  const list = (pairs) => {
    const made = make("dl");
    for (const [key, value] of pairs) if (value !== undefined && value !== null && value !== "") made.append(make("dt", "", key), make("dd", "", shown(value)));
    return made.childElementCount ? [made] : [];
  };
  const drawDetail = () => {
    const holder = byId("detail"), run = data.runs.find((one) => one.name === view.open);
    holder.hidden = !run;
    holder.replaceChildren();
    if (!run) return;
    const head = make("h3", "", run.name), close = make("button", "", "Close");
    close.addEventListener("click", () => { view.open = null; drawTable(); });
    head.append(close);
    const when = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString() : "");
    holder.append(head, ...list(Object.entries(run.config)), ...list([
      ["state", run.state], ["attempts", run.attempts], ["started", when(run.started)], ["ended", when(run.ended)], ["result", run.result],
      ["runs", run.executable], ["commit", run.commit], ...Object.entries(run.environment || {}), ["artefacts", run.files.join(", ")],
    ]));
    if (run.error) holder.append(make("pre", "error", run.error));
    for (const name of ["stdout", "stderr"]) if (run[name]) holder.append(make("pre", "", `${name}:\n${run[name]}`));
  };

  // Configurations side by side.
  const drawCompare = () => {
    const runs = data.runs.filter((run) => view.compare.has(run.name)).slice(0, 12);
    byId("compare").hidden = runs.length < 2;
    if (runs.length < 2) return;
    const table = make("table"), head = make("tr"), body = make("tbody"), top = make("thead");
    head.append(make("th", "", "setting"), ...runs.map((run) => make("th", "", run.name)));
    for (const { key, differs } of settings(runs)) {
      if (view.onlyDiffering && !differs) continue;
      const line = make("tr");
      line.append(make("td", "soft", key));
      for (const run of runs) line.append(make("td", differs ? "differs" : "", own(run.config, key) === undefined ? "–" : shown(own(run.config, key))));
      body.append(line);
    }
    if (!body.childElementCount) { const line = make("tr"); line.append(make("td", "soft", "no setting differs")); body.append(line); }
    top.append(head);
    table.append(top, body);
    byId("differences").replaceChildren(table);
  };

  const drawPictures = () => {
    const made = [];
    for (const run of wanted()) for (const picture of run.pictures) {
      if (made.length >= 120) break;
      const figure = make("figure", "card"), image = make("img");
      image.src = "data:image/png;base64," + picture.png.replace(/[^A-Za-z0-9+/=]/g, "");
      image.alt = picture.tag;
      image.loading = "lazy";
      const step = picture.step === null ? "" : ` · step ${picture.step}`;
      figure.append(image, make("figcaption", "", `${run.name} · ${picture.tag}${step}`));
      made.push(figure);
    }
    byId("pictures-part").hidden = !made.length;
    byId("pictures").replaceChildren(...made);
  };

  const drawHead = () => {
    byId("title").textContent = data.title;
    document.title = data.title;
    const counts = new Map();
    for (const run of data.runs) if (run.state) counts.set(run.state, (counts.get(run.state) || 0) + 1);
    byId("states").replaceChildren(...[...counts].sort().map(([state, count]) => {
      const chip = make("span", "chip");
      chip.append(make("span", "state " + state, state), make("b", "", String(count)));
      return chip;
    }));
    byId("notes").hidden = !data.notes.length;
    byId("notes").textContent = data.notes.join(". ");
    byId("nothing").hidden = data.runs.length > 0;
    byId("runs-part").hidden = !data.runs.length;
    const pick = byId("metric");
    view.metric = Math.min(view.metric, Math.max(0, data.metrics.length - 1));
    pick.replaceChildren(...data.metrics.map((name, index) => { const one = make("option", "", name); one.value = index; return one; }));
    pick.value = view.metric;
  };
  const drawAll = () => {
    data.runs.forEach((run, index) => { run.index = index; });
    drawHead(); drawBest(); drawCharts(); drawTable(); drawCompare(); drawPictures();
  };

  // Controls.
  const later = (work, wait) => { let timer = 0; return () => { clearTimeout(timer); timer = setTimeout(work, wait); }; };
  const filterSoon = later(() => { view.filter = byId("filter").value; drawBest(); drawCharts(); drawTable(); drawPictures(); }, 120);
  byId("filter").addEventListener("input", filterSoon);
  byId("smooth").addEventListener("input", () => { view.smooth = Number(byId("smooth").value); byId("smooth-value").textContent = view.smooth.toFixed(2); drawCharts(); });
  for (const [id, name] of [["log-y", "logY"], ["log-x", "logX"]]) byId(id).addEventListener("change", () => { view[name] = byId(id).checked; drawCharts(); });
  byId("metric").addEventListener("change", () => { view.metric = Number(byId("metric").value); view.mode = guess(); byId("mode").value = view.mode; drawBest(); drawTable(); });
  byId("mode").addEventListener("change", () => { view.mode = byId("mode").value; drawBest(); drawTable(); });
  byId("more").addEventListener("click", () => { view.rows = Infinity; drawTable(); });
  byId("only").addEventListener("change", () => { view.onlyDiffering = byId("only").checked; drawCompare(); });
  const guess = () => (/acc|auc|f1|bleu|score|reward|precision|recall|return/i.test(data.metrics[view.metric] || "") ? "max" : "min");
  const theme = byId("theme");
  const dark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; drawAll(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  view.metric = Math.max(0, data.metrics.findIndex((name) => /loss/i.test(name)));
  view.mode = guess();
  drawAll();
  byId("mode").value = view.mode;

  if (live) {
    let tag = "";
    const dot = byId("live");
    dot.hidden = false;
    const poll = async () => {
      try {
        const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
        if (answer.status === 200) {
          tag = answer.headers.get("ETag") || "";
          data = await answer.json();
          drawAll();
        }
        dot.classList.toggle("off", !(answer.ok || answer.status === 304));
        dot.textContent = answer.ok || answer.status === 304 ? "live" : "paused";
      } catch {
        dot.classList.add("off");
        dot.textContent = "not connected";
      }
      setTimeout(poll, document.hidden ? 10000 : 2000);
    };
    setTimeout(poll, 2000);
  }
})();
