"use strict";
// Light or dark: as the system says, unless somebody has chosen. Loaded first, so that nothing flashes.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = localStorage.getItem("umab-theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    label();
    system.addEventListener("change", label);
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem("umab-theme", root.dataset.theme);
      label();
    });
  });
})();
