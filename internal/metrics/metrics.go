package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

// Metrics is everything that is counted.
type Metrics struct {
	registry *prometheus.Registry

	sessionsBegan prometheus.Counter
	sessionsEnded *prometheus.CounterVec
	cells         *prometheus.HistogramVec
	restarts      prometheus.Counter
	sandboxes     *prometheus.HistogramVec
	pool          *prometheus.CounterVec
	calls         *prometheus.HistogramVec
	refused       *prometheus.CounterVec
	requests      *prometheus.CounterVec
	connections   prometheus.Gauge
}

var (
	_ session.Observer = (*Metrics)(nil)
	_ tools.Observer   = (*Metrics)(nil)
)

// New makes metrics of a server with this version; counts tells what there is
// at the moment.
func New(version string, counts func() session.Counts) *Metrics {
	// Cells take from a millisecond to the ten minutes of run.max_timeout.
	buckets := []float64{.001, .005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 300, 600}
	m := &Metrics{
		registry:      prometheus.NewRegistry(),
		sessionsBegan: counter("sessions_began_total", "Sessions that began."),
		sessionsEnded: counters("sessions_ended_total", "Sessions that ended, by reason.", "reason"),
		cells:         histogram("cell_seconds", "How long cells ran, by outcome.", buckets, "outcome"),
		restarts:      counter("interpreter_restarts_total", "Cells that lost their interpreter, or found it lost."),
		sandboxes:     histogram("sandbox_start_seconds", "How long it took until code could run in a new sandbox.", buckets, "ok"),
		pool:          counters("pool_takes_total", "Sessions that needed a sandbox, by whether one was ready (hit) or not (miss).", "result"),
		calls:         histogram("tool_call_seconds", "How long calls of tools took, by tool and outcome.", buckets, "tool", "outcome"),
		refused:       counters("refused_calls_total", "Calls of tools for which nothing was done, by reason.", "reason"),
		requests:      counters("http_requests_total", "HTTP requests, by status.", "status"),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "biocage", Name: "protocol_sessions", Help: "Connections that live: pipes, streams of SSE, protocol sessions of HTTP.",
		}),
	}
	m.registry.MustRegister(
		m.sessionsBegan, m.sessionsEnded, m.cells, m.restarts, m.sandboxes, m.pool, m.calls, m.refused, m.requests, m.connections,
		gauge("sessions", "Sessions that live.", func() int { return counts().Sessions }),
		gauge("cells_running", "Cells that run.", func() int { return counts().Running }),
		gauge("pool_ready", "Sandboxes that are kept ready.", func() int { return counts().Ready }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "biocage", Name: "build_info", Help: "The server's version; the value is 1.",
			ConstLabels: prometheus.Labels{"version": version},
		}, func() float64 { return 1 }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler serves the figures.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Requests counts what next answers.
func (m *Metrics) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { m.requests.WithLabelValues(strconv.Itoa(counted.status)).Inc() }()
		next.ServeHTTP(counted, r)
	})
}

// A statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	isSet  bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if !w.isSet && status >= http.StatusOK {
		w.status, w.isSet = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(data []byte) (int, error) {
	w.isSet = true
	return w.ResponseWriter.Write(data)
}

// Flush passes on what there is: events are sent one by one.
func (w *statusWriter) Flush() {
	w.isSet = true
	_ = http.NewResponseController(w.ResponseWriter).Flush() // who cannot flush sends at the end
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ConnectionBegan counts a connection of the protocol.
func (m *Metrics) ConnectionBegan() { m.connections.Inc() }

// ConnectionEnded comes once for each that began.
func (m *Metrics) ConnectionEnded() { m.connections.Dec() }

// SessionBegan implements session.Observer.
func (m *Metrics) SessionBegan() { m.sessionsBegan.Inc() }

// SessionEnded implements session.Observer.
func (m *Metrics) SessionEnded(reason string) { m.sessionsEnded.WithLabelValues(reason).Inc() }

// CellEnded implements session.Observer.
func (m *Metrics) CellEnded(kind string, took time.Duration, restarted bool) {
	m.cells.WithLabelValues(kind).Observe(took.Seconds())
	if restarted {
		m.restarts.Inc()
	}
}

// SandboxMade implements session.Observer.
func (m *Metrics) SandboxMade(ok bool, took time.Duration) {
	m.sandboxes.WithLabelValues(strconv.FormatBool(ok)).Observe(took.Seconds())
}

// PoolAsked implements session.Observer.
func (m *Metrics) PoolAsked(hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	m.pool.WithLabelValues(result).Inc()
}

// Begin implements tools.Observer.
func (*Metrics) Begin(ctx context.Context, _ *tools.Call) (context.Context, error) { return ctx, nil }

// End implements tools.Observer.
func (m *Metrics) End(_ context.Context, c *tools.Call, e tools.End) {
	m.calls.WithLabelValues(c.Tool, e.Kind).Observe(e.Took.Seconds())
	if e.Refusal != "" {
		m.refused.WithLabelValues(e.Refusal).Inc()
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "biocage", Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "biocage", Name: name, Help: help}, labels)
}

func gauge(name, help string, value func() int) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "biocage", Name: name, Help: help}, func() float64 { return float64(value()) })
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "biocage", Name: name, Help: help, Buckets: buckets}, labels)
}
