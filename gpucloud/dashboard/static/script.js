// Shows the document that is in the page, and the newer ones that its server sends.
// What comes from clouds, boxes and users is only ever put into text nodes.
"use strict";

const WORDS = JSON.parse(document.getElementById("words").textContent);
const STILL = document.documentElement.dataset.still !== "";
const SILENT_MS = 30_000; // without a word for this long, what is shown counts as old
const SOON_S = 1800; // a deadline that is closer than this is marked

let shown = JSON.parse(document.getElementById("document").textContent);
let receivedAt = performance.now();
let heardAt = performance.now();
let heardTime = new Date();
let trouble = null;
let language = firstLanguage();

function firstLanguage() {
  try {
    const kept = localStorage.getItem("language");
    if (kept === "en" || kept === "zh") return kept;
  } catch { /* no storage here: the browser's language */ }
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

// --- text

function plain(key) {
  const found = WORDS[key];
  if (!found) throw new Error(`no text for ${key}`);
  return found[language];
}

// The text of a key as nodes; each {name} in it is replaced by a value: a node, or a text that is nobody's words.
function say(key, values = {}) {
  return plain(key).split(/\{(\w+)\}/).map((part, index) =>
    index % 2 === 0 ? document.createTextNode(part) : asNode(values[part]));
}

function asNode(value) {
  if (value instanceof Node) return value;
  if (Array.isArray(value)) return make("span", {}, ...value);
  return data(value);
}

// An element with properties and children. A class is "class", an attribute has a hyphen or is a known one.
function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Text that is the same in every language: names, ids, what a cloud said.
function data(text, properties = {}) {
  return make("span", { translate: "no", ...properties }, String(text ?? "–"));
}

function nothing() {
  return make("span", { class: "muted" }, "–");
}

function command(text) {
  return make("code", { translate: "no" }, text);
}

function separated(nodes, mark = " + ") {
  return nodes.flatMap((node, index) => (index ? [mark, node] : [node]));
}

function listed(names) {
  const few = names.slice(0, 5).join(", ");
  return data(names.length > 5 ? `${few} … (${names.length})` : few);
}

// --- figures

const FORMATS = new Map(); // of numbers, by their places: a new one takes longer than all else of a cell

function digits(amount, places) {
  if (!FORMATS.has(places)) {
    FORMATS.set(places, new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }));
  }
  return FORMATS.get(places).format(amount);
}

function symbol(currency) {
  return currency === "USD" ? "$" : `${currency}\u00a0`;
}

// An amount per hour, with four decimals; large ones have two.
function rateText({ amount, currency }, places = 4) {
  return symbol(currency) + digits(Number(amount), places);
}

// A sum, to the cent.
function sumText({ amount, currency }) {
  const value = Number(amount);
  return value > 0 && value < 0.005 ? `<${symbol(currency)}0.01` : symbol(currency) + digits(value, 2);
}

function tileRate(money) {
  return rateText(money, Number(money.amount) < 1 ? 4 : 2);
}

function amounts(moneys, text, mark = "") {
  if (!moneys.length) return data(`${mark}$0${text === sumText ? ".00" : ""}`);
  return make("span", {}, mark, separated(moneys.map((money) => data(text(money)))));
}

function largest(moneys) {
  return Math.max(0, ...moneys.map((money) => Number(money.amount)));
}

function now() {
  const past = STILL ? 0 : performance.now() - receivedAt;
  return new Date(shown.as_of).getTime() + past;
}

function duration(seconds) {
  const whole = Math.abs(Math.trunc(seconds));
  const units = [["d", Math.floor(whole / 86400)], ["h", Math.floor(whole / 3600) % 24],
    ["m", Math.floor(whole / 60) % 60], ["s", whole % 60]];
  const first = units.findIndex(([, count]) => count > 0);
  const text = first < 0 ? `0${plain("unit.s")}`
    : units.slice(first, first + 2).filter(([, count]) => count).map(([unit, count]) => count + plain(`unit.${unit}`)).join("");
  return make("span", {}, text);
}

function sinceThen(time) {
  return duration((now() - new Date(time)) / 1000);
}

const LOCALES = { en: "en-GB", zh: "zh-CN" };

// A moment as the reader's clock shows it, with the day unless it is today.
function clock(time, seconds = false) {
  const moment = new Date(time);
  const today = moment.toDateString() === new Date(now()).toDateString();
  const form = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(seconds && { second: "2-digit" }),
    ...(!today && { month: "short", day: "numeric" }) };
  return make("time", { datetime: moment.toISOString(), title: moment.toISOString(), translate: "no" },
    moment.toLocaleString(LOCALES[language], form));
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  return data(`${digits(bytes / 1000 ** power, power ? 1 : 0)} ${units[power]}`);
}

function percent(value) {
  return `${Math.round(value)}\u00a0%`;
}

// --- tables: rows are kept by their id, so that focus, selection and what is unfolded outlive a new document

class Table {
  // columns: {key, number, wide, cell(row), sort(row), hidden(rows)}; detail(row) unfolds below a row.
  constructor({ label, columns, id, detail = null, sort = null }) {
    this.columns = columns;
    this.id = id;
    this.detail = detail;
    this.sort = sort;
    this.rows = [];
    this.made = new Map();
    this.open = new Map();
    this.visible = () => true;
    this.head = make("tr", {}, columns.map((column) => this.heading(column)));
    this.body = make("tbody");
    this.element = make("table", { "aria-label": label }, make("thead", {}, this.head), this.body);
  }

  heading(column) {
    const label = plain(column.key);
    const inside = this.sort
      ? make("button", { type: "button", class: "sort", onclick: () => this.sortBy(column) }, label)
      : label;
    return make("th", { scope: "col", class: column.number ? "number" : null }, inside);
  }

  sortBy(column) {
    const again = this.sort.column === column;
    this.sort = { column, down: again ? !this.sort.down : Boolean(column.number) };
    this.update(this.rows);
  }

  sorted() {
    if (!this.sort?.column) return this.rows;
    const { column, down } = this.sort;
    const value = column.sort ?? ((row) => row[column.key.split(".")[1]] ?? "");
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const found = [...this.rows].sort((a, b) => order(value(a), value(b)));
    return down ? found.reverse() : found;
  }

  update(rows) {
    this.rows = rows;
    this.columns.forEach((column, index) => {
      const cell = this.head.children[index];
      cell.hidden = Boolean(column.hidden?.(rows));
      if (this.sort) {
        const way = this.sort.column !== column ? null : this.sort.down ? "descending" : "ascending";
        if (way) cell.setAttribute("aria-sort", way);
        else cell.removeAttribute("aria-sort");
      }
    });
    const wanted = [];
    for (const row of this.sorted()) {
      if (!this.visible(row)) continue;
      const line = this.line(row);
      wanted.push(line);
      const unfolded = this.open.get(this.id(row));
      if (unfolded) wanted.push(unfolded);
    }
    const known = new Set(rows.map(this.id));
    for (const id of this.made.keys()) if (!known.has(id)) { this.made.delete(id); this.open.delete(id); }
    if (wanted.length !== this.body.children.length || wanted.some((line, index) => this.body.children[index] !== line)) {
      const focused = document.activeElement;
      this.body.replaceChildren(...wanted);
      if (focused && focused !== document.activeElement && focused.isConnected) focused.focus();
    }
  }

  line(row) {
    const id = this.id(row);
    const text = JSON.stringify(row);
    let made = this.made.get(id);
    if (!made) {
      made = { line: make("tr"), cells: this.columns.map((column, index) => this.cellOf(column, index)), text: null };
      made.line.append(...made.cells);
      this.made.set(id, made);
    }
    made.row = row;
    if (made.text !== text) {
      made.text = text;
      this.columns.forEach((column, index) => this.fill(made, column, index));
      made.line.className = row.signs?.includes("overdue") ? "overdue" : "";
      if (this.open.has(id)) this.open.get(id).firstChild.replaceChildren(this.detail(row));
    }
    this.columns.forEach((column, index) => { made.cells[index].hidden = this.head.children[index].hidden; });
    return made.line;
  }

  cellOf(column, index) {
    const properties = { class: column.number ? "number" : column.wide ? "wide" : null, "data-label": plain(column.key) };
    return index ? make("td", properties) : make("th", { scope: "row", ...properties });
  }

  fill(made, column, index) {
    const content = column.cell(made.row);
    if (index || !this.detail) {
      made.cells[index].replaceChildren(...[content].flat());
      return;
    }
    if (!made.button) {
      made.button = make("button", { type: "button", class: "unfold", "aria-expanded": "false" });
      made.button.addEventListener("click", () => this.toggle(made));
      made.cells[0].append(made.button);
    }
    made.button.replaceChildren(...[content].flat());
  }

  toggle(made) {
    const id = this.id(made.row);
    const open = !this.open.has(id);
    made.button.setAttribute("aria-expanded", String(open));
    if (open) {
      const cell = make("td", { colspan: this.columns.length }, this.detail(made.row));
      const unfolded = make("tr", { class: "detail" }, cell);
      this.open.set(id, unfolded);
      made.line.after(unfolded);
    } else {
      this.open.get(id).remove();
      this.open.delete(id);
    }
  }

  // Fills the cells of one column again, for the time that has passed.
  tick(key) {
    const index = this.columns.findIndex((column) => column.key === key);
    for (const made of this.made.values()) {
      const before = made.cells[index].textContent;
      const content = [this.columns[index].cell(made.row)].flat();
      if (content.map((node) => node.textContent).join("") !== before) made.cells[index].replaceChildren(...content);
    }
  }
}

// --- boxes

const BAD = new Set(["interrupted", "failed"]);
const GOOD = new Set(["ready"]);

function stateCell(row) {
  const kind = BAD.has(row.state) || row.signs.includes("overdue") ? "bad" : GOOD.has(row.state) ? "good" : "waiting";
  return [make("span", { class: `state ${kind}` }, plain(`state.${row.state}`)), ...signsOf(row).slice(0, 1)];
}

// What is remarkable besides the state and the time left, which have cells of their own; the worst first.
function signsOf(row) {
  const said = new Set(["overdue", ...(row.state === "interrupted" ? ["ended.cloud"] : [])]);
  return row.signs.filter((sign) => !said.has(sign))
    .map((sign) => make("span", { class: "sign" }, plain(`sign.${sign}`)));
}

function leftCell(row) {
  if (row.ended_at) return nothing();
  if (!row.expires_at) return make("span", { class: "muted" }, plain("left.none"));
  const left = (new Date(row.expires_at) - now()) / 1000;
  if (left < 0) return make("span", { class: "bad" }, say("left.over", { time: duration(left) }));
  return make("span", { class: left < SOON_S ? "soon" : null }, duration(left));
}

function useCell(row) {
  if (row.gpu_percent === null) return nothing();
  const bar = make("i", { class: "meter", "aria-hidden": "true" }, make("b"));
  bar.firstChild.style.width = `${Math.min(row.gpu_percent, 100)}%`;
  return [bar, data(percent(row.gpu_percent))];
}

function rateCell(row) {
  return row.per_hour.length || row.at_least ? amounts(row.per_hour, rateText, row.at_least ? "≥ " : "") : nothing();
}

function costCell(row) {
  return row.so_far ? amounts([row.so_far], sumText, row.at_most ? "≤ " : "") : nothing();
}

function gpuText(row) {
  return row.gpu && row.nodes > 1 ? `${row.nodes} × ${row.gpu}` : row.gpu;
}

const SEVERAL_OWNERS = { hidden: (rows) => new Set(rows.map((row) => row.owner)).size < 2 };

function boxColumns(over) {
  const columns = [
    { key: "box.name", cell: (row) => data(row.name) },
    { key: "box.owner", cell: (row) => data(row.owner), ...SEVERAL_OWNERS },
    { key: "box.state", wide: true, cell: stateCell, sort: (row) => plain(`state.${row.state}`) },
    { key: "box.gpu", cell: (row) => (row.gpu ? data(gpuText(row)) : nothing()) },
    { key: "box.place", cell: (row) => (row.cloud ? data(`${row.cloud} ${row.place}`) : nothing()), sort: (row) => `${row.cloud} ${row.place}` },
    { key: "box.purchase", cell: (row) => (row.purchase ? make("span", {}, plain(`purchase.${row.purchase}`)) : nothing()) },
    { key: "box.per_hour", number: true, cell: rateCell, sort: (row) => largest(row.per_hour) },
    { key: "box.so_far", number: true, cell: costCell, sort: (row) => Number(row.so_far?.amount ?? 0) },
    { key: "box.left", number: true, cell: leftCell, sort: (row) => (row.expires_at ? -new Date(row.expires_at) : -Infinity) },
    { key: "box.use", number: true, cell: useCell, sort: (row) => row.gpu_percent ?? -1 },
  ];
  if (!over) return columns;
  const left_out = new Set(["box.per_hour", "box.left", "box.use"]);
  const ended = { key: "box.ended", number: true, cell: (row) => say("ago", { time: sinceThen(row.ended_at) }) };
  return [...columns.filter((column) => !left_out.has(column.key)), ended];
}

function facts(pairs) {
  return make("dl", {}, pairs.filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => make("div", {}, make("dt", {}, plain(key)), make("dd", {}, value))));
}

function boxDetail(row) {
  const events = make("ol", { class: "timeline" });
  loadTimeline(row.id).then(
    (entries) => events.replaceChildren(...entries.map(entryLine)),
    () => events.replaceChildren(make("li", {}, plain("box.timeline.none"))));
  return make("div", { class: "columns" },
    facts([
      ["box.state", signsOf(row).length > 1 ? signsOf(row) : null],
      ["box.type", row.instance_type && data(row.instance_type)],
      ["box.nodes", data(row.nodes)],
      ["box.run", row.run_id && data(row.run_id)],
      ["box.created", clock(row.created_at)],
      ["box.expires", row.expires_at && clock(row.expires_at)],
      ["box.seen", row.seen_at && make("span", {}, say("ago", { time: sinceThen(row.seen_at) }))],
      ["box.idle", row.idle_s !== null && !row.ended_at ? duration(row.idle_s) : null],
      ["box.faults", row.faults.length ? data(row.faults.join("; "), { class: "bad" }) : null],
      ["box.id", data(row.id)],
    ]),
    make("section", {}, make("h3", {}, plain("box.timeline")), events));
}

async function loadTimeline(box) {
  if (STILL) return shown.timelines[box] ?? [];
  const answer = await fetch(`timeline?box=${encodeURIComponent(box)}`);
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

function entryLine(entry) {
  const values = Object.fromEntries(Object.entries(entry.values).map(([name, value]) => [name, entryValue(name, value)]));
  const price = entry.price ? [" ", data(rateText(entry.price), { class: "muted" })] : [];
  return make("li", {}, clock(entry.at, true), make("span", {}, say(entry.what, values), price));
}

function entryValue(name, value) {
  if (name === "until") return clock(value);
  if (name === "kind" || name === "purchase") return make("span", {}, plain(`${name}.${value}`));
  return data(value);
}

// --- the parts of the page

function tile(key, figures, lines, kind = "") {
  return make("section", { class: `tile ${kind}` }, make("h2", {}, plain(key)),
    make("p", { class: "figure" }, figures),
    lines.filter(Boolean).map((line) => make("p", { class: "sub" }, line)));
}

function big(moneys, text) {
  if (!moneys.length) return data("$0");
  return moneys.map((money) => data(text(money), { class: moneys.length > 1 ? "amount several" : "amount" }));
}

function tiles() {
  const { burn, burn_unknown, month, idle, troubles, boxes } = shown;
  const lost = troubles.flatMap((each) => each.per_hour);
  const sums = {};
  for (const { amount, currency } of lost) sums[currency] = (sums[currency] ?? 0) + Number(amount);
  const total = Object.entries(sums).map(([currency, amount]) => ({ amount, currency }));
  return make("div", { class: "tiles" },
    tile("burn", big(burn, tileRate), [
      say("burn.boxes", { boxes: data(boxes.length) }),
      burn_unknown.length && say("burn.unknown", { names: listed(burn_unknown) }),
    ], "first"),
    tile("month", big(month.spent, sumText), [
      month.flat ? say("month.flat", { amounts: amounts(month.forecast, sumText) })
        : say("month.forecast", { amounts: amounts(month.forecast, sumText), low: amounts(month.low, sumText), high: amounts(month.high, sumText) }),
      month.unknown.length && say("month.unknown", { names: listed(month.unknown) }),
    ]),
    tile("idle", big(idle.per_hour, tileRate), [
      say("idle.sub"),
      idle.unknown.length && say("idle.unknown", { count: data(idle.unknown.length) }),
    ]),
    tile("troubles", troubles.length ? data(troubles.length) : make("span", {}, plain("troubles.none")), [
      total.length && say("troubles.cost", { amounts: amounts(total, rateText) }),
    ], troubles.length ? "bad" : ""));
}

// What is unusual: days that have cost much, and prices that are not as they should be.
function unusualList() {
  const { unusual_days, price_anomalies } = shown;
  if (!unusual_days.length && !price_anomalies.length) return null;
  const days = unusual_days.map((each) => say("unusual.day", { day: dayText(each.day),
    amount: data(sumText(each.amount)), median: data(sumText(each.median)), most: data(sumText(each.most)) }));
  const prices = price_anomalies.map((each) => say(`unusual.${each.what}`, {
    offer: make("span", {}, data(`${each.cloud} ${each.zone ?? each.region} ${each.instance_type}`), ", ", plain(`purchase.${each.purchase}`)),
    amount: data(rateText(each.amount)), other: each.instead_of && data(rateText(each.instead_of)) }));
  return make("section", { class: "unread" }, make("h2", {}, plain("unusual")),
    make("ul", {}, [...days, ...prices].map((text) => make("li", {}, text))));
}

function troubleList() {
  if (!shown.troubles.length) return null;
  return make("section", { class: "troubles" }, make("h2", {}, plain("troubles")),
    make("ul", {}, shown.troubles.map(troubleLine)));
}

function troubleLine(each) {
  const what = make("p", {}, make("span", { class: "kind" }, plain(`kind.${each.what}`)), " ",
    data(each.name, { class: "name" }), " ", make("span", {}, plain(each.why)),
    each.since ? [" · ", make("span", {}, say("troubles.since", { since: clock(each.since) }))] : []);
  const price = make("p", { class: "price" },
    each.per_hour.length ? say("troubles.cost", { amounts: amounts(each.per_hour, rateText) }) : []);
  const how = make("p", { class: "how" }, each.command ? command(each.command)
    : make("span", { class: "muted" }, say("troubles.other", { owner: each.owner || "–" })));
  return make("li", {}, what, price, how);
}

function unreadList() {
  const { unread, warnings } = shown.source;
  if (!unread.length && !warnings.length) return null;
  const regions = unread.map((each) => make("li", {},
    say("unread.region", { place: `${each.cloud} ${each.region}`, error: each.error })));
  return make("section", { class: "unread" }, make("h2", {}, plain("unread")),
    make("ul", {}, regions, warnings.map((text) => make("li", {}, data(text)))));
}

// A chart of days for each currency: amounts of several are never added up, nor drawn on one scale.
function spendingByDay() {
  const days = shown.spending.days;
  const currencies = [...new Set(days.flatMap((day) => day.amounts.map((money) => money.currency)))].sort();
  const charts = currencies.map((currency) => chart(currency, days));
  return make("section", { class: "panel" }, make("h2", {}, plain("spending")),
    charts.length ? charts : make("p", { class: "muted" }, plain("spending.none")));
}

function chart(currency, days) {
  const values = days.map((day) => Number(day.amounts.find((money) => money.currency === currency)?.amount ?? 0));
  const most = Math.max(...values);
  const total = values.reduce((sum, value) => sum + value, 0);
  const text = (amount) => data(sumText({ amount, currency }));
  const caption = make("figcaption", {}, say("spending.days", {
    currency, total: text(total), most: text(most), day: dayText(days[values.indexOf(most)].day) }));
  const bars = days.map((day, index) => {
    const bar = make("i", { title: `${day.day}: ${sumText({ amount: values[index], currency })}` });
    bar.style.height = `${most ? Math.max(values[index] / most * 100, values[index] ? 2 : 0) : 0}%`;
    return bar;
  });
  return make("figure", { class: "chart" }, caption, make("div", { class: "bars", "aria-hidden": "true" }, bars),
    make("div", { class: "axis", "aria-hidden": "true" }, dayText(days[0].day), dayText(days[Math.floor(days.length / 2)].day), dayText(days.at(-1).day)));
}

function dayText(day) {
  const form = { month: "short", day: "numeric", timeZone: "UTC" };
  return make("time", { datetime: day, translate: "no" }, new Date(`${day}T00:00:00Z`).toLocaleDateString(LOCALES[language], form));
}

function shares() {
  const parts = ["cloud", "gpu", "owner"].map((key) => [key, shown.spending[key]]).filter(([, rows]) => rows.length);
  if (!parts.length) return null;
  return make("section", { class: "panel" }, make("h2", {}, plain("month")), make("div", { class: "shares" }, parts.map(([key, rows]) => make("section", {}, make("h3", {}, plain(`spending.${key}`)), shareList(rows)))));
}

function shareList(rows) {
  const most = {};
  for (const row of rows) for (const { amount, currency } of row.amounts) most[currency] = Math.max(most[currency] ?? 0, Number(amount));
  return make("ul", { class: "share" }, rows.map((row) => {
    const bar = make("i", { class: "meter", "aria-hidden": "true" }, make("b"));
    bar.firstChild.style.width = `${Math.max(...row.amounts.map((money) => Number(money.amount) / most[money.currency])) * 100}%`;
    return make("li", {}, row.name === null ? make("span", {}, plain("spending.other")) : data(row.name), amounts(row.amounts, sumText), bar);
  }));
}

function idleColumns() {
  return [
    { key: "box.name", cell: (row) => [data(row.name), " ", make("span", { class: "muted" }, plain(`idle.what.${row.what}`))] },
    { key: "box.use", number: true, cell: (row) => (row.gpu_percent === null ? nothing() : data(percent(row.gpu_percent))) },
    { key: "box.idle", number: true, cell: (row) => (row.idle_s === null ? nothing() : duration(row.idle_s)) },
    { key: "box.per_hour", number: true, cell: (row) => amounts(row.per_hour, rateText) },
  ];
}

function runColumns() {
  return [
    { key: "run.id", cell: (row) => data(row.run_id) },
    { key: "run.state", wide: true, cell: runState },
    { key: "run.restarts", number: true, cell: (row) => data(row.cluster ? row.restarts : `${row.restarts}/${row.most_restarts}`) },
    { key: "run.checkpoint", number: true, cell: (row) => (row.checkpoint === null ? nothing()
      : [data(row.checkpoint), ...(row.checkpoint_bytes ? [" ", size(row.checkpoint_bytes)] : [])]) },
    { key: "run.box", cell: (row) => (row.box && !row.ended_at ? data(row.box) : nothing()) },
    { key: "run.cost", number: true, cell: (row) => (row.cost.length ? amounts(row.cost, sumText) : nothing()) },
    { key: "run.age", number: true, cell: (row) => duration((new Date(row.ended_at ?? now()) - new Date(row.created_at)) / 1000) },
    { key: "run.command", wide: true, cell: (row) => (row.cluster ? make("span", {}, say("run.cluster", { cluster: row.cluster }))
      : make("code", { translate: "no", class: "cut", title: row.command }, row.command)) },
  ];
}

function runState(row) {
  const bad = row.state === "failed" || row.abandoned || (row.exit_code ?? 0) !== 0;
  const kind = bad ? "bad" : row.state === "running" ? "good" : "waiting";
  const signs = [row.exit_code !== null && say("run.exit", { code: row.exit_code }), row.abandoned && [plain("run.abandoned")]];
  return [make("span", { class: `state ${kind}` }, plain(`runstate.${row.state}`)),
    ...signs.filter(Boolean).map((sign) => make("span", { class: "sign" }, sign))];
}

function runDetail(row) {
  const lines = row.attempts.map((each) => make("li", {}, clock(each.at), make("span", {},
    each.box ? say("run.attempt", { box: each.box, place: each.place, type: each.instance_type, cost: amounts(each.cost, sumText) })
      : plain("run.attempt.none"),
    each.loss ? make("span", { class: "sign" }, plain(`loss.${each.loss}`)) : null,
    each.message ? [" ", data(each.message, { class: "muted" })] : [])));
  return make("div", {}, row.failure ? make("p", { class: "bad" }, data(row.failure)) : null,
    row.restart_at ? make("p", {}, say("run.restart_at", { restart_at: clock(row.restart_at) })) : null,
    make("h3", {}, plain("run.attempts")), make("ol", { class: "timeline" }, lines));
}

function budgetColumns() {
  return [
    { key: "budget.name", cell: (row) => data(row.name) },
    { key: "budget.per", cell: (row) => [make("span", {}, plain(`per.${row.per}`)), row.run ? [" ", data(row.run, { class: "muted" })] : []].flat(2) },
    { key: "budget.for", cell: (row) => data(budgetMatch(row.match) || plain("budget.all")) },
    { key: "budget.used", wide: true, cell: budgetBar },
    { key: "budget.spent", number: true, cell: (row) => data(atLeast(row) + sumText(row.spent)) },
    { key: "budget.committed", number: true, cell: (row) => data(atLeast(row) + sumText(row.committed)) },
    { key: "budget.amount", number: true, cell: (row) => data(sumText(row.amount)) },
    { key: "budget.forecast", number: true, cell: budgetForecast },
    { key: "budget.action", cell: (row) => make("span", {}, plain(`action.${row.action}`)) },
  ];
}

// The mark of figures in which something is not counted.
function atLeast(row) {
  return row.unknown.length ? "≥ " : "";
}

function budgetMatch(match) {
  return [...match.owners, ...match.clouds, ...match.gpus, ...match.tags.map((tag) => `${tag.name}:${tag.value}`)].join(", ");
}

// What is spent, and what is committed, as parts of the amount.
function budgetBar(row) {
  const amount = Number(row.amount.amount);
  const share = (money) => Math.max(0, Number(money.amount)) / amount * 100;
  const used = share(row.spent) + share(row.committed);
  const bar = make("i", { class: used > 100 ? "meter two over" : "meter two", "aria-hidden": "true" }, make("b"), make("u"));
  bar.firstChild.style.width = `${Math.min(share(row.spent), 100)}%`;
  bar.lastChild.style.width = `${Math.min(share(row.committed), Math.max(100 - share(row.spent), 0))}%`;
  return [bar, data(percent(used), { class: used > 100 ? "bad" : "" })];
}

function budgetForecast(row) {
  if (!row.forecast) return nothing();
  const { amount, low, high, flat } = row.forecast;
  const over = Number(amount.amount) > Number(row.amount.amount);
  const range = flat ? [] : [" ", data(`${sumText(low)}–${sumText(high)}`, { class: "muted" })];
  return [data(sumText(amount), { class: over ? "bad" : "" }), ...range];
}

function priceColumns() {
  return [
    { key: "box.gpu", cell: (row) => data(row.gpu) },
    { key: "box.place", wide: true, cell: (row) => [data(row.place), " ", data(row.instance_type, { class: "muted" })] },
    { key: "box.purchase", cell: (row) => make("span", {}, plain(`purchase.${row.purchase}`)) },
    { key: "price.now", number: true, cell: (row) => data(rateText(row.price)) },
    { key: "price.lowest", number: true, cell: (row) => data(rateText(row.lowest)) },
    { key: "price.highest", number: true, cell: (row) => data(rateText(row.highest)) },
    { key: "price.trend", cell: (row) => trend(row.points) },
    { key: "price.seen", number: true, cell: (row) => say("ago", { time: sinceThen(row.seen_at) }) },
  ];
}

const SVG = "http://www.w3.org/2000/svg";

function trend(points) {
  const known = points.filter((point) => point !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const line = points.map((point, index) => (point === null ? null
    : `${(index / (points.length - 1) * 96 + 2).toFixed(1)},${(high === low ? 10 : 18 - (point - low) / (high - low) * 16).toFixed(1)}`));
  const drawing = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 100 20", class: "trend", "aria-hidden": "true" })) drawing.setAttribute(name, value);
  const path = document.createElementNS(SVG, "polyline");
  path.setAttribute("points", line.filter(Boolean).join(" "));
  drawing.append(path);
  return drawing;
}

// --- putting it together

const main = document.getElementById("main");
let view = null;

// Builds the page in the present language.
function build() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  const button = document.getElementById("language");
  button.textContent = plain("language.other");
  button.setAttribute("aria-label", plain("language.switch"));
  button.lang = language === "zh" ? "en" : "zh-CN";
  const boxes = boxColumns(false);
  const tables = {
    boxes: new Table({ label: plain("boxes"), columns: boxes, id: (row) => row.id, detail: boxDetail, sort: {} }),
    ended: new Table({ label: plain("ended"), columns: boxColumns(true), id: (row) => row.id, detail: boxDetail }),
    idle: new Table({ label: plain("idle.heading"), columns: idleColumns(), id: (row) => row.id }),
    runs: new Table({ label: plain("runs"), columns: runColumns(), id: (row) => row.run_id + row.created_at, detail: runDetail }),
    budgets: new Table({ label: plain("budgets"), columns: budgetColumns(), id: (row) => row.name }),
    prices: new Table({ label: plain("prices"), columns: priceColumns(), id: (row) => [row.place, row.instance_type, row.purchase].join(" ") }),
  };
  const spots = Object.fromEntries(["tiles", "troubles", "unread", "unusual", "days", "shares", "idle", "foot"].map((name) => [name, make("div", { class: `spot of-${name}` })]));
  const filter = make("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false" });
  const count = make("span", { class: "muted", role: "status" });
  filter.addEventListener("input", () => showBoxes());
  view = { tables, spots, filter, count, texts: {} };
  view.parts = {
    boxes: panel("boxes", tables.boxes, make("div", { class: "tools" }, count, make("label", { for: "filter" }, plain("boxes.filter")), filter)),
    ended: panel("ended", tables.ended),
    runs: panel("runs", tables.runs),
    idle: panel("idle.heading", tables.idle),
    budgets: panel("budgets", tables.budgets),
    prices: panel("prices", tables.prices),
  };
  view.parts.idle.append(spots.idle);
  main.replaceChildren(spots.tiles, spots.troubles, spots.unread, spots.unusual, view.parts.budgets, view.parts.boxes, view.parts.runs,
    make("div", { class: "pair" }, spots.days, view.parts.idle), spots.shares, view.parts.prices,
    view.parts.ended, spots.foot);
  show();
}

function panel(key, table, tools = null) {
  const empty = make("p", { class: "muted empty" });
  const found = make("section", { class: "panel" }, make("div", { class: "bar" }, make("h2", {}, plain(key)), tools),
    make("div", { class: "scroll" }, table.element), empty);
  found.empty = empty;
  return found;
}

function fillPanel(name, rows, whenEmpty = null) {
  const part = view.parts[name];
  view.tables[name].update(rows);
  view.tables[name].element.hidden = !rows.length;
  part.empty.hidden = Boolean(rows.length);
  part.empty.replaceChildren(...(whenEmpty ?? []));
  part.hidden = !rows.length && !whenEmpty;
}

function showBoxes() {
  const sought = view.filter.value.trim().toLowerCase();
  const table = view.tables.boxes;
  table.visible = (row) => !sought || [row.name, row.owner, row.state, plain(`state.${row.state}`), row.gpu, row.cloud, row.place, row.instance_type, row.run_id]
    .some((text) => text?.toLowerCase().includes(sought));
  fillPanel("boxes", shown.boxes, say("boxes.none", { command: command(`${program()} launch --gpu T4`) }));
  const visible = shown.boxes.filter(table.visible).length;
  view.count.replaceChildren(...(sought ? say("boxes.shown", { shown: data(visible), count: data(shown.boxes.length) }) : []));
}

// Fills a part again if what it shows has changed: what is selected or has the focus there stays otherwise.
function fillSpot(name, of, content) {
  const text = JSON.stringify(of);
  if (view.texts[name] === text) return;
  view.texts[name] = text;
  view.spots[name].replaceChildren(...[content()].flat().filter(Boolean));
}

function program() {
  return shown.sandbox ? "gpucloud --sandbox" : "gpucloud";
}

function show() {
  const { source, spending, idle } = shown;
  fillSpot("tiles", [shown.burn, shown.burn_unknown, shown.month, idle, shown.troubles, shown.boxes.length], tiles);
  fillSpot("troubles", shown.troubles, troubleList);
  fillSpot("unread", source, unreadList);
  fillSpot("unusual", [shown.unusual_days, shown.price_anomalies], unusualList);
  fillPanel("budgets", shown.budgets);
  showBoxes();
  fillPanel("ended", shown.ended);
  fillPanel("runs", shown.runs, say("runs.none"));
  fillPanel("idle", idle.items, say("idle.none"));
  fillPanel("prices", shown.prices, say("prices.none", { command: command(`${program()} prices refresh`) }));
  fillSpot("idle", idle.unknown, () => (idle.unknown.length ? make("p", { class: "muted note" }, say("idle.names", { names: listed(idle.unknown), command: command(`${program()} list --live`) })) : null));
  fillSpot("days", spending.days, spendingByDay);
  fillSpot("shares", spending, shares);
  const left_out = Object.keys(source.left_out);
  fillSpot("foot", source.left_out, () => make("footer", {},
    left_out.length ? make("p", {}, say("left_out", { names: listed(left_out) })) : null,
    make("p", {}, plain("foot.costs")), make("p", {}, plain("foot.read"))));
  const burn = shown.burn.map(tileRate).join(" + ") || "$0";
  document.title = plain("title").replace("{burn}", burn);
  showStatus();
}

function showStatus() {
  const { source } = shown;
  const how = STILL ? [plain("status.still")]
    : source.live_every_s === null ? [plain("status.journal")]
      : [...say("status.live", { every: duration(source.live_every_s) }), ", ",
        ...(source.looked_at ? say("status.looked", { looked: clock(source.looked_at, true) }) : [plain("status.looking")])];
  const status = document.getElementById("status");
  const text = make("span", {}, shown.sandbox ? make("span", { class: "sandbox" }, plain("sandbox")) : null,
    make("span", { class: "how" }, how), " · ", say("status.as_of", { as_of: clock(shown.as_of, true) }));
  if (status.textContent !== text.textContent) status.replaceChildren(text);
  showLost();
}

function showLost() {
  const lost = document.getElementById("lost");
  const silent = !STILL && performance.now() - heardAt > SILENT_MS;
  document.body.classList.toggle("lost", silent || trouble !== null);
  const said = trouble !== null ? say("lost.trouble", { error: trouble })
    : silent ? say("lost.silent", { heard: clock(heardTime, true), command: command(`${program()} dashboard`) }) : [];
  const text = make("p", {}, said);
  if (lost.textContent !== text.textContent) lost.replaceChildren(text);
  lost.hidden = !said.length;
}

function heard() {
  heardAt = performance.now();
  heardTime = new Date();
  trouble = null;
  showLost();
}

function follow() {
  const stream = new EventSource(`events?cursor=${shown.cursor}`);
  stream.addEventListener("document", (event) => {
    shown = JSON.parse(event.data);
    receivedAt = performance.now();
    heard();
    show();
  });
  stream.addEventListener("beat", heard);
  stream.addEventListener("trouble", (event) => {
    trouble = event.data;
    showLost();
  });
  setInterval(() => {
    showLost();
    if (!document.hidden) view.tables.boxes.tick("box.left");
  }, 1000);
}

document.getElementById("language").addEventListener("click", () => {
  language = language === "zh" ? "en" : "zh";
  try { localStorage.setItem("language", language); } catch { /* it is asked for again next time */ }
  build();
});
build();
if (!STILL) follow();
