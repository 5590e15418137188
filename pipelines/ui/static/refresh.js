// Keeps a page as it goes: asks for it again now and then, and replaces its content where it has changed.
"use strict";

(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  let tag = null;
  const marked = (root, selector, name) => [...root.querySelectorAll(selector)].filter((each) => each[name]).map((each) => each.id);

  const replace = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (!fresh) return;
    // What the reader has ticked, opened, focused and scrolled to stays.
    const ticked = marked(main, "input[id]", "checked");
    const open = marked(main, "details[id]", "open");
    const focused = document.activeElement && document.activeElement.id;
    const across = [...main.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    main.replaceChildren(...fresh.childNodes);
    main.dataset.refresh = fresh.dataset.refresh || "";
    for (const id of ticked) { const found = document.getElementById(id); if (found) found.checked = true; }
    for (const id of open) { const found = document.getElementById(id); if (found) found.open = true; }
    main.querySelectorAll(".scroll").forEach((each, place) => { each.scrollLeft = across[place] || 0; });
    const found = focused && document.getElementById(focused);
    if (found && found !== document.activeElement) found.focus({ preventScroll: true });
  };

  const look = async () => {
    if (!document.hidden) {
      try {
        const response = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {} });
        if (response.status === 200) {
          tag = response.headers.get("ETag");
          replace(await response.text());
        }
      } catch { /* The server is away for a moment, or has ended: what stands here stays. */ }
    }
    if (main.dataset.refresh) setTimeout(look, 1000 * Number(main.dataset.refresh));
  };
  setTimeout(look, 1000 * Number(main.dataset.refresh));
})();
