// The verdict table: each claim unfolds to what was measured and its figures.
const FOLDED = new Set(["claim", "verdict", "text", "statement", "title", "source", "figures", "figure"]);

function buildClaims(main) {
  const { rows, figures, others } = DATA.claims;
  if (!rows.length && !others.length) return;
  const section = el("section", { id: "claims" }, el("h2", {}, "Claims"));
  main.append(section);
  const counts = new Map();
  for (const row of rows) counts.set(String(row.verdict), (counts.get(String(row.verdict)) || 0) + 1);
  section.append(el("p", { class: "intro" }, [...counts].map(([verdict, n]) => `${n} ${verdict}`).join(", ")));
  const list = el("div", { class: "card" });
  for (const row of rows) {
    const text = row.text ?? row.statement ?? row.title ?? "";
    const facts = Object.entries(row).filter(([key, value]) => !FOLDED.has(key) && value !== null);
    const pictures = el("div", { class: "body" });
    const details = el(
      "details",
      { class: "claim" },
      el("summary", {}, el("b", {}, row.claim), el("span", { class: "grow" }, text), verdictMark(row.verdict)),
      el(
        "div",
        {},
        el(
          "table",
          {},
          el(
            "tbody",
            {},
            facts.map(([key, value]) =>
              el("tr", {}, el("th", { scope: "row" }, key.replaceAll("_", " ")), el("td", {}, plain(value))),
            ),
          ),
        ),
        pictures,
      ),
    );
    details.addEventListener("toggle", () => {
      if (details.open && !pictures.childNodes.length) showFigures(pictures, row.figures, figures);
    });
    list.append(details);
  }
  if (rows.length) section.append(list);
  if (others.length) {
    const more = el("div", {});
    const details = el(
      "details",
      {},
      el("summary", {}, `${others.length} more ${others.length === 1 ? "figure" : "figures"}`),
      more,
    );
    details.addEventListener("toggle", () => {
      if (details.open && !more.childNodes.length) showFigures(more, others, figures);
    });
    section.append(details);
  }
}

function verdictMark(verdict) {
  const kind = { reproduced: "good", "not reproduced": "bad" }[verdict] || "open";
  return el("span", { class: `verdict ${kind}` }, String(verdict ?? "no verdict"));
}

function plain(value) {
  if (Array.isArray(value) && value.every((v) => v === null || typeof v !== "object"))
    return value.length === 2 ? `[${value.map((v) => number(v)).join(", ")}]` : value.map((v) => number(v)).join(", ");
  if (value !== null && typeof value === "object") return el("pre", {}, JSON.stringify(value, null, 1));
  return number(value, 4);
}

// Pictures are painted on canvases: the page's policy lets no image be fetched, not even from itself.
async function showFigures(place, names, figures) {
  for (const name of names) {
    const canvas = el("canvas", { class: "figure-canvas", role: "img", "aria-label": name });
    const button = el("button", { type: "button" }, "PNG");
    place.append(
      el(
        "figure",
        { style: { margin: "0" } },
        canvas,
        el(
          "figcaption",
          { class: "note" },
          `${name} `,
          el("span", { class: "save", style: { display: "inline-flex" } }, button),
        ),
      ),
    );
    try {
      const file = new Blob([await bytesOf(figures[name])], { type: "image/png" });
      const picture = await createImageBitmap(file);
      canvas.width = picture.width;
      canvas.height = picture.height;
      canvas.getContext("2d").drawImage(picture, 0, 0);
      button.addEventListener("click", () => download(file, name));
    } catch (error) {
      canvas.replaceWith(gap(`This figure cannot be shown: ${error.message}.`));
    }
  }
}
