package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

// askable is a client of the protocol's first era that can be asked.
type askable struct {
	client
	can     mcp.ClientCapabilities
	action  mcp.ElicitationResponseAction
	content any
	roots   []mcp.Root
	refuses error // instead of an answer
	asked   []mcp.ElicitationRequest
	listed  int
}

func (*askable) GetClientInfo() mcp.Implementation               { return mcp.Implementation{} }
func (*askable) SetClientInfo(mcp.Implementation)                {}
func (a *askable) GetClientCapabilities() mcp.ClientCapabilities { return a.can }
func (*askable) SetClientCapabilities(mcp.ClientCapabilities)    {}
func (a *askable) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	a.listed++
	if a.refuses != nil {
		return nil, a.refuses
	}
	return &mcp.ListRootsResult{Roots: a.roots}, nil
}

func (a *askable) RequestElicitation(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.asked = append(a.asked, request)
	if a.refuses != nil {
		return nil, a.refuses
	}
	result := &mcp.ElicitationResult{}
	result.Action, result.Content = a.action, a.content
	return result, nil
}

// outside is a path that only the person, or an announced root, opens.
func outside(req session.ExposeRequest) error {
	switch {
	case req.HostPath != "/srv/x.csv" && req.HostPath != "/srv/\u202ex":
		return errors.New("unexpected path")
	case req.Allowed != nil && req.Allowed.Path == req.HostPath, len(req.Roots) == 1 && req.Roots[0] == "/srv":
		return nil
	}
	return &session.OutsideError{Path: req.HostPath, Size: 12}
}

func exposeWith(t *testing.T, f *fakeSessions, c server.ClientSession, opts Options, path string) outcome {
	t.Helper()
	s := server.NewMCPServer("t", "1")
	s.AddTools(All(f, opts)...)
	response := s.HandleMessage(s.WithContext(t.Context(), c), json.RawMessage(fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"file_expose","arguments":{"host_path":%q}}}`, path)))
	data, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAskingInTheFirstEra(t *testing.T) {
	elicit := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}
	tests := []struct {
		name    string
		client  *askable
		path    string
		want    string
		asked   int
		session bool
	}{
		{"once", &askable{can: elicit, action: "accept", content: map[string]any{"answer": allowOnce}}, "/srv/x.csv", "is at /data/x", 1, false},
		{"for the session", &askable{can: elicit, action: "accept", content: map[string]any{"answer": allowSession}}, "/srv/x.csv", "is at /data/x", 1, true},
		{"another answer", &askable{can: elicit, action: "accept", content: map[string]any{"answer": "allow everything"}}, "/srv/x.csv", "not one of those offered", 1, false},
		{"no answer", &askable{can: elicit, action: "accept"}, "/srv/x.csv", "not one of those offered", 1, false},
		{"declined", &askable{can: elicit, action: "decline"}, "/srv/x.csv", "declined", 1, false},
		{"cancelled", &askable{can: elicit, action: "cancel"}, "/srv/x.csv", "has not decided", 1, false},
		{"the client fails", &askable{can: elicit, refuses: errors.New("unhelpful")}, "/srv/x.csv", "The client could not ask the person whether \"/srv/x.csv\" may be exposed", 1, false},
		{"nobody to ask", &askable{}, "/srv/x.csv", "This client cannot ask them", 0, false},
		{"only addresses can be shown", &askable{can: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &struct{}{}}}}, "/srv/x.csv", "cannot ask", 0, false},
		{"a path that would lie", &askable{can: elicit, action: "accept", content: map[string]any{"answer": allowOnce}}, "/srv/\u202ex", "cannot be shown", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeSessions{outside: outside}
			o := exposeWith(t, f, tt.client, Options{}, tt.path)
			if !strings.Contains(o.text(), tt.want) || len(tt.client.asked) != tt.asked {
				t.Fatalf("asked %d times: %s", len(tt.client.asked), o.text())
			}
			if strings.Contains(tt.want, "is at") && (f.expose.Allowed == nil || f.expose.Allowed.Session != tt.session) {
				t.Errorf("%+v", f.expose)
			}
			if (len(f.declined) > 0) != (tt.name == "declined") {
				t.Errorf("declined %v", f.declined)
			}
			if (f.undecided > 0) != (tt.name == "cancelled" || tt.name == "the client fails") || strings.Contains(o.text(), "unhelpful") {
				t.Errorf("undecided %d: %s", f.undecided, o.text())
			}
			for _, request := range tt.client.asked {
				if !strings.Contains(request.Params.Message, "\nPath: \"/srv/x.csv\"\n") || !strings.Contains(request.Params.Message, "read-only") {
					t.Errorf("the person reads %q", request.Params.Message)
				}
			}
		})
	}
}

func TestAnnouncedRootsAreAskedFor(t *testing.T) {
	roots := &struct {
		ListChanged bool `json:"listChanged,omitempty"`
	}{}
	for _, on := range []bool{true, false} {
		c := &askable{can: mcp.ClientCapabilities{Roots: roots}, roots: []mcp.Root{{URI: "https://x/srv"}, {URI: "file://other/srv"}, {URI: "file:relative"}, {URI: "file:///srv"}}}
		o := exposeWith(t, &fakeSessions{outside: outside}, c, Options{ClientRoots: on}, "/srv/x.csv")
		if on != strings.Contains(o.text(), "is at /data/x") || on != (c.listed == 1) {
			t.Errorf("client roots %v: listed %d times: %s", on, c.listed, o.text())
		}
	}
}

// A client that announces what it then refuses gets a refusal of ours.
func TestAClientThatFailsToTellItsRoots(t *testing.T) {
	can := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}, Roots: &struct {
		ListChanged bool `json:"listChanged,omitempty"`
	}{}}
	f, c := &fakeSessions{outside: outside}, &askable{can: can, refuses: errors.New("method not found")}
	o := exposeWith(t, f, c, Options{ClientRoots: true}, "/srv/x.csv")
	if c.listed != 1 || len(c.asked) != 1 || f.undecided != 1 || !strings.Contains(o.text(), "The client could not ask") {
		t.Errorf("listed %d, asked %d, undecided %d: %s", c.listed, len(c.asked), f.undecided, o.text())
	}
}

func TestAskingInTheSecondEra(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}`
	f := &fakeSessions{outside: outside}
	h := newHarness(t, f, Options{ClientRoots: true})
	call := func(can, more string) string {
		return h.request("tools/call", `{"name":"file_expose","arguments":{"host_path":"/srv/x.csv"},`+fmt.Sprintf(meta, can)+more+`}`)
	}
	if answer := call(`{}`, ""); !strings.Contains(answer, "This client cannot ask them") {
		t.Fatal(answer)
	}
	if answer := call(`{"roots":{}}`, ""); !strings.Contains(answer, `"input_required"`) || !strings.Contains(answer, `"method":"roots/list"`) {
		t.Fatal(answer)
	}
	if answer := call(`{"roots":{}}`, `,"inputResponses":{"roots":{"roots":[{"uri":"file:///srv"}]}}`); !strings.Contains(answer, "is at /data/x") {
		t.Fatal(answer)
	}
	answer := call(`{"elicitation":{}}`, "")
	var first struct {
		Result struct {
			RequestState  string `json:"requestState"`
			InputRequests map[string]struct{ Method string }
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &first); err != nil || first.Result.RequestState == "" || first.Result.InputRequests[askPerson].Method != "elicitation/create" {
		t.Fatalf("%v: %s", err, answer)
	}
	said := `,"inputResponses":{"allow":{"action":"accept","content":{"answer":"allow once"}}},"requestState":%q`
	for _, state := range []string{"", "forged", strings.Repeat("0", 64)} {
		if answer := call(`{"elicitation":{}}`, fmt.Sprintf(said, state)); !strings.Contains(answer, `"input_required"`) {
			t.Errorf("with the state %q: %s", state, answer)
		}
	}
	if answer := call(`{"elicitation":{}}`, fmt.Sprintf(said, first.Result.RequestState)); !strings.Contains(answer, "is at /data/x") || f.expose.Allowed.Session {
		t.Errorf("%s", answer)
	}
}
