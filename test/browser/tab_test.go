package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	// waits is how long a page may take to show something, on a machine with other work.
	waits = time.Minute
	step  = 100 * time.Millisecond
)

// look is how a page is looked at.
type look struct {
	width int64
	theme string
}

var looks = []look{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}}

// tab is one of a browser of its own.
type tab struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	wrongs []string // what the console of the browser said
}

// open opens a tab.
func open(t *testing.T, l look) *tab {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err, "these tests need Chromium: apt-get install chromium")
	profile, err := os.MkdirTemp("", "strandline-browser-profile")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // the browser may still write to it
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.WSURLReadTimeout(waits), chromedp.Env("TZ=UTC"))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocated, chromedp.WithErrorf(func(string, ...any) {})) // it notes events that it does not know
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.wrongs = append(b.wrongs, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				b.wrongs = append(b.wrongs, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	b.do(log.Enable(), emulation.SetTimezoneOverride("Europe/Berlin"), emulation.SetDeviceMetricsOverride(l.width, 844, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.theme}}),
		browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorDeny))
	return b
}

func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	require.NoError(b, chromedp.Run(b.ctx, actions...))
}

// eval returns what an expression of JavaScript is.
func eval[V any](b *tab, expression string) (v V) {
	b.Helper()
	b.do(chromedp.Evaluate(expression, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return v
}

func (b *tab) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url)) // another fragment alone loads nothing
}

// text returns what a page shows.
func (b *tab) text() string { return eval[string](b, `document.body.innerText`) }

// sees waits until the page shows a text.
func (b *tab) sees(text string) {
	b.Helper()
	b.until(fmt.Sprintf(`document.body.innerText.includes(%q) || [...document.querySelectorAll('input')].some((i) => i.value === %q)`, text, text), "it shows %q", text)
}

// seesNot waits until the page shows a text no more.
func (b *tab) seesNot(text string) {
	b.Helper()
	b.until(fmt.Sprintf(`!document.body.innerText.includes(%q)`, text), "it shows %q no more", text)
}

// until waits until an expression is true.
func (b *tab) until(expression, what string, args ...any) {
	b.Helper()
	for began := time.Now(); !eval[bool](b, expression); {
		if time.Since(began) > waits {
			b.shoot("failed-" + strings.ReplaceAll(b.Name(), "/", "-"))
			require.Failf(b, "the page does not show what it should", "%s\nwithin %v; it shows:\n%s", fmt.Sprintf(what, args...), waits, b.text())
		}
		time.Sleep(step)
	}
}

const button = `[...document.querySelectorAll((document.querySelector('dialog[open]') ? 'dialog[open] ' : '') + 'button')].filter((b) => b.offsetParent !== null || b.closest('dialog'))`

// click clicks the first button with a text, in the dialog if one is open, once it can be clicked.
func (b *tab) click(text string) {
	b.Helper()
	find := fmt.Sprintf(`%s.find((b) => b.textContent.trim() === %q && !b.disabled)`, button, text)
	b.until(find+` !== undefined`, "a button %q that is not disabled", text)
	eval[bool](b, find+`.click() || true`)
}

// does clicks the button of a dialog until it shows that its action is done: on a busy machine leaders change, and the dialog says that
// it may succeed later.
func (b *tab) does(text, shows string) {
	b.Helper()
	again := fmt.Sprintf(`(() => {
		const dialog = document.querySelector('dialog[open]')
		if (dialog?.querySelector('.done')?.innerText.includes(%q)) return true
		if (dialog?.querySelector('[role=alert]')?.innerText.includes('It may succeed later.')) [...dialog.querySelectorAll('button')].find((b) => b.textContent.trim() === %q && !b.disabled)?.click()
		return false
	})()`, shows, text)
	b.click(text)
	b.until(again, "%q is done and shows %q", text, shows)
}

// hasButton reports whether there is a button with a text.
func (b *tab) hasButton(text string) bool {
	return eval[bool](b, fmt.Sprintf(`%s.some((b) => b.textContent.trim() === %q)`, button, text))
}

// fill sets the field with a label, as one who types does.
func (b *tab) fill(label, value string) {
	b.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll('label, input[aria-label]')].map((l) => l.matches('input') ? [l.getAttribute('aria-label'), l] : [l.innerText, l.querySelector('input, textarea, select')]).find(([text, field]) => field && text.startsWith(%q))?.[1]`, label)
	b.until(find+` !== undefined`, "a field %q", label)
	eval[bool](b, fmt.Sprintf(`(() => { const field = %s; const set = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set; set.call(field, %q); field.dispatchEvent(new Event(field.matches('select') ? 'change' : 'input', { bubbles: true })); return true })()`, find, value))
}

// shots is where screenshots are kept: SHOTS, or a folder for what goes wrong.
func shots() string {
	if dir := os.Getenv("SHOTS"); dir != "" {
		return dir
	}
	return filepath.Join(os.TempDir(), "strandline-browser-shots")
}

// shoot keeps a screenshot.
func (b *tab) shoot(name string) {
	b.Helper()
	var png []byte
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	require.NoError(b, os.MkdirAll(shots(), 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(shots(), name+".png"), png, 0o644))
}

// isWell checks that a page does not scroll sideways, has no serious problem for those who use it without eyes or hands, and
// that nothing went wrong in it.
func (b *tab) isWell(where string) {
	b.Helper()
	require.LessOrEqual(b, eval[int](b, `document.documentElement.scrollWidth - window.innerWidth`), 0, "%s scrolls sideways", where)
	if !eval[bool](b, `'axe' in window`) {
		b.do(chromedp.Evaluate(axe(b.T), nil))
	}
	found := eval[[]string](b, `axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + n.failureSummary.replaceAll('\n', ' '))))`)
	require.Empty(b, found, where)
	b.hasNoErrors(where)
}

// hasNoErrors checks what the browser's console said. It notes each answer that is a refusal, which pages show.
func (b *tab) hasNoErrors(where string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrongs {
		if !strings.HasPrefix(wrong, "Failed to load resource: ") {
			require.Fail(b, "something went wrong in the page", "%s: %s", where, wrong)
		}
	}
}

// axeVersion is of the checker of accessibility, from npm.
const axeVersion = "4.11.0"

var axeSource = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "strandline-browser", "axe-"+axeVersion)
	path := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(path); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		command := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, "axe-core@"+axeVersion)
		if out, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("install axe-core: %w\n%s", err, out)
		}
	}
	text, err := os.ReadFile(path)
	return string(text), err
})

func axe(t *testing.T) string {
	t.Helper()
	source, err := axeSource()
	require.NoError(t, err)
	return source
}
