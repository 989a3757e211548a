"use strict";
// Without this script the page shows the same figures. It sorts tables, shows values under the pointer, hides
// lines of charts, and moves through the states of memory.
(() => {
  const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text ?? "" });
  // The name space is taken from a picture of the page.
  const drawn = (tag, values) => {
    const element = document.createElementNS(document.querySelector("svg").namespaceURI, tag);
    for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
    return element;
  };
  const number = (value) =>
    Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });

  // Sorts a table by one column: numbers by their value, text by its letters. A second time: the other way round.
  function sort(table, column, head) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
    };
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      // Cells without a number come last, in both directions.
      if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
      const which = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      return down ? -which : which;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
  }
  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.classList.add("sorts");
      head.tabIndex = 0;
      head.title = "sort";
      head.addEventListener("click", () => sort(table, column, head));
      head.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort(table, column, head);
      });
    });
  }

  // Charts: a switch for each line, and the values at the point that is nearest to the pointer.
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const chart = JSON.parse(figure.dataset.chart);
    const svg = figure.querySelector("svg");
    const groups = [...svg.querySelectorAll("g.line")];
    const hidden = new Set();
    if (groups.length > 1) {
      const switches = make("div");
      switches.className = "switches";
      chart.lines.forEach((line, nth) => {
        if (line.points.length === 0) return;
        const label = make("label");
        const box = Object.assign(make("input"), { type: "checkbox", checked: true });
        const colour = make("i");
        colour.style.background = line.colour;
        label.append(box, colour, line.label);
        box.addEventListener("change", () => {
          if (box.checked) hidden.delete(nth);
          else hidden.add(nth);
          groups[nth].style.display = box.checked ? "" : "none";
        });
        switches.append(label);
      });
      figure.append(switches);
    }
    const value = make("div");
    value.className = "value";
    value.hidden = true;
    figure.append(value);
    svg.addEventListener("pointerleave", () => { value.hidden = true; });
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const nearest = (points) => points.reduce((best, it) => (Math.abs(it[0] - x) < Math.abs(best[0] - x) ? it : best));
      const shown = chart.lines.map((line, nth) => [line, nth])
        .filter(([line, nth]) => !hidden.has(nth) && line.points.length > 0)
        .map(([line]) => [line, nearest(line.points)]);
      if (shown.length === 0) return;
      value.replaceChildren(make("div", `${chart.x}: ${number(shown[0][1][2])}`));
      for (const [line, point] of shown) {
        const row = make("div", `${line.label}: `);
        row.append(make("b", number(point[3])));
        value.append(row);
      }
      value.hidden = false;
      const outer = figure.getBoundingClientRect();
      const left = event.clientX - outer.left + 14;
      value.style.left = `${Math.max(0, Math.min(left, outer.width - value.offsetWidth))}px`;
      value.style.top = `${event.clientY - outer.top + 14}px`;
    });
  }

  // Memory over time: a map of pageblocks for each side, and one slider for all.
  for (const section of document.querySelectorAll(".memory-states")) {
    const memory = JSON.parse(section.querySelector("script").textContent);
    section.hidden = false;
    const [slider, time] = [section.querySelector("input"), section.querySelector("output")];
    const maps = [...section.querySelectorAll("svg")];
    const cells = maps.map((svg, side) => {
      const { columns, states } = memory.sides[side];
      const step = 480 / columns, size = step * 0.86;
      return [...Array(states[0].cells.length / 2)].map((_, nth) => {
        const place = { x: (nth % columns) * step, y: Math.floor(nth / columns) * step, width: size };
        const [pale, full] = [drawn("rect", { ...place, height: size, "fill-opacity": 0.18 }), drawn("rect", place)];
        const title = drawn("title", {});
        pale.append(title);
        full.setAttribute("pointer-events", "none");
        svg.append(pale, full);
        return { pale, full, title, y: place.y, size };
      });
    });
    const show = () => {
      const words = [];
      memory.sides.forEach(({ group, states }, side) => {
        const state = states[Math.min(slider.value, states.length - 1)];
        words.push(state.time);
        cells[side].forEach((cell, nth) => {
          const [use, share] = [state.cells[2 * nth], Number(state.cells[2 * nth + 1]) / 9];
          const [name, colour] = memory.uses[use];
          for (const rect of [cell.pale, cell.full]) rect.setAttribute("fill", colour);
          cell.full.setAttribute("y", cell.y + cell.size * (1 - share));
          cell.full.setAttribute("height", cell.size * share);
          cell.title.textContent = `pageblock ${nth * group}: ${name}, ${Math.round(share * 100)} % in use`;
        });
      });
      time.value = [...new Set(words)].join("; ");
    };
    slider.max = Math.max(...memory.sides.map((side) => side.states.length)) - 1;
    slider.addEventListener("input", show);
    show();
  }
})();
