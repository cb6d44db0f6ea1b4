// The figures that belong to no claim. They unfold at once if there are no claims.
function buildFigures(main) {
  const { rows, figures, others } = DATA.claims;
  if (!others.length) return;
  const place = el("div", {});
  const summary = el("summary", {}, `${others.length} ${others.length === 1 ? "figure" : "figures"}`);
  const details = el("details", {}, summary, place);
  details.addEventListener("toggle", () => {
    if (details.open && !place.childNodes.length) showFigures(place, others, figures);
  });
  main.append(el("section", { id: "figures" }, el("h2", {}, "Figures"), details));
  details.open = !rows.length;
}

// Figures are drawn on canvases, because the page's policy does not allow loading images, not even from the page itself.
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
      button.addEventListener("click", () => download(file, name.replace(/.*\//, "")));
    } catch (error) {
      canvas.replaceWith(gap(`This figure cannot be shown: ${error.message}.`));
    }
  }
}

PANELS.push({ id: "figures", name: "Figures", build: buildFigures });
