// Draws the charts; their specifications are in the element #charts.
const specifications = JSON.parse(document.getElementById("charts").textContent);
for (const [id, specification] of Object.entries(specifications)) {
  const place = document.getElementById("chart-" + id);
  const channels = [specification, ...(specification.layer ?? [])].flatMap((part) => Object.values(part.encoding));
  for (const channel of channels) {
    if (!channel.legend) continue;
    const longest = Math.max(0, ...(channel.scale?.domain ?? []).map((name) => String(name).length));
    channel.legend.columns = Math.max(1, Math.floor(place.clientWidth / Math.max(130, 50 + 7 * longest)));
  }
  const boxes = checkBoxes(specification);
  if (boxes) place.after(boxes);
  const options = { mode: "vega-lite", renderer: "svg", actions: false };
  window.vegaEmbed(place, specification, options).then(({ view }) => {
    boxes?.addEventListener("change", () => {
      view.signal("picked", [...boxes.querySelectorAll(":checked")].map((box) => box.value)).runAsync();
    });
  });
}

// Returns a box for each curve of a chart, with its name and a piece of its line; null for a chart without a choice.
function checkBoxes(specification) {
  const picked = specification.params?.find((each) => each.name == "picked")?.value;
  if (!picked) return null;
  const { domain, range } = specification.encoding.color.scale;
  const dashes = specification.layer[1].encoding.strokeDash.scale.range;
  const every = made("fieldset", { className: "curves", ariaLabel: "curves" });
  domain.forEach((name, at) => {
    const drawn = { defaultChecked: picked.includes(name), autocomplete: "off" };
    const label = made("label", { innerHTML: '<svg width="26" height="8"><path d="M0 4H26" stroke-width="2"/></svg>' });
    const line = label.querySelector("path");
    line.setAttribute("stroke", range[at]);
    line.setAttribute("stroke-dasharray", dashes[at].join(" "));
    label.prepend(made("input", { type: "checkbox", value: name, ...drawn }));
    label.append(name);
    every.append(label);
  });
  for (const [text, checked] of [["all", true], ["none", false]]) {
    const button = made("button", { type: "button", textContent: text });
    button.addEventListener("click", () => {
      for (const box of every.querySelectorAll("input")) box.checked = checked;
      every.dispatchEvent(new Event("change"));
    });
    every.append(button);
  }
  return every;
}

function made(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}
