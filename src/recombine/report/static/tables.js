// A collapsible table: its columns, with their meaning if it is known, and its first rows.
function foldedTable(table) {
  const head = el(
    "tr",
    {},
    table.columns.map((name, i) => el("th", table.meanings?.[i] ? { scope: "col", title: table.meanings[i] } : { scope: "col" }, name)),
  );
  const shown = (value) => (typeof value === "number" ? number(value, 4) : String(value ?? "–"));
  const body = table.rows.map((row) => el("tr", {}, row.map((value) => el("td", {}, shown(value)))));
  const more =
    table.of > table.rows.length ? el("p", { class: "note" }, `The first ${table.rows.length} of ${table.of} rows.`) : null;
  return el(
    "details",
    {},
    el("summary", {}, `Table ${table.name}`, el("span", { class: "note" }, `${table.of} rows`)),
    el("div", {}, el("div", { class: "scroller" }, el("table", {}, el("thead", {}, head), el("tbody", {}, body))), more),
  );
}
