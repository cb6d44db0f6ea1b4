// The table of verdicts. Each claim expands to its measurements and figures.
const FOLDED = new Set(["claim", "verdict", "text", "statement", "title", "source", "figures", "figure"]);

function buildClaims(main) {
  const { rows, figures } = DATA.claims;
  if (!rows.length) return;
  const section = el("section", { id: "claims" }, el("h2", {}, "Claims"));
  main.append(section);
  const sources = [...new Set(rows.map((row) => row.source))];
  for (const source of sources) {
    const counts = new Map();
    for (const row of rows.filter((row) => row.source === source))
      counts.set(String(row.verdict), (counts.get(String(row.verdict)) || 0) + 1);
    const told = [...counts].map(([verdict, n]) => `${n} ${verdict}`).join(", ");
    section.append(el("p", { class: "intro" }, sources.length > 1 ? `${source}: ${told}` : told));
  }
  const list = el("div", { class: "card" });
  for (const same of groupedClaims(rows)) list.append(claimDetails(same, sources, figures));
  section.append(list);
}

// The rows of all folders by claim, in the order in which the claims first occur.
function groupedClaims(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = String(row.claim);
    groups.set(key, [...(groups.get(key) || []), row]);
  }
  return [...groups.values()];
}

// One claim with the verdict of every folder. It expands to the measurements and figures, folder by folder.
function claimDetails(same, sources, figures) {
  const several = sources.length > 1;
  const { claim, text, statement, title } = same[0];
  const marks = several
    ? sources.map((source) => {
        const rows = same.filter((row) => row.source === source);
        const label = rows.length ? el("small", {}, source) : null; // an empty place keeps the columns aligned
        return el("span", { class: "of-source" }, label, rows.map((row) => verdictMark(row.verdict)));
      })
    : same.map((row) => verdictMark(row.verdict));
  const bodies = same.map((row) => ({ row, pictures: el("div", { class: "body" }) }));
  const details = el(
    "details",
    { class: "claim" },
    el("summary", {}, el("b", {}, claim), el("span", { class: "grow" }, text ?? statement ?? title ?? ""), marks),
    bodies.map(({ row, pictures }) => {
      const facts = Object.entries(row).filter(([key, value]) => !FOLDED.has(key) && !isEmpty(value));
      return el(
        "div",
        {},
        several ? el("h3", {}, row.source) : null,
        el("table", {}, el("tbody", {}, facts.filter(([, value]) => !isRecords(value)).map(factRow))),
        facts.filter(([, value]) => isRecords(value)).map(([key, value]) => records(value, key.replaceAll("_", " "))),
        pictures,
      );
    }),
  );
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    for (const { row, pictures } of bodies)
      if (!pictures.childNodes.length) showFigures(pictures, row.figures, figures);
  });
  return details;
}

function verdictMark(verdict) {
  const kind = { reproduced: "good", "not reproduced": "bad" }[verdict] || "open";
  return el("span", { class: `verdict ${kind}` }, String(verdict ?? "no verdict"));
}

const isEmpty = (value) => value === null || value === undefined || value === "";
const isRecords = (value) =>
  Array.isArray(value) && value.length > 0 && value.every((v) => !isPlain(v) && !Array.isArray(v));
const isPlain = (value) => value === null || typeof value !== "object";
const factRow = ([key, value]) =>
  el("tr", {}, el("th", { scope: "row" }, key.replaceAll("_", " ")), el("td", {}, plain(value)));

// Formats any value from a file: intervals and lists on one line, records as tables.
function plain(value) {
  if (isPlain(value)) return number(value, 4);
  if (Array.isArray(value)) {
    if (value.every(isPlain)) {
      const text = value.map((v) => number(v)).join(", ");
      return value.length === 2 ? `[${text}]` : text;
    }
    return isRecords(value) ? records(value, "records") : value.map((v) => el("div", {}, plain(v)));
  }
  const entries = Object.entries(value);
  if (entries.every(([, v]) => isPlain(v))) return entries.map(([key, v]) => `${key}: ${number(v)}`).join(", ");
  return el("table", {}, el("tbody", {}, entries.map(factRow)));
}

// One row per record, with the most important columns first and without empty columns.
const FIRST = ["part", "verdict", "statistic", "interval", "definition"];
function records(rows, title) {
  const filled = new Set(rows.flatMap((row) => Object.keys(row).filter((key) => !isEmpty(row[key]))));
  const keys = [...FIRST.filter((key) => filled.has(key)), ...[...filled].filter((key) => !FIRST.includes(key))];
  const head = keys.map((key) => el("th", { scope: "col" }, key.replaceAll("_", " ")));
  const cell = (key, value) => {
    const shown = isEmpty(value) ? "–" : key === "verdict" ? verdictMark(value) : plain(value);
    return el("td", { class: typeof shown === "string" && shown.length > 24 ? "long" : null }, shown);
  };
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      keys.map((key) => cell(key, row[key])),
    ),
  );
  const table = el("table", { class: "records" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": title }, table);
}

PANELS.push({ id: "claims", name: "Claims", build: buildClaims });
