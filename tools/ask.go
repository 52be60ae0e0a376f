package tools

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

// Names of the questions that file_expose asks the client, and the answers of
// the person.
const (
	askRoots     = "roots"
	askPerson    = "allow"
	allowOnce    = "allow once"
	allowSession = "allow for this session"
	maxShownPath = 500
	maxRoots     = 32
	maxRounds    = 3 // of questions in one call: the folders, the person, and once more
)

// actionFailed stands for the answer of a client that could not ask.
const actionFailed mcp.ElicitationResponseAction = "failed"

// expose exposes a host path. Where it lies outside the configured roots, the
// client is asked for its folders, and the person for leave, if the
// configuration says so and the client can be asked. In the protocol's second
// era the first call ends with the questions, and comes again with the answers;
// before it, the answers are waited for here.
func (t *toolset) expose(ctx context.Context, c call, req session.ExposeRequest) (answer, error) {
	for range maxRounds {
		a, err := t.exposeOrAsk(ctx, c, req)
		if a.question == nil || server.IsModernRequest(ctx) {
			return a, err
		}
		if c.responses, err = t.put(ctx, a.question.InputRequests); err != nil {
			return answer{}, err
		}
		c.state = a.question.RequestState
	}
	return answer{}, badArgument("host_path", "The client's answers did not settle whether the path may be exposed, so it was not; call again.")
}

// put asks the client, one question after the other. That it could not ask is
// an answer too: its own words are for the log.
func (t *toolset) put(ctx context.Context, requests mcp.InputRequests) (mcp.InputResponses, error) {
	s, responses := server.ServerFromContext(ctx), mcp.InputResponses{}
	for id, request := range requests {
		if request.Elicitation == nil {
			list, err := s.RequestRoots(ctx, mcp.ListRootsRequest{Request: mcp.Request{Method: string(mcp.MethodListRoots)}})
			if err != nil {
				t.log.InfoContext(ctx, "client did not tell its folders", "error", err)
				list = &mcp.ListRootsResult{}
			}
			responses[id] = mcp.NewRootsInputResponse(*list)
		} else {
			result, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{
				Request: mcp.Request{Method: string(mcp.MethodElicitationCreate)}, Params: *request.Elicitation,
			})
			if err != nil {
				t.log.InfoContext(ctx, "client could not ask", "error", err)
				result = &mcp.ElicitationResult{}
				result.Action = actionFailed
			}
			responses[id] = mcp.NewElicitationInputResponse(*result)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return responses, nil
}

// exposeOrAsk exposes, or says what has to be asked before.
func (t *toolset) exposeOrAsk(ctx context.Context, c call, req session.ExposeRequest) (answer, error) {
	res, err := t.sessions.Expose(ctx, c.ref, req)
	if !isOutside(err) {
		return exposed(res, err)
	}
	reply := server.ElicitationResponse(c.responses, askPerson)
	if t.opts.ClientRoots && reply == nil && req.Mode == sandbox.ReadOnly && canListRoots(ctx) {
		roots := server.RootsResponse(c.responses, askRoots)
		if roots == nil {
			return answer{question: server.NewInputRequestBuilder("").Roots(askRoots).ToolResult()}, nil
		}
		req.Roots = announced(roots)
		res, err = t.sessions.Expose(ctx, c.ref, req)
	}
	if question, mayAsk := errors.AsType[*session.OutsideError](err); mayAsk {
		return t.askPerson(ctx, c, req, question, reply)
	}
	return exposed(res, err)
}

// isOutside tells whether a path was refused because it is outside every root.
func isOutside(err error) bool {
	if _, mayAsk := errors.AsType[*session.OutsideError](err); mayAsk {
		return true
	}
	argument, ok := errors.AsType[*session.ArgumentError](err)
	return ok && argument.Outside
}

func exposed(res session.Exposure, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{text: exposeText(res), object: res}.begin(res.Begun), nil
}

// announced gives the folders that a client announces as paths of this host.
func announced(roots *mcp.ListRootsResult) []string {
	paths := []string{}
	for _, root := range roots.Roots[:min(len(roots.Roots), maxRoots)] {
		u, err := url.Parse(root.URI)
		if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
			continue
		}
		paths = append(paths, filepath.Clean(u.Path))
	}
	return paths
}

// askPerson asks the person about one path, or acts on their answer.
func (t *toolset) askPerson(ctx context.Context, c call, req session.ExposeRequest, q *session.OutsideError, reply *mcp.ElicitationResult) (answer, error) {
	state := t.state(c, q.Path)
	if reply == nil || !hmac.Equal([]byte(c.state), []byte(state)) {
		switch {
		case !canElicit(ctx):
			return answer{}, badArgument("host_path", q.Error()+" This client cannot ask them; they can add its folder to expose.roots.")
		case !showable(q.Path):
			return answer{}, badArgument("host_path", "The path cannot be shown to the person as it is (it is too long, or has hidden characters); they can add its folder to expose.roots.")
		}
		return answer{question: server.NewInputRequestBuilder(state).Elicit(askPerson, form(q)).ToolResult()}, nil
	}
	switch reply.Action {
	case mcp.ElicitationResponseActionAccept:
		content, ok := reply.Content.(map[string]any)
		if word := content["answer"]; !ok || word != allowOnce && word != allowSession {
			return answer{}, badArgument("host_path", "The person's answer was not one of those offered, so nothing was exposed; call again to ask them anew.")
		}
		req.Roots, req.Allowed = nil, &session.Allowance{Path: q.Path, Session: content["answer"] == allowSession}
		return exposed(t.sessions.Expose(ctx, c.ref, req))
	case mcp.ElicitationResponseActionDecline:
		return answer{}, t.sessions.Decline(ctx, c.ref, q.Path)
	case actionFailed:
		t.sessions.Undecided(ctx, c.ref)
		return answer{}, badArgument("host_path", fmt.Sprintf("The client could not ask the person whether %q may be exposed, so it was not; they can add its folder to expose.roots.", shorten(q.Path, 300)))
	case mcp.ElicitationResponseActionCancel:
	}
	t.sessions.Undecided(ctx, c.ref)
	return answer{}, badArgument("host_path", fmt.Sprintf("The person has not decided whether %q may be exposed, so it was not; go on without it, or ask them in the conversation.", shorten(q.Path, 300)))
}

// state binds an answer to what was asked: this path, for this caller.
func (t *toolset) state(c call, path string) string {
	h := hmac.New(sha256.New, t.key)
	for _, part := range []string{c.ref.Principal, c.ref.Connection, c.ref.Handle, path} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// showable tells whether a path looks to a person like what it is.
func showable(path string) bool {
	return len(path) <= maxShownPath && Sanitize(path) == path && !strings.ContainsAny(path, "\n\t")
}

// form is what the person is shown. Nothing in it is the model's to write but
// the path, which exists on the host and stands between quotes.
func form(q *session.OutsideError) mcp.ElicitationParams {
	what := "file (" + bytesText(q.Size) + ")"
	if q.Dir {
		what = "folder, with all that is in it"
	}
	return mcp.ElicitationParams{
		Message: fmt.Sprintf("Python code that the model writes asks to read something on this computer, outside the folders that you have allowed.\n\nPath: %s\nWhat: %s\nAccess: read-only, in the sandbox, until the session ends. The model sees what it reads.",
			strconv.QuoteToGraphic(q.Path), what),
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{
				"answer": map[string]any{
					"type": "string", "title": "Answer", "enum": []string{allowOnce, allowSession},
					"description": "Once: this path now. For this session: it, and what is in it, without being asked again.",
				},
			},
			"required": []string{"answer"},
		},
	}
}

// capabilities are what the client can do, in either era.
func capabilities(ctx context.Context) mcp.ClientCapabilities {
	if server.IsModernRequest(ctx) {
		if info := server.RequestProtocolInfoFromContext(ctx); info.ClientCapabilities != nil {
			return *info.ClientCapabilities
		}
		return mcp.ClientCapabilities{}
	}
	if client, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return client.GetClientCapabilities()
	}
	return mcp.ClientCapabilities{}
}

func canElicit(ctx context.Context) bool {
	can := capabilities(ctx).Elicitation
	_, way := server.ClientSessionFromContext(ctx).(server.SessionWithElicitation)
	return can != nil && (can.Form != nil || can.URL == nil) && (way || server.IsModernRequest(ctx))
}

func canListRoots(ctx context.Context) bool {
	_, way := server.ClientSessionFromContext(ctx).(server.SessionWithRoots)
	return capabilities(ctx).Roots != nil && (way || server.IsModernRequest(ctx))
}
