package browsertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/slicewire/slicewire/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screenshots is where the tests leave pictures of the pages.
const screenshots = "screenshots"

// evil is what a name must not do.
const evil = `</td><script>alert("owned"); document.title = "owned"</script><img src=x onerror="document.title='owned'">`

// chromium is the browser's path.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium; install it (Debian: apt-get install chromium), or run .ci/run browser, which does")
	return ""
}

// browser is a tab that looks at a client's debug pages.
type browser struct {
	*testing.T
	ctx  context.Context
	root string

	mu    sync.Mutex // guards what follows
	seen  []string   // the URL, and the page it came from, of each request
	alive []string   // signs of a script
}

// open mounts the pages of client on a real server and starts a browser.
func open(t *testing.T, client *sdk.Client) *browser {
	t.Helper()
	b := &browser{T: t}
	mux := http.NewServeMux()
	mux.Handle("/debug/slicewire/", client.DebugHandler())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.seen = append(b.seen, r.URL.String()+" from "+r.Referer())
		b.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.root = server.URL + "/debug/slicewire/"

	flags := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(chromium(t)), chromedp.WindowSize(1280, 900), chromedp.Flag("disable-component-update", true), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox) // Chromium refuses to run as root with it
	}
	within, over := context.WithTimeout(context.Background(), 2*time.Minute)
	process, end := chromedp.NewExecAllocator(within, flags...)
	tab, shut := chromedp.NewContext(process)
	b.ctx = tab
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Logf("closing the browser: %v", err)
		}
		shut()
		end()
		over()
	})
	if err := chromedp.Listen(tab, b.notice); err != nil { // starts the browser
		t.Fatalf("start the browser: %v", err)
	}
	return b
}

// notice remembers every event that only a script, or the attempt to run one, causes.
func (b *browser) notice(event any) {
	sign := ""
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		sign = "a dialog: " + e.Message
		go func() { // a dialog would stop everything; it is the tab's end that ends this
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	case *runtime.EventConsoleAPICalled:
		sign = "a script wrote to the console"
	case *runtime.EventExceptionThrown:
		sign = "a script failed: " + e.ExceptionDetails.Text
	case *cdplog.EventEntryAdded:
		// What the content security policy has stopped was not inert either.
		switch e.Entry.Source {
		case cdplog.EntrySourceSecurity, cdplog.EntrySourceJavascript, cdplog.EntrySourceViolation:
			sign = "the browser says: " + e.Entry.Text
		}
	}
	if sign != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.alive = append(b.alive, sign)
	}
}

// do drives the browser.
func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// get reads something from the browser.
func get[T any](b *browser, what string, from chromedp.Action[T]) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, from)
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
	return v
}

// visit opens a page and waits until it is there.
func (b *browser) visit(name string) {
	b.Helper()
	b.do("open "+name, chromedp.Navigate(b.root+name), chromedp.WaitReady(chromedp.CSS("body")))
	b.inert(name)
}

// follow clicks on what sel selects, and waits for the page that it leads to.
func (b *browser) follow(sel string) {
	b.Helper()
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(sel))); err != nil {
		b.Fatalf("click on %s: %v", sel, err)
	}
	b.inert(sel)
}

// text is what a person reads of an element.
func (b *browser) text(sel string) string {
	b.Helper()
	return get(b, "read "+sel, chromedp.Text(chromedp.CSS(sel)))
}

// enter types into the field that sel selects.
func (b *browser) enter(sel, typed string) {
	b.Helper()
	b.do("type into "+sel, chromedp.SendKeys(chromedp.CSS(sel), typed))
}

// wants fails unless an element says so.
func (b *browser) wants(sel string, parts ...string) {
	b.Helper()
	got := b.text(sel)
	for _, p := range parts {
		if !strings.Contains(got, p) {
			b.Errorf("%s lacks %q: %s", sel, p, got)
		}
	}
}

// inert fails if the page in sight has anything of its own that could run, or if
// something has run.
func (b *browser) inert(where string) {
	b.Helper()
	live := get(b, "look for elements", chromedp.Evaluate[int](`document.querySelectorAll("script, img, iframe, object, embed, svg, style, base").length`))
	raw := get(b, "look for handlers", chromedp.Evaluate[string](`Array.from(document.querySelectorAll("*")).flatMap(e => e.getAttributeNames()).filter(n => n.startsWith("on")).join()`))
	title := get(b, "read the title", chromedp.Title())
	if live != 0 || raw != "" || title == "owned" {
		b.Errorf("%s: %d live elements, handlers %q, title %q", where, live, raw, title)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sign := range b.alive {
		b.Errorf("%s: %s", where, sign)
	}
}

// requests are what the server was asked for.
func (b *browser) requests() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.seen, "\n")
}

// picture keeps the page in sight.
func (b *browser) picture(name string) {
	b.Helper()
	png := get(b, "take a picture", chromedp.FullScreenshot(100))
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(screenshots, name+".png")
	if err := os.WriteFile(file, png, 0o644); err != nil {
		b.Fatal(err)
	}
	if len(png) < 5000 {
		b.Errorf("the picture %s is empty: %d bytes", file, len(png))
	}
	b.Logf("see %s", file)
}
