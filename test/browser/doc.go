// Package browser tests the console in a real browser, Chromium, on real nodes. It is a module of its own, so that the
// protocol of the browser is no dependency of the server. STRANDLINE names a binary to test, and SHOTS a folder for screenshots.
package browser
