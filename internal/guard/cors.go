package guard

import (
	"net/http"
	"strings"
)

// headers owns the headers by which a browser decides what a page may read.
// Whatever the handlers behind say about it is dropped: some say "*" by default.
type headers struct {
	http.ResponseWriter

	origin string // the allowed one that asks, or ""
	isSent bool
}

// WriteHeader implements http.ResponseWriter.
func (w *headers) WriteHeader(status int) {
	w.settle()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *headers) Write(p []byte) (int, error) {
	w.settle()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which event streams ask for.
func (w *headers) Flush() {
	w.settle()
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *headers) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// settle has the last word before the headers are sent.
func (w *headers) settle() {
	if w.isSent {
		return
	}
	w.isSent = true
	h := w.Header()
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			h.Del(name)
		}
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Origin")
	if w.origin != "" {
		h.Set("Access-Control-Allow-Origin", w.origin)
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Mcp-Protocol-Version, Retry-After, WWW-Authenticate")
	}
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight tells a browser what a page of an allowed origin may send.
// It needs no token: a browser sends none here. It goes around [headers].
func answerPreflight(w http.ResponseWriter, r *http.Request, origin string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join(allowedHeaders(r), ", "))
	h.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Add("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}

// allowedHeaders are the protocol's; of those that begin with Mcp-, whichever
// is asked for, since revisions add some.
func allowedHeaders(r *http.Request) []string {
	allowed := []string{"Authorization", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"}
	const most = 16
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if len(allowed) < most && len(name) <= 64 && strings.HasPrefix(name, "mcp-") && isHostName(name) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}
