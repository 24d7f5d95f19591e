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
  window.vegaEmbed(place, specification, { mode: "vega-lite", renderer: "svg", actions: false });
}
