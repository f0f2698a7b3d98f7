package observe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"narad/server"
)

// browser starts a headless Chromium, or skips the test where there is none. What the page says in its console, and every rule of
// the content security policy that it breaks, fails the test.
func browser(t *testing.T) context.Context {
	path := os.Getenv("NARAD_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	if path == "" {
		t.Skip("no Chromium in PATH: install the package chromium, or set NARAD_CHROMIUM to the program, to test the status page in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1280, 900), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancel)
	said := chromedp.Console(ctx)
	t.Cleanup(func() {
		require.NoError(t, chromedp.Cancel(ctx))
		var complaints []string
		for m, err := range said {
			if err == nil && !strings.Contains(m.URL, "favicon") {
				complaints = append(complaints, m.String())
			}
		}
		require.Empty(t, complaints, "the page complains")
	})
	return ctx
}

// page is the page in the browser.
type page struct {
	t   *testing.T
	ctx context.Context
}

func (p page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, steps...))
}

// until waits for an expression to become true.
func (p page) until(expression string) {
	p.t.Helper()
	p.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(20*time.Second)))
}

func (p page) text(selector string) string {
	p.t.Helper()
	return evaluate[string](p, fmt.Sprintf("document.querySelector(%q).textContent", selector))
}

func (p page) count(selector string) int {
	p.t.Helper()
	return evaluate[int](p, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

func evaluate[T any](p page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	require.NoError(p.t, err, expression)
	return v
}

// busy makes a node worth looking at: rates that go up and down, leases, acks out of order, a closed topic.
func busy(r *rig, names []string) {
	for _, name := range names {
		r.topic(name, 3)
	}
	for i := range rateSamples {
		for k, name := range names[:min(4, len(names))] {
			n := 1 + (i*i/7+k*13)%23 + 6*k
			r.produce(name, int32(i%3), n)
			for range max(n-1-k, 1) {
				d := r.consume(name, -1)
				if i%11 != 3 {
					require.NoError(r.t, r.e.Ack(name, d.Handle))
				}
			}
		}
		if i%20 == 0 {
			r.poll()
		}
		r.sample()
	}
	r.poll()
}

func TestPageInABrowser(t *testing.T) {
	ctx := browser(t)
	const evil = `node-1 <img src=x onerror="document.title='broken'">`
	r := newRig(t, Config{Node: evil, Version: "1.4.0"})
	names := []string{"orders.created", "payments.settled", "emails.outgoing", "thumbnails", "audit-log", "search.reindex", "webhooks"}
	topics := 160 // creating one takes a few syncs
	if os.Getenv("NARAD_LONG") != "" || os.Getenv("NARAD_SCREENSHOTS") != "" {
		topics = 1000
	}
	for i := range topics - len(names) {
		names = append(names, fmt.Sprintf("tenant-%04d.events", i))
	}
	busy(r, names)
	url := r.serve(server.Options{}).URL + "/status"
	p := page{t, ctx}
	const wide = "document.documentElement.scrollWidth > innerWidth"
	p.do(chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("#rows .name")))
	require.Equal(t, "Narad status", evaluate[string](p, "document.title"))
	require.Equal(t, evil, p.text("#node"), "shown as the text that it is")
	require.Equal(t, fmt.Sprint("Page 1 of ", (topics+49)/50), p.text("#page"))
	require.Contains(t, p.text("#summary"), grouped(topics)+" topics, "+grouped(3*topics)+" partitions")
	require.Equal(t, []int{50, 8}, []int{p.count("#rows tr"), p.count("#cards .card")})
	require.False(t, evaluate[bool](p, wide), "nothing sticks out")

	p.do(chromedp.Click(chromedp.CSS(`th[data-id="lag"] button`)))
	p.until(`document.querySelector('th[data-id="lag"]').ariaSort === "descending"`)
	require.Equal(t, "thumbnails", p.text("#rows .name"), "the largest lag first")
	p.shot("light", false)

	// By keyboard: filter, go to the topic, open it.
	p.do(chromedp.Focus(chromedp.CSS("#q")), chromedp.SendKeys(chromedp.CSS("#q"), "ORDERS"))
	p.until(`document.querySelectorAll("#rows tr").length === 1`)
	require.Contains(t, p.text("#summary"), "1 of "+grouped(topics)+" topics match")
	p.do(chromedp.Focus(chromedp.CSS("#rows .name")), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#detail")))
	p.until(`document.querySelectorAll("#parts tr").length === 3`)
	require.Equal(t, "orders.created", p.text("#h-detail"))
	require.Contains(t, p.text("#detail-about"), "in flight ≤ 1,024")
	require.Greater(t, p.count("#parts .extent rect"), 3)
	require.Equal(t, "orders.created", evaluate[string](p, "document.activeElement.title"), "drawing anew keeps the focus")
	require.Equal(t, "true", evaluate[string](p, `document.querySelector("#rows .name").getAttribute("aria-expanded")`))
	p.shot("dark", true)
	p.do(chromedp.Click(chromedp.CSS("#close")))
	p.until(`document.querySelector("#detail").hidden`)

	// It goes on by itself, and stops when told to.
	before := p.text("#rows td")
	r.produce("orders.created", 0, 7)
	p.until(fmt.Sprintf(`document.querySelector("#rows td").textContent !== %q`, before))
	p.do(chromedp.Click(chromedp.CSS("#pause")))
	p.until(`document.querySelector("#live-text").textContent === "paused"`)

	// On a telephone, and with nothing to show.
	p.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), chromedp.Navigate(url+"#q=nothing-like-this"), chromedp.Reload(),
		chromedp.WaitVisible(chromedp.CSS("#rows .empty")))
	require.False(t, evaluate[bool](p, wide), "nothing sticks out")
	p.shot("narrow", false)
}

// grouped writes a number as the page does.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// shot takes a picture, and saves it into the directory that NARAD_SCREENSHOTS names.
func (p page) shot(name string, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(p.t, err)
	evaluate[bool](p, `document.querySelector("#node").textContent = "node-1", true`)
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.Greater(p.t, len(picture), 10_000, "not an empty page")
	if dir := os.Getenv("NARAD_SCREENSHOTS"); dir != "" {
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, "status-"+name+".png"), picture, 0o644))
	}
}
