import { defineConfig } from "vite";

/** The daemon that `npm run dev` passes API requests on to. */
const DAEMON = "http://127.0.0.1:9440";

export default defineConfig({
  // Relative, so that the page also works behind a proxy that serves the daemon under a path.
  base: "./",
  build: {
    // What the daemon embeds: one script, one style sheet. Names carry a hash of the content and nothing else, so a
    // second build yields the same bytes.
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
  // The daemon takes what changes something only from a page whose origin is the name that it is called by.
  server: { proxy: { "/api": { target: DAEMON, changeOrigin: false } } },
});
