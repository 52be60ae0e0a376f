package tools

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/requestid"
	"github.com/biocypher/biocage-mcp/session"
)

const (
	maxCompletions = 100 // the protocol's bound
	completeWithin = 2 * time.Second
)

// A Completer offers values for arguments of prompts and of the resource
// template. Completion is a courtesy: it starts nothing and never fails.
type Completer struct{ tools *toolset }

// Completions makes the completer.
func Completions(sessions Sessions, opts Options) *Completer {
	return &Completer{tools: newToolset(sessions, opts)}
}

// CompletePromptArgument completes an argument of a prompt.
func (c *Completer) CompletePromptArgument(ctx context.Context, prompt string, arg mcp.CompleteArgument, known mcp.CompleteContext) (*mcp.Completion, error) {
	return c.complete(ctx, prompt, arg, known, func(ctx context.Context) *mcp.Completion {
		switch {
		case arg.Name == "session":
			return c.sessions(ctx, arg.Value)
		case prompt == "analyse_data" && arg.Name == "file":
			names := append(c.files(ctx, known.Arguments["session"], arg.Value), c.tools.sessions.HostNames(arg.Value)...)
			return completion(names, arg.Value)
		case prompt == "export_session" && arg.Name == "path":
			return completion(c.files(ctx, known.Arguments["session"], arg.Value), arg.Value)
		case prompt == "export_session" && arg.Name == "format":
			return completion([]string{"notebook", "script"}, arg.Value)
		}
		return completion(nil, "")
	}), nil
}

// CompleteResourceArgument completes a variable of the resource template.
func (c *Completer) CompleteResourceArgument(ctx context.Context, uri string, arg mcp.CompleteArgument, known mcp.CompleteContext) (*mcp.Completion, error) {
	return c.complete(ctx, uri, arg, known, func(ctx context.Context) *mcp.Completion {
		switch {
		case !strings.HasPrefix(uri, resourceScheme+"://"):
		case arg.Name == "session":
			return c.sessions(ctx, arg.Value)
		case arg.Name == "path":
			return completion(c.files(ctx, known.Arguments["session"], arg.Value), arg.Value)
		}
		return completion(nil, "")
	}), nil
}

// complete has observers see a completion. Whoever is refused gets no values.
func (c *Completer) complete(ctx context.Context, of string, arg mcp.CompleteArgument, known mcp.CompleteContext, values func(context.Context) *mcp.Completion) *mcp.Completion {
	ctx = requestid.Ensure(ctx)
	v := view{
		method: methodComplete, session: known.Arguments["session"],
		arguments: map[string]any{"of": of, "argument": arg, "context": known},
	}
	found, err := see(ctx, c.tools, v, func(ctx context.Context) (*mcp.Completion, error) { return values(ctx), nil })
	if err != nil {
		c.tools.log.DebugContext(ctx, "nothing to complete", "error", err)
		return completion(nil, "")
	}
	return found
}

func (c *Completer) sessions(ctx context.Context, prefix string) *mcp.Completion {
	return completion(c.tools.sessions.Handles(refOf(ctx, "")), prefix)
}

// files offers names in the folder that prefix has come to, folders with a
// slash behind them.
func (c *Completer) files(ctx context.Context, handle, prefix string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	if handle == "" {
		handles := c.tools.sessions.Handles(refOf(ctx, ""))
		if len(handles) == 0 {
			return nil
		}
		handle = handles[0]
	}
	dir, base := path.Split(prefix)
	list, err := c.tools.sessions.PeekFiles(ctx, refOf(ctx, handle), session.ListRequest{Path: dir})
	if err != nil {
		c.tools.log.DebugContext(ctx, "nothing to complete", "error", err)
		return nil
	}
	var names []string
	for _, e := range list.Entries {
		name := path.Base(e.Path)
		switch {
		case base == "" && strings.HasPrefix(name, "."):
		case e.Type == "directory":
			names = append(names, dir+name+"/")
		case e.Type == "file":
			names = append(names, dir+name)
		}
	}
	return names
}

// completion keeps the names that begin with prefix and can be shown as they
// are.
func completion(names []string, prefix string) *mcp.Completion {
	all := []string{}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && len(name) <= 4096 && Sanitize(name) == name && !strings.ContainsAny(name, "\n\t") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	shown := all[:min(len(all), maxCompletions)]
	return &mcp.Completion{Values: shown, Total: len(all), HasMore: len(all) > len(shown)}
}
