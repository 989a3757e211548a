"use strict";
// Replaces a page by its structure as the browser has laid it out: a line for each heading, table and chart, in
// the order from top to bottom. Text that overlaps other text of a chart, and parts that are wider than the
// page, are lines that begin with "error".
addEventListener("load", () => {
  const words = (element) => (element?.textContent ?? "").trim().replace(/\s+/g, " ");
  const errors = [];
  const size = (box) => `${Math.round(box.width / 10) * 10} x ${Math.round(box.height / 10) * 10}`;
  // Boxes of text contain space above and below the letters.
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;

  function chart(figure) {
    const svg = figure.querySelector("svg");
    const title = words(figure.querySelector("figcaption"));
    const texts = [...svg.querySelectorAll("text")].filter((text) => words(text) !== "");
    const boxes = texts.map((text) => text.getBoundingClientRect());
    const whole = svg.getBoundingClientRect();
    boxes.forEach((box, nth) => {
      if (box.left < whole.left - 1 || box.right > whole.right + 1 || box.top < whole.top - 1 || box.bottom > whole.bottom + 1)
        errors.push(`error: chart "${title}": "${words(texts[nth])}" is cut off`);
      for (let other = 0; other < nth; other += 1) {
        if (overlap(box, boxes[other]))
          errors.push(`error: chart "${title}": "${words(texts[nth])}" overlaps "${words(texts[other])}"`);
      }
    });
    return `chart "${title}", ${size(whole)}, ${svg.querySelectorAll("g.line").length} lines`;
  }

  function table(element) {
    const columns = [...element.tHead.rows[0].cells].map(words).join(" | ");
    const title = words(element.caption);
    return `table "${title}"${element.tBodies[0].rows.length === 0 ? ", empty" : ""}: ${columns}`;
  }

  const kinds = {
    H1: (it) => `heading 1 "${words(it)}"`,
    H2: (it) => `heading 2 "${words(it)}"`,
    H3: (it) => `heading 3 "${words(it)}"`,
    TABLE: table,
    FIGURE: (it) => (it.querySelector("svg") ? chart(it) : `figure "${words(it.querySelector("figcaption"))}"`),
  };
  const parts = [...document.querySelectorAll(Object.keys(kinds).join())].filter((it) => it.getClientRects().length > 0);
  const lines = parts.map((it) => kinds[it.tagName](it));
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width)
    errors.push(`error: the page is ${document.documentElement.scrollWidth} pixels wide in a window of ${width}`);
  const text = document.createElement("pre");
  text.textContent = ["", ...lines, ...errors, ""].join("\n");
  document.body.replaceChildren(text);
});
