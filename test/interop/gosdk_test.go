package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A goPeer is a connection by the official Go SDK.
type goPeer struct {
	session *mcp.ClientSession
	handle  string // of the session, as the first answer told it

	mu      sync.Mutex
	notices []notice // guarded by mu
}

type notice struct {
	at    time.Time
	value float64
}

// A bearer sends the token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connectGo says hello over the target's transport.
func connectGo(ctx context.Context, to target) (*goPeer, error) {
	p := &goPeer{}
	client := mcp.NewClient(&mcp.Implementation{Name: "biocage-interop", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.notices = append(p.notices, notice{time.Now(), r.Params.Progress})
		},
	})
	var transport mcp.Transport
	web := &http.Client{Transport: bearer(to.Token)}
	switch to.transport {
	case "http":
		transport = &mcp.StreamableClientTransport{Endpoint: to.URL, HTTPClient: web}
	case "sse":
		transport = &mcp.SSEClientTransport{Endpoint: to.URL, HTTPClient: web}
	default:
		transport = &mcp.CommandTransport{Command: exec.Command(to.Command, to.Args...)}
	}
	session, err := client.Connect(ctx, transport, nil)
	p.session = session
	return p, err
}

// call calls a tool in the session that the first answer told.
func (p *goPeer) call(ctx context.Context, name string, args map[string]any, progress bool) (answer, error) {
	params := &mcp.CallToolParams{Name: name, Arguments: p.in(args)}
	if progress {
		params.SetProgressToken(name)
	}
	done, err := p.session.CallTool(ctx, params)
	if err != nil {
		return answer{}, err
	}
	text, err := json.Marshal(done)
	if err != nil {
		return answer{}, err
	}
	a := answer{IsError: done.IsError, Size: len(text)}
	for _, block := range done.Content {
		switch block := block.(type) {
		case *mcp.TextContent:
			a.Texts = append(a.Texts, block.Text)
		case *mcp.ImageContent:
			encoded, err := json.Marshal(block.Data) // a string of base64
			if err != nil {
				return answer{}, err
			}
			a.Images = append(a.Images, image{MIME: block.MIMEType, Data: string(encoded[1 : len(encoded)-1])})
		case *mcp.ResourceLink:
			a.Links = append(a.Links, block.URI)
		}
	}
	if a.Result, err = json.Marshal(done.Meta["biocage/result"]); err != nil {
		return answer{}, err
	}
	var result run
	if err := json.Unmarshal(a.Result, &result); err == nil && p.handle == "" {
		p.handle = result.Session
	}
	return a, nil
}

func (p *goPeer) in(args map[string]any) map[string]any {
	if p.handle != "" {
		args["session"] = p.handle
	}
	return args
}

// run runs code to its end, as a model does: what outlasts the answer is
// waited for.
func (p *goPeer) run(ctx context.Context, code string) (answer, error) {
	a, err := p.call(ctx, "python_run", map[string]any{"code": code}, false)
	for err == nil {
		var r run
		if err := json.Unmarshal(a.Result, &r); err != nil || r.Status != "running" {
			return a, err
		}
		a, err = p.call(ctx, "python_wait", map[string]any{"run_id": r.RunID}, false)
	}
	return a, err
}

type goScenario struct {
	name string
	play func(context.Context, *goPeer) (any, error)
}

// goScenarios are those of python/scenarios.py and node/scenarios.mjs, for one session.
func goScenarios() []goScenario {
	return []goScenario{
		{"tools", goTools},
		{"state", goState},
		{"progress", goProgress},
		{"cancel", goCancel},
		{"large", goLarge},
		{"parallel", goParallel},
	}
}

func goTools(ctx context.Context, p *goPeer) (any, error) {
	list := func() (names []string, err error) {
		all, err := p.session.ListTools(ctx, nil)
		if err != nil {
			return nil, err
		}
		for _, tool := range all.Tools {
			names = append(names, tool.Name)
		}
		return names, nil
	}
	first, err := list()
	if err != nil {
		return nil, err
	}
	second, err := list()
	return toolFacts{Protocol: p.session.InitializeResult().ProtocolVersion, First: first, Second: second}, err
}

func goState(ctx context.Context, p *goPeer) (any, error) {
	first, err := p.run(ctx, "kept = []")
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	for n := range 100 {
		if _, err := p.run(ctx, fmt.Sprintf("kept.append(%d)", n)); err != nil {
			return nil, err
		}
	}
	seconds := time.Since(begin).Seconds()
	last, err := p.run(ctx, "(len(kept), sum(kept))")
	return map[string]any{"first": first, "last": last, "seconds": seconds}, err
}

// goCancel gives a call up; the connection must outlive that.
func goCancel(ctx context.Context, p *goPeer) (any, error) {
	if _, err := p.run(ctx, "import time\nkept = 41"); err != nil {
		return nil, err
	}
	brief, stop := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer stop()
	if _, err := p.run(brief, "kept += 1\ntime.sleep(60)\nkept = 'ended'"); err == nil {
		return nil, fmt.Errorf("the call ended before it was cancelled")
	}
	begin := time.Now()
	after, err := p.untilFree(ctx, "kept")
	return map[string]any{"after": after, "seconds": time.Since(begin).Seconds()}, err
}

// untilFree runs code as soon as the session is free.
func (p *goPeer) untilFree(ctx context.Context, code string) (answer, error) {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		a, err := p.run(ctx, code)
		if err != nil {
			return answer{}, err
		}
		var r run
		if err := json.Unmarshal(a.Result, &r); err != nil {
			return answer{}, err
		}
		if r.Error == nil || r.Error.Kind != "busy" || time.Now().After(end) {
			return a, nil
		}
	}
}

func goProgress(ctx context.Context, p *goPeer) (any, error) {
	if _, err := p.run(ctx, "import time"); err != nil {
		return nil, err
	}
	begin := time.Now()
	code := "for i in range(30):\n    print('step', i)\n    time.sleep(0.1)"
	a, err := p.call(ctx, "python_run", map[string]any{"code": code}, true)
	if err != nil {
		return nil, err
	}
	end := time.Now()
	time.Sleep(time.Second) // for what comes too late
	p.mu.Lock()
	defer p.mu.Unlock()
	facts := struct {
		Answer answer    `json:"answer"`
		During int       `json:"during"`
		Late   int       `json:"late"`
		Values []float64 `json:"values"`
	}{Answer: a}
	for _, n := range p.notices {
		facts.Values = append(facts.Values, n.value)
		switch {
		case n.at.After(end.Add(100 * time.Millisecond)):
			facts.Late++
		case n.at.After(begin):
			facts.During++
		}
	}
	return facts, nil
}

func goLarge(ctx context.Context, p *goPeer) (any, error) {
	facts := map[string]answer{}
	for name, code := range map[string]string{
		"printed": "for i in range(100_000): print(f'{i:049d}')",
		"value":   "'y' * 5_000_000",
		"image": "import numpy as np\nfrom PIL import Image\n" +
			"Image.fromarray(np.random.default_rng(1).integers(0, 255, (1400, 1400, 3), dtype=np.uint8))",
		"after": "1 + 1",
	} {
		a, err := p.run(ctx, code)
		if err != nil {
			return nil, err
		}
		facts[name] = a
	}
	return facts, nil
}

func goParallel(ctx context.Context, p *goPeer) (any, error) {
	if _, err := p.run(ctx, "import time\nseen = []"); err != nil {
		return nil, err
	}
	var answers, lists [8]answer
	var errs [16]error
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			answers[n], errs[n] = p.run(ctx, fmt.Sprintf("seen.append(%d)\ntime.sleep(0.2)\n%d", n, n))
		})
		all.Go(func() { lists[n], errs[8+n] = p.call(ctx, "file_list", map[string]any{}, false) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	var ran []int
	for n, a := range answers {
		var r run
		if err := json.Unmarshal(a.Result, &r); err != nil {
			return nil, err
		}
		if r.Success {
			ran = append(ran, n)
		}
	}
	slices.Sort(ran)
	after, err := p.untilFree(ctx, "sorted(seen)")
	return map[string]any{"answers": answers, "lists": lists, "ran": ran, "after": after}, err
}

// goKept leaves a variable, goes away, comes back and asks for it.
func goKept(ctx context.Context, to target) (any, error) {
	p, err := connectGo(ctx, to)
	if err != nil {
		return nil, err
	}
	if _, err := p.run(ctx, "kept = 42"); err != nil {
		return nil, err
	}
	if err := p.session.Close(); err != nil {
		return nil, err
	}
	next, err := connectGo(ctx, to)
	if err != nil {
		return nil, err
	}
	next.handle = p.handle
	after, err := next.run(ctx, "kept")
	_ = next.session.Close() // what is asked was answered
	return map[string]any{"after": after}, err
}

// playGo runs the scenarios in one session, and comes back to another.
func playGo(t *testing.T, to target) map[string]json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, err := connectGo(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	every := map[string]json.RawMessage{}
	for _, s := range goScenarios() {
		facts, err := s.play(ctx, p)
		every[s.name] = encoded(t, facts, err)
	}
	_ = p.session.Close() // its answers count, not how it ends
	kept, err := goKept(ctx, to)
	return map[string]json.RawMessage{"every": encoded(t, every, nil), "kept": encoded(t, kept, err)}
}

// encoded makes facts of what a scenario gave.
func encoded(t *testing.T, facts any, err error) json.RawMessage {
	t.Helper()
	if err != nil {
		facts = map[string]string{"failed": err.Error()}
	}
	text, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
