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

// mimeByName gives a MIME type by a file's ending: a fixed table, so that
// answers do not depend on the host's files.
func mimeByName(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".txt", ".log", ".md", ".rst", ".ini", ".cfg", ".toml":
		return "text/plain"
	case ".py", ".ipy":
		return "text/x-python"
	case ".csv":
		return "text/csv"
	case ".tsv":
		return "text/tab-separated-values"
	case ".json", ".ipynb", ".geojson":
		return "application/json"
	case ".jsonl", ".ndjson":
		return "application/x-ndjson"
	case ".yaml", ".yml":
		return "application/yaml"
	case ".xml":
		return "application/xml"
	case ".html", ".htm":
		return "text/html"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".pdf":
		return "application/pdf"
	case ".zip":
		return "application/zip"
	case ".gz":
		return "application/gzip"
	case ".parquet":
		return "application/vnd.apache.parquet"
	case ".xlsx":
		return "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
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
