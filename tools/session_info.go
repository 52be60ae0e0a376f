package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type sessionInfoInput struct{ target }

func (t *toolset) sessionInfo() server.ServerTool {
	return define(t, definition[sessionInfoInput]{
		name:        "session_info",
		title:       "Describe the session",
		description: "State, limits, exposed paths and variables of the session.",
		hints:       hints{readOnly: true, idempotent: true},
		output:      session.Info{},
		handle: func(ctx context.Context, c call, _ sessionInfoInput) (answer, error) {
			info, err := t.sessions.Info(ctx, c.ref)
			if err != nil {
				return answer{}, err
			}
			cleanInfo(&info)
			for jsonSize(info) > maxObject/t.objectCopies() && len(info.Variables) > 0 {
				info.Variables = info.Variables[:len(info.Variables)/2]
				info.Note = join(info.Note, "Some variables were left out.")
			}
			return answer{text: infoText(info), object: info}, nil
		},
	})
}

func cleanInfo(info *session.Info) {
	info.Note = Sanitize(info.Note)
	if info.Limits == nil {
		info.Limits = map[string]any{}
	}
	info.ExposedPaths = append([]session.Exposure{}, info.ExposedPaths...)
	variables := make([]session.Variable, len(info.Variables))
	for i, v := range info.Variables {
		variables[i] = session.Variable{Name: Sanitize(v.Name), Type: Sanitize(v.Type), Summary: Sanitize(v.Summary)}
	}
	info.Variables = variables
}

func infoText(info session.Info) string {
	state := "idle for " + seconds(info.IdleSeconds)
	if info.IsRunning {
		state = "running code now"
	}
	memory := "unknown"
	switch {
	case info.MemoryBytes > 0:
		memory = bytesText(info.MemoryBytes)
	case info.SandboxID == "":
		memory = "none yet"
	}
	w := &textWriter{}
	name := info.Session
	if info.Name != "" {
		name += " (" + info.Name + ")"
	}
	w.line(fmt.Sprintf("Session %s: %s, memory %s, engine %s, environment %s.",
		name, state, memory, orNone(info.Engine), orNone(info.Environment)))
	w.line(shorten(info.Note, 500))
	if len(info.Others) > 0 {
		w.line("Other sessions. " + ownSessions(info.Others))
	}
	var limits []string
	for _, name := range slices.Sorted(maps.Keys(info.Limits)) {
		limits = append(limits, fmt.Sprintf("%s %v", name, info.Limits[name]))
	}
	if len(limits) > 0 {
		w.line("Limits: " + shorten(strings.Join(limits, ", "), 1000))
	}
	for _, e := range info.ExposedPaths[:min(len(info.ExposedPaths), 50)] {
		w.line(fmt.Sprintf("Exposed: %s (%s) from %s", shorten(Sanitize(e.SandboxPath), 300), e.Mode, shorten(Sanitize(e.HostPath), 300)))
	}
	if len(info.Variables) > 0 {
		w.line("Variables:")
	}
	for i, v := range info.Variables {
		if w.size() > maxText-2000 {
			w.line(fmt.Sprintf("[... %d variables left out ...]", len(info.Variables)-i))
			break
		}
		w.line(fmt.Sprintf("%s: %s = %s", shorten(v.Name, 100), shorten(v.Type, 100), shorten(oneLine(v.Summary), 200)))
	}
	return w.String()
}

func orNone(text string) string {
	if text == "" {
		return "none yet"
	}
	return text
}
