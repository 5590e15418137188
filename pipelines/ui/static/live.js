// The page of a run that goes on: shows what the server says of it each second, in the server's own words.
"use strict";

(() => {
  const main = document.querySelector("main[data-events]");
  const TONES = { ran: "good", cached: "good", running: "live", failed: "bad" };
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 150, RIGHT = 2, TOP = 12, BOTTOM = 26, MOST_POINTS = 600;
  const notice = document.getElementById("notice");
  let points = [];

  const made = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const set = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };

  const tell = (text, tone, link) => {
    notice.hidden = !text;
    notice.className = `notice ${tone || ""}`;
    set(notice, text || "");
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = "Open its report";
      notice.append(" ", anchor);
    }
  };

  const showSteps = (steps) => {
    const rows = document.getElementById("step-rows");
    document.getElementById("step-card").hidden = !steps.length;
    const none = document.getElementById("no-steps");
    if (none) none.hidden = steps.length > 0;
    steps.forEach((step, place) => {
      let row = rows.children[place];
      if (!row) {
        row = document.createElement("tr");
        const head = document.createElement("th");
        head.scope = "row";
        const state = document.createElement("td");
        state.append(document.createElement("span"));
        state.dataset.label = "state";
        row.append(head, state, ...[["n", "time"], ["n muted", "usually"], ["n", "peak memory"]].map(([name, label]) => {
          const cell = document.createElement("td");
          cell.className = name;
          cell.dataset.label = label;
          return cell;
        }));
        rows.append(row);
      }
      const [name, state, time, usual, memory] = row.children;
      set(name, step.name);
      state.firstElementChild.className = `state ${TONES[step.state] || "mute"}`;
      set(state.firstElementChild, step.state);
      set(time, step.time);
      set(usual, step.usual);
      set(memory, step.memory);
    });
    while (rows.children.length > steps.length) rows.lastElementChild.remove();
  };

  const showBar = (share) => {
    const bar = document.querySelector("#bar .progress");
    bar.firstElementChild.style.width = `${100 * (share || 0)}%`;
    if (share === null) bar.removeAttribute("aria-valuenow");
    else bar.setAttribute("aria-valuenow", Math.floor(100 * share));
  };

  const short = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4))));

  // As many digits as tell the ticks of an axis apart.
  const tick = (value, span) => {
    const digits = Math.min(8, Math.max(0, 1 - Math.floor(Math.log10(span || 1))));
    return Number(value.toFixed(digits)).toLocaleString("en", { minimumFractionDigits: span < 1 ? digits : 0, maximumFractionDigits: digits });
  };

  const draw = (figure, name, unit, known) => {
    const [caption, old] = figure.children;
    // As many units as pixels, so that letters have their size on any screen.
    const width = Math.max(caption.clientWidth, 160);
    const newest = known[known.length - 1];
    set(caption.firstElementChild, name);
    set(caption.lastElementChild, `${short(newest[1])}${unit}`);
    const steps = known.map((each) => each[0]), values = known.map((each) => each[1]);
    const first = Math.min(...steps), last = Math.max(...steps);
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) { low -= Math.abs(low) / 10 || 1; high += Math.abs(high) / 10 || 1; }
    const ticks = [high, (high + low) / 2, low].map((value) => [value, tick(value, high - low)]);
    // The labels have a column of their own, as wide as the longest: the curve does not run through them.
    const left = 10 + 7.5 * Math.max(...ticks.map((each) => each[1].length));
    const x = (step) => left + (width - RIGHT - left) * (last > first ? (step - first) / (last - first) : 1);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
    const label = `${name} by step: ${short(newest[1])}${unit} at step ${newest[0].toLocaleString("en")}`;
    const svg = made("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
    for (const [value, text] of ticks) {
      svg.append(made("line", { x1: left, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(made("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text));
    }
    svg.append(made("polyline", { points: known.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
    if (last > first) svg.append(made("text", { x: left, y: HEIGHT - 6 }, `step ${first.toLocaleString("en")}`));
    svg.append(made("text", { x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, last.toLocaleString("en")));
    old.replaceWith(svg);
  };

  const figureOf = (key) => {
    const charts = document.getElementById("charts");
    let figure = [...charts.children].find((each) => each.dataset.key === key);
    if (!figure) {
      figure = document.createElement("figure");
      figure.className = "card curve";
      figure.dataset.key = key;
      const caption = document.createElement("figcaption");
      caption.append(document.createElement("b"), document.createElement("span"));
      figure.append(caption, made("svg", {}));
      charts.append(figure);
    }
    return figure;
  };

  const showCurves = () => {
    if (!points.length) return;
    document.getElementById("training").hidden = false;
    const tasks = new Set(points.flatMap((each) => Object.keys(each.losses)));
    for (const task of tasks) {
      const known = points.filter((each) => task in each.losses).map((each) => [each.step, each.losses[task]]);
      draw(figureOf(`loss ${task}`), `loss of ${task}`, "", known);
    }
    draw(figureOf("rate"), "speed", " examples/s", points.map((each) => [each.step, each.rate]));
  };

  const show = (told) => {
    for (const element of document.querySelectorAll("[data-live]")) {
      const text = told.shown[element.dataset.live];
      if (text !== undefined) set(element, text);
    }
    // Said aloud when it changes, so it holds no number that changes each second.
    set(document.getElementById("sentence"), told.sentence);
    showBar(told.share);
    showSteps(told.steps);
    points = told.is_new ? told.points : points.concat(told.points);
    if (points.length > MOST_POINTS) points = points.filter((_, place) => place % 2 === points.length % 2);
    if (told.points.length || told.is_new) showCurves();
  };

  const source = new EventSource(main.dataset.events);
  source.addEventListener("open", () => tell(""));
  source.addEventListener("progress", (event) => show(JSON.parse(event.data)));
  source.addEventListener("ended", (event) => {
    const told = JSON.parse(event.data);
    source.close();
    show(told);
    const tone = ["pushed", "blessed", "ended"].includes(told.state) ? "good" : "bad";
    const badge = document.querySelector("[data-live=state] .state");
    badge.className = `state ${tone === "good" ? "good" : told.state === "refused" ? "warn" : "bad"}`;
    set(badge, told.state);
    document.title = document.title.replace(/: .*$/, `: ${told.state}`);
    tell(`The run has ended: ${told.state}.`, tone, main.dataset.report);
  });
  source.addEventListener("error", () => {
    tell(source.readyState === EventSource.CLOSED
      ? "The server has refused the stream of news: reload the page to try again."
      : "The connection is lost; it is tried again.");
  });
})();
