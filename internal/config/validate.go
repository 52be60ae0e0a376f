package config

import (
	"fmt"
	"math"
	"net"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/biocypher/biocage-mcp/internal/guard"
	"github.com/biocypher/biocage-mcp/internal/spell"
)

// validate reports every impossible value, at the place it came from. Keys
// whose text was at fault already are not checked again.
func (l *loader) validate() {
	c := l.cfg
	l.oneOf("engine", c.Engine, "auto", "docker", "gvisor")
	l.validateEnvironment()
	l.check("data_dir", c.DataDir == "" || path.IsAbs(c.DataDir), "must be an absolute path")

	l.check("sandbox.memory", c.Sandbox.Memory >= 64<<20, "must be at least 64m")
	l.check("sandbox.disk", c.Sandbox.Disk >= 1<<20, "must be at least 1m")
	l.check("sandbox.cpus", c.Sandbox.CPUs > 0 && c.Sandbox.CPUs <= 1024, "must be above 0 and at most 1024")
	l.between("sandbox.pids", c.Sandbox.PIDs, 16, 1<<22)
	l.oneOf("sandbox.network", c.Sandbox.Network, "none", "full")
	l.validateRun()

	l.check("session.idle_timeout", c.Session.IdleTimeout >= second, "must be at least 1s")
	l.check("session.grace", c.Session.Grace >= 0, "must not be negative")
	l.between("session.max", int64(c.Session.Max), 1, 1024)
	l.between("session.max_per_principal", int64(c.Session.MaxPerPrincipal), 0, 1024)
	l.between("session.warm", int64(c.Session.Warm), 0, math.MaxInt64)
	l.check("session.warm", c.Session.Warm <= c.Session.Max, fmt.Sprintf("must not exceed session.max (%d)", c.Session.Max))

	l.validateExpose()
	l.validateServer()
	l.validateLog()
}

func (l *loader) validateLog() {
	c := l.cfg.Log
	l.oneOf("log.level", c.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", c.Format, "text", "json")
	l.check("log.audit", c.Audit == "" || filepath.IsAbs(c.Audit), "must be an absolute path, such as /var/log/biocage/audit.jsonl")
	l.check("log.audit_content", !c.AuditContent || c.Audit != "", "needs log.audit, the file to write to")
	l.check("log.audit_required", !c.AuditRequired || c.Audit != "", "needs log.audit, the file to write to")
}

// validateEnvironment checks the form only: a name as `biocage env build` takes,
// or an image reference as the Docker daemon does.
func (l *loader) validateEnvironment() {
	const (
		part  = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
		host  = `(?:[a-zA-Z0-9][a-zA-Z0-9.-]*(?::[0-9]+)?/)?`
		image = host + part + `(?:/` + part + `)*(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?(?:@sha256:[0-9a-f]{64})?`
	)
	form := regexp.MustCompile(`^` + image + `$`)
	l.check("environment", form.MatchString(l.cfg.Environment),
		"must be a name that `biocage env list` shows, or an image reference such as docker.io/library/python:3.13-slim")
}

func (l *loader) validateRun() {
	r := l.cfg.Run
	l.check("run.timeout", r.Timeout > 0, "must be above 0")
	l.check("run.max_timeout", r.MaxTimeout > 0 && r.MaxTimeout <= 7*24*60*minute, "must be above 0 and at most 168h")
	l.check("run.timeout", r.Timeout <= r.MaxTimeout, fmt.Sprintf("%s exceeds run.max_timeout (%s)", r.Timeout, r.MaxTimeout))
	l.check("run.answer_within", r.AnswerWithin >= second && r.AnswerWithin <= 60*minute, "must be between 1s and 1h")
	l.check("run.interrupt_grace", r.InterruptGrace > 0 && r.InterruptGrace <= minute, "must be above 0 and at most 1m")
	l.check("run.max_output", r.MaxOutput >= 1<<10 && r.MaxOutput <= 256<<10, "must be between 1KiB and 256KiB")
}

func (l *loader) validateExpose() {
	for i, root := range l.cfg.Expose.Roots {
		key := fmt.Sprintf("expose.roots[%d]", i)
		l.cfg.Expose.Roots[i].Mode = l.mode(key+".mode", root.Mode)
		l.hostPath(key+".path", root.Path)
	}
	for i, mount := range l.cfg.Expose.Mounts {
		key := fmt.Sprintf("expose.mounts[%d]", i)
		l.cfg.Expose.Mounts[i].Mode = l.mode(key+".mode", mount.Mode)
		l.hostPath(key+".host", mount.Host)
		l.check(key+".sandbox", path.IsAbs(mount.Sandbox), "must be an absolute path, such as /data/models")
	}
}

// mode gives the mode with its default, ro.
func (l *loader) mode(key, mode string) string {
	if mode == "" {
		return "ro"
	}
	l.oneOf(key, mode, "ro", "rw")
	return mode
}

func (l *loader) hostPath(key, host string) {
	l.check(key, path.IsAbs(host), absoluteFault(host))
	l.check(key, path.Clean(host) != "/", "the whole host cannot be exposed; name a directory")
	l.check(key, !strings.ContainsAny(host, "\x00\n\r"), "holds a control character")
}

func (l *loader) validateServer() {
	s := l.cfg.Server
	l.oneOf("server.transport", s.Transport, "stdio", "http")
	host, port, err := net.SplitHostPort(s.Listen)
	number, portErr := strconv.ParseUint(port, 10, 16)
	l.check("server.listen", err == nil && portErr == nil && number <= math.MaxUint16 && !strings.Contains(host, "/"),
		"must be HOST:PORT, such as 127.0.0.1:8765")
	l.check("server.tls_cert", s.TLSCert == "" || path.IsAbs(s.TLSCert), "must be an absolute path")
	l.check("server.tls_key", s.TLSKey == "" || path.IsAbs(s.TLSKey), "must be an absolute path")
	l.check("server.tls_cert", (s.TLSCert == "") == (s.TLSKey == ""), "goes with server.tls_key; give both or none")
	l.check("server.max_body", s.MaxBody >= 64<<10 && s.MaxBody <= 1<<30, "must be between 64KiB and 1g")
	l.between("server.max_connections", int64(s.MaxConnections), 4, 1<<16)
	l.validateAccess(s)
}

// validateAccess checks who may call over HTTP, by the rules of what will
// decide it.
func (l *loader) validateAccess(s Server) {
	access := s.Access()
	if s.Transport != "http" {
		access.Listen = "" // nobody listens there
	}
	for _, fault := range access.Faults() {
		l.check("server."+fault.Key, false, fault.Message)
	}
}

// Access is the part of the section that says who may call over HTTP.
func (s Server) Access() guard.Options {
	return guard.Options{
		Listen: s.Listen, Tokens: s.Tokens, TokenFile: s.TokenFile, AllowedOrigins: s.AllowedOrigins, AllowedHosts: s.AllowedHosts,
		OAuth: guard.OAuth(s.OAuth),
	}
}

func (l *loader) oneOf(key, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	message := fmt.Sprintf("%q is not one of %s", value, strings.Join(allowed, ", "))
	if near := spell.Nearest(value, allowed); near != "" {
		message += "; did you mean " + near + "?"
	}
	l.check(key, false, message)
}

func (l *loader) between(key string, value, low, high int64) {
	if high == math.MaxInt64 {
		l.check(key, value >= low, fmt.Sprintf("must be at least %d", low))
		return
	}
	l.check(key, value >= low && value <= high, fmt.Sprintf("must be between %d and %d", low, high))
}

func (l *loader) check(key string, ok bool, message string) {
	if ok || l.isFaulty(key) {
		return
	}
	l.fault(l.whence(key), key, message)
}

func (l *loader) isFaulty(key string) bool {
	return slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Key == key })
}

// whence is where the value of key, or of the closest thing around it, came
// from.
func (l *loader) whence(key string) string {
	for key != "" {
		if where, ok := l.origin[key]; ok {
			return where
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return ""
}
