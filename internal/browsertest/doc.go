// Package browsertest drives the debug pages in a real browser.
//
// What belongs here: tests that open Client.DebugHandler in a headless Chromium, and
// how they start it. They need Chromium (.ci/run installs it) and leave pictures of
// the pages in the folder screenshots, which git passes over.
//
// Who may import it: nobody. It is a module of its own, so that users do not inherit
// what speaks with browsers.
package browsertest
