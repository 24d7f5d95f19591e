"use strict";
// Asks the server for the parts of the page that change, and puts in those that have.
(() => {
  const region = document.querySelector("[data-live]");
  const away = document.getElementById("away");
  const beat = document.getElementById("beat");
  if (!region) return;
  const EVERY = 2000;

  function put(part, fresh) {
    if (part.innerHTML === fresh.innerHTML) return;
    if ("hold" in part.dataset && part.matches(":hover")) return; // somebody reads its numbers
    const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
    part.replaceChildren(...fresh.childNodes);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  async function ask() {
    try {
      const answer = await fetch(region.dataset.live, { signal: AbortSignal.timeout(8000) });
      if (answer.status === 401 || answer.status === 404) return location.reload();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const each of fresh.querySelectorAll("[id]")) {
        const part = document.getElementById(each.id);
        if (part && region.contains(part) && !each.parentElement.closest("[id]")) put(part, each);
      }
      away.hidden = true;
      beat.textContent = `Updated ${new Date().toISOString().slice(11, 19)}.`;
    } catch {
      away.textContent = "The server does not answer. What you see is from before; trying again.";
      away.hidden = false;
    }
    setTimeout(next, EVERY);
  }

  function next() {
    if (document.hidden) document.addEventListener("visibilitychange", next, { once: true });
    else ask();
  }

  setTimeout(next, EVERY);
})();
