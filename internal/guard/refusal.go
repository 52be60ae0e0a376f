package guard

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A refusal is why a request goes no further.
type refusal struct {
	status    int
	reason    string // for the log: one word
	text      string // for the client: one sentence that names the remedy
	challenge string // the WWW-Authenticate header, if any
	retry     time.Duration
}

// write answers the request.
func (f *refusal) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if f.challenge != "" {
		h.Set("WWW-Authenticate", f.challenge)
	}
	if f.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(f.retry/time.Second)))
	}
	if f.status == http.StatusUnsupportedMediaType {
		h.Set("Accept-Encoding", "identity")
	}
	http.Error(w, f.text, f.status)
}

// Refusals that are logged: whoever is refused can make many.
const (
	refusalBurst    = 20
	refusalInterval = time.Second
)

// refusalLog logs refusals, and of a flood of them a few and the number.
type refusalLog struct {
	log     *slog.Logger
	limiter *rate.Limiter
	mu      sync.Mutex
	skipped int
}

func newRefusalLog(log *slog.Logger) *refusalLog {
	return &refusalLog{log: log, limiter: rate.NewLimiter(rate.Every(refusalInterval), refusalBurst)}
}

// add logs what was refused. What the client sent is never part of a message,
// and its query and headers are not logged at all.
func (l *refusalLog) add(r *http.Request, f *refusal) {
	l.mu.Lock()
	if !l.limiter.Allow() {
		l.skipped++
		l.mu.Unlock()
		return
	}
	skipped := l.skipped
	l.skipped = 0
	l.mu.Unlock()
	attrs := []slog.Attr{
		slog.Int("status", f.status), slog.String("reason", f.reason), slog.String("address", r.RemoteAddr),
		slog.String("method", clip(r.Method)), slog.String("path", clip(r.URL.Path)),
	}
	switch f.reason {
	case "host":
		attrs = append(attrs, slog.String("host", clip(r.Host)))
	case "origin":
		attrs = append(attrs, slog.String("origin", clip(r.Header.Get("Origin"))))
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int("not_logged", skipped))
	}
	l.log.LogAttrs(r.Context(), slog.LevelWarn, "request refused", attrs...)
}

// clip bounds what a client can write into the log.
func clip(text string) string {
	const limit = 128
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}
