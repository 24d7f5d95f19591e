// Draws the charts; their specifications are in the element #charts.
const specifications = JSON.parse(document.getElementById("charts").textContent);
for (const [id, specification] of Object.entries(specifications)) {
  const place = document.getElementById("chart-" + id);
  const channels = [specification, ...(specification.layer ?? [])].flatMap((part) => Object.values(part.encoding));
  for (const channel of channels) {
    if (channel.legend) channel.legend.columns = Math.max(1, Math.floor(place.clientWidth / 130));
  }
  window.vegaEmbed(place, specification, { mode: "vega-lite", renderer: "svg", actions: false });
}
