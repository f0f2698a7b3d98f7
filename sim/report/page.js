"use strict";
(function () {
  // Colours of Okabe and Ito, which those can tell apart who do not see all colours.
  var COLOURS = {
    produce: "#0072b2", consume: "#009e73", empty: "#b9d9cd", settle: "#e69f00", call: "#8a939d", unanswered: "#d55e00",
    write: "#56b4e9", sync: "#0072b2", read: "#c3cad1", meta: "#cc79a7",
    event: "#5b6675", lease: "#009e73", ack: "#e69f00", window: "#e69f00", writeout: "#00785a", prime: "#cc79a7", bad: "#d55e00", anchor: "#bfe3d6",
    recovering: "#f0e442", serving: "#cfe8dd", down: "#e3e6ea", crash: "#d55e00", power: "#1c2430",
    pause: "#cc79a7", starve: "#f0e442", fault: "#d55e00", stall: "#56b4e9",
    acked: "#009e73", expired: "#e69f00", "given up": "#cc79a7", crashed: "#d55e00", live: "#56b4e9", overdue: "#5b6675"
  };
  var LEGEND = [
    ["clients", ["produce", "consume", ["empty", "consume without a message"], "settle", ["call", "other call"], ["unanswered", "no answer"]]],
    ["files", ["write", "sync", "read", ["meta", "names and sizes"]]],
    ["consumer.ahead", [["window", "window write"], ["writeout", "writeout"], "prime", ["anchor", "is the anchor"], ["bad", "write over the anchor"]]],
    ["leases", [["acked", "ended by ack"], "expired", "given up", ["crashed", "lost in a crash"], ["live", "alive at the end"], ["overdue", "past its expiry"]]],
    ["node", ["serving", "recovering", "down", ["crash", "process crash"], ["power", "power loss"], ["fault", "failing file call"], "pause", "starve", ["stall", "disk stall"]]]
  ];
  var INK, SOFT, LINE, BAND, FOCUS, GUTTER = 210, ROW = 19;
  // Colours of the page, which follow the reader's choice of light or dark.
  function theme() {
    var css = getComputedStyle(document.documentElement);
    function of(name) { return css.getPropertyValue(name).trim(); }
    INK = of("--ink"); SOFT = of("--soft"); LINE = of("--line"); BAND = of("--band"); FOCUS = of("--focus");
    COLOURS.power = INK; COLOURS.event = SOFT; COLOURS.overdue = SOFT;
  }
  var view = { a: DATA.from, b: DATA.to };
  var panels = [];
  var tip = document.getElementById("tip");

  function el(tag, cls, text) {
    var e = document.createElement(tag);
    if (cls) { e.className = cls; }
    if (text) { e.textContent = text; }
    return e;
  }

  // The kinds of what is drawn.
  function kinds() {
    var seen = {};
    function see(items) { (items || []).forEach(function (i) { seen[i.k] = true; }); }
    (DATA.groups || []).forEach(function (g) { (g.lanes || []).forEach(function (l) { see(l.items); }); });
    (DATA.parts || []).forEach(function (p) {
      see(p.leases);
      if ((p.leases || []).some(function (l) { return l.b > l.d + 1e-6; })) { seen.overdue = true; }
      (p.slots || []).forEach(function (s) { see(s.items); });
    });
    return seen;
  }

  function legend() {
    var box = document.getElementById("legend"), seen = kinds();
    LEGEND.forEach(function (g) {
      var shown = g[1].filter(function (k) { return seen[k instanceof Array ? k[0] : k]; });
      if (shown.length) { box.appendChild(el("b", "", g[0])); }
      shown.forEach(function (k) {
        var name = k instanceof Array ? k[1] : k, key = k instanceof Array ? k[0] : k;
        var s = el("span"), i = el("i");
        i.style.background = { power: "var(--ink)", event: "var(--soft)", overdue: "var(--soft)" }[key] || COLOURS[key];
        s.appendChild(i);
        s.appendChild(document.createTextNode(name));
        box.appendChild(s);
      });
    });
    [["#0072b2", "high watermark"], ["var(--ink)", "frontier"]].forEach(function (l) {
      var s = el("span"), i = el("i");
      i.style.background = l[0]; i.style.height = "3px";
      s.appendChild(i); s.appendChild(document.createTextNode(l[1]));
      box.appendChild(s);
    });
  }

  function clampView() {
    var span = Math.max(view.b - view.a, 1e-6), room = Math.max(DATA.end * 0.02, 1e-4);
    if (span > DATA.end + 2 * room) { view.a = -room; view.b = DATA.end + room; return; }
    if (view.a < -room) { view.a = -room; view.b = view.a + span; }
    if (view.b > DATA.end + room) { view.b = DATA.end + room; view.a = view.b - span; }
  }

  function show(a, b) { view.a = a; view.b = b; clampView(); redraw(); }

  function zoom(factor, at) {
    if (at === undefined) { at = (view.a + view.b) / 2; }
    show(at - (at - view.a) * factor, at + (view.b - at) * factor);
  }

  var pending = false;
  function redraw() {
    if (pending) { return; }
    pending = true;
    requestAnimationFrame(function () {
      pending = false;
      panels.forEach(function (p) { p.draw(); });
      var span = view.b - view.a;
      document.getElementById("where").textContent = view.a.toFixed(6) + " s to " + view.b.toFixed(6) + " s (" + duration(span) + ")";
      var left = DATA.end - span;
      document.getElementById("slide").value = left > 0 ? Math.round(1000 * view.a / left) : 500;
    });
  }

  function duration(s) {
    if (s < 1e-3) { return (s * 1e6).toFixed(0) + " µs"; }
    if (s < 1) { return (s * 1e3).toFixed(1) + " ms"; }
    return s.toFixed(2) + " s";
  }

  // Keys move and zoom as the buttons do.
  function key(e) {
    var third = (view.b - view.a) / 3;
    switch (e.key) {
    case "ArrowLeft": show(view.a - third, view.b - third); break;
    case "ArrowRight": show(view.a + third, view.b + third); break;
    case "+": case "=": zoom(0.5); break;
    case "-": zoom(2); break;
    case "0": show(0, DATA.end); break;
    default: return;
    }
    e.preventDefault();
  }

  // A panel is a canvas with the time axis to the right of a gutter for names.
  function Panel(parent, height, paint, name) {
    var canvas = el("canvas"), self = this;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", name + " over virtual time; what it shows is told in words above");
    canvas.addEventListener("keydown", key);
    canvas.style.height = height + "px";
    parent.appendChild(canvas);
    this.canvas = canvas; this.height = height; this.paint = paint; this.hits = [];
    panels.push(this);
    var drag = null;
    canvas.addEventListener("mousedown", function (e) { drag = { x: e.clientX, a: view.a, b: view.b }; });
    window.addEventListener("mouseup", function () { drag = null; });
    window.addEventListener("mousemove", function (e) {
      if (!drag) { return; }
      var d = (e.clientX - drag.x) / self.scale();
      show(drag.a - d, drag.b - d);
    });
    canvas.addEventListener("mousemove", function (e) {
      if (!drag) { self.hover(e); }
    });
    canvas.addEventListener("mouseleave", function () { tip.style.display = "none"; });
    canvas.addEventListener("dblclick", function (e) { zoom(0.4, self.time(e)); });
    canvas.addEventListener("wheel", function (e) {
      if (!e.ctrlKey && Math.abs(e.deltaX) < Math.abs(e.deltaY)) { return; }
      e.preventDefault();
      if (e.ctrlKey) { zoom(Math.exp(e.deltaY / 300), self.time(e)); } else { var d = e.deltaX / self.scale(); show(view.a + d, view.b + d); }
    }, { passive: false });
  }
  Panel.prototype.width = function () { return this.canvas.clientWidth || 900; };
  Panel.prototype.scale = function () { return (this.width() - GUTTER - 10) / (view.b - view.a); };
  Panel.prototype.x = function (t) { return GUTTER + (t - view.a) * this.scale(); };
  Panel.prototype.time = function (e) {
    return view.a + (e.clientX - this.canvas.getBoundingClientRect().left - GUTTER) / this.scale();
  };
  Panel.prototype.draw = function () {
    var ratio = window.devicePixelRatio || 1, w = this.width();
    this.canvas.width = w * ratio; this.canvas.height = this.height * ratio;
    var c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.clearRect(0, 0, w, this.height);
    c.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
    c.textBaseline = "middle"; c.textAlign = "left";
    this.hits = []; this.tags = {};
    this.grid(c, w);
    c.save();
    this.paint(c, w, this);
    c.restore();
    this.marks(c, w);
  };
  Panel.prototype.grid = function (c, w) {
    var span = view.b - view.a, step = Math.pow(10, Math.floor(Math.log10(span / 6)));
    if (span / step > 30) { step *= 5; } else if (span / step > 12) { step *= 2; }
    c.strokeStyle = LINE; c.fillStyle = SOFT; c.textAlign = "center"; c.lineWidth = 1;
    var digits = Math.max(0, -Math.floor(Math.log10(step)));
    for (var t = Math.ceil(view.a / step) * step; t < view.b; t += step) {
      var x = Math.round(this.x(t)) + 0.5;
      c.beginPath(); c.moveTo(x, 16); c.lineTo(x, this.height); c.stroke();
      c.fillText(t.toFixed(digits), Math.min(x, w - 20), 8);
    }
  };
  // Crashes and the failure go through everything.
  Panel.prototype.marks = function (c, w) {
    var self = this;
    (DATA.down || []).forEach(function (d) {
      if (d.t < view.a || d.t > view.b) { return; }
      var x = self.x(d.t);
      c.strokeStyle = d.power ? COLOURS.power : COLOURS.crash;
      c.lineWidth = 1.6; c.setLineDash(d.power ? [] : [5, 3]);
      c.beginPath(); c.moveTo(x, 16); c.lineTo(x, self.height); c.stroke();
      c.setLineDash([]);
      self.hits.push([x - 3, 16, x + 3, self.height, d.text, d.t, d.t]);
      if (self.named) { self.tag(c, d.power ? "power loss" : "process crash", x, d.power ? 36 : 22, d.power ? COLOURS.power : COLOURS.crash, w); }
    });
    if (DATA.failed) {
      var x = this.x(DATA.end);
      c.strokeStyle = "#d55e00"; c.lineWidth = 3;
      c.beginPath(); c.moveTo(x, 16); c.lineTo(x, this.height); c.stroke();
      if (this.named) { this.tag(c, "the check fails", x, 22, "#d55e00", w); }
    }
  };
  Panel.prototype.tag = function (c, text, x, y, colour, w) {
    c.font = "600 11px system-ui, 'DejaVu Sans', sans-serif";
    var need = c.measureText(text).width + 8;
    if (x < GUTTER || x > w) { return; }
    if (x + need > w) { x -= need; }
    var free = this.tags[y] || 0;
    if (x < free) { return; }
    this.tags[y] = x + need;
    c.fillStyle = colour; c.fillRect(x, y - 6, need, 14);
    c.fillStyle = colour === INK ? getComputedStyle(document.body).backgroundColor : "#fff"; c.textAlign = "left"; c.fillText(text, x + 4, y + 1.5);
  };
  Panel.prototype.hover = function (e) {
    var r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top, best = null;
    for (var i = this.hits.length - 1; i >= 0; i--) {
      var h = this.hits[i];
      if (x >= h[0] - 2 && x <= h[2] + 2 && y >= h[1] && y <= h[3] && (!best || h[2] - h[0] < best[2] - best[0])) { best = h; }
    }
    if (!best) { tip.style.display = "none"; return; }
    var when = best[5].toFixed(6) + " s" + (best[6] > best[5] ? ", for " + duration(best[6] - best[5]) : "");
    tip.textContent = when + "\n" + best[4];
    tip.style.display = "block";
    tip.style.left = Math.min(e.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(e.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
  };

  function label(c, text, y, bold) {
    c.fillStyle = bold ? INK : SOFT; c.textAlign = "left";
    c.font = (bold ? "600 " : "") + "11.5px system-ui, 'DejaVu Sans', sans-serif";
    var t = text;
    while (t.length > 4 && c.measureText(t).width > GUTTER - 18) { t = t.slice(0, -2); }
    c.fillText(t === text ? t : t + "…", 8, y);
  }

  // One row of spans and marks. Marks that fall on one pixel are drawn once.
  function row(p, c, items, y, h) {
    var last = {}, right = p.width();
    for (var i = 0; i < items.length; i++) {
      var it = items[i];
      if (it.b < view.a || it.a > view.b) { continue; }
      var x = Math.max(p.x(it.a), GUTTER), x2 = Math.min(p.x(it.b), right - 6), key = it.k, at = Math.round(x);
      if (x2 - x < 1.2) {
        if (last[key] === at) { continue; }
        last[key] = at;
      }
      c.fillStyle = COLOURS[it.k] || COLOURS.event;
      if (it.k === "crash" || it.k === "power") {
        c.beginPath(); c.moveTo(x, y + h); c.lineTo(x - 6, y + 1); c.lineTo(x + 6, y + 1); c.closePath(); c.fill();
        p.hits.push([x - 6, y, x + 6, y + h, it.x, it.a, it.b]);
      } else if (it.b > it.a) {
        var w = Math.max(x2 - x, 2);
        c.fillRect(x, y + 2, w, h - 4);
        if (it.k === "unanswered") { c.strokeStyle = INK; c.strokeRect(x + 0.5, y + 2.5, w, h - 5); }
        inside(c, it, x, w, y + h / 2);
        p.hits.push([x, y, x + w, y + h, it.x, it.a, it.b]);
      } else {
        c.fillRect(x - 1, y + 1, 2.5, h - 2);
        p.hits.push([x - 1.5, y, x + 1.5, y + h, it.x, it.a, it.b]);
      }
    }
  }

  var DARK_TEXT = { empty: 1, recovering: 1, serving: 1, down: 1, read: 1, starve: 1, settle: 1, write: 1, stall: 1, pause: 1 };

  // What a span is, in the span, if there is room for it.
  function inside(c, it, x, w, y) {
    if (w < 36 || !it.x || it.k === "anchor") { return; }
    c.font = "10.5px system-ui, 'DejaVu Sans', sans-serif";
    var text = it.l || it.x.split("\n")[0];
    while (text.length > 3 && c.measureText(text).width > w - 8) { text = text.slice(0, Math.max(3, text.length - 4)).trim() + "…"; if (text.length < 6) { return; } }
    c.fillStyle = DARK_TEXT[it.k] ? "#1c2430" : "#fff"; c.textAlign = "left";
    c.fillText(text, x + 4, y + 0.5);
  }

  function lanesPanel(group) {
    if (!group.lanes || !group.lanes.length) { return; }
    var box = el("div", "chart"), h = el("h3", "", group.name);
    box.appendChild(h);
    document.getElementById("lanes").appendChild(box);
    new Panel(box, 20 + group.lanes.length * ROW + 4, function (c, w, p) {
      group.lanes.forEach(function (l, i) {
        var y = 20 + i * ROW;
        if (i % 2) { c.fillStyle = BAND; c.fillRect(0, y, w, ROW); }
        label(c, l.name, y + ROW / 2);
        row(p, c, l.items || [], y, ROW);
      });
    }, group.name);
  }

  function valueAt(series, t) {
    var v = null;
    for (var i = 0; series && i < series.length && series[i].t <= t; i++) { v = series[i].v; }
    return v;
  }

  function partPanel(part) {
    var box = el("div", "chart" + (part.focus ? " focus" : ""));
    var title = "partition " + part.name;
    if (part.focus) { title += part.offsets && part.offsets.length ? ", where the failure is: offset " + part.offsets.join(", ") : ", where the failure is"; }
    var head = el("h3", "", title);
    box.appendChild(head);
    if (part.focus && part.offsets && part.offsets.length) {
      var more = el("button", "", "all offsets");
      more.style.cssText = "float:right;font-size:12px;padding:0 8px";
      more.onclick = function () { part.everything = !part.everything; more.textContent = part.everything ? "only near the failure" : "all offsets"; redraw(); };
      head.appendChild(more);
    }
    document.getElementById(part.focus ? "parts" : "more").appendChild(box);
    if (!part.focus) { document.getElementById("others").style.display = "block"; }
    var chart = part.focus ? 260 : 150;
    new Panel(box, 20 + chart + 3 * ROW, function (c, w, p) { paintPart(part, chart, c, w, p); }, title).named = true;
  }

  function range(part) {
    var lo = Infinity, hi = -Infinity;
    function see(v) { if (v < lo) { lo = v; } if (v > hi) { hi = v; } }
    (part.leases || []).forEach(function (l) { if (l.b >= view.a && l.a <= view.b) { see(l.o); } });
    [part.hw, part.frontier].forEach(function (s) {
      (s || []).forEach(function (q) { if (q.t >= view.a && q.t <= view.b && q.v > -2) { see(q.v); } });
      var v = valueAt(s, view.a);
      if (v !== null && v > -2) { see(v); }
    });
    (part.offsets || []).forEach(see);
    if (lo > hi) { lo = 0; hi = 1; }
    part.clipped = false;
    if (!part.everything && part.offsets && part.offsets.length && hi - lo > 30) {
      lo = Math.max(lo, part.offsets[0] - 10);
      hi = Math.min(hi, part.offsets[part.offsets.length - 1] + 10);
      part.clipped = true;
    }
    return [lo - 0.8, Math.max(hi + 0.8, lo + 2)];
  }

  function paintPart(part, chart, c, w, p) {
    var r = range(part), top = 24, bottom = 16 + chart;
    function y(v) { return bottom - (v - r[0]) / (r[1] - r[0]) * (bottom - top); }
    var step = Math.max(1, Math.ceil((r[1] - r[0]) / 8));
    c.textAlign = "right"; c.fillStyle = SOFT; c.strokeStyle = LINE; c.lineWidth = 1;
    for (var v = Math.max(0, Math.ceil(r[0])); v <= r[1]; v += step) {
      c.fillText(String(v), GUTTER - 8, y(v));
      c.beginPath(); c.moveTo(GUTTER, y(v - 0.5)); c.lineTo(w, y(v - 0.5)); c.stroke();
    }
    label(c, part.clipped ? "offset (only near the failure)" : "offset", top + 4, true);
    c.save();
    c.beginPath(); c.rect(GUTTER, 16, w - GUTTER, bottom - 14); c.clip();
    (part.offsets || []).forEach(function (o) {
      c.fillStyle = FOCUS;
      var half = Math.max(5, (y(o) - y(o + 1)) / 2);
      c.fillRect(GUTTER, y(o) - half, w - GUTTER, 2 * half);
    });
    settled(p, c, part.frontier, y, bottom, w);
    steps(p, c, part.hw, function (v) { return y(v - 0.5); }, "#0072b2", 2.4, "high watermark (the next offset)", w);
    steps(p, c, part.frontier, function (v) { return y(v + 0.5); }, INK, 2.4, "frontier (everything up to here is settled)", w);
    var thick = Math.max(2, Math.min(13, 0.62 * (bottom - top) / (r[1] - r[0])));
    (part.leases || []).forEach(function (l) {
      if (l.b < view.a || l.a > view.b || l.o < r[0] - 1 || l.o > r[1] + 1) { return; }
      var x = Math.max(p.x(l.a), GUTTER), x2 = Math.max(Math.min(p.x(l.b), w - 6), x + 3);
      c.fillStyle = COLOURS[l.k] || COLOURS.live;
      c.fillRect(x, y(l.o) - thick / 2, x2 - x, thick);
      if (l.b > l.d + 1e-6) { // it went on after its expiry
        var over = Math.max(p.x(l.d), GUTTER);
        c.fillStyle = COLOURS.overdue;
        c.fillRect(over, y(l.o) - thick / 2, Math.max(x2 - over, 2), thick);
        c.fillStyle = INK; c.fillRect(over - 1, y(l.o) - thick / 2 - 2, 2, thick + 4);
      }
      p.hits.push([x, y(l.o) - Math.max(thick / 2, 3), x2, y(l.o) + Math.max(thick / 2, 3), l.x, l.a, l.b]);
    });
    c.restore();
    (part.slots || []).forEach(function (s, i) {
      var at = bottom + 6 + i * (ROW + 4), items = s.items || [];
      label(c, "consumer.ahead " + s.name, at + ROW / 2, true);
      if (!items.length) { c.fillStyle = SOFT; c.textAlign = "left"; c.fillText("never written in this world", GUTTER + 4, at + ROW / 2); }
      row(p, c, items.filter(function (q) { return q.k === "anchor"; }), at, ROW + 2);
      row(p, c, items.filter(function (q) { return q.k !== "anchor"; }), at, ROW);
      var free = 0;
      c.textAlign = "left"; c.fillStyle = INK; c.font = "10.5px system-ui, 'DejaVu Sans', sans-serif";
      items.forEach(function (q) {
        if (q.k === "anchor" || q.k === "prime" || q.a < view.a || q.a > view.b) { return; }
        var text = q.x.split("\n")[0], x = p.x(q.a) + 4, need = c.measureText(text).width;
        if (text.charAt(0) !== "#" || x < free || x + need > w) { return; }
        c.fillText(text, x, at + ROW / 2);
        free = x + need + 6;
      });
    });
  }

  // The offsets that the frontier covers, while the partition is open.
  function settled(p, c, series, y, bottom, w) {
    c.fillStyle = BAND;
    for (var i = 0; series && i < series.length; i++) {
      var from = series[i].t, to = i + 1 < series.length ? series[i + 1].t : DATA.end;
      if (series[i].v <= -2 || to < view.a || from > view.b) { continue; }
      var x = Math.max(p.x(from), GUTTER), at = Math.min(y(series[i].v + 0.5), bottom);
      c.fillRect(x, at, Math.min(p.x(to), w - 6) - x, bottom - at);
    }
  }

  function steps(p, c, series, y, colour, width, name, w) {
    if (!series || !series.length) { return; }
    c.strokeStyle = colour; c.lineWidth = width;
    for (var i = 0; i < series.length; i++) {
      var from = series[i].t, to = i + 1 < series.length ? series[i + 1].t : DATA.end;
      if (series[i].v <= -2 || to < view.a || from > view.b) { continue; }
      var x = Math.max(p.x(from), GUTTER), x2 = Math.min(p.x(to), w - 6), at = y(series[i].v);
      c.beginPath();
      if (i > 0 && series[i - 1].v > -2 && from >= view.a) { c.moveTo(x, y(series[i - 1].v)); c.lineTo(x, at); } else { c.moveTo(x, at); }
      c.lineTo(x2, at); c.stroke();
      p.hits.push([x, at - 3, Math.max(x2, x + 2), at + 3, name + ": " + series[i].v, from, to]);
    }
  }

  legend();
  (DATA.parts || []).forEach(partPanel);
  (DATA.groups || []).forEach(lanesPanel);
  document.getElementById("others").addEventListener("toggle", redraw);
  document.getElementById("all").onclick = function () { show(0, DATA.end); };
  document.getElementById("focus").onclick = function () { show(DATA.from, DATA.to); };
  document.getElementById("in").onclick = function () { zoom(0.5); };
  document.getElementById("out").onclick = function () { zoom(2); };
  document.getElementById("left").onclick = function () { var d = (view.b - view.a) / 3; show(view.a - d, view.b - d); };
  document.getElementById("right").onclick = function () { var d = (view.b - view.a) / 3; show(view.a + d, view.b + d); };
  document.getElementById("slide").oninput = function (e) {
    var span = view.b - view.a, a = e.target.value / 1000 * Math.max(0, DATA.end - span);
    show(a, a + span);
  };
  Array.prototype.forEach.call(document.querySelectorAll("button.t"), function (b) {
    b.title = "show this instant in the drawings";
    b.onclick = function () {
      var t = parseFloat(b.getAttribute("data-t")), half = Math.min((view.b - view.a) / 2, Math.max(DATA.to - DATA.from, 1e-3) / 10);
      show(t - half, t + half);
      document.getElementById("parts").scrollIntoView({ block: "nearest" });
    };
  });
  if (DATA.failed) { Array.prototype.forEach.call(document.querySelectorAll(".scroll"), function (box) { box.scrollTop = box.scrollHeight; }); } // the failure is at the end
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { theme(); redraw(); });
  theme();
  clampView();
  redraw();
})();
