package serve

import (
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// sessionOf finds the session that a request without a message names, or
// answers why there is none.
func (f *front) sessionOf(w http.ResponseWriter, r *http.Request) *session {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	id := r.Header.Get(headerSession)
	switch {
	case mcp.IsModernProtocol(version):
		w.Header().Set("Allow", http.MethodPost)
		f.refuse(w, r, http.StatusMethodNotAllowed, nil, fault{mcp.INVALID_REQUEST, "This protocol version has no sessions; send messages by POST."})
		return nil
	case version != "" && !mcp.IsValidProtocolVersion(version):
		f.refuse(w, r, http.StatusBadRequest, nil, fault{mcp.INVALID_REQUEST, "The protocol version is not supported."})
		return nil
	case id == "":
		f.refuse(w, r, http.StatusBadRequest, nil, fault{mcp.INVALID_REQUEST, "The header " + headerSession + " is missing; send initialize by POST first."})
		return nil
	}
	s := f.sessions.use(id, f.whose(r.Context()))
	if s != nil && s.deliver != nil {
		f.sessions.release(s)
		s = nil
	}
	if s == nil {
		f.unknownSession(w, r, message{})
	}
	return s
}

// remove ends a session.
func (f *front) remove(w http.ResponseWriter, r *http.Request) {
	s := f.sessionOf(w, r)
	if s == nil {
		return
	}
	defer f.sessions.release(s)
	f.sessions.end(r.Context(), s, errSessionEnded)
	w.WriteHeader(http.StatusNoContent)
}

// stream is where a session hears what belongs to none of its requests.
func (f *front) stream(w http.ResponseWriter, r *http.Request) {
	if _, canStream := accepts(r.Header); !canStream || r.Method == http.MethodHead {
		f.refuse(w, r, http.StatusNotAcceptable, nil, fault{mcp.INVALID_REQUEST, "This is a stream; accept text/event-stream."})
		return
	}
	s := f.sessionOf(w, r)
	if s == nil {
		return
	}
	defer f.sessions.release(s)
	if !f.sessions.listen(s, 1) {
		f.refuse(w, r, http.StatusTooManyRequests, nil, fault{mcp.INVALID_REQUEST, "The session has too many streams; close one first."})
		return
	}
	defer f.sessions.listen(s, -1)
	untimed(w)
	defer limitWrite(w, writeTimeout)
	out := &events{w: w, within: f.limits.Write}
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	err := out.start()
	for err == nil {
		select {
		case n := <-s.notifications:
			if line := f.notification(r.Context(), n); line != nil {
				err = out.message(line)
			}
		case <-beat.C:
			err = out.beat()
		case <-s.done:
			return
		case <-r.Context().Done():
			return
		}
	}
	f.log.DebugContext(r.Context(), "client does not read its stream", "error", err)
}

// untimed lets a request without a body take as long as it does.
func untimed(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	limitWrite(w, 0)
}
