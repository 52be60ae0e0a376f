package session

import (
	"net/url"
	"path"
	"strconv"
	"strings"
)

// fileURI is the resource address of a file of a session.
func fileURI(handle, name string) string {
	u := url.URL{Scheme: "sandbox", Host: handle, Path: path.Join("/", name)}
	return u.String()
}

// MIMEByName gives a MIME type by a file's ending: a fixed table, so that
// answers do not depend on the host's files.
func MIMEByName(name string) string {
	types := map[string]string{
		".txt": "text/plain", ".log": "text/plain", ".md": "text/plain", ".rst": "text/plain", ".ini": "text/plain", ".cfg": "text/plain", ".toml": "text/plain",
		".py": "text/x-python", ".ipy": "text/x-python",
		".csv":  "text/csv",
		".tsv":  "text/tab-separated-values",
		".json": "application/json", ".ipynb": "application/json", ".geojson": "application/json",
		".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
		".yaml": "application/yaml", ".yml": "application/yaml",
		".xml":  "application/xml",
		".html": "text/html", ".htm": "text/html",
		".svg": "image/svg+xml",
		".png": "image/png",
		".jpg": "image/jpeg", ".jpeg": "image/jpeg",
		".gif":     "image/gif",
		".webp":    "image/webp",
		".pdf":     "application/pdf",
		".zip":     "application/zip",
		".gz":      "application/gzip",
		".parquet": "application/vnd.apache.parquet",
		".xlsx":    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	}
	if found, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return found
	}
	return "application/octet-stream"
}

// signalName names the signals that end a Python process; the numbers are
// Linux's, because that is what runs in a sandbox.
func signalName(n int) string {
	names := map[int]string{
		1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
		11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
	}
	if name := names[n]; name != "" {
		return name
	}
	return strconv.Itoa(n)
}
