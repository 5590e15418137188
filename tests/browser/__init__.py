"""Pages in a real browser: headless Chromium, Debian's package `chromium`."""
