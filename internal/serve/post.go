package serve

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// post takes one message.
func (f *front) post(w http.ResponseWriter, r *http.Request) {
	body, size, ok := f.readBody(w, r)
	if !ok {
		return
	}
	defer f.bodies.give(size)
	m, bad := parse(body)
	if bad != nil {
		f.refuse(w, r, http.StatusBadRequest, m.ID, *bad)
		return
	}
	x := &exchange{front: f, w: w, r: r, events: events{w: w, within: f.limits.Write}, m: m, body: body, principal: f.whose(r.Context())}
	var isJSON bool
	isJSON, x.canStream = accepts(r.Header)
	if !isJSON && !x.canStream {
		f.refuse(w, r, http.StatusNotAcceptable, m.ID, fault{mcp.INVALID_REQUEST, "Answers are application/json or text/event-stream; accept both."})
		return
	}
	switch e := eraOf(r.Header, m); {
	case e.isModern():
		f.postModern(x, e)
	case m.Method == string(mcp.MethodInitialize):
		f.initialize(x)
	case e.header != "" && !mcp.IsValidProtocolVersion(e.header):
		f.refuse(w, r, http.StatusBadRequest, m.ID, fault{mcp.INVALID_REQUEST, "The protocol version is not supported; use one of " + strings.Join(mcp.ValidProtocolVersions, ", ") + "."})
	default:
		f.postSession(x)
	}
}

// accepts tells which answers a client takes; one that does not say takes all.
func accepts(header http.Header) (isJSON, isStream bool) {
	accept := strings.ToLower(strings.Join(header.Values("Accept"), ","))
	if accept == "" {
		return true, true
	}
	all := strings.Contains(accept, "*/*")
	return all || strings.Contains(accept, "application/json") || strings.Contains(accept, "application/*"),
		all || strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "text/*")
}

// postModern takes a message of the era without sessions.
func (f *front) postModern(x *exchange, e era) {
	x.isModern = true
	switch {
	case x.m.Method == "":
		f.refuse(x.w, x.r, http.StatusBadRequest, x.m.ID, fault{mcp.INVALID_REQUEST, "Nobody asked: in this protocol version the server sends no requests."})
		return
	case len(x.m.ID) == 0:
		// Without sessions nobody can tell whose request a notification is
		// about: to cancel one, its sender closes the connection.
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if bad := checkModern(f.server, x.r.Header, e, x.m, x.body); bad != nil {
		refused := f.encode(x.r.Context(), x.m.ID, *bad)
		f.log.DebugContext(x.r.Context(), "message refused", "code", refused.code, "reason", bad.Error.Message)
		f.write(x.w, x.r, http.StatusBadRequest, refused.line)
		return
	}
	x.serve(&peer{principal: x.principal}, newCalls(f.turns, x.principal))
}

// initialize begins a session.
func (f *front) initialize(x *exchange) {
	ctx := x.r.Context()
	if len(x.m.ID) == 0 {
		f.refuse(x.w, x.r, http.StatusBadRequest, nil, fault{mcp.INVALID_REQUEST, "initialize is a request; send it with an id."})
		return
	}
	s, err := f.sessions.open(ctx, x.principal, nil)
	if err != nil {
		f.refuseError(x.w, x.r, x.m.ID, "The session was not begun", err)
		return
	}
	defer f.sessions.release(s)
	standing := &client{peer: s.peer, notifications: s.notifications}
	answer := f.respond(f.server.WithContext(ctx, standing), x.m, x.body)
	if answer.code == 0 {
		err = f.server.RegisterSession(ctx, standing)
	}
	if answer.code != 0 || err != nil {
		f.sessions.end(ctx, s, errSessionEnded)
		if err != nil {
			f.log.ErrorContext(ctx, "session not registered", "error", err)
			answer = f.refusal(ctx, x.m.ID, fault{mcp.INTERNAL_ERROR, "The session could not be begun; try again."})
		}
	} else {
		x.w.Header().Set(headerSession, s.id)
		info := s.GetClientInfo()
		f.log.DebugContext(ctx, "protocol session begun", "connection", shortOf(s.id), "client", info.Name, "client_version", info.Version)
	}
	x.finish(answer)
}

// postSession takes a message of a session.
func (f *front) postSession(x *exchange) {
	isCancel := x.m.Method == string(mcp.MethodNotificationCancelled)
	id := x.r.Header.Get(headerSession)
	switch {
	case id == "" && isCancel:
		// Some clients of the era without sessions cancel like this.
		x.w.WriteHeader(http.StatusAccepted)
		return
	case id == "":
		f.refuse(x.w, x.r, http.StatusBadRequest, x.m.ID, fault{mcp.INVALID_REQUEST, "The header " + headerSession + " is missing; send initialize first, and its session's id with every message after it."})
		return
	}
	s := f.sessions.use(id, x.principal)
	if s == nil || s.deliver != nil {
		f.unknownSession(x.w, x.r, x.m)
		return
	}
	defer f.sessions.release(s)
	switch {
	case x.m.Method == "":
		s.asks.answer(x.m)
	case isCancel:
		s.calls.abandon(string(bytes.TrimSpace(x.m.Params.RequestID)), errCancelled)
	case len(x.m.ID) == 0:
		f.respond(f.server.WithContext(x.r.Context(), &client{peer: s.peer, notifications: s.notifications}), x.m, x.body)
	default:
		if isLong(x.m.Method) {
			f.sessions.noteCall(s)
		}
		x.serve(s.peer, s.calls)
		return
	}
	x.w.WriteHeader(http.StatusAccepted)
}

// unknownSession answers one who names a session that is not his, or not any
// more: the same for both.
func (f *front) unknownSession(w http.ResponseWriter, r *http.Request, m message) {
	f.refuse(w, r, http.StatusNotFound, m.ID, fault{mcp.INVALID_REQUEST, "There is no such session, or it has ended; send initialize to begin a new one."})
}
