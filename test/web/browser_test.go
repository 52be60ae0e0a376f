package web

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

var browser = flag.String("browser", "", "the program of a Chromium, for attacks by a real page")

// page tries whatever a page may try on a server of another origin, and tells
// what came of it. It knows the token and a stream's address, which no page
// should.
const page = `<!doctype html><body><script>
const base = %q, token = %q, stream = %q, body = %q;
const told = {};
const tell = async (name, work) => {
  try { told[name] = String(await work()); } catch (e) { told[name] = "failed: " + e.name; }
};
const read = async (path, init) => { const r = await fetch(base + path, init); return r.status + " " + (await r.text()).slice(0, 80); };
const blind = async (path, init) => { const r = await fetch(base + path, {mode: "no-cors", ...init}); return r.type + " " + r.status; };
const form = (path, enctype) => new Promise(done => {
  const frame = document.createElement("iframe"); frame.name = path + enctype; document.body.append(frame);
  const f = document.createElement("form"); f.method = "post"; f.action = base + path; f.enctype = enctype; f.target = frame.name;
  const field = document.createElement("input"); field.name = body; field.value = ""; f.append(field); document.body.append(f);
  frame.onload = () => { try { done(frame.contentDocument ? "loaded " + frame.contentDocument.body.innerText : "loaded"); } catch (e) { done("loaded"); } };
  f.submit(); setTimeout(() => done("nothing"), 3000);
});
const event = (thing, good, bad) => new Promise(done => { thing.addEventListener(good, () => done("opened")); thing.addEventListener(bad, () => done("refused")); setTimeout(() => done("nothing"), 3000); });
const element = (name, path) => { const e = document.createElement(name); const told = event(e, "load", "error"); e.src = base + path; document.body.append(e); return told; };
(async () => {
  for (const path of ["/mcp", "/message?sessionId=" + stream]) {
    await tell("text " + path, () => read(path, {method: "POST", body, headers: {"Content-Type": "text/plain"}}));
    await tell("blind " + path, () => blind(path, {method: "POST", body}));
    await tell("beacon " + path, () => { navigator.sendBeacon(base + path, new Blob([body], {type: "text/plain"})); return "sent"; });
    await tell("json " + path, () => read(path, {method: "POST", body, headers: {"Content-Type": "application/json"}}));
    await tell("token " + path, () => read(path, {method: "POST", body, headers: {"Content-Type": "application/json", "Authorization": "Bearer " + token}}));
    await tell("form " + path, () => form(path, "text/plain"));
    await tell("urlencoded " + path, () => form(path, "application/x-www-form-urlencoded"));
    await tell("multipart " + path, () => form(path, "multipart/form-data"));
    await tell("delete " + path, () => read(path, {method: "DELETE"}));
  }
  for (const path of ["/sse", "/mcp", "/metrics", "/healthz"]) {
    await tell("get " + path, () => read(path, {}));
    await tell("EventSource " + path, () => event(new EventSource(base + path), "open", "error"));
    await tell("script " + path, () => element("script", path));
    await tell("img " + path, () => element("img", path));
  }
  await tell("WebSocket", () => event(new WebSocket(base.replace("http", "ws") + "/mcp"), "open", "error"));
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
})();
</script></body>`

// H01-H06 with a real browser: nothing that a page on another port of this
// machine tries runs, and it reads no answer.
func TestWebForeignPageInABrowser(t *testing.T) {
	if *browser == "" {
		t.Log("does not apply: no browser was asked for, as -browser /usr/bin/chromium does")
		return
	}
	s := start(t, nil)
	stream := s.openStream(adaToken)
	var mu sync.Mutex
	var seen []string
	recorder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, false)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s(error %v)", dump, err))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer recorder.Close()
	for _, target := range []string{recorder.URL, "http://" + s.address} {
		told := visit(t, fmt.Sprintf(page, target, adaToken, stream.id, call("1", "open('pwned','w')", "")))
		if target == recorder.URL {
			t.Logf("what the browser sends:\n%s", strings.Join(seen, "\n"))
			continue
		}
		for what, outcome := range told {
			t.Logf("%s: %s", what, outcome)
			switch {
			case strings.HasPrefix(outcome, "failed"), outcome == "refused", outcome == "nothing", outcome == "sent", outcome == "loaded",
				strings.HasPrefix(outcome, "opaque"):
			default:
				t.Errorf("%s: the page sees %q", what, outcome)
			}
		}
		if len(told) < 30 {
			t.Errorf("the page told of %d attempts", len(told))
		}
	}
	if n := s.figure("biocage_sessions_began_total"); n != 0 {
		t.Errorf("%v sandboxes were begun", n)
	}
	if n := s.figure("biocage_protocol_sessions"); n != 1 {
		t.Errorf("%v protocol sessions live, want the stream alone", n)
	}
	s.served(10 * time.Second)
}

// visit shows a page in the browser and gives what it tells.
func visit(t *testing.T, content string) map[string]string {
	t.Helper()
	told := make(chan map[string]string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, content) // the page tells, or the test fails
	})
	mux.HandleFunc("/told", func(_ http.ResponseWriter, r *http.Request) {
		var got map[string]string
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		told <- got
	})
	site := httptest.NewServer(mux)
	defer site.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, *browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), site.URL)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it never ends by itself
		_ = cmd.Wait()
		time.Sleep(time.Second) // its children write to its directory
	}()
	select {
	case got := <-told:
		return got
	case <-ctx.Done():
		t.Fatal("the page told nothing")
		return nil
	}
}
