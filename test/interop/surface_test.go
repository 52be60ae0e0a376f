package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
)

// A host is a client that looks at more of the server than its tools.
type host struct {
	*mcptest.Server

	t *testing.T
}

func (l lab) host(t *testing.T, s settings, opts mcptest.Options) host {
	t.Helper()
	temp, err := os.MkdirTemp("", "bc")
	if err != nil {
		t.Fatal(err)
	}
	opts.Binary, opts.Args = l.binary, []string{"serve", "--config", l.config(t, s)}
	opts.Env = append(os.Environ(), "TMPDIR="+temp)
	server, err := mcptest.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("end of the server: %v\n%s", err, server.Stderr())
		}
		if foreign := server.Foreign(); len(foreign) > 0 {
			t.Errorf("standard output holds what nobody asked for: %q", foreign)
		}
		if err := os.RemoveAll(temp); err != nil {
			t.Error(err)
		}
	})
	return host{Server: server, t: t}
}

func (h host) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.t.Context(), time.Minute)
}

// ask sends a request and decodes its result.
func (h host) ask(method string, params map[string]any, result any) {
	h.t.Helper()
	ctx, cancel := h.context()
	defer cancel()
	raw, err := h.Call(ctx, method, params)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", method, err, h.Stderr())
	}
	if err := json.Unmarshal(raw, result); err != nil {
		h.t.Fatalf("%s: %v in %s", method, err, raw)
	}
}

// refusal sends a request that must fail and gives the code.
func (h host) refusal(method string, params map[string]any) *mcptest.RPCError {
	h.t.Helper()
	ctx, cancel := h.context()
	defer cancel()
	raw, err := h.Call(ctx, method, params)
	refused, ok := errors.AsType[*mcptest.RPCError](err)
	if !ok {
		h.t.Fatalf("%s %v: %v, %s", method, params, err, raw)
	}
	return refused
}

func (h host) tool(name string, args map[string]any) *mcptest.Answer {
	h.t.Helper()
	ctx, cancel := h.context()
	defer cancel()
	answer, err := h.Tool(ctx, name, args)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", name, err, h.Stderr())
	}
	return answer
}

func (h host) run(code string) *mcptest.Answer {
	h.t.Helper()
	answer := h.tool("python_run", map[string]any{"code": code})
	if answer.Refused() {
		h.t.Fatalf("%s\n%s", code, answer.Text())
	}
	return answer
}

type resourceList struct {
	Resources []struct {
		URI, Name, MIMEType string
		Size                int64
	}
	NextCursor string
}

type contents struct {
	Contents []struct {
		URI, MIMEType, Text, Blob string
		Meta                      map[string]struct {
			Offset, Size int64
			NextOffset   int64 `json:"next_offset"`
		} `json:"_meta"`
	}
}

func TestResources(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		h := l.host(t, settings{warm: 1}, mcptest.Options{})
		var list resourceList
		h.ask("resources/list", nil, &list)
		if len(list.Resources) != 0 {
			t.Fatalf("before the session: %+v", list)
		}
		answer := h.run(`
import os
os.makedirs("d", exist_ok=True)
open("d/inner.txt", "w").write("x")
open("page.html", "w").write("<script>alert(1)</script>")
open("fake.png", "w").write("<svg onload=alert(1)>")
open("naïve name?.csv", "w").write("a,b\n1,2\n")
for i in range(120):
    open(f"many{i:03}.txt", "w").write("x" * i)
print("line of output " * 20000)
`)
		session := answer.Object.Session
		var names []string
		for cursor := ""; ; cursor = list.NextCursor {
			list = resourceList{}
			h.ask("resources/list", map[string]any{"cursor": cursor}, &list)
			for _, r := range list.Resources {
				names = append(names, r.Name)
				if !strings.HasPrefix(r.URI, "sandbox://"+session+"/") || strings.Contains(r.MIMEType, "html") {
					t.Errorf("%+v", r)
				}
			}
			if list.NextCursor == "" {
				break
			}
		}
		if got := strings.Join(names, " "); len(names) != 123 || !strings.Contains(got, "naïve name?.csv") || strings.Contains(got, "inner") {
			t.Errorf("%d resources: %s", len(names), got)
		}
		h.readsWhole(session)
		h.readsParts(answer)
		h.refusesForeign(session)
		h.listsWhileCodeRuns()
	})
}

func (h host) readsWhole(session string) {
	h.t.Helper()
	for name, want := range map[string][2]string{
		"page.html":                  {"text/plain", "<script>alert(1)</script>"},
		"fake.png":                   {"text/plain", "<svg onload=alert(1)>"},
		"na%C3%AFve%20name%3F.csv":   {"text/csv", "a,b\n1,2\n"},
		"d/inner.txt":                {"text/plain", "x"},
		"/work/d/inner.txt":          {"text/plain", "x"},
		"d/inner.txt?offset=0":       {"text/plain", "x"},
		"page.html?offset=1&limit=6": {"text/plain", "script"},
	} {
		var c contents
		h.ask("resources/read", map[string]any{"uri": "sandbox://" + session + "/" + name}, &c)
		if c.Contents[0].MIMEType != want[0] || c.Contents[0].Text != want[1] {
			h.t.Errorf("%s: %+v", name, c)
		}
	}
}

// readsParts fetches the whole of an output that was cut, by its link.
func (h host) readsParts(answer *mcptest.Answer) {
	h.t.Helper()
	uri := ""
	for _, b := range answer.Content {
		if b.Type == "resource_link" && b.Name == "whole stdout" {
			uri = b.URI
		}
	}
	want := strings.Repeat("line of output ", 20000) + "\n"
	if !strings.Contains(string(answer.Line), fmt.Sprintf(`"size":%d`, len(want))) {
		h.t.Errorf("the link to the whole output has no size: %s", answer.Line[len(answer.Line)-2000:])
	}
	got := ""
	for offset, more := int64(0), true; more; {
		var c contents
		h.ask("resources/read", map[string]any{"uri": fmt.Sprintf("%s?offset=%d&limit=70000", uri, offset)}, &c)
		got += c.Contents[0].Text
		r := c.Contents[0].Meta["biocage/range"]
		more, offset = r.NextOffset > offset, r.NextOffset
		if r.Size != int64(len(want)) {
			h.t.Fatalf("%+v", r)
		}
	}
	if got != want {
		h.t.Errorf("the parts of the output make %d bytes, want %d", len(got), len(want))
	}
}

func (h host) refusesForeign(session string) {
	h.t.Helper()
	made := "sandbox://sbx_" + strings.Repeat("A", len(session)-4) + "/page.html"
	legacy := h.refusal("resources/read", map[string]any{"uri": made})
	modern := h.refusal("resources/read", map[string]any{"uri": made, "_meta": mcptest.Modern(nil)})
	if legacy.Code != -32002 || modern.Code != -32602 || legacy.Message != modern.Message {
		h.t.Errorf("a session that is not there: %v, %v", legacy, modern)
	}
	missing := "sandbox://" + session + "/nothing.txt"
	legacy = h.refusal("resources/read", map[string]any{"uri": missing})
	modern = h.refusal("resources/read", map[string]any{"uri": missing, "_meta": mcptest.Modern(nil)})
	if legacy.Code != -32002 || modern.Code != -32602 || !strings.Contains(string(modern.Data), "nothing.txt") {
		h.t.Errorf("a file that is not there: %v, %v", legacy, modern)
	}
	if bad := h.refusal("resources/read", map[string]any{"uri": "sandbox://" + session + "/x?limit=0"}); bad.Code != -32602 {
		h.t.Errorf("a bad address: %v", bad)
	}
}

func (h host) listsWhileCodeRuns() {
	h.t.Helper()
	ctx, cancel := h.context()
	defer cancel()
	run, err := h.BeginTool("python_run", map[string]any{"code": "import time\nopen('late.bin', 'wb').write(bytes(5))\ntime.sleep(4)"})
	if err != nil {
		h.t.Fatal(err)
	}
	found := false
	for began := time.Now(); !found && time.Since(began) < 30*time.Second; {
		var c contents
		if raw, err := h.Call(ctx, "resources/list", nil); err != nil || strings.Contains(string(raw), "late.bin") {
			found = err == nil
			select {
			case <-run.Ended():
				h.t.Error("the list waited for the end of the code")
			default:
			}
			h.ask("resources/read", map[string]any{"uri": "sandbox://" + h.session(ctx) + "/late.bin"}, &c)
			if data, err := base64.StdEncoding.DecodeString(c.Contents[0].Blob); err != nil || len(data) != 5 {
				h.t.Errorf("%+v: %v", c, err)
			}
			break
		}
	}
	if !found {
		h.t.Error("the file of a running cell is not listed")
	}
	if _, err := run.Answer(ctx); err != nil {
		h.t.Error(err)
	}
}

func (h host) session(ctx context.Context) string {
	h.t.Helper()
	answer, err := h.Tool(ctx, "session_info", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	var info struct{ Session string }
	if err := json.Unmarshal(answer.Meta, &info); err != nil {
		h.t.Fatal(err)
	}
	return info.Session
}

func TestPromptsAndCompletions(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		shared, err := os.MkdirTemp("", "bc-root")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(shared); err != nil {
				t.Error(err)
			}
		})
		for _, name := range []string{"ages.csv", "secret.pem"} {
			if err := os.WriteFile(shared+"/"+name, []byte("age\n3\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h := l.host(t, settings{warm: 1, expose: map[string]any{"roots": []map[string]string{{"path": shared}}}}, mcptest.Options{})
		if refused := h.refusal("prompts/get", map[string]any{"name": "debug_error"}); refused.Code != -32602 {
			t.Errorf("before the session: %v", refused)
		}
		h.run("total = 41\nopen('numbers.csv', 'w').write('a')")
		h.run("total += 1\ntotal")
		if a := h.tool("python_run", map[string]any{"code": "total.wrong"}); !a.Refused() {
			t.Errorf("the failure did not fail: %s", a.Text())
		}
		for name, want := range map[string][]string{
			"debug_error":    {"total.wrong", "AttributeError"},
			"export_session": {"total = 41", "total += 1", "session.ipynb"},
		} {
			var got struct {
				Messages []struct {
					Role    string
					Content struct{ Type, Text string }
				}
			}
			h.ask("prompts/get", map[string]any{"name": name}, &got)
			for _, part := range want {
				if len(got.Messages) != 1 || got.Messages[0].Role != "user" || !strings.Contains(got.Messages[0].Content.Text, part) {
					t.Errorf("%s lacks %s: %+v", name, part, got)
				}
			}
		}
		complete := func(ref map[string]any, argument, value string) string {
			var got struct {
				Completion struct{ Values []string }
			}
			h.ask("completion/complete", map[string]any{"ref": ref, "argument": map[string]any{"name": argument, "value": value}}, &got)
			return strings.Join(got.Completion.Values, " ")
		}
		file := map[string]any{"type": "ref/prompt", "name": "analyse_data"}
		if got := complete(file, "file", "nu"); got != "numbers.csv" {
			t.Errorf("a workspace file: %q", got)
		}
		if got := complete(file, "file", shared+"/"); got != shared+"/ "+shared+"/ages.csv" {
			t.Errorf("host files: %q", got)
		}
		template := map[string]any{"type": "ref/resource", "uri": "sandbox://{session}/{+path}{?offset,limit}"}
		if got := complete(template, "path", "/work/num"); got != "/work/numbers.csv" {
			t.Errorf("the template's path: %q", got)
		}
		if got := complete(template, "session", ""); !strings.HasPrefix(got, "sbx_") {
			t.Errorf("the template's session: %q", got)
		}
		if a := h.tool("session_reset", nil); a.Refused() {
			t.Error(a.Text())
		}
		if refused := h.refusal("prompts/get", map[string]any{"name": "export_session"}); refused.Code != -32602 {
			t.Errorf("after a reset: %v", refused)
		}
	})
}

// A person answers what the server asks.
type person struct {
	action, word string
	root         string
	asked        []string
}

func (p *person) answer(method string, params json.RawMessage) (any, error) {
	p.asked = append(p.asked, method+" "+string(params))
	if method == "roots/list" {
		return map[string]any{"roots": []map[string]string{{"uri": "file://" + p.root, "name": "project"}}}, nil
	}
	return map[string]any{"action": p.action, "content": map[string]string{"answer": p.word}}, nil
}

func TestExposeWithLeave(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		dir, err := os.MkdirTemp("", "bc-ask")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		for _, name := range []string{"project/in.csv", "asked.csv", "second.csv", "key.pem"} {
			if err := os.MkdirAll(dir+"/project", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/"+name, []byte("from "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p := &person{action: "accept", word: "allow once", root: dir + "/project"}
		can := map[string]any{"elicitation": map[string]any{}, "roots": map[string]any{}}
		h := l.host(t, settings{warm: 1, expose: map[string]any{"ask": true, "client_roots": true}}, mcptest.Options{Capabilities: can, Answer: p.answer})
		expose := func(name string, more map[string]any) *mcptest.Answer {
			args := map[string]any{"host_path": dir + "/" + name}
			maps.Copy(args, more)
			return h.tool("file_expose", args)
		}
		if a := expose("project/in.csv", nil); a.Refused() || len(p.asked) != 1 || !strings.HasPrefix(p.asked[0], "roots/list") {
			t.Fatalf("%s; asked %v", a.Text(), p.asked)
		}
		if a := h.run("open('/data/in.csv').read()"); *a.Object.Result != "'from project/in.csv'" {
			t.Errorf("read %s", *a.Object.Result)
		}
		if a := expose("asked.csv", nil); a.Refused() || len(p.asked) != 3 || !strings.Contains(p.asked[2], "/asked.csv") {
			t.Fatalf("%s; asked %v", a.Text(), p.asked)
		}
		if a := h.run("open('/data/asked.csv').read()"); *a.Object.Result != "'from asked.csv'" {
			t.Errorf("read %s", *a.Object.Result)
		}
		asked := len(p.asked)
		for _, a := range []*mcptest.Answer{expose("asked.csv", map[string]any{"mode": "rw"}), expose("key.pem", nil)} {
			if !a.Refused() {
				t.Errorf("exposed: %s", a.Text())
			}
		}
		for _, question := range p.asked[asked:] {
			if !strings.HasPrefix(question, "roots/list") {
				t.Errorf("the person was asked for what they cannot give: %s", question)
			}
		}
		p.action = "decline"
		for range 2 {
			if a := expose("second.csv", nil); !a.Refused() || !strings.Contains(a.Text(), "declined") {
				t.Errorf("%s", a.Text())
			}
		}
		if n := strings.Count(strings.Join(p.asked, "\n"), "second.csv"); n != 1 {
			t.Errorf("the person declined and was asked %d times", n)
		}
		h.asksInTheSecondEra(dir)
	})
}

func (h host) asksInTheSecondEra(dir string) {
	h.t.Helper()
	if err := os.WriteFile(dir+"/third.csv", []byte("from third"), 0o644); err != nil {
		h.t.Fatal(err)
	}
	params := func() map[string]any {
		return map[string]any{
			"name": "file_expose", "arguments": map[string]any{"host_path": dir + "/third.csv"},
			"_meta": mcptest.Modern(map[string]any{"elicitation": map[string]any{}}),
		}
	}
	var first struct {
		ResultType, RequestState string
		InputRequests            map[string]struct{ Method string }
	}
	h.ask("tools/call", params(), &first)
	if first.ResultType != "input_required" || first.InputRequests["allow"].Method != "elicitation/create" {
		h.t.Fatalf("%+v", first)
	}
	again := params()
	again["requestState"] = first.RequestState
	again["inputResponses"] = map[string]any{"allow": map[string]any{"action": "accept", "content": map[string]string{"answer": "allow for this session"}}}
	var second struct {
		IsError bool
		Content []mcptest.Block
	}
	h.ask("tools/call", again, &second)
	if second.IsError || len(second.Content) == 0 || !strings.Contains(second.Content[0].Text, "/data/third.csv") {
		h.t.Fatalf("%+v", second)
	}
	if a := h.run("open('/data/third.csv').read()"); *a.Object.Result != "'from third'" {
		h.t.Errorf("read %s", *a.Object.Result)
	}
}
